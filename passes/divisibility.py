"""What an index is certainly a multiple of: TMA and vector accesses need their coordinates on a grid."""

from __future__ import annotations

from math import gcd

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, BlockArgument, OpResult, SSAValue

from tilec.dialects.tile import ForOp, GridOp, ScheduleOp


def divisor(value: SSAValue) -> int:
    """The largest number known to divide `value`; 0 for the constant zero (everything divides it)."""
    if isinstance(value, OpResult):
        return _of_result(value)
    assert isinstance(value, BlockArgument)
    return _of_argument(value.block, value.index)


def divides(unit: int, value: SSAValue) -> bool:
    """Whether `value` is certainly a multiple of `unit`."""
    return divisor(value) % unit == 0


def _of_result(value: OpResult) -> int:
    match value.op:
        case arith.ConstantOp(value=IntegerAttr() as attr):
            return abs(attr.value.data)
        case arith.AddiOp() | arith.SubiOp():
            return gcd(divisor(value.op.lhs), divisor(value.op.rhs))
        case arith.MuliOp():
            return divisor(value.op.lhs) * divisor(value.op.rhs)
        case arith.SelectOp():
            return gcd(divisor(value.op.lhs), divisor(value.op.rhs))
        case ScheduleOp():
            return value.op.step[value.index - 1] if value.index else 1
        case _:
            return 1


def _of_argument(block: Block, index: int) -> int:
    match block.parent_op():
        case GridOp() as grid:
            return grid.step[index]
        case ForOp() as loop:
            return loop.step if index == 0 else 1
        case scf.ForOp() as loop:
            return gcd(divisor(loop.lb), divisor(loop.step)) if index == 0 else 1
        case _:
            return 1
