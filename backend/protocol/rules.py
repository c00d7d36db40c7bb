"""What the asynchronous operations do to a state, and what must be ordered before them.

Each rule takes an operation and returns its instruction. `single` says that only the issuing thread executes it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from tilec.backend.protocol.events import Events, Memory, Signal, Slot
from tilec.backend.protocol.machine import Broken, Machine, OutOfScope
from tilec.backend.protocol.regions import conflicting
from tilec.backend.protocol.state import ISSUER, OTHERS, Accumulator, Barrier, Region, State
from tilec.backend.protocol.values import Coordinate, Linear, Value
from tilec.dialects.tile import (
    AccType,
    AllocOp,
    ArriveExpectTxOp,
    ArriveOp,
    CommitOp,
    CopyAsyncOp,
    FenceOp,
    FreeOp,
    LoadOp,
    MbarrierInitOp,
    MmaOp,
    RegType,
    RingType,
    ScheduleOp,
    SliceOp,
    SlotOp,
    SmemType,
    StoreOp,
    TryWaitOp,
    WaitGroupOp,
)

Run = Callable[[State], None]
READY, LOADING = 0, 1
"""A register tile may be used, or waits for `tmem.wait_ld`."""
_MOST_GROUPS = 128
BOTH = (ISSUER, OTHERS)


@dataclass
class Rules:
    """Rules for one kernel."""

    machine: Machine
    events: Events
    ids: dict[SSAValue, int]
    """Where the environment keeps a value."""
    mutable: set[int] = field(default_factory=set[int])
    """Views that the kernel both reads and writes."""
    scheduled: int | None = None
    """The view that a scheduler hands out tiles of, if the kernel stores to it."""
    steps: tuple[int, ...] = ()
    """Its tile, in elements."""
    turns: int | None = None
    """The bound that says how many tiles a CTA visits."""
    most_outstanding: int = 0
    """The most commits that a wait of the kernel leaves in flight."""
    turn_counters: dict[Operation, int] = field(default_factory=dict[Operation, int])
    """By persistent loop, its counter of turns."""

    # Operands

    def stage(self, op: Operation, value: SSAValue | None, depth: int) -> Callable[[State], int]:
        """The number of a stage, which has to be known."""
        if value is None:
            return lambda s: 0
        at = self.ids[value]
        machine = self.machine

        def number(s: State) -> int:
            stage = machine.resolved(s, s.environment[at])
            if not isinstance(stage, int):
                raise OutOfScope(op, "the stage of a ring depends on more than its depth")
            if not 0 <= stage < depth:
                raise Broken(op, f"stage {stage} of a ring of {depth}")
            return stage

        return number

    def signal(self, op: Operation, barrier: SSAValue, stage: SSAValue | None) -> Callable[[State], int]:
        owner = barrier.owner
        if not isinstance(owner, MbarrierInitOp):
            raise OutOfScope(op, "a barrier that is not the result of tile.mbarrier.init")
        first = self.events.first[barrier]
        number = self.stage(op, stage, owner.res.type.depth)
        return lambda s: first + number(s)

    def slot(self, value: SSAValue) -> Callable[[State], Slot]:
        at, slots = self.ids[value], self.events.slots

        def find(s: State) -> Slot:
            number = s.environment[at]
            assert isinstance(number, int)
            return slots[number]

        return find

    def memory(self, op: Operation, value: SSAValue) -> tuple[int, Memory]:
        while isinstance(value.owner, SliceOp):
            value = value.owner.acc
        if not isinstance(value.owner, AllocOp):
            raise OutOfScope(op, "an accumulator that is not the result of tile.alloc")
        number = self.events.first[value]
        return number, self.events.memories[number]

    # Storage

    def alloc(self, op: AllocOp) -> Run:
        at, first = self.ids[op.res], self.events.first[op.res]
        if isinstance(op.res.type, AccType):

            def allocate(s: State) -> None:
                if s.accumulators[first].status not in ("none", "freed"):
                    raise Broken(op, "this accumulator is allocated again before it was freed")
                s.accumulators[first] = Accumulator("allocated")

            return allocate

        def place(s: State) -> None:
            s.environment[at] = first

        return place

    def slot_of(self, op: SlotOp) -> Run:
        if not isinstance(op.ring.owner, AllocOp):
            raise OutOfScope(op, "a ring that is not the result of tile.alloc")
        at, first = self.ids[op.res], self.events.first[op.ring]
        ring = op.ring.type
        assert isinstance(ring, RingType)
        number = self.stage(op, op.stage, ring.depth)

        def choose(s: State) -> None:
            s.environment[at] = first + number(s)

        return choose

    def free(self, op: FreeOp, *, single: bool) -> Run:
        if single:
            return broken(op, "tile.free belongs to all threads of the CTA")
        number, memory = self.memory(op, op.acc)

        def give_back(s: State) -> None:
            accumulator = s.accumulators[number]
            if accumulator.status not in ("allocated", "written"):
                raise Broken(op, f"{memory.name} is freed twice, or before it was allocated")
            self.after_accumulator_reads(s, op, memory, (ISSUER,))
            if s.present & memory.mma & ~s.snapshots[ISSUER]:
                raise Broken(op, f"{memory.name} is freed before its last MMA was waited for")
            s.accumulators[number] = Accumulator("freed")

        return give_back

    # Orders

    def need(self, s: State, op: Operation, what: int, known: int, edge: str) -> None:
        """The events `what` that have happened must be in `known`, which has them at the same bits."""
        missing = s.present & what & ~known
        if missing:
            raise Broken(op, f"nothing orders this after {self.events.describe(missing)}: {edge}")

    def before_threads(self, s: State, op: Operation, slot: Slot, *, write: bool) -> None:
        """Threads read or write a shared tile: each of them."""
        for agent in BOTH:
            conflicts = slot.all if write else slot.written
            own = slot.writes[agent] | slot.reads[agent]
            self.need(s, op, conflicts & ~own, s.known[agent], "a wait or a cta_sync is missing")

    def before_tma(self, s: State, op: Operation, slot: Slot, *, write: bool) -> None:
        """The TMA engine reads or writes a shared tile for the issuer."""
        known, width = s.known[ISSUER], self.events.width
        engines = slot.by_engines if write else slot.load
        threads = slot.by_threads if write else slot.writes[ISSUER] | slot.writes[OTHERS]
        self.need(s, op, engines, known, "a wait is missing")
        self.need(s, op, threads, known >> width, "a proxy fence and a cta_sync behind it are missing")

    def after_accumulator_reads(self, s: State, op: Operation, memory: Memory, agents: tuple[int, ...]) -> None:
        reads = memory.reads[ISSUER] | memory.reads[OTHERS]
        for agent in agents:
            # Its own are over after wait_ld; those of others have been published, and seen by its last fence.
            known = s.snapshots[agent] >> 2 * self.events.width | s.known[agent] & memory.reads[agent]
            self.need(s, op, reads, known, "tcgen05 fences around a cta_sync are missing")

    def check_written(self, s: State, op: Operation, slot: Slot) -> None:
        if not s.present & slot.written:
            raise Broken(op, f"{slot.name} is read, but nothing has written it")

    def happens(self, s: State, events: int) -> None:
        """New events that nobody knows of; older ones of the same bits are over."""
        s.forget(events, self.events.everywhere(events))
        s.present |= events

    def write(self, s: State, slot: Slot, events: int) -> None:
        """A write that comes after all that was done with the slot, and so stands for it."""
        s.forget(slot.all, self.events.everywhere(slot.all))
        s.present |= events

    # Copies

    def load(self, op: CopyAsyncOp, *, single: bool) -> Run:
        """TMA: view to shared tile."""
        if not single:
            return broken(op, "every thread of the CTA would issue this copy")
        assert op.dest is not None and op.barrier is not None and isinstance(op.dest.type, SmemType)
        slot_of, signal_of = self.slot(op.dest), self.signal(op, op.barrier, op.stage)
        size = op.dest.type.layout.size
        region_of = self.region(op, "load")

        def issue(s: State) -> None:
            slot, number = slot_of(s), signal_of(s)
            self.initialised(s, op, number, ISSUER)
            self.before_tma(s, op, slot, write=True)
            self.write(s, slot, slot.load)
            barrier = s.barriers[number]
            if self.is_complete(number, barrier):
                self.complete(s, op, number)
                barrier = s.barriers[number]
            s.barriers[number] = Barrier(
                barrier.parity,
                barrier.arrivals,
                barrier.announced,
                barrier.issued + size,
                barrier.riding | slot.load,
                True,
                barrier.unobserved,
            )
            region_of(s, slot.load)

        return issue

    def store(self, op: CopyAsyncOp, *, single: bool) -> Run:
        """TMA: shared tile to view."""
        if not single:
            return broken(op, "every thread of the CTA would issue this copy")
        slot_of, region_of = self.slot(op.source), self.region(op, "tma")

        def issue(s: State) -> None:
            slot = slot_of(s)
            self.check_written(s, op, slot)
            self.before_tma(s, op, slot, write=False)
            self.happens(s, slot.store)
            # The newer of two stores of one tile is read last: it stands for both.
            s.groups = tuple(tuple(event for event in group if event != slot.store) for group in s.groups)
            s.open = (*(event for event in s.open if event != slot.store), slot.store)
            region_of(s, 0)

        return issue

    def copy_by_threads(self, op: CopyAsyncOp, *, single: bool) -> Run:
        if single:
            return broken(op, "copies of dispatch threads belong to all threads of the CTA")
        assert op.dest is not None
        slot_of = self.slot(op.dest if op.is_load else op.source)
        region_of = self.region(op, "load" if op.is_load else "threads")

        def copy(s: State) -> None:
            slot = slot_of(s)
            if op.is_load:
                self.thread_write(s, op, slot)
            else:
                self.thread_read(s, op, slot)
            region_of(s, slot.writes[OTHERS] if op.is_load else 0)

        return copy

    def thread_read(self, s: State, op: Operation, slot: Slot) -> None:
        self.check_written(s, op, slot)
        self.before_threads(s, op, slot, write=False)
        self._threads_did(s, slot.reads)

    def thread_write(self, s: State, op: Operation, slot: Slot) -> None:
        self.before_threads(s, op, slot, write=True)
        self.write(s, slot, 0)
        self._threads_did(s, slot.writes)

    def _threads_did(self, s: State, events: tuple[int, int]) -> None:
        self.happens(s, events[ISSUER] | events[OTHERS])
        for agent in BOTH:
            s.known[agent] |= events[agent]

    def tile_load(self, op: LoadOp, *, single: bool) -> Run:
        if single:
            return broken(op, "tile.load belongs to all threads of the CTA")
        slot_of, at = self.slot(op.source), self.ids[op.res]

        def load(s: State) -> None:
            self.thread_read(s, op, slot_of(s))
            s.environment[at] = READY

        return load

    def tile_store(self, op: StoreOp, *, single: bool) -> Run:
        if single:
            return broken(op, "tile.store belongs to all threads of the CTA")
        slot_of, use = self.slot(op.dest), self.registers(op)

        def store(s: State) -> None:
            use(s)
            self.thread_write(s, op, slot_of(s))

        return store

    def registers(self, op: Operation) -> Run:
        """Computation on register tiles: their values must have arrived."""
        sources = [self.ids[value] for value in op.operands if isinstance(value.type, RegType)]
        results = [self.ids[value] for value in op.results]

        def use(s: State) -> None:
            for at in sources:
                if s.environment[at] == LOADING:
                    raise Broken(op, "a register tile is used before tile.tmem.wait_ld")
            for at in results:
                s.environment[at] = READY

        return use

    # Views

    def region(self, op: CopyAsyncOp, kind: str) -> Callable[[State, int], None]:
        """Note which part of a view a copy touches, where that may matter, and check it against the others."""
        view = op.source if op.is_load else op.dest
        tile = op.dest if op.is_load else op.source
        assert isinstance(view, BlockArgument) and tile is not None and isinstance(tile.type, SmemType)
        number, shape = view.index, tile.type.shape
        if kind == "load" and number not in self.mutable:
            return lambda s, event: None
        at = [self.ids[index] for index in op.indices]

        def note(s: State, event: int) -> None:
            start = tuple(s.environment[i] for i in at)
            region = Region(kind, number, start, shape, event)
            for other in s.regions:
                if conflicting(self.machine, s, region, other, self.steps):
                    raise Broken(op, "this may touch the same part of the view as an earlier copy that may not be done")
            s.regions |= {region}
            if kind != "load" and number == self.scheduled:
                self._count_tile(s, op, start)

        return note

    def _count_tile(self, s: State, op: Operation, start: tuple[Value, ...]) -> None:
        """Tiles are stored turn after turn, none twice, none left out."""
        turns = {place.turn for place in start if isinstance(place, Coordinate)}
        if len(turns) != 1:
            return
        (turn,) = turns
        same = self._steps_between(s, s.stored, turn)
        if same == 1 and (isinstance(turn, int | Linear)):
            s.stored = turn
        elif same != 0:
            raise Broken(op, "the tile that is stored here is not that of the turn after the last one stored")

    def _steps_between(self, s: State, a: object, b: object) -> int | None:
        match a, b:
            case int(), int():
                return b - a
            case Linear(base, offset, scale), Linear(other, addend, factor) if (base, scale) == (other, factor):
                return addend - offset
            case ((int() | Linear()), (int() | Linear())):
                one, other = self.machine.resolved(s, a), self.machine.resolved(s, b)
                return other - one if isinstance(one, int) and isinstance(other, int) else None
            case _:
                return None

    # Tensor core

    def mma(self, op: MmaOp, *, single: bool) -> Run:
        if single:
            return broken(op, "an MMA belongs to all threads of its role")
        if op.accumulate is None:
            raise OutOfScope(op, "tile.mma without `accumulate` is synchronous")
        number, memory = self.memory(op, op.acc)
        operands, flag = (self.slot(op.a), self.slot(op.b)), self.ids[op.accumulate]
        counter = self._turn_counter(op)

        def multiply(s: State) -> None:
            for find in operands:
                slot = find(s)
                self.check_written(s, op, slot)
                for agent in BOTH:
                    snapshot = s.snapshots[agent]
                    self.need(s, op, slot.load, snapshot, "a wait with a fence after_thread_sync behind it is missing")
                    by_threads = slot.writes[ISSUER] | slot.writes[OTHERS]
                    self.need(
                        s, op, by_threads, snapshot >> self.events.width, "a proxy fence or a cta_sync is missing"
                    )
            self.after_accumulator_reads(s, op, memory, BOTH)
            accumulator = s.accumulators[number]
            accumulate = s.environment[flag]
            tile = 0 if counter is None else Linear(counter, 0, 1)
            if accumulator.status not in ("allocated", "written"):
                raise Broken(op, f"{memory.name} is not allocated here")
            if not isinstance(accumulate, int):
                raise OutOfScope(op, "whether this MMA accumulates is not known")
            if accumulate and accumulator.status != "written":
                raise Broken(op, f"this adds to {memory.name}, which nothing has written")
            if accumulate and accumulator.tile != tile:
                raise Broken(op, f"this adds to the sums in {memory.name} of the tile before")
            for find in operands:
                self.happens(s, find(s).mma)
            self.happens(s, memory.mma)
            s.forget(memory.reads[0] | memory.reads[1], self.events.everywhere(memory.reads[0] | memory.reads[1]))
            s.accumulators[number] = Accumulator("written", tile)

        return multiply

    def _turn_counter(self, op: Operation) -> int | None:
        above = op.parent_op()
        while above is not None and not isinstance(above, ModuleOp):
            if above in self.turn_counters:
                return self.turn_counters[above]
            above = above.parent_op()
        return None

    def accumulator_load(self, op: CopyAsyncOp, *, single: bool) -> Run:
        if single:
            return broken(op, "a copy of dispatch tmem belongs to all threads of the CTA")
        assert op.res is not None
        number, memory = self.memory(op, op.source)
        at = self.ids[op.res]

        def load(s: State) -> None:
            if s.accumulators[number].status != "written":
                raise Broken(op, f"{memory.name} is read, but no MMA has written it")
            for agent in BOTH:
                edge = "a wait for its commit with a fence after_thread_sync behind it is missing"
                self.need(s, op, memory.mma, s.snapshots[agent], edge)
            self.happens(s, memory.reads[ISSUER] | memory.reads[OTHERS])
            s.environment[at] = LOADING
            s.pending_loads = (*s.pending_loads, at)

        return load

    def wait_ld(self, op: Operation, *, single: bool) -> Run:
        if single:
            return broken(op, "tile.tmem.wait_ld belongs to all threads of the CTA")
        reads = self.events.accumulator_reads

        def wait(s: State) -> None:
            for at in s.pending_loads:
                s.environment[at] = READY
            s.pending_loads = ()
            for agent in BOTH:
                s.known[agent] |= s.present & reads[agent]

        return wait

    # Barriers

    def initialise(self, op: MbarrierInitOp) -> Run:
        first, depth = self.events.first[op.res], op.res.type.depth
        event = self.events.signals[first].initialised

        def make(s: State) -> None:
            if s.present & event:
                raise OutOfScope(op, "a barrier that is initialised more than once")
            s.present |= event
            s.known[ISSUER] |= event
            for number in range(first, first + depth):
                s.barriers[number] = Barrier()

        return make

    def initialised(self, s: State, op: Operation, number: int, agent: int) -> None:
        if self.events.signals[number].initialised & ~s.known[agent]:
            raise Broken(op, f"{self.events.signals[number].name} is used before its initialisation is visible")

    def is_complete(self, number: int, barrier: Barrier) -> bool:
        """Whether all that the round waits for is on its way."""
        return barrier.arrivals == self.events.signals[number].arrivals and barrier.announced == barrier.issued

    def complete(self, s: State, op: Operation, number: int) -> None:
        """The round completes. Whoever has waited for the one before must have done so by now."""
        signal, barrier = self.events.signals[number], s.barriers[number]
        clock = s.known[signal.pending]
        late = s.present & (signal.waits[ISSUER] | signal.waits[OTHERS]) & ~clock
        if late or barrier.unobserved:
            raise Broken(op, f"two rounds of {signal.name} may complete without a wait between them")
        s.forget(signal.waits[ISSUER] | signal.waits[OTHERS], self.events.everywhere(signal.waits[0] | signal.waits[1]))
        keep = ~self.events.everywhere(signal.waits[ISSUER] | signal.waits[OTHERS])
        s.known[signal.complete] = (clock | barrier.riding) & keep
        s.known[signal.pending] = 0
        s.barriers[number] = Barrier(parity=barrier.parity ^ 1, unobserved=barrier.carries)

    def arrive(self, s: State, op: Operation, number: int, released: int, bytes: int, *, carries: bool) -> None:
        self.initialised(s, op, number, ISSUER)
        barrier, signal = s.barriers[number], self.events.signals[number]
        if barrier.arrivals == signal.arrivals:
            if not self.is_complete(number, barrier):
                raise Broken(op, f"an arrival too many on {signal.name}")
            self.complete(s, op, number)
            barrier = s.barriers[number]
        s.known[signal.pending] |= released
        s.barriers[number] = Barrier(
            barrier.parity,
            barrier.arrivals + 1,
            barrier.announced + bytes,
            barrier.issued,
            barrier.riding,
            barrier.carries or carries,
            barrier.unobserved,
        )

    def expect_tx(self, op: ArriveExpectTxOp, *, single: bool) -> Run:
        if not single:
            return broken(op, "every thread of the CTA would announce these bytes")
        signal_of, bytes = self.signal(op, op.barrier, op.stage), op.bytes
        return lambda s: self.arrive(s, op, signal_of(s), s.known[ISSUER], bytes, carries=False)

    def arrive_role(self, op: ArriveOp, *, single: bool) -> Run:
        signal_of = self.signal(op, op.barrier, op.stage)

        def run(s: State) -> None:
            if not single:
                self.meet(s)
            self.arrive(s, op, signal_of(s), s.known[ISSUER], 0, carries=False)

        return run

    def commit(self, op: CommitOp, *, single: bool) -> Run:
        if single:
            return broken(op, "a commit belongs to all threads of its role")
        signal_of, most = self.signal(op, op.barrier, op.stage), self.most_outstanding

        def run(s: State) -> None:
            released = s.present & self.events.tensor_core | s.known[ISSUER] & self.events.waits
            number = signal_of(s)
            self.arrive(s, op, number, released, 0, carries=True)
            if most:
                s.later_commits = [min(count + 1, most) for count in s.later_commits]
                s.later_commits[number] = 0

        return run

    def wait(self, op: TryWaitOp, *, single: bool) -> Run:
        signal_of, at = self.signal(op, op.barrier, op.stage), self.ids[op.phase]
        agents = (ISSUER,) if single else BOTH
        machine = self.machine

        def run(s: State) -> None:
            number = signal_of(s)
            signal, barrier = self.events.signals[number], s.barriers[number]
            if single and signal.by_commit:
                raise Broken(op, "a wait for a commit belongs to all threads of its role")
            for agent in agents:
                self.initialised(s, op, number, agent)
            parity = machine.resolved(s, s.environment[at])
            if not isinstance(parity, int):
                raise OutOfScope(op, "the phase of a wait is not known")
            if barrier.parity == parity & 1:
                self.complete_now(s, op, signal, number)
                barrier = s.barriers[number]
            if signal.by_commit and op.outstanding > s.later_commits[number]:
                raise Broken(op, "this wait leaves more commits outstanding than came after the one that it is for")
            for agent in agents:
                event = signal.waits[agent]
                self.happens(s, event)
                s.known[agent] |= event | s.known[signal.complete]
            if barrier.unobserved:
                s.barriers[number] = barrier._replace(unobserved=False)
            if signal.by_commit and not single:
                self.meet(s)

        return run

    def complete_now(self, s: State, op: Operation, signal: Signal, number: int) -> None:
        barrier = s.barriers[number]
        if not self.is_complete(number, barrier):
            raise Broken(
                op,
                f"this wait on {signal.name} never ends: the round has {barrier.arrivals} of {signal.arrivals} arrivals, "
                f"{barrier.issued} of {barrier.announced} announced bytes",
            )
        self.complete(s, op, number)

    # Threads

    def meet(self, s: State) -> None:
        s.known[ISSUER] = s.known[OTHERS] = s.known[ISSUER] | s.known[OTHERS]

    def cta_sync(self, op: Operation, *, single: bool) -> Run:
        if single:
            return broken(op, "one thread alone would wait here for ever")

        def run(s: State) -> None:
            self.meet(s)
            if s.regions:
                s.regions = frozenset(region for region in s.regions if region.kind not in ("threads", "issuer"))

        return run

    def fence(self, op: FenceOp, *, single: bool) -> Run:
        agents = (ISSUER,) if single else BOTH
        events, width = self.events, self.events.width

        def proxy(s: State) -> None:
            for agent in agents:
                s.known[agent] |= (s.present & events.thread_accesses[agent]) << width

        def before(s: State) -> None:
            for agent in agents:
                s.known[agent] |= (s.known[agent] & s.present & events.accumulator_reads[agent]) << 2 * width

        def after(s: State) -> None:
            for agent in agents:
                s.snapshots[agent] = s.known[agent]

        return {"proxy_async": proxy, "before_thread_sync": before, "after_thread_sync": after}[op.kind]

    # Bulk groups

    def commit_group(self, op: Operation, *, single: bool) -> Run:
        if not single:
            return broken(op, "bulk groups belong to the thread that issued the stores")

        def run(s: State) -> None:
            if len(s.groups) == _MOST_GROUPS:
                raise Broken(op, f"{_MOST_GROUPS} bulk groups are pending: nobody waits for them")
            s.groups, s.open = (*s.groups, s.open), ()

        return run

    def wait_group(self, op: WaitGroupOp, *, single: bool) -> Run:
        if not single:
            return broken(op, "bulk groups belong to the thread that issued the stores")
        pending, read = op.pending, op.read

        def run(s: State) -> None:
            done = len(s.groups) - pending
            for group in s.groups[: max(done, 0)]:
                for event in group:
                    s.known[ISSUER] |= event
            s.groups = s.groups[max(done, 0) :]
            if not read and pending == 0 and s.regions:
                s.regions = frozenset(
                    region._replace(kind="issuer") if region.kind == "tma" else region for region in s.regions
                )

        return run

    # The end

    def finish(self, op: Operation) -> Run:
        """A CTA exits: nothing is on its way, everything is given back."""

        def run(s: State) -> None:
            for number, barrier in enumerate(s.barriers):
                name = self.events.signals[number].name
                if barrier.arrivals or barrier.announced or barrier.issued:
                    raise Broken(op, f"the CTA ends with a round of {name} that is not complete or not waited for")
                if barrier.unobserved:
                    raise Broken(op, f"the CTA ends with a round of {name} that nobody has waited for")
            if any(s.groups) or s.open:
                raise Broken(op, "the CTA ends before its TMA stores have drained")
            for accumulator, memory in zip(s.accumulators, self.events.memories, strict=True):
                if s.present & memory.mma & ~s.known[ISSUER]:
                    raise Broken(op, f"the CTA ends before the MMA on {memory.name} was waited for")
                if accumulator.status in ("allocated", "written"):
                    raise Broken(op, f"{memory.name} is never freed")
            if self.scheduled is not None and self.turns is not None:
                self._check_turns(s, op)

        return run

    def _check_turns(self, s: State, op: Operation) -> None:
        """All tiles of the CTA have been stored: the last turn was the one before the first that is not valid."""
        assert self.turns is not None
        if isinstance(s.stored, int):
            limits = self.machine.bound_interval(s, self.turns)
            done = limits == (s.stored + 1, s.stored + 1)
        elif isinstance(s.stored, Linear):
            left = self.machine.difference(s, self.turns, s.stored.base, s.stored.scale)
            done = left is not None and (left.low, left.high) == (s.stored.offset + 1, s.stored.offset + 1)
        else:
            done = False
        if not done:
            raise Broken(op, "a CTA ends before it has stored the tiles of all its turns")

    def schedule(self, op: ScheduleOp) -> Run:
        assert self.turns is not None
        turn_at, valid_at = self.ids[op.turn], self.ids[op.valid]
        offsets = [self.ids[offset] for offset in op.offsets]
        limit = Linear(~self.turns, 0, 1)

        def run(s: State) -> None:
            turn = s.environment[turn_at]
            s.environment[valid_at] = int(self.machine.below(s, turn, limit))
            place = turn if isinstance(turn, int | Linear) else None
            for dimension, at in enumerate(offsets):
                s.environment[at] = Coordinate(place, dimension, 0)

        return run


def broken(op: Operation, message: str) -> Run:
    """An instruction that must not be reached."""

    def run(s: State) -> None:
        raise Broken(op, message)

    return run
