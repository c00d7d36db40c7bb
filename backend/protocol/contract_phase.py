"""Where the phase of a wait comes from, in words: what flips it, and what becomes of it at the next output tile."""

from __future__ import annotations

from xdsl.dialects import arith, scf
from xdsl.ir import BlockArgument, OpResult, SSAValue

from tilec.backend.protocol.contract_walk import constant, line_of
from tilec.dialects.tile import ScheduleOp

_Loop = scf.ForOp | scf.WhileOp


def describe_phase(phase: SSAValue) -> str:
    """``flips when stage wraps; carried from tile to tile, from 0``."""
    if (number := constant(phase)) is not None:
        return f"always {number}"
    base = _carried(phase)
    if base is None:
        return f"computed in line {line_of(phase)}"
    words: list[str] = [] if base is phase else ["the slot before"]
    while True:
        loop = _loop_of(base)
        assert loop is not None
        start, end = _ends(base, loop)
        change = _change(base, end)
        if change is not None:
            words.append(change)
        elif words:
            words.append(f"carried from {_turn(loop)} to {_turn(loop)}")
        outer = _carried(start)
        if outer is None:
            return "; ".join([*words, _begin(start, loop)])
        base = outer


def _carried(value: SSAValue) -> BlockArgument | None:
    """The loop-carried value that `value` is, or is computed from without another loop in between."""
    if isinstance(value, BlockArgument):
        return value if _loop_of(value) is not None else None
    op = value.owner
    match op:
        case arith.XOrIOp():
            parts = [op.lhs, op.rhs]
        case arith.SelectOp():
            parts = [op.lhs, op.rhs]
        case scf.ForOp():
            # What a loop leaves: for the words it is what the loop goes round with.
            assert isinstance(value, OpResult)
            return op.body.block.args[1 + value.index]
        case _:
            return None
    return next((found for part in parts if (found := _carried(part)) is not None), None)


def _loop_of(value: BlockArgument) -> _Loop | None:
    parent = value.owner.parent_op()
    if isinstance(parent, scf.ForOp) and value.index > 0:
        return parent
    return parent if isinstance(parent, scf.WhileOp) else None


def _ends(value: BlockArgument, loop: _Loop) -> tuple[SSAValue, SSAValue]:
    """What a carried value starts as, and what the next turn gets."""
    last = value.owner.last_op
    match loop:
        case scf.ForOp():
            assert last is not None
            return loop.iter_args[value.index - 1], last.operands[value.index - 1]
        case scf.WhileOp():
            index = value.index
            before, after = loop.before_region.block, loop.after_region.block
            condition, again = before.last_op, after.last_op
            assert isinstance(condition, scf.ConditionOp) and again is not None
            if value.owner is after:  # the loop's condition hands its own arguments on
                passed = condition.args[index]
                index = passed.index if isinstance(passed, BlockArgument) and passed.owner is before else index
            return loop.arguments[index], again.operands[index]


def _change(value: BlockArgument, end: SSAValue) -> str | None:
    """What one turn does to a carried value."""
    op = end.owner
    if end is value:
        return None
    if isinstance(op, arith.XOrIOp):
        return "flips every turn"
    if isinstance(op, arith.SelectOp):
        return f"flips when {_wrapping(op.cond)} wraps"
    return None


def _wrapping(condition: SSAValue) -> str:
    """The stage that a condition compares with the last one."""
    if isinstance(condition.owner, arith.CmpiOp):
        for operand in condition.owner.operands:
            if constant(operand) is None and operand.name_hint:
                return operand.name_hint.rstrip("0123456789").rstrip("_")
    return "the ring"


def _turn(loop: _Loop) -> str:
    """What a turn of a loop is called."""
    return "tile" if any(isinstance(op, ScheduleOp) for op in loop.walk()) else "turn"


def _begin(start: SSAValue, loop: _Loop) -> str:
    number = constant(start)
    begin = "a computed value" if number is None else str(number)
    parent = loop.parent_op()
    while parent is not None and not isinstance(parent, _Loop):
        parent = parent.parent_op()
    return f"from {begin}" if parent is None else f"reset to {begin} at each {_turn(parent)} (line {line_of(loop)})"
