"""Facts of a kernel that its rules ask for: its events, bounds, counters and scheduler."""

from __future__ import annotations

from functools import reduce
from math import lcm

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from tilec.backend.protocol.events import Events
from tilec.backend.protocol.machine import Machine, OutOfScope
from tilec.backend.protocol.regions import Tiles
from tilec.backend.protocol.rules.context import Context
from tilec.backend.protocol.values import INFINITY, Bound, Interval
from tilec.dialects.tile import (
    AccType,
    AllocOp,
    ArriveExpectTxOp,
    ArriveOp,
    AssumeOp,
    CommitOp,
    CopyAsyncOp,
    DimOp,
    GridOp,
    KernelOp,
    MbarrierInitOp,
    RingType,
    ScheduleOp,
    TryWaitOp,
    ViewType,
)

_UNROLLED = 64
"""Iterations up to which a loop with constant bounds is followed number by number."""
_MOST_RESIDUES = 4096


class Facts:
    """What is found out before a kernel is flattened; with `any_extent` static extents stand for all that there are."""

    def __init__(self, kernel: KernelOp, any_extent: bool):
        self.kernel = kernel
        self.any_extent = any_extent
        ids: dict[SSAValue, int] = {}
        for block in (b for op in kernel.walk() for region in op.regions for b in region.blocks):
            for value in (*block.args, *(result for op in block.ops for result in op.results)):
                ids[value] = len(ids)
        self.context = Context(Machine(), Events(), ids)
        self.extents: dict[int, int] = {}
        """By the place of a dimension among those of all views, the number of its bound."""
        self.counters: dict[SSAValue, int] = {}
        """Loop variables, and what loops carry and add a constant to."""
        self._find()

    def _find(self) -> None:
        events, rules = self.context.events, self.context
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
        self._check_views(writes)
        self._bounds()
        self._schedules(writes)
        self._counters()

    def _check_views(self, writes: set[int]) -> None:
        """Copies of one view by threads and by TMA need fences of another kind than those that a kernel has."""
        by: dict[int, set[str]] = {}
        for op in self.kernel.walk():
            if isinstance(op, CopyAsyncOp) and op.dispatch != "tmem":
                view = op.source if op.is_load else op.dest
                assert isinstance(view, BlockArgument)
                by.setdefault(view.index, set()).add(op.dispatch)
                if view.index in writes and len(by[view.index]) > 1:
                    raise OutOfScope(op, "a view that is written, and that both threads and TMA copy")

    def _check_setup(self, op: Operation) -> None:
        if not isinstance(op.parent_op(), KernelOp | GridOp):
            raise OutOfScope(op, "storage that is set up in a loop or a condition")

    def _bounds(self) -> None:
        assumptions: dict[int, AssumeOp] = {}
        for op in self.kernel.walk():
            if isinstance(op, AssumeOp):
                key = self.extent_key(op.view, op.dimension)
                if key in assumptions:
                    raise OutOfScope(op, "two assumptions of one extent")
                assumptions[key] = op
        rulers = (op for op in self.kernel.walk() if isinstance(op, GridOp | ScheduleOp))
        # Without a tile nothing is launched.
        ruled = {self.extent_key(op.view, dimension) for op in rulers for dimension in range(len(op.step))}
        for op in self.kernel.walk():
            if isinstance(op, DimOp):
                key = self.extent_key(op.view, op.dimension)
                assert isinstance(op.view.type, ViewType)
                size = op.view.type.dims[op.dimension]
                assumed = assumptions.get(key)
                step, multiple = (1, 1) if assumed is None else (assumed.step, assumed.multiple)
                if isinstance(size, int):
                    initial = Interval(min(size, 1), INFINITY) if self.any_extent and size else Interval(size, size)
                else:
                    initial = Interval(int(key in ruled), INFINITY)
                bound = Bound(f"extent {key}", step=step, multiple=multiple)
                self.extents[key] = self.context.machine.bound(bound, initial)

    def extent_key(self, view: SSAValue, dimension: int) -> int:
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
        context = self.context
        for op in self.kernel.walk():
            if not isinstance(op, GridOp | ScheduleOp):
                continue
            assert isinstance(op.view, BlockArgument) and isinstance(op.view.type, ViewType)
            sizes = enumerate(zip(op.view.type.dims, op.step, strict=True))
            several = frozenset(d for d, (size, step) in sizes if not isinstance(size, int) or size > step)
            sizes = zip(op.view.type.dims, op.step, strict=True)
            shape = tuple(min(size, step) if isinstance(size, int) else step for size, step in sizes)
            group = op.group if isinstance(op, ScheduleOp) else 0
            tiles = Tiles(op.view.index, op.step, shape, several, group)
            if context.tiles not in (Tiles(), tiles):
                raise OutOfScope(op, "two tile schedulers in one kernel")
            context.tiles = tiles
            if isinstance(op, ScheduleOp):
                context.turns = context.machine.bound(Bound("turns"), Interval(1, INFINITY if several else 1))
                context.scheduled = op.view.index if op.view.index in writes else None

    def _counters(self) -> None:
        """Loop variables, and what loops carry and add a constant to."""
        for op in self.kernel.walk():
            match op:
                case scf.ForOp():
                    step = constant_of(op.step)
                    if step is None or step <= 0:
                        raise OutOfScope(op, "a loop whose step is not a positive constant")
                    if not is_unrolled(op):
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
                            self.context.turn_counters[op] = self.counters[argument]
                case _:
                    pass

    def _carried(self, argument: BlockArgument, value: SSAValue) -> None:
        total = 0
        while value is not argument:
            owner = value.owner
            match owner:
                case arith.AddiOp() if (by := constant_of(owner.rhs)) is not None:
                    value, total = owner.lhs, total + by
                case arith.SubiOp() if (by := constant_of(owner.rhs)) is not None:
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
        self.counters[value] = self.context.machine.counter(step, _modulus(value))


def _name(value: SSAValue) -> str:
    return f"%{value.name_hint}" if value.name_hint else "the value"


def constant_of(value: SSAValue) -> int | None:
    owner = value.owner
    if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, IntegerAttr):
        return owner.value.value.data
    return None


def is_unrolled(op: scf.ForOp) -> bool:
    low, high, step = constant_of(op.lb), constant_of(op.ub), constant_of(op.step)
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
            constant = constant_of(op.operands[1]) if len(op.operands) == 2 and use.index == 0 else None
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
