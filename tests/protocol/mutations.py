"""Ways to break the protocol of an asynchronous kernel, each a small change of the IR.

A `Kind` finds its places in a kernel by what operations do, and changes one of them at a time. A place has a label, by which
`mutation_table.py` tells places apart. Where a kernel has no such place, the kind says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from mutation_anatomy import (
    Anatomy,
    after,
    before,
    body_of,
    carried,
    copies_out,
    holds,
    loop_of,
    parent_of,
    ring_depth,
    scope_of,
    until_sync,
    writes_tile,
    yield_of,
)
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IndexType, IntegerAttr, ModuleOp, UnitAttr, i1, i32, i64
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue
from xdsl.rewriter import Rewriter

from tilec.dialects.tile import (
    ArriveExpectTxOp,
    CopyAsyncOp,
    CtaSyncOp,
    FenceOp,
    FreeOp,
    MbarrierInitOp,
    MmaOp,
    ScheduleOp,
    SingleThreadOp,
    SlotOp,
    SmemType,
    TryWaitOp,
    WaitGroupOp,
    WaitLdOp,
)
from tilec.passes.builder import LocatedBuilder, constant

Sites = list[tuple[str, Operation]]
"""Places, each with its label."""


@dataclass(frozen=True)
class Kind:
    """One kind of mistake."""

    name: str
    find: Callable[[Anatomy], Sites | str]
    """The places in a kernel, or why there is none."""
    change: Callable[[Anatomy, Operation], None]
    """Make the mistake at one of them."""


@dataclass(frozen=True)
class Mutant:
    label: str
    module: ModuleOp


def places(kind: Kind, module: ModuleOp) -> list[str] | str:
    """The labels of the places where the mistake can be made; or why there is none."""
    sites = kind.find(Anatomy(module))
    return sites if isinstance(sites, str) else [label for label, _ in sites]


def mutants(kind: Kind, module: ModuleOp) -> Iterator[Mutant]:
    """The kernel with the mistake, once for each place."""
    labels = places(kind, module)
    if isinstance(labels, str):
        return
    for place, label in enumerate(labels):
        copy = module.clone()
        anatomy = Anatomy(copy)
        sites = kind.find(anatomy)
        assert not isinstance(sites, str)
        kind.change(anatomy, sites[place][1])
        yield Mutant(label, copy)


# Small changes.


def _drop(_: Anatomy, op: Operation) -> None:
    """Remove an operation without results, and the scope that it leaves empty."""
    scope = scope_of(op)
    op.detach()
    op.erase()
    if scope is not None and scope.body.block.first_op is None:
        scope.detach()
        scope.erase()


def _index(at: LocatedBuilder, value: int) -> SSAValue:
    return at.add(arith.ConstantOp(IntegerAttr(value, IndexType()))).result


def _flag(at: LocatedBuilder, value: bool) -> SSAValue:
    return at.add(arith.ConstantOp(IntegerAttr(-1 if value else 0, i1))).result


def _phase_one(at: LocatedBuilder) -> SSAValue:
    return at.add(arith.ConstantOp(IntegerAttr(1, i32))).result


def _next_stage(at: LocatedBuilder, stage: SSAValue, depth: int) -> SSAValue:
    up = at.add_index(stage, _index(at, 1))
    return at.add(arith.RemUIOp(up, _index(at, depth))).result


def _set_stage(op: Operation, stage: SSAValue) -> None:
    """Change the stage of a barrier operation: a wait's comes before its phase, all others' last."""
    op.operands[1 if isinstance(op, TryWaitOp) else len(op.operands) - 1] = stage


def _inline(op: SingleThreadOp | scf.IfOp) -> None:
    """Put the operations of a scope (of a conditional: its first branch) in its place."""
    block = op.body.block if isinstance(op, SingleThreadOp) else op.true_region.block
    at = LocatedBuilder.before(op)
    for inside in list(block.ops):
        inside.detach()
        if not isinstance(inside, scf.YieldOp):
            Rewriter.insert_op(inside, at.point)
    op.detach()
    op.erase()


def _move_behind(op: Operation, other: Operation) -> None:
    op.detach()
    Rewriter.insert_op(op, LocatedBuilder.after(other).point)


def _move_ahead(op: Operation, other: Operation) -> None:
    op.detach()
    Rewriter.insert_op(op, LocatedBuilder.before(other).point)


# Waits and phases.


def _full_waits(a: Anatomy) -> Sites | str:
    return [("", wait) for wait in a.full_waits] or "no load completes on a barrier"


def _done_waits(a: Anatomy) -> Sites | str:
    return [("", wait) for wait in a.done_waits if a.in_k_loop(wait)] or "no MMA"


def _drains(a: Anatomy) -> Sites | str:
    drains: Sites = [("", wait) for wait in a.done_waits if not a.in_k_loop(wait)]
    return drains or ("each MMA is waited for in its own iteration" if a.mmas else "no MMA")


def _all_waits(a: Anatomy) -> Sites | str:
    full: Sites = [("load", wait) for wait in a.full_waits]
    return full + [("MMA" if a.in_k_loop(w) else "last MMA", w) for w in a.done_waits]


def _wrong_parity(a: Anatomy, op: Operation) -> None:
    assert isinstance(op, TryWaitOp)
    at = LocatedBuilder.before(op)
    op.operands[len(op.operands) - 1] = at.flip(op.phase, _phase_one(at))


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


def _ring_waits(a: Anatomy) -> Sites | str:
    return [("", wait) for wait in a.full_waits if _trip_update(wait) is not None] or "no ring: there are no trips"


def _flip_each_iteration(a: Anatomy, op: Operation) -> None:
    select, update = _trip_update(op), _phase_update(op)
    assert select is not None and update is not None
    yield_of(update[0]).operands[update[1]] = select.lhs


def _own_done_waits(a: Anatomy) -> Sites | str:
    """Waits for MMAs on a barrier that flips at each iteration, in a loop whose ring has trips."""
    ring = _ring_waits(a)
    if isinstance(ring, str):
        return ring
    waits: Sites = [("", wait) for wait in a.done_waits if _phase_update(wait) is not None]
    return waits or ("the MMA barriers are a ring of their own" if a.mmas else "no MMA")


def _flip_each_trip(a: Anatomy, op: Operation) -> None:
    ring = _ring_waits(a)
    update = _phase_update(op)
    assert not isinstance(ring, str) and update is not None
    wraps = _trip_update(ring[0][1])
    assert wraps is not None and isinstance(op, TryWaitOp)
    end = yield_of(update[0])
    at = LocatedBuilder.before(end)
    end.operands[update[1]] = at.select(wraps.cond, end.operands[update[1]], op.phase)


def _carried_phases(a: Anatomy) -> Sites | str:
    waits: Sites = [("load", wait) for wait in a.full_waits if _phase_update(wait) is not None]
    waits += [("MMA", wait) for wait in a.done_waits if _phase_update(wait) is not None]
    return waits or "one round: no phase is carried"


def _never_flip(a: Anatomy, op: Operation) -> None:
    update = _phase_update(op)
    assert isinstance(op, TryWaitOp) and update is not None
    yield_of(update[0]).operands[update[1]] = op.phase


def _turns(a: Anatomy) -> Sites | str:
    return "one tile for each CTA" if a.turns is None else [("", a.turns)]


def _reset_phases(a: Anatomy, op: Operation) -> None:
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


def _turns_with_stages(a: Anatomy) -> Sites | str:
    if a.turns is not None and _stage_result(a) is None:
        return "no ring: there is no stage"
    return _turns(a)


def _reset_stage_and_phases(a: Anatomy, op: Operation) -> None:
    _reset_phases(a, op)
    stage = _stage_result(a)
    assert stage is not None
    first = _index(LocatedBuilder.before(op), 0)
    for use in list(stage.uses):
        if isinstance(use.operation, scf.ForOp | scf.YieldOp):
            use.operation.operands[use.index] = first


def _staged_barriers(a: Anatomy) -> Sites | str:
    sites: Sites = []
    for init in a.inits:
        uses = [use.operation for use in init.res.uses]
        if all(getattr(op, "stage", None) is not None for op in uses):
            sites.append(("loads" if holds_announcement(uses) else "MMAs", init))
    return sites or "no barrier has stages"


def holds_announcement(ops: list[Operation]) -> bool:
    return any(isinstance(op, ArriveExpectTxOp) for op in ops)


def _one_stage(a: Anatomy, op: Operation) -> None:
    assert isinstance(op, MbarrierInitOp)
    first = _index(LocatedBuilder.before(op), 0)
    for use in list(op.res.uses):
        _set_stage(use.operation, first)


def _waits_of_several_stages(a: Anatomy) -> Sites | str:
    waits: Sites = [("", wait) for wait in a.full_waits if _depth(wait) > 1]
    return waits or "one stage: there is no other"


def _depth(op: Operation) -> int:
    assert isinstance(op, TryWaitOp) and isinstance(op.barrier.owner, MbarrierInitOp)
    return op.barrier.owner.res.type.depth


def _wait_for_next_stage(a: Anatomy, op: Operation) -> None:
    assert isinstance(op, TryWaitOp) and op.stage is not None
    _set_stage(op, _next_stage(LocatedBuilder.before(op), op.stage, _depth(op)))


def _by_one_thread(a: Anatomy, op: Operation) -> None:
    inside = LocatedBuilder.before(op).single_thread()
    op.detach()
    Rewriter.insert_op(op, inside.point)


def _inits(a: Anatomy) -> Sites | str:
    return [("loads" if holds_announcement([u.operation for u in op.res.uses]) else "MMAs", op) for op in a.inits]


def _two_arrivals(a: Anatomy, op: Operation) -> None:
    op.properties["count"] = IntegerAttr(2, i64)


def _setup_syncs(a: Anatomy) -> Sites | str:
    return [("", next(op for op in after(a.inits[-1]) if isinstance(op, CtaSyncOp)))]


def _ahead_of_inits(a: Anatomy, op: Operation) -> None:
    _move_ahead(op, a.inits[0])


# Byte budgets and issue.


def _announcements(a: Anatomy) -> Sites | str:
    return [(a.issue_label(op), op) for op in a.announcements] or "the threads load: no bytes are announced"


def _budget(change: Callable[[int], int]) -> Callable[[Anatomy, Operation], None]:
    def apply(a: Anatomy, op: Operation) -> None:
        assert isinstance(op, ArriveExpectTxOp)
        op.properties["bytes"] = IntegerAttr(change(op.bytes), i64)

    return apply


def _inline_scope(a: Anatomy, op: Operation) -> None:
    scope = scope_of(op)
    assert scope is not None
    _inline(scope)


def _out_of_scope(a: Anatomy, op: Operation) -> None:
    scope = scope_of(op)
    assert scope is not None
    _move_ahead(op, scope)


def _refills_behind_waits(a: Anatomy) -> Sites | str:
    """Waits for MMAs that loads into the MMAs' stages follow."""
    sites: Sites = []
    for wait in a.done_waits:
        if (loads := _loads_behind(wait)) is not None:
            sites.append(("refill" if a.in_k_loop(wait) else "next tile's prologue", wait))
            assert holds(loads, ArriveExpectTxOp)
    return sites or ("serial: nothing is refilled behind the wait" if a.mmas else "no MMA")


def _loads_behind(wait: Operation) -> Operation | None:
    return next((op for op in after(wait) if holds(op, ArriveExpectTxOp)), None)


def _wait_behind_refill(a: Anatomy, op: Operation) -> None:
    loads = _loads_behind(op)
    assert loads is not None
    _move_behind(op, loads)


def _prologues(a: Anatomy) -> Sites | str:
    sites: Sites = [(a.issue_label(op), op) for op in a.announcements if a.prologue_of(op) is not None and a.k_loop]
    return sites or "serial: there is no prologue"


def _prologue_by(more: int) -> Callable[[Anatomy, Operation], None]:
    def apply(a: Anatomy, op: Operation) -> None:
        loop = a.prologue_of(op)
        assert loop is not None
        stages = constant(loop.ub)
        assert stages is not None
        loop.operands[1] = _index(LocatedBuilder.before(loop), stages + more)

    return apply


def _unguarded(a: Anatomy, op: Operation) -> None:
    guard = parent_of(op, scf.IfOp)
    assert guard is not None
    _inline(guard)


def _refills(a: Anatomy) -> Sites | str:
    sites: Sites = [("", op) for op in a.announcements if a.issue_label(op) == "refill"]
    return sites or "serial: there is no refill"


# Slots and layouts.


def _ring_mmas(a: Anatomy) -> Sites | str:
    sites: Sites = [("", mma) for mma in a.mmas if isinstance(mma.a.owner, SlotOp) and ring_depth(mma.a.owner) > 1]
    if not a.mmas:
        return "no MMA"
    return sites or "one stage: there is no other"


def _read_next_stage(a: Anatomy, op: Operation) -> None:
    assert isinstance(op, MmaOp) and isinstance(op.a.owner, SlotOp)
    at = LocatedBuilder.before(op)
    slot = op.a.owner
    op.operands[1] = at.add(SlotOp(slot.ring, _next_stage(at, slot.stage, ring_depth(slot)))).res


def _load_pairs(a: Anatomy) -> Sites | str:
    """Loads that are followed at once by another into a tile of the same type."""
    sites: Sites = []
    for load in a.loads:
        other = load.next_op
        if isinstance(other, CopyAsyncOp) and other.is_load and _dest(load).type == _dest(other).type:
            sites.append((a.issue_label(load), load))
    return sites or "one load: there is no other tile"


def _dest(load: CopyAsyncOp) -> SSAValue:
    assert load.dest is not None
    return load.dest


def _into_other_tile(a: Anatomy, op: Operation) -> None:
    other = op.next_op
    assert isinstance(other, CopyAsyncOp)
    op.operands[1] = _dest(other)


def _operand_slots(a: Anatomy) -> Sites | str:
    sites: Sites = [(f"slot {i}", slot) for i, slot in enumerate(a.slots)]
    return sites or "no slot: a tile has one type, whoever uses it"


def _other_swizzle(a: Anatomy, op: Operation) -> None:
    assert isinstance(op, SlotOp) and isinstance(op.res.type, SmemType)
    tile = op.res.type
    swizzle = 32 if tile.swizzle == 64 else 64
    Rewriter.replace_value_with_new_type(
        op.res, SmemType.of(tile.shape, tile.element, order=tile.order, swizzle=swizzle)
    )


# Stores.


def _tma_stores(a: Anatomy) -> Sites | str:
    sites: Sites = [(a.chunk_label(op), op) for op in a.stores if scope_of(op) is not None]
    return sites or "the threads store"


def _proxy_fences(a: Anatomy) -> Sites | str:
    sites: Sites = []
    for fence in a.fences:
        if fence.kind == "proxy_async":
            sites.append(("operands" if a.in_k_loop(fence) else a.chunk_label(fence), fence))
    return sites or "no thread writes what the async proxy reads"


def _syncs_before_copy_out(a: Anatomy) -> Sites | str:
    sites: Sites = [
        (a.chunk_label(sync), sync)
        for sync in a.syncs
        if any(writes_tile(op) for op in until_sync(before(sync)))
        and any(copies_out(op) for op in until_sync(after(sync)))
    ]
    return sites or "no thread writes what is copied out"


def _syncs_after_wait_group(a: Anatomy) -> Sites | str:
    """Barriers that tell the other threads that staging tiles have been read."""
    sites: Sites = []
    for sync in a.syncs:
        waited = any(holds(op, WaitGroupOp) for op in until_sync(before(sync)))
        frees = any(isinstance(op, FreeOp) for op in until_sync(after(sync)))
        if waited and not frees and not any(writes_tile(op) for op in until_sync(before(sync))):
            last = a.place[sync] > max(a.place[store] for store in a.stores)
            sites.append(("end of the tile" if last else a.chunk_label(sync), sync))
    return sites or "no barrier of threads follows a wait_group"


def _syncs_after_thread_copy(a: Anatomy) -> Sites | str:
    sites: Sites = []
    for sync in a.syncs:
        ahead = list(until_sync(before(sync)))
        if any(isinstance(op, CopyAsyncOp) and op.is_load and op.dispatch == "threads" for op in ahead):
            sites.append(("operands" if a.in_k_loop(sync) else "bias", sync))
    return sites or "no thread loads"


def _syncs_before_free(a: Anatomy) -> Sites | str:
    sites: Sites = []
    for sync in a.syncs:
        frees = any(isinstance(op, FreeOp) for op in until_sync(after(sync)))
        if frees and not any(copies_out(op) for op in until_sync(after(sync))):
            sites.append(("", sync))
    return sites or ("the barrier before the last store is the only one before free" if a.frees else "no accumulator")


def _last_wait_group(a: Anatomy) -> Sites | str:
    return [("", op) for op in a.wait_groups[-1:]] or "no TMA store"


def _earlier_wait_groups(a: Anatomy) -> Sites | str:
    if not a.wait_groups:
        return "no TMA store"
    return [(a.chunk_label(op), op) for op in a.wait_groups[:-1]]


def _all_wait_groups(a: Anatomy) -> Sites | str:
    earlier, last = _earlier_wait_groups(a), _last_wait_group(a)
    if isinstance(earlier, str) or isinstance(last, str):
        return "no TMA store"
    return [*earlier, *(("last", op) for _, op in last)]


def _leave_one_more(a: Anatomy, op: Operation) -> None:
    assert isinstance(op, WaitGroupOp)
    op.properties["pending"] = IntegerAttr(op.pending + 1, i64)


def _only_read(a: Anatomy, op: Operation) -> None:
    op.properties["read"] = UnitAttr()


def _commit_groups(a: Anatomy) -> Sites | str:
    last = len(a.commit_groups) - 1
    return [(f"chunk {i}" if i < last else "last", op) for i, op in enumerate(a.commit_groups)] or "no TMA store"


# Accumulators.


def _frees(a: Anatomy) -> Sites | str:
    return [("", op) for op in a.frees] or "no accumulator"


def _free_early(a: Anatomy, op: Operation) -> None:
    """Ahead of the accumulator's first read; in front of the branch around it, so that it is freed where K = 0 too."""
    read: Operation = a.reads[0]
    branch = parent_of(read, scf.IfOp)
    _move_ahead(op, read if branch is None else branch)


def _mmas(a: Anatomy) -> Sites | str:
    return [("", op) for op in a.mmas] or "no MMA"


def _accumulate(flag: bool) -> Callable[[Anatomy, Operation], None]:
    def apply(a: Anatomy, op: Operation) -> None:
        op.operands[3] = _flag(LocatedBuilder.before(op), flag)

    return apply


def _commits(a: Anatomy) -> Sites | str:
    return [("", op) for op in a.commits] or "no MMA"


def _wait_lds(a: Anatomy) -> Sites | str:
    waits = [op for op in a.ops if isinstance(op, WaitLdOp)]
    return [(a.chunk_label(op), op) for op in waits] or "no accumulator"


def _fences_after_sync(a: Anatomy) -> Sites | str:
    sites: Sites = []
    for fence in a.fences:
        if fence.kind != "after_thread_sync":
            continue
        if a.in_k_loop(fence):
            sites.append(("MMA", fence))
        elif any(a.place[read] > a.place[fence] for read in a.reads):
            sites.append(("epilogue", fence))
        else:
            frees = any(isinstance(op, FreeOp) for op in after(fence))
            ends = sum(label.startswith("end") for label, _ in sites)
            sites.append(("free" if frees else f"end of the tile, {ends + 1}", fence))
    return sites or "no MMA"


def _fences_before_sync(a: Anatomy) -> Sites | str:
    sites: Sites = []
    for fence in a.fences:
        if fence.kind != "before_thread_sync":
            continue
        later = any(a.place[read] > a.place[fence] for read in a.reads)
        sites.append((_place_of_fence(a, fence, later), fence))
    return sites or "no accumulator is read"


def _place_of_fence(a: Anatomy, fence: FenceOp, later: bool) -> str:
    """Behind which of the accumulator's reads a fence stands; those after the last fence that follows a read are spare."""
    if later:
        return "earlier read"
    fences = [f for f in a.fences if f.kind == "before_thread_sync" and a.place[f] > a.place[a.reads[-1]]]
    return "last read" if fences[0] is fence else "before free"


# The tile scheduler.


def _increment(a: Anatomy) -> arith.AddiOp:
    """What makes the next turn."""
    assert a.turns is not None
    ruler = next(op for op in a.turns.before_region.block.ops if isinstance(op, ScheduleOp))
    assert isinstance(ruler.turn, BlockArgument)
    added = yield_of(a.turns).operands[ruler.turn.index].owner
    assert isinstance(added, arith.AddiOp)
    return added


def _stride(turns: int) -> Callable[[Anatomy, Operation], None]:
    def apply(a: Anatomy, op: Operation) -> None:
        added = _increment(a)
        added.operands[1] = _index(LocatedBuilder.before(added), turns)

    return apply


def _start_at_one(a: Anatomy, op: Operation) -> None:
    assert isinstance(op, scf.WhileOp)
    ruler = next(inside for inside in op.before_region.block.ops if isinstance(inside, ScheduleOp))
    assert isinstance(ruler.turn, BlockArgument)
    for one in a.schedules():
        if not a.in_turns(one):
            one.operands[0] = _index(LocatedBuilder.before(one), 1)
    op.operands[ruler.turn.index] = _index(LocatedBuilder.before(op), 1)


def _loads_of_turns(a: Anatomy) -> Sites | str:
    if a.turns is None:
        return "one tile for each CTA"
    ahead: Sites = [
        ("next tile's prologue", op) for op in a.announcements if a.issue_label(op) == "next tile's prologue"
    ]
    return ahead or [("the tile's own loads", a.turns)]


def _old_coordinates(a: Anatomy, op: Operation) -> None:
    """Loads ahead of the next tile take this tile's offsets; where there are none, each tile's loads take the first's."""
    assert a.turns is not None
    body = body_of(a.turns)
    if not isinstance(op, scf.WhileOp):
        old = {value: body.args[place] for place, value in enumerate(yield_of(a.turns).operands)}
        scope = scope_of(op)
        assert scope is not None
        loads = [load for load in a.loads if scope.is_ancestor(load)]
    else:
        ruler = next(inside for inside in body.ops if isinstance(inside, ScheduleOp))
        at = LocatedBuilder.before(ruler)
        first = at.add(ScheduleOp(_index(at, 0), ruler.view, ruler.step, ruler.group))
        old = dict(zip(ruler.offsets, first.offsets, strict=True))
        loads = a.loads
    for load in loads:
        for place, operand in enumerate(load.operands):
            if operand in old:
                load.operands[place] = old[operand]


KINDS = [
    Kind("wait for a load dropped", _full_waits, _drop),
    Kind("wait for an MMA dropped", _done_waits, _drop),
    Kind("wait for the last MMA dropped", _drains, _drop),
    Kind("wait for the wrong parity", _all_waits, _wrong_parity),
    Kind("wait for another stage", _waits_of_several_stages, _wait_for_next_stage),
    Kind("wait for a load by one thread only", _full_waits, _by_one_thread),
    Kind("the ring's phase flips each iteration", _ring_waits, _flip_each_iteration),
    Kind("the MMA's phase flips once a trip", _own_done_waits, _flip_each_trip),
    Kind("a phase never flips", _carried_phases, _never_flip),
    Kind("phases reset per tile", _turns, _reset_phases),
    Kind("stage and phases reset per tile", _turns_with_stages, _reset_stage_and_phases),
    Kind("one barrier for all stages", _staged_barriers, _one_stage),
    Kind("two arrivals expected", _inits, _two_arrivals),
    Kind("barriers used before init is visible", _setup_syncs, _drop),
    Kind("barrier of threads ahead of init", _setup_syncs, _ahead_of_inits),
    Kind("budget 16 bytes too large", _announcements, _budget(lambda n: n + 16)),
    Kind("budget 16 bytes too small", _announcements, _budget(lambda n: n - 16)),
    Kind("budget halved", _announcements, _budget(lambda n: n // 2)),
    Kind("budget doubled", _announcements, _budget(lambda n: 2 * n)),
    Kind("budget counted per warp", _announcements, _budget(lambda n: 4 * n)),
    Kind("loads issued by all threads", _announcements, _inline_scope),
    Kind("bytes announced by all threads", _announcements, _out_of_scope),
    Kind("refill before the MMA has read", _refills_behind_waits, _wait_behind_refill),
    Kind("refill not guarded", _refills, _unguarded),
    Kind("prologue one short", _prologues, _prologue_by(-1)),
    Kind("prologue one long", _prologues, _prologue_by(1)),
    Kind("prologue not guarded", _prologues, _unguarded),
    Kind("MMA reads another stage", _ring_mmas, _read_next_stage),
    Kind("A loaded into B's tile", _load_pairs, _into_other_tile),
    Kind("slot with another swizzle", _operand_slots, _other_swizzle),
    Kind("store issued by all threads", _tma_stores, _inline_scope),
    Kind("proxy fence dropped", _proxy_fences, _drop),
    Kind("barrier before the copy out dropped", _syncs_before_copy_out, _drop),
    Kind("barrier after wait_group dropped", _syncs_after_wait_group, _drop),
    Kind("barrier after a thread copy dropped", _syncs_after_thread_copy, _drop),
    Kind("barrier before free dropped", _syncs_before_free, _drop),
    Kind("wait_group dropped", _earlier_wait_groups, _drop),
    Kind("last wait_group dropped", _last_wait_group, _drop),
    Kind("wait_group leaves one more", _all_wait_groups, _leave_one_more),
    Kind("last wait_group only for reads", _last_wait_group, _only_read),
    Kind("commit_group dropped", _commit_groups, _drop),
    Kind("accumulator freed early", _frees, _free_early),
    Kind("accumulator leaked", _frees, _drop),
    Kind("first step accumulates", _mmas, _accumulate(True)),
    Kind("no step accumulates", _mmas, _accumulate(False)),
    Kind("commit dropped", _commits, _drop),
    Kind("wait_ld dropped", _wait_lds, _drop),
    Kind("fence after a barrier dropped", _fences_after_sync, _drop),
    Kind("fence before a barrier dropped", _fences_before_sync, _drop),
    Kind("every second turn", _turns, _stride(2)),
    Kind("the same turn for ever", _turns, _stride(0)),
    Kind("turns start at 1", _turns, _start_at_one),
    Kind("loads with another tile's offsets", _loads_of_turns, _old_coordinates),
]
