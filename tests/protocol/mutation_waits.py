"""Mistakes with waits: left out, for the wrong parity or stage, on barriers that are not ready."""

from __future__ import annotations

from mutation_anatomy import Anatomy, Sites, after, carried, loop_of, parent_of, yield_of
from mutation_edits import index, move_ahead, next_stage, phase_one, set_stage
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Operation
from xdsl.rewriter import Rewriter

from tilec.dialects.tile import ArriveExpectTxOp, CtaSyncOp, MbarrierInitOp, TryWaitOp
from tilec.passes.builder import LocatedBuilder


def full_waits(a: Anatomy) -> Sites:
    return [("", wait) for wait in a.full_waits]


def done_waits(a: Anatomy) -> Sites:
    return [("", wait) for wait in a.done_waits if a.in_k_loop(wait)]


def drains(a: Anatomy) -> Sites | str:
    drains: Sites = [("", wait) for wait in a.done_waits if not a.in_k_loop(wait)]
    return drains or "each MMA is waited for in its own iteration"


def all_waits(a: Anatomy) -> Sites:
    full: Sites = [("load", wait) for wait in a.full_waits]
    return full + [("MMA" if a.in_k_loop(w) else "last MMA", w) for w in a.done_waits]


def wrong_parity(a: Anatomy, op: Operation) -> None:
    assert isinstance(op, TryWaitOp)
    at = LocatedBuilder.before(op)
    op.operands[len(op.operands) - 1] = at.flip(op.phase, phase_one(at))


def _phase_update(wait: Operation) -> tuple[scf.ForOp | scf.WhileOp, int] | None:
    """The loop that carries the phase of a wait, and the place of the phase in what it yields."""
    assert isinstance(wait, TryWaitOp)
    loops = (loop_of(wait), parent_of(wait, scf.WhileOp))
    for loop in loops:
        if loop is not None and (place := carried(loop, wait.phase)) is not None:
            return loop, place
    return None


def _trip_update(wait: Operation) -> arith.SelectOp | None:
    """The operation that flips the phase of a wait where the ring wraps."""
    update = _phase_update(wait)
    if update is None:
        return None
    value = yield_of(update[0]).operands[update[1]]
    return value.owner if isinstance(value.owner, arith.SelectOp) else None


def ring_waits(a: Anatomy) -> Sites:
    return [("", wait) for wait in a.full_waits if _trip_update(wait) is not None]


def flip_each_iteration(a: Anatomy, op: Operation) -> None:
    select, update = _trip_update(op), _phase_update(op)
    assert select is not None and update is not None
    yield_of(update[0]).operands[update[1]] = select.lhs


def own_done_waits(a: Anatomy) -> Sites | str:
    """Waits for MMAs on a barrier that flips at each iteration, in a loop whose ring has trips."""
    if not ring_waits(a):
        return []
    waits: Sites = [("", wait) for wait in a.done_waits if _phase_update(wait) is not None]
    return waits or "the MMA barriers are a ring of their own"


def flip_each_trip(a: Anatomy, op: Operation) -> None:
    ring = ring_waits(a)
    update = _phase_update(op)
    assert update is not None
    wraps = _trip_update(ring[0][1])
    assert wraps is not None and isinstance(op, TryWaitOp)
    end = yield_of(update[0])
    at = LocatedBuilder.before(end)
    end.operands[update[1]] = at.select(wraps.cond, end.operands[update[1]], op.phase)


def carried_phases(a: Anatomy) -> Sites | str:
    waits: Sites = [("load", wait) for wait in a.full_waits if _phase_update(wait) is not None]
    waits += [("MMA", wait) for wait in a.done_waits if _phase_update(wait) is not None]
    return waits or "one round: no phase is carried"


def never_flip(a: Anatomy, op: Operation) -> None:
    update = _phase_update(op)
    assert isinstance(op, TryWaitOp) and update is not None
    yield_of(update[0]).operands[update[1]] = op.phase


def staged_barriers(a: Anatomy) -> Sites:
    sites: Sites = []
    for init in a.inits:
        uses = [use.operation for use in init.res.uses]
        if all(getattr(op, "stage", None) is not None for op in uses):
            sites.append(("loads" if holds_announcement(uses) else "MMAs", init))
    return sites


def holds_announcement(ops: list[Operation]) -> bool:
    return any(isinstance(op, ArriveExpectTxOp) for op in ops)


def one_stage(a: Anatomy, op: Operation) -> None:
    assert isinstance(op, MbarrierInitOp)
    first = index(LocatedBuilder.before(op), 0)
    for use in list(op.res.uses):
        set_stage(use.operation, first)


def waits_of_several_stages(a: Anatomy) -> Sites:
    return [("", wait) for wait in a.full_waits if _depth(wait) > 1]


def _depth(op: Operation) -> int:
    assert isinstance(op, TryWaitOp) and isinstance(op.barrier.owner, MbarrierInitOp)
    return op.barrier.owner.res.type.depth


def wait_for_next_stage(a: Anatomy, op: Operation) -> None:
    assert isinstance(op, TryWaitOp) and op.stage is not None
    set_stage(op, next_stage(LocatedBuilder.before(op), op.stage, _depth(op)))


def by_one_thread(a: Anatomy, op: Operation) -> None:
    inside = LocatedBuilder.before(op).single_thread()
    op.detach()
    Rewriter.insert_op(op, inside.point)


def inits(a: Anatomy) -> Sites:
    return [("loads" if holds_announcement([u.operation for u in op.res.uses]) else "MMAs", op) for op in a.inits]


def two_arrivals(a: Anatomy, op: Operation) -> None:
    op.properties["count"] = IntegerAttr(2, i64)


def setup_syncs(a: Anatomy) -> Sites:
    return [("", next(op for op in after(a.inits[-1]) if isinstance(op, CtaSyncOp)))]


def ahead_of_inits(a: Anatomy, op: Operation) -> None:
    move_ahead(op, a.inits[0])
