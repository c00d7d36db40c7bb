"""mbarriers, fences, bulk groups: synchronisation, one instruction each."""

from __future__ import annotations

from xdsl.ir import SSAValue

from tilec.diagnostics import fail
from tilec.dialects import nvvm
from tilec.dialects.tile import (
    ArriveExpectTxOp,
    ArriveOp,
    CommitGroupOp,
    CtaSyncOp,
    FenceOp,
    MbarrierInitOp,
    WaitGroupOp,
    WaitLdOp,
)
from tilec.passes.lower.kernel import Barriers, KernelLowering
from tilec.passes.storage import BARRIER_BYTES


def barrier_pointer(k: KernelLowering, barrier: SSAValue, stage: SSAValue | None) -> SSAValue:
    """Shared address of one mbarrier."""
    offset = k.barriers(barrier).offset
    assert offset is not None  # what waits for commits alone never asks where commits are groups
    if stage is None:
        return k.smem_pointer(offset)
    return k.smem_pointer(k.e.plus(k.e.times(k.scalar(stage), BARRIER_BYTES), offset))


def lower_init(k: KernelLowering, op: MbarrierInitOp) -> None:
    offset = next((b.offset for b in k.storage.barriers if b.value is op.res), None)
    k.values[op.res] = Barriers(offset)
    if offset is None:
        return

    def body() -> None:
        for stage in range(op.res.type.depth):
            pointer = k.smem_pointer(offset + stage * BARRIER_BYTES)
            k.e.add(nvvm.MBarrierInitOp(pointer, k.e.int32(op.count)))
        k.e.add(nvvm.FenceMbarrierInitOp())

    k.by_first_thread(body)


def lower_expect_tx(k: KernelLowering, op: ArriveExpectTxOp) -> None:
    if not k.in_single_thread:
        fail(
            op,
            "every thread of the CTA would announce these bytes",
            hint="put arrive.expect_tx and its copies into tile.single_thread { ... }",
        )
    k.e.add(nvvm.MBarrierArriveExpectTxOp(barrier_pointer(k, op.barrier, op.stage), k.e.int32(op.bytes)))


def lower_arrive(k: KernelLowering, op: ArriveOp) -> None:
    """One arrival of the role: its threads meet first, so that the arrival speaks for all of them."""
    if not k.in_single_thread:
        k.barrier()
    k.by_first_thread(lambda: arrive(k, op.barrier, op.stage))


def arrive(k: KernelLowering, barrier: SSAValue, stage: SSAValue | None) -> None:
    """One arrival of the executing thread."""
    k.e.add(nvvm.MBarrierArriveOp(barrier_pointer(k, barrier, stage)))


def spin(k: KernelLowering, barrier: SSAValue, stage: SSAValue | None, phase: SSAValue) -> None:
    """Wait for a round: try_wait may return early, so it stands in a loop (PTX ISA 9.7.13.15.16)."""
    e = k.e
    pointer = barrier_pointer(k, barrier, stage)
    attempt, after = e.new_block(), e.new_block()
    e.branch(attempt)
    e.at(attempt)
    done = e.add(nvvm.MBarrierTryWaitOp(pointer, k.scalar(phase))).res
    e.branch_if(done, after, attempt)
    e.at(after)


def lower_cta_sync(k: KernelLowering, op: CtaSyncOp) -> None:
    if k.in_single_thread:
        fail(op, "one thread alone would wait here for ever", hint="move tile.cta_sync out of tile.single_thread")
    k.barrier()


def lower_fence(k: KernelLowering, op: FenceOp) -> None:
    match op.kind:
        case "proxy_async":
            k.e.add(nvvm.FenceProxyOp(nvvm.ProxyKind.ASYNC_SHARED, nvvm.SharedSpace.CTA))
        case "before_thread_sync" if k.target.mma == "tcgen05":
            k.e.add(nvvm.Tcgen05FenceOp(nvvm.Tcgen05Fence.BEFORE))
        case "after_thread_sync" if k.target.mma == "tcgen05":
            k.e.add(nvvm.Tcgen05FenceOp(nvvm.Tcgen05Fence.AFTER))
        case _:
            pass


def lower_commit_group(k: KernelLowering, op: CommitGroupOp) -> None:
    _by_the_issuer(k, op)
    k.e.add(nvvm.CpAsyncBulkCommitGroupOp())


def lower_wait_group(k: KernelLowering, op: WaitGroupOp) -> None:
    _by_the_issuer(k, op)
    k.e.add(nvvm.CpAsyncBulkWaitGroupOp(op.pending, read=op.read))


def _by_the_issuer(k: KernelLowering, op: CommitGroupOp | WaitGroupOp) -> None:
    if not k.in_single_thread:
        fail(
            op,
            "bulk groups belong to the thread that issued the stores",
            hint="put it into tile.single_thread { ... }, where the stores are issued",
        )


def lower_wait_ld(k: KernelLowering, op: WaitLdOp) -> None:
    del op
    if k.target.mma == "tcgen05":
        k.e.add(nvvm.Tcgen05WaitOp(nvvm.Tcgen05Wait.LOAD))
