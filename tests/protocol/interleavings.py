"""All interleavings of one small launch, by brute force: an oracle that the proof of the protocol is tried against.

The proof runs one order of events and judges conflicts by happens-before. Here nothing is judged by order: a kernel of given
extents is unrolled into what each of two threads does, one step after another, and every order in which those steps and the
engines' own can happen is run. What goes wrong goes wrong in some order, as it would on hardware.

What is modelled, for one CTA:

* Two threads: the issuer, which executes `tile.single_thread`, and another. Each writes its own half of a tile that the threads
  write; whoever reads a tile reads both halves. Each tile read must be the one that program order prescribes: contents are
  the number of the operation that wrote them.
* mbarriers as counters. A round completes as soon as its arrivals are in and its bytes are balanced, whoever looks or does
  not; a wait sees nothing but the parity. A copy lands whole, at any time, in any order.
* The tensor core takes MMAs in order; one is over at any time after that. MMAs and commits are the issuer's, as on sm_100a:
  the other thread may be ahead of them or behind, which allows more orders than an instruction at which both meet (sm_90a).
* TMA stores read their tile, and then write to global memory, at any time, oldest first. That one before another is no loss:
  the one left unread is what can do harm, and a wait asks for the older ones first.
* What a thread writes to a tile is invisible to TMA and MMAs up to the thread's own proxy fence. It might become visible
  sooner; with `every_step` it does, at any time.
* A wait on a barrier of commits ends in a barrier of the threads (`docs/architecture.md`, "The protocol").

What is not: the tcgen05 fences, wgmma's groups (`outstanding`), the proxy fence of a read that a TMA load comes after, when
an arrival becomes visible, the contents of global memory that threads write, which tiles of the output are stored, several
CTAs.

Without `every_step` some steps are taken together or late. No wrong order is lost by that:

* Bytes that land without completing a round, an MMA that is over without a commit after it, and a store that has read before
  anybody waits for it, let nothing go on that would not go on without; and until then all that they can do is less harm. So
  loads land together when they complete a round, MMAs are over when the first commit after them arrives, and stores have read
  when they are waited for.
* When both threads are at a barrier of theirs, all that engines can do commutes with their going on.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import NamedTuple

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, IntegerType
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from tilec.dialects.tile import (
    AccType,
    AllocOp,
    ArriveExpectTxOp,
    ArriveOp,
    AssumeOp,
    CommitGroupOp,
    CommitOp,
    CopyAsyncOp,
    CtaSyncOp,
    DimOp,
    FenceOp,
    FreeOp,
    GridOp,
    KernelOp,
    LoadOp,
    MbarrierInitOp,
    MmaOp,
    RegType,
    RingType,
    ScheduleOp,
    SingleThreadOp,
    SliceOp,
    SlotOp,
    SmemType,
    StoreOp,
    TryWaitOp,
    ViewType,
    WaitGroupOp,
    WaitLdOp,
)

ISSUER, OTHER = 0, 1
NOTHING, IN_FLIGHT, FREED = -1, -2, -3
"""In place of the number of the operation that wrote a tile or an accumulator."""
_MOST_STEPS = 20_000


class Unsupported(Exception):
    """The kernel, or these extents of it, are outside of what can be unrolled."""


class Bad(Exception):
    """Something has gone wrong in this order."""


class State:
    """Mutable; `clone` before each step."""

    __slots__ = ("accumulators", "arrivals", "at", "core", "groups", "loads", "missing", "parity", "reading", "tiles")

    at: list[int]
    """By thread, its next step."""
    parity: list[int]
    """By barrier, of the number of rounds that it has completed; NOTHING before its initialisation."""
    arrivals: list[int]
    missing: list[int]
    """Bytes announced and not yet landed; negative when more have landed."""
    loads: tuple[int, ...]
    """In flight."""
    core: tuple[int, ...]
    """What the tensor core has before it, oldest first: MMAs, and commits as ~barrier."""
    groups: tuple[tuple[tuple[int, bool], ...], ...]
    """Stores that are not done, each with whether it has read; by bulk group, oldest first, the open one last."""
    tiles: list[tuple[int, bool]]
    """By half of a tile, the operation that wrote it, and whether the async proxy sees it."""
    accumulators: list[int]
    """The last MMA on each."""
    reading: tuple[tuple[int, int], ...]
    """Threads that have not waited for what they read, with the accumulator."""

    def clone(self) -> State:
        other = State.__new__(State)
        other.at, other.parity = self.at[:], self.parity[:]
        other.arrivals, other.missing = self.arrivals[:], self.missing[:]
        other.loads, other.core, other.groups = self.loads, self.core, self.groups
        other.tiles, other.accumulators, other.reading = self.tiles[:], self.accumulators[:], self.reading
        return other

    def key(self) -> tuple[object, ...]:
        return (
            *self.at,
            *self.parity,
            *self.arrivals,
            *self.missing,
            self.loads,
            self.core,
            self.groups,
            *self.tiles,
            *self.accumulators,
            self.reading,
        )


Run = Callable[[State], bool]
"""Takes the step, unless it has to wait: then nothing is changed, and the answer is False."""


class Step(NamedTuple):
    label: str
    run: Run | None
    """None: the threads meet."""


class Place(int):
    """A coordinate of an output tile, and the turn that visits it."""

    turn: int


class Region(NamedTuple):
    """Part of a view."""

    view: SSAValue
    start: tuple[int, ...]
    shape: tuple[int, ...]

    def overlaps(self, other: Region) -> bool:
        return self.view is other.view and all(
            a < b + m and b < a + n for a, n, b, m in zip(self.start, self.shape, other.start, other.shape, strict=True)
        )


@dataclass
class Launch:
    """What the threads of a launch do, and the facts about it that the engines need. Operations have numbers."""

    every_step: bool
    """Whether each step of an engine is taken by itself, as early or late as can be (see above)."""
    threads: tuple[list[Step], list[Step]] = field(default_factory=lambda: ([], []))
    counts: list[int] = field(default_factory=list[int])
    """By barrier, the arrivals of a round."""
    tiles: list[str] = field(default_factory=list[str])
    accumulators: list[str] = field(default_factory=list[str])
    loads: dict[int, tuple[int, int, int]] = field(default_factory=dict[int, tuple[int, int, int]])
    """Tile, barrier and bytes."""
    mmas: dict[int, tuple[int, int, int]] = field(default_factory=dict[int, tuple[int, int, int]])
    """Accumulator and operands."""
    stores: dict[int, int] = field(default_factory=dict[int, int])
    """Tile."""
    regions: dict[int, Region] = field(default_factory=dict[int, Region])
    """What copies touch of global memory."""
    conflicts: dict[int, frozenset[int]] = field(default_factory=dict[int, frozenset[int]])
    """Stores to the same part of a view as the copy touches."""
    mismatches: list[str] = field(default_factory=list[str])
    """MMAs whose operands do not belong together, in program order: wrong numbers, whatever the protocol."""

    def start(self) -> State:
        s = State()
        s.at, s.loads, s.core, s.groups, s.reading = [0, 0], (), (), ((),), ()
        s.parity, s.arrivals, s.missing = ([n] * len(self.counts) for n in (NOTHING, 0, 0))
        s.tiles = [(NOTHING, True)] * (2 * len(self.tiles))
        s.accumulators = [NOTHING] * len(self.accumulators)
        return s


# What the steps do.


def _arrive(launch: Launch, s: State, barrier: int, announced: int = 0) -> None:
    if s.parity[barrier] == NOTHING:
        raise Bad("an arrival on a barrier that is not initialised")
    if s.arrivals[barrier] == launch.counts[barrier]:
        raise Bad(f"an arrival too many in a round of barrier {barrier}")
    s.arrivals[barrier] += 1
    s.missing[barrier] += announced
    _settle(launch, s, barrier)


def _settle(launch: Launch, s: State, barrier: int) -> None:
    """The round completes, if it can."""
    if s.arrivals[barrier] == launch.counts[barrier] and not s.missing[barrier]:
        s.parity[barrier] ^= 1
        s.arrivals[barrier] = 0


def _check_read(launch: Launch, s: State, tile: int, wanted: tuple[int, int], *, proxy: bool) -> None:
    """Both halves hold what program order says; for TMA and MMAs, visibly."""
    for half in (ISSUER, OTHER):
        writer, visible = s.tiles[2 * tile + half]
        name = launch.tiles[tile]
        if writer == IN_FLIGHT:
            raise Bad(f"{name} is read while it is loaded")
        if writer == NOTHING:
            raise Bad(f"{name} is read, and nothing has written it")
        if writer != wanted[half]:
            raise Bad(f"{name} is read, and does not hold what program order prescribes")
        if proxy and not visible:
            raise Bad(f"{name} is read by the async proxy, which does not see what a thread has written")


def _check_write(launch: Launch, s: State, tile: int, halves: Sequence[int], *, proxy: bool) -> None:
    """Nothing in flight uses the halves."""
    name = launch.tiles[tile]
    for half in halves:
        writer, visible = s.tiles[2 * tile + half]
        if writer == IN_FLIGHT:
            raise Bad(f"{name} is written while it is loaded")
        if proxy and not visible:
            raise Bad(f"{name} is loaded while a thread's write of it is not visible: the older one may come last")
    if any(tile in launch.mmas[mma][1:] for mma in s.core if mma >= 0):
        raise Bad(f"{name} is written while an MMA reads it")
    if any(launch.stores[store] == tile and not read for group in s.groups for store, read in group):
        raise Bad(f"{name} is written while a TMA store reads it")


def _check_region(launch: Launch, s: State, copy: int) -> None:
    conflicts = launch.conflicts.get(copy)
    if conflicts and any(store in conflicts for group in s.groups for store, _ in group):
        raise Bad("this touches a part of a view to which an earlier TMA store has yet to write")


def _check_accumulator(launch: Launch, s: State, accumulator: int, what: str) -> None:
    name = launch.accumulators[accumulator]
    if s.accumulators[accumulator] == FREED:
        raise Bad(f"{name} is {what} after it was freed")
    if any(launch.mmas[mma][0] == accumulator for mma in s.core if mma >= 0):
        raise Bad(f"{name} is {what} while an MMA on it is in flight")


def _check_no_reader(launch: Launch, s: State, accumulator: int, what: str) -> None:
    if any(read == accumulator for _, read in s.reading):
        raise Bad(f"{launch.accumulators[accumulator]} is {what} while a thread reads it")


def _check_exit(launch: Launch, s: State) -> None:
    if s.loads:
        raise Bad("the CTA ends with a TMA load in flight")
    if any(mma >= 0 for mma in s.core):
        raise Bad("the CTA ends with an MMA in flight")
    if any(not read for group in s.groups for _, read in group):
        raise Bad("the CTA ends before a TMA store has read its tile")
    if any(content != FREED for content in s.accumulators):
        raise Bad("the CTA ends with an accumulator that is not freed")


# The engines.


def _land(launch: Launch, loads: Sequence[int]) -> Run:
    def run(s: State) -> bool:
        for load in loads:
            tile, barrier, size = launch.loads[load]
            s.tiles[2 * tile] = s.tiles[2 * tile + 1] = (load, True)
            s.missing[barrier] -= size
        s.loads = tuple(load for load in s.loads if load not in loads)
        _settle(launch, s, launch.loads[loads[0]][1])
        return True

    return run


def _finish_mmas(launch: Launch, count: int) -> Run:
    """The oldest `count` of the tensor core's are over."""

    def run(s: State) -> bool:
        over, s.core = s.core[:count], s.core[count:]
        if over[-1] < 0:
            _arrive(launch, s, ~over[-1])
        return True

    return run


def _advance_store(store: int) -> Run:
    """It has read; or, if it had, its write is done."""

    def run(s: State) -> bool:
        groups = (
            tuple((one, read or one == store) for one, read in group if one != store or not read) for group in s.groups
        )
        s.groups = _without_empty(tuple(groups))
        return True

    return run


def _without_empty(groups: tuple[tuple[tuple[int, bool], ...], ...]) -> tuple[tuple[tuple[int, bool], ...], ...]:
    """Waits count the newest groups, so the oldest may go when nothing is left of them."""
    first = next((i for i, group in enumerate(groups[:-1]) if group), len(groups) - 1)
    return groups[first:]


def _show(half: int) -> Run:
    def run(s: State) -> bool:
        s.tiles[half] = s.tiles[half][0], True
        return True

    return run


def _engines(launch: Launch, s: State) -> Iterator[tuple[str, Run]]:
    """What can happen without the threads."""
    if launch.every_step:
        yield from ((f"load {load} lands", _land(launch, (load,))) for load in s.loads)
        if s.core:
            yield "the oldest MMA is over, or its commit arrives", _finish_mmas(launch, 1)
        stores = [(store, read) for group in s.groups for store, read in group]
        oldest = next((store for store, read in stores if not read), None)
        if oldest is not None:
            yield f"store {oldest} has read", _advance_store(oldest)
        if stores and stores[0][1]:
            yield f"store {stores[0][0]} is done", _advance_store(stores[0][0])
        yield from (("a write becomes visible", _show(i)) for i, (_, visible) in enumerate(s.tiles) if not visible)
        return
    for barrier in {launch.loads[load][1] for load in s.loads}:
        if s.arrivals[barrier] == launch.counts[barrier]:
            mine = [load for load in s.loads if launch.loads[load][1] == barrier]
            for size in range(1, len(mine) + 1):
                for some in combinations(mine, size):
                    if sum(launch.loads[load][2] for load in some) == s.missing[barrier]:
                        yield f"loads {some} land", _land(launch, some)
    commit = next((i for i, one in enumerate(s.core) if one < 0), None)
    if commit is not None:
        yield "the oldest commit arrives", _finish_mmas(launch, commit + 1)


# All orders.


@dataclass(frozen=True)
class Explored:
    """What all orders of a launch come to."""

    states: int
    finding: str | None
    """What goes wrong in the first bad order that was found."""
    trace: tuple[str, ...]
    """That order."""


class TooMany(Exception):
    """More states than are worth while."""


def explore(launch: Launch, *, most: int = 400_000) -> Explored:
    """Run all orders, up to the first that is bad."""
    start = launch.start()
    seen: dict[object, tuple[object, str]] = {start.key(): (None, "")}
    waiting = [start]
    while waiting:
        s = waiting.pop()
        moves = list(_moves(launch, s))
        goes_on = False
        label = "the end"
        try:
            if not moves:
                _check_exit(launch, s)
                continue
            for label, thread, run in moves:
                other = s.clone()
                if thread is None:
                    other.at = [at + 1 for at in other.at]
                elif run is not None:
                    if not run(other):
                        continue
                    if thread in (ISSUER, OTHER):
                        other.at[thread] += 1
                goes_on = True
                key = other.key()
                if key not in seen:
                    seen[key] = s.key(), label
                    waiting.append(other)
            if not goes_on:
                label = "nothing"
                raise Bad("nothing can go on: " + ", ".join(_next_labels(launch, s)))
        except Bad as bad:
            return Explored(len(seen), str(bad), (*_trace(seen, s), label))
        if len(seen) > most:
            raise TooMany(f"more than {most} states")
    return Explored(len(seen), None, ())


_ENGINE = 2
"""In place of a thread."""


def _moves(launch: Launch, s: State) -> Iterator[tuple[str, int | None, Run | None]]:
    """All that may come next: its label, and by which thread; by None where both go on together. None at the end."""
    steps = [thread[at] if at < len(thread) else None for thread, at in zip(launch.threads, s.at, strict=True)]
    if steps == [None, None]:
        return
    if all(step is not None and step.run is None for step in steps):
        yield "both threads meet", None, None
        if not launch.every_step:
            return
    for thread, step in enumerate(steps):
        if step is not None and step.run is not None:
            yield step.label, thread, step.run
    yield from ((label, _ENGINE, run) for label, run in _engines(launch, s))


def _next_labels(launch: Launch, s: State) -> list[str]:
    return [
        f"thread {number} is at {thread[at].label}" if at < len(thread) else f"thread {number} has ended"
        for number, (thread, at) in enumerate(zip(launch.threads, s.at, strict=True))
    ]


def _trace(seen: Mapping[object, tuple[object, str]], s: State) -> list[str]:
    labels: list[str] = []
    key: object = s.key()
    while key is not None:
        key, label = seen[key]
        labels.append(label)
    return labels[-2::-1]


# From a kernel to what its threads do.

_BINARY: dict[type[Operation], Callable[[int, int], int]] = {
    arith.AddiOp: operator.add,
    arith.SubiOp: operator.sub,
    arith.MuliOp: operator.mul,
    arith.DivUIOp: operator.floordiv,
    arith.RemUIOp: operator.mod,
    arith.AndIOp: operator.and_,
    arith.OrIOp: operator.or_,
    arith.XOrIOp: operator.xor,
    arith.MinUIOp: min,
    arith.MaxUIOp: max,
}
_COMPARISONS = (operator.eq, operator.ne, *2 * (operator.lt, operator.le, operator.gt, operator.ge))
"""In the order of `arith.cmpi`'s predicates: signed from number 2, unsigned from number 6."""


class Registers:
    """A register tile: all that matters is whether it has arrived."""

    def __init__(self) -> None:
        self.loading = False


Value = int | Registers


def _bits(value: SSAValue) -> int:
    return value.type.bitwidth if isinstance(value.type, IntegerType) else 64


def _signed(value: SSAValue, number: int) -> int:
    half = 1 << _bits(value) - 1
    return (number ^ half) - half


class Unroller:
    """Runs the uniform control flow of a kernel with numbers, and notes what each thread does."""

    def __init__(self, extents: Mapping[str, int], every_step: bool):
        self.extents = extents
        self.launch = Launch(every_step)
        self.values: dict[SSAValue, Value] = {}
        self.alone = False
        """Whether the issuer executes this without the others."""
        self.written: list[tuple[int, int]] = []
        """By tile, what program order has put into its halves."""
        self.last_mma: list[int] = []
        self.sums_of: list[int | None] = []
        """By accumulator, the turn whose MMA overwrote it."""
        self.sources: dict[int, tuple[int, int | None]] = {}
        """Of loads of rank 2: the coordinate along K, and the turn of the other, if it says."""
        self.loading: list[Registers] = []
        self.turn = 0
        self.operations = 0

    def unroll(self, kernel: KernelOp) -> Launch:
        self.block(kernel.body.block)
        stores = {number: self.launch.regions[number] for number in self.launch.stores}
        for copy, region in self.launch.regions.items():
            overlapping = (one for one, other in stores.items() if one != copy and region.overlaps(other))
            self.launch.conflicts[copy] = frozenset(overlapping)
        return self.launch

    # Scalars and control flow

    def integer(self, value: SSAValue) -> int:
        found = self.values[value]
        assert isinstance(found, int)
        return found

    def extent(self, view: SSAValue, dimension: int) -> int:
        assert isinstance(view, BlockArgument) and isinstance(view.type, ViewType)
        dim = view.type.dims[dimension]
        if dim is None:
            raise Unsupported("an extent without a name")
        return dim if isinstance(dim, int) else self.extents[dim]

    def bind(self, names: Sequence[SSAValue], values: Sequence[Value]) -> None:
        self.values.update(zip(names, values, strict=True))

    def block(self, block: Block) -> list[Value]:
        """Execute; the result is what the terminator passes on."""
        passed: list[Value] = []
        for op in block.ops:
            if isinstance(op, scf.YieldOp | scf.ConditionOp):
                passed = [self.values[operand] for operand in op.operands]
            elif not self.scalar(op) and not self.control(op):
                self.protocol(op)
        return passed

    def scalar(self, op: Operation) -> bool:
        match op:
            case arith.ConstantOp(value=IntegerAttr() as attribute):
                number = attribute.value.data
            case arith.CmpiOp():
                predicate, a, b = op.predicate.value.data, self.integer(op.lhs), self.integer(op.rhs)
                if 2 <= predicate < 6:
                    a, b = _signed(op.lhs, a), _signed(op.rhs, b)
                number = int(_COMPARISONS[predicate](a, b))
            case arith.SelectOp():
                self.values[op.result] = self.values[op.lhs if self.integer(op.cond) else op.rhs]
                return True
            case arith.IndexCastOp():
                number = _signed(op.input, self.integer(op.input))
            case DimOp():
                number = self.extent(op.view, op.dimension)
            case _ if type(op) in _BINARY:
                a, b = self.integer(op.operands[0]), self.integer(op.operands[1])
                if b == 0 and isinstance(op, arith.DivUIOp | arith.RemUIOp):
                    raise Unsupported("division by zero")
                number = _BINARY[type(op)](a, b)
            case _:
                return False
        self.values[op.results[0]] = number % (1 << _bits(op.results[0]))
        return True

    def control(self, op: Operation) -> bool:
        match op:
            case GridOp():
                self.bind(op.body.block.args, [0] * len(op.step))
                self.block(op.body.block)
            case scf.ForOp():
                carried = [self.values[value] for value in op.iter_args]
                if not self.integer(op.step):
                    raise Unsupported("a loop that does not advance")
                for i in range(self.integer(op.lb), self.integer(op.ub), self.integer(op.step)):
                    self.bind(op.body.block.args, [i, *carried])
                    carried = self.block(op.body.block)
                self.bind(op.res, carried)
            case scf.IfOp():
                region = op.true_region if self.integer(op.cond) else op.false_region
                self.bind(op.output, self.block(region.block) if region.blocks else [])
            case scf.WhileOp():
                carried = [self.values[value] for value in op.arguments]
                while True:
                    self.number()
                    self.bind(op.before_region.block.args, carried)
                    goes_on, *carried = self.block(op.before_region.block)
                    if not goes_on:
                        break
                    self.bind(op.after_region.block.args, carried)
                    carried = self.block(op.after_region.block)
                    self.turn += 1
                self.bind(op.res, carried)
            case ScheduleOp():
                self.schedule(op)
            case AssumeOp():
                if not op.holds(self.extent(op.view, op.dimension)):
                    raise Unsupported("the kernel assumes other extents")
            case SingleThreadOp():
                outside, self.alone = self.alone, True
                self.block(op.body.block)
                self.alone = outside
            case _:
                return False
        return True

    def schedule(self, op: ScheduleOp) -> None:
        """The one CTA visits all tiles: `group` rows at a time, down each column of the group."""
        counts = [-(-self.extent(op.view, i) // step) for i, step in enumerate(op.step)]
        rows, columns = (*counts, 1)[:2]
        turn = self.integer(op.turn)
        order = [
            (row, column)
            for first in range(0, rows, op.group)
            for column in range(columns)
            for row in range(first, min(first + op.group, rows))
        ]
        self.values[op.valid] = int(turn < len(order))
        tile = order[turn] if turn < len(order) else (0, 0)
        for offset, index, step in zip(op.offsets, tile, op.step, strict=False):
            place = Place(index * step)
            place.turn = turn
            self.values[offset] = place

    # What threads do

    def number(self) -> int:
        self.operations += 1
        if self.operations > _MOST_STEPS:
            raise Unsupported("this never ends, or takes too many steps")
        return self.operations

    def step(self, op: Operation, run: Run | None, *threads: int, label: str = "") -> None:
        self.number()
        for thread in threads:
            self.launch.threads[thread].append(Step(f"{op.name} {label}".strip(), run))

    def meet(self, op: Operation) -> None:
        self.step(op, None, *self.active)

    @property
    def active(self) -> tuple[int, ...]:
        return (ISSUER,) if self.alone else (ISSUER, OTHER)

    def fails(self, op: Operation, message: str) -> None:
        """Whichever order is taken."""

        def run(s: State) -> bool:
            raise Bad(message)

        self.step(op, run, ISSUER)

    def signal(self, barrier: SSAValue, stage: SSAValue | None) -> int:
        assert isinstance(barrier.owner, MbarrierInitOp)
        number = 0 if stage is None else self.integer(stage)
        return self.integer(barrier) + self.stage(barrier.owner, number, barrier.owner.res.type.depth)

    def stage(self, op: Operation, number: int, depth: int) -> int:
        if number >= depth:
            self.fails(op, f"stage {number} of {depth}")
        return number % depth

    def protocol(self, op: Operation) -> None:
        if any(isinstance(one, Registers) and one.loading for one in map(self.values.get, op.operands)):
            self.fails(op, "registers are used before wait_ld")
        for result in op.results:
            if isinstance(result.type, RegType):
                self.values[result] = Registers()
        match op:
            case AllocOp():
                self.allocate(op)
            case SlotOp():
                assert isinstance(op.ring.type, RingType)
                self.values[op.res] = self.integer(op.ring) + self.stage(op, self.integer(op.stage), op.ring.type.depth)
            case SliceOp():
                self.values[op.res] = self.values[op.acc]
            case MbarrierInitOp():
                self.initialise(op)
            case ArriveExpectTxOp():
                self.arrive(op, op.barrier, op.stage, op.bytes)
            case ArriveOp():
                if not self.alone:
                    self.meet(op)
                self.arrive(op, op.barrier, op.stage, 0)
            case TryWaitOp():
                self.wait(op)
            case CtaSyncOp():
                self.meet(op)
            case CopyAsyncOp(dispatch="tmem"):
                self.read_accumulator(op)
            case CopyAsyncOp():
                self.copy(op)
            case LoadOp():
                self.thread_read(op, op.source)
            case StoreOp():
                self.thread_write(op, op.dest)
            case MmaOp():
                self.mma(op)
            case CommitOp():
                self.commit(op)
            case FreeOp():
                self.free(op)
            case FenceOp(kind="proxy_async"):
                self.fence(op)
            case FenceOp():
                pass  # of the tensor core: not modelled
            case WaitLdOp():
                self.wait_ld(op)
            case CommitGroupOp():
                self.commit_group(op)
            case WaitGroupOp():
                self.wait_group(op)
            case _ if op.results and all(isinstance(result.type, RegType) for result in op.results):
                pass
            case _:
                raise Unsupported(op.name)

    def allocate(self, op: AllocOp) -> None:
        if op.res in self.values:
            raise Unsupported("storage that is allocated more than once")
        name, type = op.res.name_hint or "a tile", op.res.type
        if isinstance(type, AccType):
            self.values[op.res] = len(self.launch.accumulators)
            self.launch.accumulators.append(name)
            self.last_mma.append(NOTHING)
            self.sums_of.append(None)
            return
        depth = type.depth if isinstance(type, RingType) else 1
        self.values[op.res] = len(self.launch.tiles)
        self.launch.tiles += [f"{name}[{i}]" for i in range(depth)]
        self.written += [(NOTHING, NOTHING)] * depth

    # Barriers

    def initialise(self, op: MbarrierInitOp) -> None:
        if op.res in self.values:
            raise Unsupported("a barrier that is initialised more than once")
        first, depth = len(self.launch.counts), op.res.type.depth
        self.values[op.res] = first
        self.launch.counts += [op.count] * depth

        def run(s: State) -> bool:
            s.parity[first : first + depth] = [0] * depth
            return True

        self.step(op, run, ISSUER)

    def arrive(self, op: Operation, barrier: SSAValue, stage: SSAValue | None, announced: int) -> None:
        launch, signal = self.launch, self.signal(barrier, stage)

        def run(s: State) -> bool:
            _arrive(launch, s, signal, announced)
            return True

        self.step(op, run, *((ISSUER,) if isinstance(op, ArriveOp) else self.active), label=str(signal))

    def wait(self, op: TryWaitOp) -> None:
        signal, wanted = self.signal(op.barrier, op.stage), self.integer(op.phase) & 1

        def run(s: State) -> bool:
            if s.parity[signal] == NOTHING:
                raise Bad("a wait on a barrier that is not initialised")
            return s.parity[signal] != wanted

        self.step(op, run, *self.active, label=f"{signal} {wanted}")
        if not self.alone and any(isinstance(use.operation, CommitOp) for use in op.barrier.uses):
            self.meet(op)

    # Shared tiles

    def region(self, op: CopyAsyncOp, tile: SSAValue, view: SSAValue) -> int:
        """A number for a copy, and what it touches of a view."""
        assert isinstance(tile.type, SmemType)
        copy = self.number()
        places = [self.integer(index) for index in op.indices]
        self.launch.regions[copy] = Region(view, tuple(int(place) for place in places), tile.type.shape)
        if op.is_load and len(places) == 2:
            self.sources[copy] = int(places[1]), places[0].turn if isinstance(places[0], Place) else None
        return copy

    def copy(self, op: CopyAsyncOp) -> None:
        assert op.dest is not None
        if op.dispatch == "threads":
            if op.is_load:
                self.thread_write(op, op.dest, self.region(op, op.dest, op.source))
            else:
                self.thread_read(op, op.source, self.region(op, op.source, op.dest))
        elif op.is_load:
            self.tma_load(op, op.dest)
        else:
            self.tma_store(op, op.dest)

    def tma_load(self, op: CopyAsyncOp, dest: SSAValue) -> None:
        assert op.barrier is not None and isinstance(dest.type, SmemType)
        launch, tile, barrier = self.launch, self.integer(dest), self.signal(op.barrier, op.stage)
        load = self.region(op, dest, op.source)
        launch.loads[load] = tile, barrier, dest.type.layout.size

        def run(s: State) -> bool:
            if s.parity[barrier] == NOTHING:
                raise Bad("a TMA load that completes on a barrier that is not initialised")
            _check_write(launch, s, tile, (ISSUER, OTHER), proxy=True)
            _check_region(launch, s, load)
            s.tiles[2 * tile] = s.tiles[2 * tile + 1] = (IN_FLIGHT, True)
            s.loads = (*s.loads, load)
            return True

        self.step(op, run, *self.active, label=f"{load} to {launch.tiles[tile]}")
        self.written[tile] = load, load

    def tma_store(self, op: CopyAsyncOp, view: SSAValue) -> None:
        if not self.alone:
            raise Unsupported("a store by all threads")
        launch, tile = self.launch, self.integer(op.source)
        store, wanted = self.region(op, op.source, view), self.written[tile]
        launch.stores[store] = tile

        def run(s: State) -> bool:
            _check_read(launch, s, tile, wanted, proxy=True)
            _check_region(launch, s, store)
            s.groups = (*s.groups[:-1], (*s.groups[-1], (store, False)))
            return True

        self.step(op, run, ISSUER, label=f"{store} from {launch.tiles[tile]}")

    def thread_read(self, op: Operation, source: SSAValue, copy: int = 0) -> None:
        launch, tile = self.launch, self.integer(source)
        wanted = self.written[tile]

        def run(s: State) -> bool:
            _check_read(launch, s, tile, wanted, proxy=False)
            _check_region(launch, s, copy)
            return True

        self.step(op, run, *self.active, label=f"from {launch.tiles[tile]}")

    def thread_write(self, op: Operation, dest: SSAValue, copy: int = 0) -> None:
        launch, tile, write = self.launch, self.integer(dest), copy or self.number()
        halves = list(self.written[tile])
        for half in self.active:

            def run(s: State, half: int = half) -> bool:
                _check_write(launch, s, tile, (half,), proxy=False)
                _check_region(launch, s, copy)
                s.tiles[2 * tile + half] = write, False
                return True

            self.step(op, run, half, label=f"to {launch.tiles[tile]}")
            halves[half] = write
        self.written[tile] = halves[0], halves[1]

    def fence(self, op: FenceOp) -> None:
        for half in self.active:

            def run(s: State, half: int = half) -> bool:
                s.tiles[half::2] = [(writer, True) for writer, _ in s.tiles[half::2]]
                return True

            self.step(op, run, half, label=op.kind)

    def commit_group(self, op: Operation) -> None:
        def run(s: State) -> bool:
            s.groups = _without_empty((*s.groups, ()))
            return True

        self.step(op, run, ISSUER)

    def wait_group(self, op: WaitGroupOp) -> None:
        launch, pending, only_read = self.launch, op.pending, op.read

        def run(s: State) -> bool:
            done = max(len(s.groups) - 1 - pending, 0)
            if launch.every_step and any(not (only_read and read) for group in s.groups[:done] for _, read in group):
                return False
            waited = tuple(
                tuple((store, True) for store, _ in group if only_read and launch.conflicts[store])
                for group in s.groups[:done]
            )
            if not launch.every_step:
                s.groups = _without_empty((*waited, *s.groups[done:]))
            return True

        self.step(op, run, ISSUER, label=str(pending))

    # Tensor core

    def mma(self, op: MmaOp) -> None:
        if op.accumulate is None:
            raise Unsupported("a synchronous MMA")
        launch, mma = self.launch, self.number()
        accumulator, a, b = (self.integer(value) for value in (op.acc, op.a, op.b))
        wanted = self.written[a], self.written[b]
        launch.mmas[mma] = accumulator, a, b
        name = launch.accumulators[accumulator]
        if self.integer(op.accumulate):
            if self.sums_of[accumulator] is None:
                self.fails(op, f"an MMA adds to {name}, which nothing has written")
            elif self.sums_of[accumulator] != self.turn:
                self.fails(op, f"an MMA adds to the sums in {name} of the tile before")
        self.sums_of[accumulator] = self.turn
        sources = [self.sources.get(writers[ISSUER]) for writers in wanted]
        if sources[0] is not None and sources[1] is not None and sources[0] != sources[1]:
            launch.mismatches.append(f"K and turn {sources[0]} times {sources[1]}")

        def run(s: State) -> bool:
            _check_read(launch, s, a, wanted[0], proxy=True)
            _check_read(launch, s, b, wanted[1], proxy=True)
            if s.accumulators[accumulator] == FREED:
                raise Bad(f"an MMA on {name} after it was freed")
            _check_no_reader(launch, s, accumulator, "written by an MMA")
            s.core = (*s.core, mma)
            s.accumulators[accumulator] = mma
            return True

        self.step(op, run, ISSUER, label=str(mma))
        self.last_mma[accumulator] = mma

    def commit(self, op: CommitOp) -> None:
        signal = self.signal(op.barrier, op.stage)

        def run(s: State) -> bool:
            s.core = (*s.core, ~signal)
            return True

        self.step(op, run, ISSUER, label=str(signal))

    def read_accumulator(self, op: CopyAsyncOp) -> None:
        assert op.res is not None
        launch, accumulator = self.launch, self.integer(op.source)
        name, wanted = launch.accumulators[accumulator], self.last_mma[accumulator]
        for thread in self.active:

            def run(s: State, thread: int = thread) -> bool:
                _check_accumulator(launch, s, accumulator, "read")
                if s.accumulators[accumulator] in (NOTHING, FREED) or s.accumulators[accumulator] != wanted:
                    raise Bad(f"{name} is read, and does not hold what program order prescribes")
                s.reading = tuple(sorted({*s.reading, (thread, accumulator)}))
                return True

            self.step(op, run, thread, label=f"from {name}")
        registers = self.values[op.res]
        assert isinstance(registers, Registers)
        registers.loading = True
        self.loading.append(registers)

    def wait_ld(self, op: Operation) -> None:
        for registers in self.loading:
            registers.loading = False
        self.loading.clear()
        for thread in self.active:

            def run(s: State, thread: int = thread) -> bool:
                s.reading = tuple(one for one in s.reading if one[0] != thread)
                return True

            self.step(op, run, thread)

    def free(self, op: FreeOp) -> None:
        launch, accumulator = self.launch, self.integer(op.acc)

        def run(s: State) -> bool:
            _check_accumulator(launch, s, accumulator, "freed")
            _check_no_reader(launch, s, accumulator, "freed")
            s.accumulators[accumulator] = FREED
            return True

        self.step(op, run, ISSUER)


def unroll(kernel: KernelOp, extents: Mapping[str, int], *, every_step: bool = False) -> Launch:
    """What the threads of one CTA do that visits all tiles of these extents."""
    return Unroller(extents, every_step).unroll(kernel)
