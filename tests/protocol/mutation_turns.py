"""Mistakes between the tiles of a persistent kernel: what is carried, and which tile is next."""

from __future__ import annotations

from collections.abc import Callable

from mutation_anatomy import Anatomy, Sites, body_of, scope_of, yield_of
from mutation_edits import index
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import i32
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from tilec.dialects.tile import ScheduleOp, SlotOp
from tilec.passes.builder import LocatedBuilder


def turns(a: Anatomy) -> Sites:
    return [] if a.turns is None else [("", a.turns)]


def reset_phases(a: Anatomy, op: Operation) -> None:
    assert isinstance(op, scf.WhileOp)
    end = yield_of(op)
    for place, start in enumerate(op.arguments):
        if start.type == i32:
            end.operands[place] = start


def _stage_result(a: Anatomy) -> OpResult | None:
    """The stage that the loop over K leaves behind."""
    if a.k_loop is None:
        return None
    for result, argument in zip(a.k_loop.results, a.k_loop.body.block.args[1:], strict=True):
        if any(isinstance(use.operation, SlotOp) for use in argument.uses):
            return result
    return None


def turns_with_stages(a: Anatomy) -> Sites:
    return [] if _stage_result(a) is None else turns(a)


def reset_stage_and_phases(a: Anatomy, op: Operation) -> None:
    reset_phases(a, op)
    stage = _stage_result(a)
    assert stage is not None
    first = index(LocatedBuilder.before(op), 0)
    for use in list(stage.uses):
        if isinstance(use.operation, scf.ForOp | scf.YieldOp):
            use.operation.operands[use.index] = first


def _increment(a: Anatomy) -> arith.AddiOp:
    """What makes the next turn."""
    assert a.turns is not None
    ruler = next(op for op in a.turns.before_region.block.ops if isinstance(op, ScheduleOp))
    assert isinstance(ruler.turn, BlockArgument)
    added = yield_of(a.turns).operands[ruler.turn.index].owner
    assert isinstance(added, arith.AddiOp)
    return added


def stride(turns: int) -> Callable[[Anatomy, Operation], None]:
    def apply(a: Anatomy, op: Operation) -> None:
        added = _increment(a)
        added.operands[1] = index(LocatedBuilder.before(added), turns)

    return apply


def start_at_one(a: Anatomy, op: Operation) -> None:
    assert isinstance(op, scf.WhileOp)
    ruler = next(inside for inside in op.before_region.block.ops if isinstance(inside, ScheduleOp))
    assert isinstance(ruler.turn, BlockArgument)
    for one in a.schedules():
        if not a.in_turns(one):
            one.operands[0] = index(LocatedBuilder.before(one), 1)
    op.operands[ruler.turn.index] = index(LocatedBuilder.before(op), 1)


def loads_of_turns(a: Anatomy) -> Sites:
    if a.turns is None:
        return []
    ahead: Sites = [
        ("next tile's prologue", op) for op in a.announcements if a.issue_label(op) == "next tile's prologue"
    ]
    return ahead or [("the tile's own loads", a.turns)]


def old_coordinates(a: Anatomy, op: Operation) -> None:
    """Loads ahead of the next tile take this tile's offsets; where there are none, each tile's loads take the first's."""
    assert a.turns is not None
    body = body_of(a.turns)
    old: dict[SSAValue, SSAValue]
    if not isinstance(op, scf.WhileOp):
        old = {value: body.args[place] for place, value in enumerate(yield_of(a.turns).operands)}
        scope = scope_of(op)
        assert scope is not None
        loads = [load for load in a.loads if scope.is_ancestor(load)]
    else:
        ruler = next(inside for inside in body.ops if isinstance(inside, ScheduleOp))
        at = LocatedBuilder.before(ruler)
        first = at.add(ScheduleOp(index(at, 0), ruler.view, ruler.step, ruler.group))
        old = {value: other for value, other in zip(ruler.offsets, first.offsets, strict=True)}
        loads = a.loads
    for load in loads:
        for place, operand in enumerate(load.operands):
            if operand in old:
                load.operands[place] = old[operand]
