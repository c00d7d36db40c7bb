"""Mistakes with MMAs, and on the way out: accumulators, fences, staging tiles and bulk groups."""

from __future__ import annotations

from collections.abc import Callable

from mutation_anatomy import (
    Anatomy,
    Sites,
    after,
    before,
    copies_out,
    holds,
    parent_of,
    scope_of,
    until_sync,
    writes_tile,
)
from mutation_edits import flag, move_ahead
from xdsl.dialects import scf
from xdsl.dialects.builtin import IntegerAttr, UnitAttr, i64
from xdsl.ir import Operation

from tilec.dialects.tile import CopyAsyncOp, FenceOp, FreeOp, WaitGroupOp, WaitLdOp
from tilec.passes.builder import LocatedBuilder


def tma_stores(a: Anatomy) -> Sites:
    return [(a.chunk_label(op), op) for op in a.stores if scope_of(op) is not None]


def proxy_fences(a: Anatomy) -> Sites:
    sites: Sites = []
    for fence in a.fences:
        if fence.kind == "proxy_async":
            sites.append(("operands" if a.in_k_loop(fence) else a.chunk_label(fence), fence))
    return sites


def syncs_before_copy_out(a: Anatomy) -> Sites:
    return [
        (a.chunk_label(sync), sync)
        for sync in a.syncs
        if any(writes_tile(op) for op in until_sync(before(sync)))
        and any(copies_out(op) for op in until_sync(after(sync)))
    ]


def syncs_after_wait_group(a: Anatomy) -> Sites:
    """Barriers that tell the other threads that staging tiles have been read."""
    sites: Sites = []
    for sync in a.syncs:
        waited = any(holds(op, WaitGroupOp) for op in until_sync(before(sync)))
        freed = any(isinstance(op, FreeOp) for op in until_sync(after(sync)))
        if waited and not freed and not any(writes_tile(op) for op in until_sync(before(sync))):
            last = a.place[sync] > max(a.place[store] for store in a.stores)
            sites.append(("end of the tile" if last else a.chunk_label(sync), sync))
    return sites


def syncs_after_thread_copy(a: Anatomy) -> Sites:
    sites: Sites = []
    for sync in a.syncs:
        ahead = list(until_sync(before(sync)))
        if any(isinstance(op, CopyAsyncOp) and op.is_load and op.dispatch == "threads" for op in ahead):
            sites.append(("operands" if a.in_k_loop(sync) else "bias", sync))
    return sites


def syncs_before_free(a: Anatomy) -> Sites | str:
    sites: Sites = []
    for sync in a.syncs:
        freed = any(isinstance(op, FreeOp) for op in until_sync(after(sync)))
        if freed and not any(copies_out(op) for op in until_sync(after(sync))):
            sites.append(("", sync))
    return sites or "the barrier before the last store is the only one before free"


def last_wait_group(a: Anatomy) -> Sites:
    return [("", op) for op in a.wait_groups[-1:]]


def earlier_wait_groups(a: Anatomy) -> Sites:
    return [(a.chunk_label(op), op) for op in a.wait_groups[:-1]]


def all_wait_groups(a: Anatomy) -> Sites:
    return [*earlier_wait_groups(a), *(("last", op) for _, op in last_wait_group(a))]


def leave_one_more(a: Anatomy, op: Operation) -> None:
    assert isinstance(op, WaitGroupOp)
    op.properties["pending"] = IntegerAttr(op.pending + 1, i64)


def only_read(a: Anatomy, op: Operation) -> None:
    op.properties["read"] = UnitAttr()


def commit_groups(a: Anatomy) -> Sites:
    last = len(a.commit_groups) - 1
    return [(f"chunk {i}" if i < last else "last", op) for i, op in enumerate(a.commit_groups)]


def frees(a: Anatomy) -> Sites:
    return [("", op) for op in a.frees]


def free_early(a: Anatomy, op: Operation) -> None:
    """Ahead of the accumulator's first read; in front of the branch around it, so that it is freed where K = 0 too."""
    read: Operation = a.reads[0]
    branch = parent_of(read, scf.IfOp)
    move_ahead(op, read if branch is None else branch)


def mmas(a: Anatomy) -> Sites:
    return [("", op) for op in a.mmas]


def accumulate(always: bool) -> Callable[[Anatomy, Operation], None]:
    def apply(a: Anatomy, op: Operation) -> None:
        op.operands[3] = flag(LocatedBuilder.before(op), always)

    return apply


def commits(a: Anatomy) -> Sites:
    return [("", op) for op in a.commits]


def wait_lds(a: Anatomy) -> Sites:
    waits = [op for op in a.ops if isinstance(op, WaitLdOp)]
    return [(a.chunk_label(op), op) for op in waits]


def fences_after_sync(a: Anatomy) -> Sites:
    sites: Sites = []
    for fence in a.fences:
        if fence.kind != "after_thread_sync":
            continue
        if a.in_k_loop(fence):
            sites.append(("MMA", fence))
        elif any(a.place[read] > a.place[fence] for read in a.reads):
            sites.append(("epilogue", fence))
        else:
            freed = any(isinstance(op, FreeOp) for op in after(fence))
            ends = sum(label.startswith("end") for label, _ in sites)
            sites.append(("free" if freed else f"end of the tile, {ends + 1}", fence))
    return sites


def fences_before_sync(a: Anatomy) -> Sites:
    sites: Sites = []
    for fence in a.fences:
        if fence.kind != "before_thread_sync":
            continue
        later = any(a.place[read] > a.place[fence] for read in a.reads)
        sites.append((_place_of_fence(a, fence, later), fence))
    return sites


def _place_of_fence(a: Anatomy, fence: FenceOp, later: bool) -> str:
    """Behind which of the accumulator's reads a fence stands; those after the last fence that follows a read are spare."""
    if later:
        return "earlier read"
    fences = [f for f in a.fences if f.kind == "before_thread_sync" and a.place[f] > a.place[a.reads[-1]]]
    return "last read" if fences[0] is fence else "before free"
