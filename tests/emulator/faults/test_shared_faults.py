"""Shared memory that nothing has been written to, or that asynchronous work still uses; stores that no proxy fence has followed."""

from __future__ import annotations

import pytest
from faults.seeded import ORDERS, Edit, Fault, check, check_original, subjects_of, without

from tilec.backend.emulator.faults import FaultKind

UNINITIALISED, IN_FLIGHT, PROXY = FaultKind.UNINITIALISED, FaultKind.IN_FLIGHT, FaultKind.PROXY_FENCE
LATE = ("adversarial",)
"""Only there engines end as late as they may."""

FAULTS = [
    Fault(
        "the store to the neighbour is missing",
        "cluster.sm_90a:cluster_ring",
        without(r"st\.shared::cluster\.u32"),
        UNINITIALISED,
        r"ld\.shared\.u32\s+%r28",
        r"4 bytes of shared memory at 0x404 are read, but nothing has been written at 0x404",
    ),
    Fault(
        "a quarter of the tile is not stored",
        "matrix.sm_100a:transpose",
        without(r"st\.shared\.\w+\s+\[%r\d+\+3168\]"),
        UNINITIALISED,
        r"ld\.shared",
        r"4 bytes of shared memory at 0x[0-9a-f]+ are read, but nothing has been written at 0x[0-9a-f]+",
    ),
    Fault(
        "a piece of the tile that TMA stores is not written",
        "gemm.sm_90a:k64",
        without(r"st\.shared\.b32\s+\[%r14\+66560\]"),
        UNINITIALISED,
        r"cp\.async\.bulk\.tensor\.2d\.global",
        r"the TMA store reads shared memory at 0x10820, where nothing has been written",
    ),
    Fault(
        "a bulk reduction of 32 words more",
        "tma.sm_90a:tile_reduce",
        Edit(r"mov\.u32(\s+)%r33, 128", r"mov.u32\1%r33, 256"),
        UNINITIALISED,
        r"cp\.reduce\.async\.bulk\.global",
        r"the bulk reduction reads shared memory at 0x680, where nothing has been written",
    ),
    Fault(
        "threads do not wait for the tile",
        "tma.sm_90a:tile_scale",
        without(r"@%p3 bra"),
        IN_FLIGHT,
        r"ld\.shared\.f32",
        r"4 bytes of shared memory at 0x480 are read, but at 0x480 the TMA load of line <line> has not completed",
        other=(r"cp\.async\.bulk", 0),
        orders=LATE,
    ),
    Fault(
        "the tile is stored before it has come",
        "tma_copy",
        without(r"@!p bra W"),
        IN_FLIGHT,
        r"cp\.async\.bulk\.tensor\.2d\.global",
        r"the TMA store reads shared memory at 0x800, which the TMA load of line <line> still writes",
        other=(r"cp\.async\.bulk", 0),
        orders=LATE,
    ),
    Fault(
        "the wrong parity is waited for",
        "gemm.sm_90a:k64",
        Edit(r"(mbarrier\.try_wait\.parity\.shared\.b64 %p9, \[%r21\]), %r178", r"\1, 1"),
        IN_FLIGHT,
        r"wgmma\.mma_async",
        r"wgmma reads shared memory at 0x8400, which the TMA load of line <line> still writes",
        other=(r"cp\.async\.bulk", 1),
        orders=LATE,
        also=(FaultKind.DEADLOCK,),
    ),
    Fault(
        "cp.async is not waited for",
        "matrix.sm_90a:async_barrier_copy",
        without(r"@!p bra AGAIN"),
        UNINITIALISED,
        r"ld\.shared\.u32",
        r"4 bytes of shared memory at 0x9fc are read, but nothing has been written at 0x9fc",
        orders=LATE,
        also=(IN_FLIGHT,),
    ),
    Fault(
        "one group of cp.async too many is left",
        "matrix.sm_90a:pipelined_scale",
        Edit(r"cp\.async\.wait_group 1", "cp.async.wait_group 2", 4),
        IN_FLIGHT,
        r"ld\.shared",
        r"16 bytes of shared memory at 0x410 are read, but at 0x410 cp\.async of 16 bytes of line <line> has not completed",
        4,
        other=(r"cp\.async\.cg", 0),
    ),
    Fault(
        "wgmma is not waited for before its operands are loaded again",
        "gemm.sm_90a:k192",
        without(r"wgmma\.wait_group\.sync\.aligned 0"),
        IN_FLIGHT,
        r"cp\.async\.bulk\.tensor\.2d\.shared::cluster",
        r"the TMA load writes shared memory at 0x400, which wgmma of line <line> still reads",
        4,
        other=(r"wgmma\.mma_async", 0),
        orders=LATE,
    ),
    Fault(
        "tcgen05.mma is not waited for before its operands are loaded again",
        "gemm.sm_100a:k192",
        without(r"@%p14 bra"),
        IN_FLIGHT,
        r"cp\.async\.bulk\.tensor\.2d\.shared::cluster",
        r"the TMA load writes shared memory at 0x400, which tcgen05\.mma of line <line> still reads",
        4,
        other=(r"tcgen05\.mma", 0),
        orders=LATE,
    ),
    Fault(
        "the tile is stored again before TMA has read it",
        "tma.sm_90a:bulk_copy",
        without(r"cp\.async\.bulk\.wait_group\.read"),
        IN_FLIGHT,
        r"cp\.async\.bulk\.shared",
        r"the bulk copy writes shared memory at 0x800, which the bulk copy of line <line> still reads",
        1,
        other=(r"cp\.async\.bulk", 1),
        orders=LATE,
    ),
    Fault(
        "the destination is written while TMA writes it",
        "tma_copy",
        Edit(r"W: mbarrier", "st.shared.b32 [dst], lane;\nW: mbarrier"),
        IN_FLIGHT,
        r"st\.shared",
        r"4 bytes of shared memory at 0x800 are written, but at 0x800 the TMA load of line <line> has not completed",
        other=(r"cp\.async\.bulk", 0),
    ),
    Fault(
        "no proxy fence before the store",
        "tma.sm_100a:tile_scale",
        without(r"fence\.proxy\.async"),
        PROXY,
        r"cp\.async\.bulk\.tensor\.2d\.global",
        r"the TMA store reads shared memory at 0x400 through the async proxy, but it was written by ordinary stores that no fence\.proxy\.async has followed",
    ),
    Fault(
        "no proxy fence before the second store",
        "gemm.sm_90a:k192",
        without(r"fence\.proxy\.async", 1),
        PROXY,
        r"cp\.async\.bulk\.tensor\.2d\.global",
        r"the TMA store reads shared memory at 0x14400 through the async proxy, but it was written by ordinary stores that no fence\.proxy\.async has followed",
        1,
    ),
    Fault(
        "no proxy fence before a bulk copy to the other CTA",
        "cluster.sm_90a:cluster_async",
        without(r"fence\.proxy\.async"),
        PROXY,
        r"cp\.async\.bulk\.shared::cluster",
        r"the bulk copy reads shared memory at 0x400 through the async proxy, but it was written by ordinary stores that no fence\.proxy\.async has followed",
    ),
    Fault(
        "no proxy fence between cp.async and wgmma",
        "matmul_f16.sm_90a",
        without(r"fence\.proxy\.async"),
        PROXY,
        r"wgmma\.mma_async",
        r"wgmma reads shared memory at 0x3400 through the async proxy, but it was written by ordinary stores that no fence\.proxy\.async has followed",
    ),
    Fault(
        "no proxy fence between cp.async and tcgen05.mma",
        "matmul_f16.sm_100a",
        without(r"fence\.proxy\.async"),
        PROXY,
        r"tcgen05\.mma",
        r"tcgen05\.mma reads shared memory at 0x3400 through the async proxy, but it was written by ordinary stores that no fence\.proxy\.async has followed",
    ),
    Fault(
        "no proxy fence between st.shared and tcgen05",
        "block_scaled",
        without(r"fence\.proxy\.async"),
        PROXY,
        r"tcgen05\.(cp|mma)",
        r"tcgen05\.cp reads shared memory at 0x1500 through the async proxy, but it was written by ordinary stores that no fence\.proxy\.async has followed",
    ),
    # Not where the last warp runs first: what a thread has released counts for the fence of any thread that comes later, also of
    # one that has not waited for it.
    Fault(
        "half of the writers execute the fence",
        "tma.sm_90a:tile_reduce",
        Edit(r"fence\.proxy\.async", "@!%p3 fence.proxy.async"),
        PROXY,
        r"cp\.reduce\.async\.bulk\.tensor",
        r"the TMA reduction reads shared memory at 0x480 through the async proxy, but it was written by ordinary stores that no fence\.proxy\.async has followed",
        orders=("fifo", "random"),
    ),
    Fault(
        "no fence of the tensor map",
        "reduction",
        without(r"fence\.proxy\.tensormap"),
        PROXY,
        r"cp\.",
        r"the tensor map at address 0x[0-9a-f]+, in array gmap, was changed in line <line>, and no fence\.proxy\.tensormap::generic\.acquire has followed",
        other=(r"tensormap\.cp_fenceproxy", 0),
    ),
    Fault(
        "no fence of a map made on the device",
        "matmul_tma_device.sm_90a",
        without(r"fence\.proxy\.tensormap"),
        PROXY,
        r"cp\.async\.bulk\.tensor",
        r"the tensor map at address 0x[0-9a-f]+, in array matmul_tma_device_param_6, was changed in line <line>, and no fence\.proxy\.tensormap::generic\.acquire has followed",
        other=(r"tensormap\.cp_fenceproxy", 0),
    ),
]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.subject}: {fault.error}")
def test_fault(fault: Fault, order: str) -> None:
    check(fault, order)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", subjects_of(FAULTS))
def test_original(name: str, order: str) -> None:
    check_original(name, order)
