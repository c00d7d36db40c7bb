"""Mistakes with loads: byte budgets, who issues them and when, and where they go."""

from __future__ import annotations

from collections.abc import Callable

from mutation_anatomy import Anatomy, Sites, after, holds, parent_of, ring_depth, scope_of
from mutation_edits import index, inline, move_ahead, move_behind, next_stage
from xdsl.dialects import scf
from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from tilec.dialects.tile import ArriveExpectTxOp, CopyAsyncOp, MmaOp, SlotOp, SmemType
from tilec.passes.builder import LocatedBuilder, constant


def announcements(a: Anatomy) -> Sites:
    return [(a.issue_label(op), op) for op in a.announcements]


def budget(change: Callable[[int], int]) -> Callable[[Anatomy, Operation], None]:
    def apply(a: Anatomy, op: Operation) -> None:
        assert isinstance(op, ArriveExpectTxOp)
        op.properties["bytes"] = IntegerAttr(change(op.bytes), i64)

    return apply


def inline_scope(a: Anatomy, op: Operation) -> None:
    scope = scope_of(op)
    assert scope is not None
    inline(scope)


def out_of_scope(a: Anatomy, op: Operation) -> None:
    scope = scope_of(op)
    assert scope is not None
    move_ahead(op, scope)


def refills_behind_waits(a: Anatomy) -> Sites:
    """Waits for MMAs that loads into the MMAs' stages follow."""
    sites: Sites = []
    for wait in a.done_waits:
        if (loads := _loads_behind(wait)) is not None:
            sites.append(("refill" if a.in_k_loop(wait) else "next tile's prologue", wait))
            assert holds(loads, ArriveExpectTxOp)
    return sites


def _loads_behind(wait: Operation) -> Operation | None:
    return next((op for op in after(wait) if holds(op, ArriveExpectTxOp)), None)


def wait_behind_refill(a: Anatomy, op: Operation) -> None:
    loads = _loads_behind(op)
    assert loads is not None
    move_behind(op, loads)


def prologues(a: Anatomy) -> Sites:
    return [(a.issue_label(op), op) for op in a.announcements if a.prologue_of(op) is not None and a.k_loop]


def prologue_by(more: int) -> Callable[[Anatomy, Operation], None]:
    def apply(a: Anatomy, op: Operation) -> None:
        loop = a.prologue_of(op)
        assert loop is not None
        stages = constant(loop.ub)
        assert stages is not None
        loop.operands[1] = index(LocatedBuilder.before(loop), stages + more)

    return apply


def unguarded(a: Anatomy, op: Operation) -> None:
    guard = parent_of(op, scf.IfOp)
    assert guard is not None
    inline(guard)


def refills(a: Anatomy) -> Sites:
    return [("", op) for op in a.announcements if a.issue_label(op) == "refill"]


def ring_mmas(a: Anatomy) -> Sites:
    return [("", mma) for mma in a.mmas if isinstance(mma.a.owner, SlotOp) and ring_depth(mma.a.owner) > 1]


def read_next_stage(a: Anatomy, op: Operation) -> None:
    assert isinstance(op, MmaOp) and isinstance(op.a.owner, SlotOp)
    at = LocatedBuilder.before(op)
    slot = op.a.owner
    op.operands[1] = at.add(SlotOp(slot.ring, next_stage(at, slot.stage, ring_depth(slot)))).res


def load_pairs(a: Anatomy) -> Sites:
    """Loads that are followed at once by another into a tile of the same type."""
    sites: Sites = []
    for load in a.loads:
        other = load.next_op
        if isinstance(other, CopyAsyncOp) and other.is_load and _dest(load).type == _dest(other).type:
            sites.append((a.issue_label(load), load))
    return sites


def _dest(load: CopyAsyncOp) -> SSAValue:
    assert load.dest is not None
    return load.dest


def into_other_tile(a: Anatomy, op: Operation) -> None:
    other = op.next_op
    assert isinstance(other, CopyAsyncOp)
    op.operands[1] = _dest(other)


def operand_slots(a: Anatomy) -> Sites:
    return [(f"slot {i}", slot) for i, slot in enumerate(a.slots)]


def other_swizzle(a: Anatomy, op: Operation) -> None:
    assert isinstance(op, SlotOp) and isinstance(op.res.type, SmemType)
    tile = op.res.type
    swizzle = 32 if tile.swizzle == 64 else 64
    Rewriter.replace_value_with_new_type(
        op.res, SmemType.of(tile.shape, tile.element, order=tile.order, swizzle=swizzle)
    )
