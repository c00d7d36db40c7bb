"""What an index is certainly a multiple of: TMA and vector accesses need their coordinates on a grid."""

from __future__ import annotations

from math import gcd

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import BlockArgument, OpResult, SSAValue

from tilec.dialects.tile import ForOp, GridOp, ScheduleOp


def divisor(value: SSAValue) -> int:
    """The largest number known to divide `value`; 0 for the constant zero (everything divides it)."""
    return _Search().of(value)


def divides(unit: int, value: SSAValue) -> bool:
    """Whether `value` is certainly a multiple of `unit`."""
    return divisor(value) % unit == 0


class _Search:
    """Follows values backwards. A value met again in its own definition adds nothing: 0, which every number divides."""

    def __init__(self) -> None:
        self._open: set[SSAValue] = set()

    def of(self, value: SSAValue) -> int:
        if value in self._open:
            return 0
        self._open.add(value)
        found = self._result(value) if isinstance(value, OpResult) else self._argument(value)
        self._open.remove(value)
        return found

    def _all(self, *values: SSAValue) -> int:
        return gcd(*(self.of(value) for value in values))

    def _result(self, value: OpResult) -> int:
        match value.op:
            case arith.ConstantOp(value=IntegerAttr() as attr):
                return abs(attr.value.data)
            case arith.AddiOp() | arith.SubiOp() | arith.SelectOp():
                return self._all(value.op.lhs, value.op.rhs)
            case arith.MuliOp():
                return self.of(value.op.lhs) * self.of(value.op.rhs)
            case ScheduleOp():
                return value.op.step[value.index - 1] if value.index else 1
            case scf.ForOp() as loop:
                return self.of(loop.body.block.args[1 + value.index])
            case scf.WhileOp() as loop:
                return self.of(loop.after_region.block.args[value.index])
            case scf.IfOp() as choice:
                ends = [region.block.last_op for region in choice.regions]
                return self._all(*(end.operands[value.index] for end in ends if end is not None))
            case _:
                return 1

    def _argument(self, value: SSAValue) -> int:
        assert isinstance(value, BlockArgument)
        place, block = value.index, value.block
        end = block.last_op
        match block.parent_op():
            case GridOp() as grid:
                return grid.step[place]
            case ForOp() as loop:
                return loop.step if place == 0 else 1
            case scf.ForOp() as loop if place == 0:
                return self._all(loop.lb, loop.step)
            case scf.ForOp() as loop if end is not None:
                return self._all(loop.iter_args[place - 1], end.operands[place - 1])
            case scf.WhileOp() as loop if block is loop.before_region.block:
                back = loop.after_region.block.last_op
                assert back is not None
                return self._all(loop.arguments[place], back.operands[place])
            case scf.WhileOp() as loop:
                test = loop.before_region.block.last_op
                assert isinstance(test, scf.ConditionOp)
                return self.of(test.args[place])
            case _:
                return 1
