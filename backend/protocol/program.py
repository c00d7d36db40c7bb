"""The protocol of a kernel as a list of instructions: structured control flow becomes jumps, operations become rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from math import lcm

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from tilec.backend.protocol import scalars
from tilec.backend.protocol.events import Events
from tilec.backend.protocol.machine import Machine, OutcomeUnknown, OutOfScope
from tilec.backend.protocol.rules import Rules, Run, broken
from tilec.backend.protocol.state import Accumulator, Barrier, State
from tilec.backend.protocol.values import INFINITY, UNKNOWN, Bound, Coordinate, Interval, Linear, Value
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

_UNROLLED = 64
"""Iterations up to which a loop with constant bounds is followed number by number."""
_MOST_RESIDUES = 4096


@dataclass(eq=False)
class Instruction:
    """One step. `run` changes the state, whose `pc` is the next instruction already."""

    op: Operation
    run: Run
    uses: tuple[int, ...] = ()
    defines: tuple[int, ...] = ()
    targets: tuple[int, ...] = ()
    falls_through: bool = True


@dataclass
class Program:
    """A kernel's instructions, and what their execution needs."""

    machine: Machine
    events: Events
    rules: Rules
    code: list[Instruction] = field(default_factory=list[Instruction])
    heads: dict[int, frozenset[int]] = field(default_factory=dict[int, frozenset[int]])
    """By the place of a loop's head, the counters of the loops around it and its own."""
    live: dict[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])
    """By head, the values that are used from there on."""
    fenced: set[int] = field(default_factory=set[int])
    """Heads behind which a `fence after_thread_sync` comes before all tensor-core operations."""
    values: int = 0

    def start(self) -> State:
        s = State()
        s.pc = 0
        s.environment = [0] * self.values
        counters = len(self.machine.counter_steps)
        s.counters, s.moduli = [None] * counters, [0] * counters
        s.bounds = list(self.machine.initial)
        s.differences = {}
        s.known = [0] * (2 + 2 * len(self.events.signals))
        s.snapshots = [0, 0]
        s.present = 0
        s.barriers = [Barrier()] * len(self.events.signals)
        s.accumulators = [Accumulator()] * len(self.events.memories)
        s.pending_loads, s.open, s.groups, s.regions, s.stored = (), (), (), frozenset(), -1
        s.later_commits = [self.rules.most_outstanding] * len(self.events.signals)
        s.path = {}
        return s


def flatten(kernel: KernelOp, *, any_extent: bool) -> Program:
    """Make the program of an asynchronous kernel; with `any_extent` static extents stand for all that there are."""
    return _Flattener(kernel, any_extent).flatten()


class _Flattener:
    def __init__(self, kernel: KernelOp, any_extent: bool):
        self.kernel = kernel
        self.any_extent = any_extent
        self.ids: dict[SSAValue, int] = {}
        machine, events = Machine(), Events()
        self.program = Program(machine, events, Rules(machine, events, self.ids))
        self.code = self.program.code
        self.single = False
        self.active: tuple[int, ...] = ()

    def flatten(self) -> Program:
        kernel = self.kernel
        for block in (b for op in kernel.walk() for region in op.regions for b in region.blocks):
            for value in (*block.args, *(result for op in block.ops for result in op.results)):
                self.ids[value] = len(self.ids)
        self.snapshot = len(self.ids)
        """Stands for `State.snapshots` where it is asked what is used later."""
        self._facts()
        self._block(kernel.body.block)
        self._add(kernel, self.program.rules.finish(kernel), falls_through=False)
        self.program.values = len(self.ids)
        _find_live(self.program, self.snapshot)
        return self.program

    # Facts

    def _facts(self) -> None:
        events, rules = self.program.events, self.program.rules
        arrivals = [op for op in self.kernel.walk() if isinstance(op, ArriveExpectTxOp | ArriveOp | CopyAsyncOp)]
        commits = {op.barrier for op in self.kernel.walk() if isinstance(op, CommitOp)}
        commits -= {op.barrier for op in arrivals if op.barrier is not None}
        waits = (op.outstanding for op in self.kernel.walk() if isinstance(op, TryWaitOp))
        rules.most_outstanding = max(waits, default=0)
        reads: set[int] = set()
        writes: set[int] = set()
        for op in self.kernel.walk():
            match op:
                case AllocOp():
                    self._check_setup(op)
                    name = _name(op.res)
                    match op.res.type:
                        case AccType():
                            events.add_accumulator(op.res, name)
                        case RingType() as ring:
                            events.add_slots(op.res, [f"{name}[{stage}]" for stage in range(ring.depth)])
                        case _:
                            events.add_slots(op.res, [name])
                case MbarrierInitOp():
                    self._check_setup(op)
                    name, depth = _name(op.res), op.res.type.depth
                    names = [name] if depth == 1 else [f"{name}[{stage}]" for stage in range(depth)]
                    events.add_signals(op.res, names, op.count, op.res in commits)
                case CopyAsyncOp() if op.dispatch != "tmem":
                    view = op.source if op.is_load else op.dest
                    if not isinstance(view, BlockArgument):
                        raise OutOfScope(op, "a view that is not an argument of the kernel")
                    (reads if op.is_load else writes).add(view.index)
                case _:
                    pass
        rules.mutable = reads & writes
        self._bounds()
        self._schedules(writes)
        self._counters()

    def _check_setup(self, op: Operation) -> None:
        if not isinstance(op.parent_op(), KernelOp | GridOp):
            raise OutOfScope(op, "storage that is set up in a loop or a condition")

    def _bounds(self) -> None:
        assumptions: dict[int, AssumeOp] = {}
        for op in self.kernel.walk():
            if isinstance(op, AssumeOp):
                key = self._extent_key(op.view, op.dimension)
                if key in assumptions:
                    raise OutOfScope(op, "two assumptions of one extent")
                assumptions[key] = op
        rulers = (op for op in self.kernel.walk() if isinstance(op, GridOp | ScheduleOp))
        # Without a tile nothing is launched.
        ruled = {self._extent_key(op.view, dimension) for op in rulers for dimension in range(len(op.step))}
        self.extents: dict[int, int] = {}
        for op in self.kernel.walk():
            if isinstance(op, DimOp):
                key = self._extent_key(op.view, op.dimension)
                assert isinstance(op.view.type, ViewType)
                size = op.view.type.dims[op.dimension]
                assumed = assumptions.get(key)
                step, multiple = (1, 1) if assumed is None else (assumed.step, assumed.multiple)
                if isinstance(size, int):
                    initial = Interval(min(size, 1), INFINITY) if self.any_extent and size else Interval(size, size)
                else:
                    initial = Interval(int(key in ruled), INFINITY)
                bound = Bound(f"extent {key}", step=step, multiple=multiple)
                self.extents[key] = self.program.machine.bound(bound, initial)

    def _extent_key(self, view: SSAValue, dimension: int) -> int:
        """The same for extents of one name."""
        if not isinstance(view, BlockArgument) or not isinstance(view.type, ViewType):
            raise OutOfScope(self.kernel, "a view that is not an argument of the kernel")
        keys: dict[str, int] = {}
        count = 0
        for place, argument in enumerate(self.kernel.body.block.args):
            assert isinstance(argument.type, ViewType)
            for dim, size in enumerate(argument.type.dims):
                key = keys.setdefault(size, count) if isinstance(size, str) else count
                if place == view.index and dim == dimension:
                    return key
                count += 1
        raise AssertionError

    def _schedules(self, writes: set[int]) -> None:
        rules = self.program.rules
        for op in self.kernel.walk():
            if isinstance(op, GridOp):
                rules.steps = op.step
            if not isinstance(op, ScheduleOp):
                continue
            assert isinstance(op.view, BlockArgument)
            if rules.turns is not None and rules.steps != op.step:
                raise OutOfScope(op, "two tile schedulers in one kernel")
            rules.turns = self.program.machine.bound(Bound("turns"), Interval(1, INFINITY))
            rules.steps = op.step
            rules.scheduled = op.view.index if op.view.index in writes else None

    def _counters(self) -> None:
        """Loop variables, and what loops carry and add a constant to."""
        self.counters: dict[SSAValue, int] = {}
        for op in self.kernel.walk():
            match op:
                case scf.ForOp():
                    step = _constant(op.step)
                    if step is None or step <= 0:
                        raise OutOfScope(op, "a loop whose step is not a positive constant")
                    if not _is_unrolled(op):
                        self._counter(op.body.block.args[0], step)
                        last = op.body.block.last_op
                        assert last is not None
                        for argument, value in zip(op.body.block.args[1:], last.operands, strict=True):
                            self._carried(argument, value)
                case scf.WhileOp():
                    last = op.after_region.block.last_op
                    assert last is not None
                    for argument, value in zip(op.before_region.block.args, last.operands, strict=True):
                        self._carried(argument, value)
                        if argument in self.counters and any(
                            isinstance(use.operation, ScheduleOp) for use in argument.uses
                        ):
                            self.program.rules.turn_counters[op] = self.counters[argument]
                case _:
                    pass

    def _carried(self, argument: BlockArgument, value: SSAValue) -> None:
        total = 0
        while value is not argument:
            owner = value.owner
            match owner:
                case arith.AddiOp() if (by := _constant(owner.rhs)) is not None:
                    value, total = owner.lhs, total + by
                case arith.SubiOp() if (by := _constant(owner.rhs)) is not None:
                    value, total = owner.lhs, total - by
                case Block() if isinstance(value, BlockArgument) and isinstance(loop := owner.parent_op(), scf.WhileOp):
                    if owner is not loop.after_region.block:
                        return
                    condition = loop.before_region.block.last_op
                    assert isinstance(condition, scf.ConditionOp)
                    value = condition.args[value.index]
                case _:
                    return
        if total > 0:
            self._counter(argument, total)

    def _counter(self, value: SSAValue, step: int) -> None:
        self.counters[value] = self.program.machine.counter(step, _modulus(value))

    # Code

    def _add(
        self,
        op: Operation,
        run: Run,
        *,
        uses: Iterable[SSAValue] = (),
        defines: Iterable[SSAValue] = (),
        falls_through: bool = True,
    ) -> Instruction:
        made = Instruction(
            op, run, tuple(self.ids[v] for v in uses), tuple(self.ids[v] for v in defines), (), falls_through
        )
        self.code.append(made)
        return made

    def _block(self, block: Block) -> None:
        for op in block.ops:
            self._operation(op)

    def _operation(self, op: Operation) -> None:
        rules, single = self.program.rules, self.single
        match op:
            case scf.ForOp():
                self._for(op)
            case scf.IfOp():
                self._if(op)
            case scf.WhileOp():
                self._while(op)
            case scf.YieldOp() | scf.ConditionOp():
                pass
            case SingleThreadOp():
                self.single = True
                self._block(op.body.block)
                self.single = single
            case GridOp():
                self._grid(op)
            case AssumeOp() | SliceOp():
                pass
            case _:
                made = self._add(op, self._simple(op, rules, single), uses=op.operands, defines=op.results)
                if isinstance(op, FenceOp) and op.kind == "after_thread_sync" and not single:
                    made.defines += (self.snapshot,)
                elif isinstance(op, MmaOp | FreeOp) or (isinstance(op, CopyAsyncOp) and op.dispatch == "tmem"):
                    made.uses += (self.snapshot,)

    def _simple(self, op: Operation, rules: Rules, single: bool) -> Run:
        match op:
            case arith.ConstantOp():
                return self._constant(op)
            case arith.CmpiOp():
                return self._compare(op)
            case arith.SelectOp():
                return self._select(op)
            case arith.IndexCastOp() | arith.ExtUIOp() | arith.ExtSIOp() | arith.TruncIOp():
                return self._move([(self.ids[op.operands[0]], self.ids[op.results[0]])])
            case DimOp():
                at, bound = self.ids[op.res], self.extents[self._extent_key(op.view, op.dimension)]
                return _setting(at, Linear(~bound, 0, 1))
            case ScheduleOp():
                return rules.schedule(op)
            case AllocOp():
                return rules.alloc(op)
            case FreeOp():
                return rules.free(op, single=single)
            case SlotOp():
                return rules.slot_of(op)
            case CopyAsyncOp():
                return self._copy(op, rules, single)
            case LoadOp() if isinstance(op.source.type, SmemType):
                return rules.tile_load(op, single=single)
            case StoreOp():
                return rules.tile_store(op, single=single)
            case MmaOp():
                return rules.mma(op, single=single)
            case CommitOp():
                return rules.commit(op, single=single)
            case MbarrierInitOp():
                return rules.initialise(op)
            case ArriveExpectTxOp():
                return rules.expect_tx(op, single=single)
            case ArriveOp():
                return rules.arrive_role(op, single=single)
            case TryWaitOp():
                return rules.wait(op, single=single)
            case CtaSyncOp():
                return rules.cta_sync(op, single=single)
            case FenceOp():
                return rules.fence(op, single=single)
            case CommitGroupOp():
                return rules.commit_group(op, single=single)
            case WaitGroupOp():
                return rules.wait_group(op, single=single)
            case WaitLdOp():
                return rules.wait_ld(op, single=single)
            case _ if type(op) in scalars.BINARY:
                return self._binary(op)
            case _ if op.results and all(isinstance(result.type, RegType) for result in op.results):
                return rules.registers(op)
            case _:
                raise OutOfScope(op, f"{op.name} is not an operation of an asynchronous kernel")

    def _copy(self, op: CopyAsyncOp, rules: Rules, single: bool) -> Run:
        if op.dispatch == "tmem":
            return rules.accumulator_load(op, single=single)
        if op.dispatch == "threads":
            return rules.copy_by_threads(op, single=single)
        return rules.load(op, single=single) if op.is_load else rules.store(op, single=single)

    # Scalars

    def _constant(self, op: arith.ConstantOp) -> Run:
        if not isinstance(op.value, IntegerAttr):
            raise OutOfScope(op, "a constant that is not an integer")
        number = op.value.value.data
        return _setting(self.ids[op.result], number & 1 if scalars.bits_of(op.result) == 1 else number)

    def _compare(self, op: arith.CmpiOp) -> Run:
        a, b, at = self.ids[op.lhs], self.ids[op.rhs], self.ids[op.result]
        machine, predicate, bits = self.program.machine, op.predicate.value.data, scalars.bits_of(op.lhs)

        def run(s: State) -> None:
            try:
                outcome = scalars.compare(machine, s, predicate, s.environment[a], s.environment[b], bits)
            except OutcomeUnknown:
                other = s.clone()
                other.environment[at] = 0
                machine.waiting.append(other)
                outcome = True
            s.environment[at] = int(outcome)

        return run

    def _binary(self, op: Operation) -> Run:
        a, b, at = self.ids[op.operands[0]], self.ids[op.operands[1]], self.ids[op.results[0]]
        machine, function = self.program.machine, scalars.BINARY[type(op)]

        def run(s: State) -> None:
            environment = s.environment
            environment[at] = function(machine, s, environment[a], environment[b])

        return run

    def _select(self, op: arith.SelectOp) -> Run:
        condition, a, b, at = (self.ids[v] for v in (op.cond, op.lhs, op.rhs, op.result))

        def run(s: State) -> None:
            environment = s.environment
            chosen = environment[condition]
            if isinstance(chosen, int):
                environment[at] = environment[a if chosen else b]
            else:
                environment[at] = UNKNOWN

        return run

    # Control flow

    def _move(self, pairs: Sequence[tuple[int, int]]) -> Run:
        """Assign all at once."""
        if len(pairs) == 1:
            ((source, dest),) = pairs

            def move_one(s: State) -> None:
                s.environment[dest] = s.environment[source]

            return move_one

        def move(s: State) -> None:
            environment = s.environment
            for dest, value in [(dest, environment[source]) for source, dest in pairs]:
                environment[dest] = value

        return move

    def _assign(self, op: Operation, sources: Sequence[SSAValue], dests: Sequence[SSAValue]) -> None:
        """A move of values in `ids`; accumulators and barriers are found through their definitions."""
        if sources:
            pairs = [(self.ids[a], self.ids[b]) for a, b in zip(sources, dests, strict=True)]
            self._add(op, self._move(pairs), uses=sources, defines=dests)

    def _jump(self, op: Operation, target: int) -> None:
        def jump(s: State) -> None:
            s.pc = target

        self._add(op, jump, falls_through=False).targets = (target,)

    def _branch(self, op: Operation, test: Callable[[State], bool], uses: Sequence[SSAValue]) -> Instruction:
        """Go on if the test holds, else to a place that the caller fills in."""
        machine = self.program.machine

        def branch(s: State) -> None:
            try:
                goes_on = test(s)
            except OutcomeUnknown:
                other = s.clone()
                other.pc = made.targets[0]
                machine.waiting.append(other)
                return
            if not goes_on:
                s.pc = made.targets[0]

        made = self._add(op, branch, uses=uses)
        return made

    def _if(self, op: scf.IfOp) -> None:
        at = self.ids[op.cond]

        def holds(s: State) -> bool:
            condition = s.environment[at]
            if not isinstance(condition, int):
                raise OutcomeUnknown
            return bool(condition)

        branch = self._branch(op, holds, [op.cond])
        self._region(op, op.true_region.block, op.output)
        if op.false_region.blocks:
            jump = len(self.code)
            self._add(op, lambda s: None, falls_through=False)
            branch.targets = (len(self.code),)
            self._region(op, op.false_region.block, op.output)
            end = len(self.code)

            def skip(s: State) -> None:
                s.pc = end

            self.code[jump].run, self.code[jump].targets = skip, (end,)
        else:
            branch.targets = (len(self.code),)

    def _region(self, op: Operation, block: Block, results: Sequence[SSAValue]) -> None:
        self._block(block)
        last = block.last_op
        if results:
            assert isinstance(last, scf.YieldOp)
            self._assign(op, last.operands, results)

    def _head(self, op: Operation, own: Sequence[int]) -> int:
        """A place where states are compared with those that were there before."""
        at = len(self.code)
        self.active = (*self.active, *own)
        self.program.heads[at] = frozenset(self.active)
        self._add(op, lambda s: None)
        return at

    def _enter(self, op: Operation, values: Sequence[SSAValue], arguments: Sequence[SSAValue]) -> list[int]:
        """Bind a loop's arguments; those that count get their counter."""
        self._assign(op, values, arguments)
        own: list[int] = []
        for argument in arguments:
            if argument in self.counters:
                own.append(self.counters[argument])
                self._start_counter(op, argument)
        return own

    def _start_counter(self, op: Operation, argument: SSAValue) -> None:
        machine, counter, at = self.program.machine, self.counters[argument], self.ids[argument]

        def enter(s: State) -> None:
            s.environment[at] = machine.enter(s, counter, s.environment[at])

        self._add(op, enter, uses=[argument], defines=[argument])

    def _again(self, op: Operation, values: Sequence[SSAValue], arguments: Sequence[SSAValue], head: int) -> None:
        """The next iteration: what is carried becomes the arguments, and counters advance."""
        self._assign(op, values, arguments)
        machine, live = self.program.machine, self.program.live
        for argument in arguments:
            if argument in self.counters:
                counter, at = self.counters[argument], self.ids[argument]

                def advance(s: State, counter: int = counter, at: int = at) -> None:
                    value = s.environment[at]
                    assert isinstance(value, Linear)
                    machine.advance(s, counter, value.offset, live[head])
                    s.environment[at] = Linear(counter, 0, 1)

                self._add(op, advance, uses=[argument], defines=[argument])

    def _for(self, op: scf.ForOp) -> None:
        body, outside = op.body.block, self.active
        variable, *carried = body.args
        last = body.last_op
        assert isinstance(last, scf.YieldOp)
        step = _constant(op.step)
        assert step is not None
        machine, at, end = self.program.machine, self.ids[variable], self.ids[op.ub]
        self._assign(op, [op.lb, *op.iter_args], [variable, *carried])
        if variable in self.counters:
            own = [self.counters[argument] for argument in body.args if argument in self.counters]
            for argument in body.args:
                if argument in self.counters:
                    self._start_counter(op, argument)
            head = self._head(op, own)
        else:
            head = len(self.code)
        test = self._branch(op, lambda s: machine.below(s, s.environment[at], s.environment[end]), [variable, op.ub])
        self._block(body)

        def count(s: State) -> None:
            value = s.environment[at]
            assert isinstance(value, int | Linear)
            s.environment[at] = value + step if isinstance(value, int) else value._replace(offset=value.offset + step)

        self._add(op, count, uses=[variable], defines=[variable])
        self._again(op, [variable, *last.operands], [variable, *carried], head)
        self._jump(op, head)
        test.targets = (len(self.code),)
        self._assign(op, carried, op.res)
        self.active = outside

    def _while(self, op: scf.WhileOp) -> None:
        before, after, outside = op.before_region.block, op.after_region.block, self.active
        condition, last = before.last_op, after.last_op
        assert isinstance(condition, scf.ConditionOp) and isinstance(last, scf.YieldOp)
        self._check_progress(op)
        own = self._enter(op, op.arguments, before.args)
        head = self._head(op, own)
        self._block(before)
        self._assign(op, condition.args, after.args)
        at = self.ids[condition.condition]

        def holds(s: State) -> bool:
            value = s.environment[at]
            if not isinstance(value, int):
                raise OutcomeUnknown
            return bool(value)

        test = self._branch(op, holds, [condition.condition, *condition.args])
        self._block(after)
        self._again(op, last.operands, before.args, head)
        self._jump(op, head)
        test.targets = (len(self.code),)
        self._assign(op, condition.args, op.res)
        self.active = outside

    def _check_progress(self, op: scf.WhileOp) -> None:
        """A loop whose condition depends on nothing that counts is not known to end; one that stays at its turn never does."""
        condition = op.before_region.block.last_op
        assert isinstance(condition, scf.ConditionOp)
        pending, seen = [condition.condition], set[SSAValue]()
        while pending:
            value = pending.pop()
            if value in self.counters:
                return
            if value not in seen and isinstance(value.owner, Operation):
                seen.add(value)
                pending += value.owner.operands
        schedules = [one for one in op.before_region.block.ops if isinstance(one, ScheduleOp) and one.valid in seen]
        if not schedules:
            raise OutOfScope(op, "a loop of which it is not known that it ends")
        self._add(op, broken(schedules[0], "the turn does not advance: this loop visits the same tile for ever"))

    def _grid(self, op: GridOp) -> None:
        places = [self.ids[argument] for argument in op.body.block.args]

        def place(s: State) -> None:
            for dimension, at in enumerate(places):
                s.environment[at] = Coordinate(None, dimension, 0)

        self._add(op, place, defines=op.body.block.args)
        self._block(op.body.block)


def _setting(at: int, value: Value) -> Run:
    def run(s: State) -> None:
        s.environment[at] = value

    return run


def _name(value: SSAValue) -> str:
    return f"%{value.name_hint}" if value.name_hint else "the value"


def _constant(value: SSAValue) -> int | None:
    owner = value.owner
    if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, IntegerAttr):
        return owner.value.value.data
    return None


def _is_unrolled(op: scf.ForOp) -> bool:
    low, high, step = _constant(op.lb), _constant(op.ub), _constant(op.step)
    return low is not None and high is not None and step is not None and high - low <= step * _UNROLLED


def _modulus(counter: SSAValue) -> int:
    """The modulus of the residues that the kernel computes from a counter."""
    residues, divisors = {1}, {1}
    pending, seen = [counter], set[SSAValue]()
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        for use in value.uses:
            op = use.operation
            constant = _constant(op.operands[1]) if len(op.operands) == 2 and use.index == 0 else None
            match op:
                case arith.RemUIOp() if constant:
                    residues.add(constant)
                case arith.AndIOp() if constant:
                    residues.add(constant + 1)
                case arith.DivUIOp() if constant:
                    divisors.add(constant)
                    pending += op.results
                case arith.ShRUIOp() if constant:
                    divisors.add(1 << constant)
                    pending += op.results
                case arith.AddiOp() | arith.SubiOp() | arith.MuliOp() | arith.IndexCastOp():
                    pending += op.results
                case _:
                    pass
    modulus = lcm(*residues) * reduce(lambda a, b: a * b, divisors)
    return modulus if modulus <= _MOST_RESIDUES else 1


def _find_live(program: Program, snapshot: int) -> None:
    """Which values are read at or after each head, before they are written again."""
    code = program.code
    uses = [sum({1 << v for v in one.uses}) for one in code]
    keeps = [~sum({1 << v for v in one.defines}) for one in code]
    live = [0] * (len(code) + 1)
    changed = True
    while changed:
        changed = False
        for at in range(len(code) - 1, -1, -1):
            one = code[at]
            after = live[at + 1] if one.falls_through else 0
            for target in one.targets:
                after |= live[target]
            now = uses[at] | after & keeps[at]
            if now != live[at]:
                live[at], changed = now, True
    for head in program.heads:
        program.live[head] = tuple(v for v in range(program.values) if live[head] >> v & 1)
        if not live[head] >> snapshot & 1:
            program.fenced.add(head)
