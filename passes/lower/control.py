"""Scalars, structured control flow, assumptions and the tile scheduler."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from xdsl.dialects import arith, llvm, scf
from xdsl.dialects.builtin import IndexType, IntegerAttr, i1, i32
from xdsl.ir import Attribute, Block, Operation, SSAValue

from tilec.backend.abi import Assumption, GridRule
from tilec.diagnostics import fail
from tilec.dialects import nvvm
from tilec.dialects.tile import AssumeOp, DimOp, GridOp, RegType, ScheduleOp, SingleThreadOp
from tilec.passes.divisibility import divisor
from tilec.passes.lower.emit import Emitter
from tilec.passes.lower.fragment import Fragment, word_type
from tilec.passes.lower.kernel import KernelLowering, RegTile

GRID_GROUP = 8
"""Tile rows that a plain grid visits together, for its CTAs to share operands in L2."""

_SCALARS = (IndexType(), i32, i1)
"""Types of scalars: an index is 32 bits wide, as TMA coordinates are."""

LowerBlock = Callable[[Block], None]
"""Lowers the operations of a block in place, up to its terminator."""

_ARITHMETIC: dict[type[Operation], Callable[[Emitter, SSAValue, SSAValue], SSAValue]] = {
    arith.AddiOp: Emitter.plus,
    arith.SubiOp: Emitter.minus,
    arith.MuliOp: Emitter.times,
    arith.DivUIOp: Emitter.divided,
    arith.RemUIOp: Emitter.modulo,
    arith.AndIOp: Emitter.bits_and,
    arith.OrIOp: Emitter.bits_or,
    arith.XOrIOp: Emitter.bits_xor,
    arith.ShLIOp: Emitter.shifted_left,
    arith.ShRUIOp: Emitter.shifted_right,
    arith.MinUIOp: Emitter.minimum,
}
ARITHMETIC = tuple(_ARITHMETIC)


def check_scalars(op: Operation) -> None:
    """Refuse scalars of other types: they would be cut to 32 bits."""
    for value in (*op.operands, *op.results):
        if value.type not in _SCALARS:
            fail(op, f"a scalar of type {value.type}: kernels compute with index, i32 and i1")


def lower_constant(k: KernelLowering, op: arith.ConstantOp) -> None:
    check_scalars(op)
    assert isinstance(op.value, IntegerAttr)
    number = op.value.value.data
    if not -(1 << 31) <= number < 1 << 31:
        fail(op, f"the constant {number} does not fit into 32 bits")
    if op.result.type == i1:
        k.values[op.result] = k.e.boolean(bool(number))
    else:
        k.values[op.result] = k.e.int32(number)


def lower_arithmetic(k: KernelLowering, op: Operation) -> None:
    check_scalars(op)
    compute = _ARITHMETIC[type(op)]
    k.values[op.results[0]] = compute(k.e, k.scalar(op.operands[0]), k.scalar(op.operands[1]))


def lower_ceil_divide(k: KernelLowering, op: arith.CeilDivUIOp) -> None:
    check_scalars(op)
    k.values[op.result] = k.e.ceil_divided(k.scalar(op.lhs), k.scalar(op.rhs))


def lower_compare(k: KernelLowering, op: arith.CmpiOp) -> None:
    check_scalars(op)
    flag = llvm.ICmpPredicateFlag.from_int(op.predicate.value.data)
    k.values[op.result] = k.e.compare(flag.value, k.scalar(op.lhs), k.scalar(op.rhs))


def lower_select(k: KernelLowering, op: arith.SelectOp) -> None:
    check_scalars(op)
    k.values[op.result] = k.e.select(k.scalar(op.cond), k.scalar(op.lhs), k.scalar(op.rhs))


def lower_index_cast(k: KernelLowering, op: arith.IndexCastOp) -> None:
    """Between index and i32 nothing changes; i1 counts as a signed bit."""
    check_scalars(op)
    value = k.scalar(op.input)
    if op.result.type == i1:
        k.values[op.result] = value if value.type == i1 else k.e.truncated(value, i1)
    else:
        k.values[op.result] = k.e.sign_extended(value)


def lower_extend(k: KernelLowering, op: arith.ExtUIOp) -> None:
    check_scalars(op)
    k.values[op.result] = k.e.extended(k.scalar(op.input), i32)


def _counts_up(op: scf.ForOp) -> bool:
    """Whether the counter is never negative: then it may be compared unsigned, and its last step may pass 2^31."""

    def natural(value: SSAValue) -> bool:
        owner = value.owner
        if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, IntegerAttr):
            return owner.value.value.data >= 0
        return isinstance(owner, DimOp)

    return natural(op.lb) and natural(op.ub)


class Flow:
    """Lowers regions. A scalar that crosses blocks is one block argument, a register tile one per register."""

    def __init__(self, k: KernelLowering, fragment: Fragment, lower_block: LowerBlock):
        self.k = k
        self.fragment = fragment
        self.lower_block = lower_block

    def _types(self, values: Iterable[SSAValue]) -> list[Attribute]:
        types: list[Attribute] = []
        for value in values:
            if isinstance(value.type, RegType):
                types += [word_type(value.type)] * self.fragment.words(value.type)
            elif value.type not in _SCALARS:
                fail(value, f"a value of type {value.type} cannot be carried: scalars and register tiles can")
            else:
                types.append(i1 if value.type == i1 else i32)
        return types

    def _flat(self, values: Iterable[SSAValue]) -> list[SSAValue]:
        flat: list[SSAValue] = []
        for value in values:
            if isinstance(value.type, RegType):
                flat += self.k.reg(value).words
            else:
                flat.append(self.k.scalar(value))
        return flat

    def _bind(self, values: Iterable[SSAValue], flat: Sequence[SSAValue]) -> None:
        at = 0
        for value in values:
            if isinstance(value.type, RegType):
                count = self.fragment.words(value.type)
                self.k.values[value] = RegTile(tuple(flat[at : at + count]))
            else:
                count = 1
                self.k.values[value] = flat[at]
            at += count

    def _terminator(self, block: Block) -> Operation:
        last = block.last_op
        assert last is not None
        return last

    def for_(self, op: scf.ForOp) -> None:
        k, e = self.k, self.k.e
        body = op.body.block
        carried = body.args[1:]
        head = e.new_block(i32, *self._types(carried))
        inside, after = e.new_block(), e.new_block()
        if isinstance(op.step.owner, arith.ConstantOp) and divisor(op.step) == 0:
            fail(op, "a loop whose step is 0 never ends")
        end, step = k.scalar(op.ub), k.scalar(op.step)
        below = "ult" if _counts_up(op) else "slt"
        e.branch(head, k.scalar(op.lb), *self._flat(op.iter_args))
        e.at(head)
        k.values[body.args[0]] = head.args[0]
        self._bind(carried, head.args[1:])
        self._bind(op.res, head.args[1:])
        e.branch_if(e.compare(below, head.args[0], end), inside, after)
        e.at(inside)
        self.lower_block(body)
        yielded = self._flat(self._terminator(body).operands)
        e.branch(head, e.plus(head.args[0], step), *yielded)
        e.at(after)

    def if_(self, op: scf.IfOp) -> None:
        e = self.k.e
        then, after = e.new_block(), e.new_block(*self._types(op.output))
        otherwise = e.new_block() if op.false_region.blocks else after
        e.branch_if(self.k.scalar(op.cond), then, otherwise)
        for block, region in ((then, op.true_region), (otherwise, op.false_region)):
            if region.blocks:
                e.at(block)
                self.lower_block(region.block)
                last = region.block.last_op
                yielded = last.operands if isinstance(last, scf.YieldOp) else ()
                e.branch(after, *self._flat(yielded))
        e.at(after)
        self._bind(op.output, after.args)

    def while_(self, op: scf.WhileOp) -> None:
        e = self.k.e
        before, body = op.before_region.block, op.after_region.block
        head = e.new_block(*self._types(before.args))
        inside, after = e.new_block(), e.new_block()
        e.branch(head, *self._flat(op.arguments))
        e.at(head)
        self._bind(before.args, head.args)
        self.lower_block(before)
        condition = self._terminator(before)
        assert isinstance(condition, scf.ConditionOp)
        passed = self._flat(condition.args)
        self._bind(body.args, passed)
        self._bind(op.res, passed)
        e.branch_if(self.k.scalar(condition.condition), inside, after)
        e.at(inside)
        self.lower_block(body)
        e.branch(head, *self._flat(self._terminator(body).operands))
        e.at(after)

    def single_thread(self, op: SingleThreadOp) -> None:
        k = self.k

        def body() -> None:
            outside, k.in_single_thread = k.in_single_thread, True
            self.lower_block(op.body.block)
            k.in_single_thread = outside

        k.by_first_thread(body)

    def grid(self, op: GridOp) -> None:
        """One CTA a tile: the CTA's number is its tile's."""
        k = self.k
        k.set_grid(op, GridRule(k.view(op.view).index, op.step, persistent=False))
        tile = k.once("cta", lambda: k.e.add(nvvm.BlockIdXOp()).res)
        offsets = _tile_offsets(k, op.view, op.step, GRID_GROUP, tile)
        self._bind(op.body.block.args, offsets)
        self.lower_block(op.body.block)


def lower_dim(k: KernelLowering, op: DimOp) -> None:
    k.values[op.res] = k.extent(k.view(op.view), op.dimension)


def lower_assume(k: KernelLowering, op: AssumeOp) -> None:
    """The launch checks it: the kernel itself does nothing."""
    k.assumptions.append(Assumption(k.view(op.view).index, op.dimension, op.step, op.multiple))


def lower_schedule(k: KernelLowering, op: ScheduleOp) -> None:
    e = k.e
    k.set_grid(op, GridRule(k.view(op.view).index, op.step, persistent=True))
    cta = k.once("cta", lambda: e.add(nvvm.BlockIdXOp()).res)
    ctas = k.once("ctas", lambda: e.add(nvvm.GridDimXOp()).res)
    tile = e.plus(cta, e.times(k.scalar(op.turn), ctas))
    counts = _tile_counts(k, op.view, op.step)
    total = counts[0]
    for count in counts[1:]:
        total = e.times(total, count)
    k.values[op.valid] = e.compare("ult", tile, total)
    for value, offset in zip(op.offsets, _tile_offsets(k, op.view, op.step, op.group, tile), strict=True):
        k.values[value] = offset


def _tile_counts(k: KernelLowering, view: SSAValue, steps: Sequence[int]) -> list[SSAValue]:
    lowered = k.view(view)
    return [
        k.once(f"tiles {lowered.index} {dim} {step}", lambda d=dim, s=step: k.e.ceil_divided(k.extent(lowered, d), s))
        for dim, step in enumerate(steps)
    ]


def _tile_offsets(
    k: KernelLowering, view: SSAValue, steps: Sequence[int], group: int, tile: SSAValue
) -> list[SSAValue]:
    """Element offsets of tile number `tile`: along M inside groups of `group` tile rows, the last group as it is left."""
    e = k.e
    counts = _tile_counts(k, view, steps)
    if len(steps) == 1:
        return [e.times(tile, steps[0])]
    rows, columns = counts
    name = f"{k.view(view).index} {steps} {group}"
    group_rows = k.once(f"rows of a group {name}", lambda: e.minimum(rows, group))
    per_group = k.once(f"tiles of a group {name}", lambda: e.times(columns, group_rows))
    first = e.times(e.divided(tile, per_group), group_rows)
    inside = e.modulo(tile, per_group)
    left = e.minus(rows, first)
    # Past the last tile nothing is left; its place is computed all the same, and must not be divided by 0.
    height = e.minimum(e.select(e.compare("eq", left, 0), 1, left), group_rows)
    m = e.plus(first, e.modulo(inside, height))
    n = e.divided(inside, height)
    return [e.times(m, steps[0]), e.times(n, steps[1])]
