"""Shared memory that nothing has been written to, or that asynchronous work still uses; stores that no proxy fence has followed."""

from __future__ import annotations

import pytest
from faults.mutants import ORDERS, Edit, Fault, check, without

from tilec.backend.emulator.faults import FaultKind

UNINITIALISED, IN_FLIGHT, PROXY = FaultKind.UNINITIALISED, FaultKind.IN_FLIGHT, FaultKind.PROXY_FENCE
LATE = ("adversarial",)

FAULTS = [
    Fault("the store to the neighbour is missing", "cluster.sm_90a:cluster_ring", without(r"st\.shared::cluster\.u32"), UNINITIALISED, r"ld\.shared\.u32\s+%r28", "x"),
    Fault("a quarter of the tile is not stored", "matrix.sm_100a:transpose", without(r"st\.shared\.\w+\s+\[%r\d+\+3168\]"), UNINITIALISED, r"ld\.shared", "x"),
    Fault("a piece of the tile that TMA stores is not written", "gemm.sm_90a:k64", without(r"st\.shared\.b32\s+\[%r14\+66560\]"), UNINITIALISED, r"cp\.async\.bulk\.tensor\.2d\.global", "x"),
    Fault("a bulk reduction of 32 words more", "tma.sm_90a:tile_reduce", Edit(r"mov\.u32(\s+)%r33, 128", r"mov.u32\1%r33, 256"), UNINITIALISED, r"cp\.reduce\.async\.bulk\.global", "x"),
    # in flight
    Fault("threads do not wait for the tile", "tma.sm_90a:tile_scale", without(r"@%p3 bra"), IN_FLIGHT, r"ld\.shared\.f32", "x", orders=LATE),
    Fault("the tile is stored before it has come", "tma_copy", without(r"@!p bra W"), IN_FLIGHT, r"cp\.async\.bulk\.tensor\.2d\.global", "x", orders=LATE),
    Fault("the wrong parity is waited for", "gemm.sm_90a:k64", Edit(r"(mbarrier\.try_wait\.parity\.shared\.b64 %p9, \[%r21\]), %r178", r"\1, 1"), IN_FLIGHT, r"wgmma\.mma_async", "x", orders=LATE, also=(FaultKind.DEADLOCK,)),
    Fault("cp.async is not waited for", "matrix.sm_90a:async_barrier_copy", without(r"@!p bra AGAIN"), UNINITIALISED, r"ld\.shared\.u32", "x", orders=LATE, also=(IN_FLIGHT,)),
    Fault("one group of cp.async too many is left", "matrix.sm_90a:pipelined_scale", Edit(r"cp\.async\.wait_group 1", "cp.async.wait_group 2", 4), IN_FLIGHT, r"ld\.shared", "x", 4),
    Fault("wgmma is not waited for before its operands are loaded again", "gemm.sm_90a:k192", without(r"wgmma\.wait_group\.sync\.aligned 0"), IN_FLIGHT, r"cp\.async\.bulk\.tensor\.2d\.shared::cluster", "x", 4, orders=LATE),
    Fault("tcgen05.mma is not waited for before its operands are loaded again", "gemm.sm_100a:k192", without(r"@%p14 bra"), IN_FLIGHT, r"cp\.async\.bulk\.tensor\.2d\.shared::cluster", "x", 4, orders=LATE),
    Fault("the tile is stored again before TMA has read it", "tma.sm_90a:bulk_copy", without(r"cp\.async\.bulk\.wait_group\.read"), IN_FLIGHT, r"cp\.async\.bulk\.shared", "x", 1, orders=LATE),
    Fault("the destination is written while TMA writes it", "tma_copy", Edit(r"W: mbarrier", "st.shared.b32 [dst], lane;\nW: mbarrier"), IN_FLIGHT, r"st\.shared", "x"),
    # proxies
    Fault("no proxy fence before the store", "tma.sm_100a:tile_scale", without(r"fence\.proxy\.async"), PROXY, r"cp\.async\.bulk\.tensor\.2d\.global", "x"),
    Fault("no proxy fence before the second store", "gemm.sm_90a:k192", without(r"fence\.proxy\.async", 1), PROXY, r"cp\.async\.bulk\.tensor\.2d\.global", "x", 1),
    Fault("no proxy fence, bulk copy to the other CTA", "cluster.sm_90a:cluster_async", without(r"fence\.proxy\.async"), PROXY, r"cp\.async\.bulk\.shared::cluster", "x"),
    Fault("no proxy fence between cp.async and wgmma", "matmul_f16.sm_90a", without(r"fence\.proxy\.async"), PROXY, r"wgmma\.mma_async", "x"),
    Fault("no proxy fence between cp.async and tcgen05.mma", "matmul_f16.sm_100a", without(r"fence\.proxy\.async"), PROXY, r"tcgen05\.mma", "x"),
    Fault("no proxy fence between st.shared and tcgen05", "block_scaled", without(r"fence\.proxy\.async"), PROXY, r"tcgen05\.(cp|mma)", "x"),
    Fault("the fence comes from one thread, before the barrier", "tma.sm_90a:tile_reduce", Edit(r"fence\.proxy\.async", "@!%p3 fence.proxy.async"), PROXY, r"cp\.reduce\.async\.bulk\.tensor", "x", orders=("fifo", "random")),
    Fault("no fence of the tensor map", "reduction", without(r"fence\.proxy\.tensormap"), PROXY, r"cp\.", "x"),
    Fault("no fence of a map made on the device", "matmul_tma_device.sm_90a", without(r"fence\.proxy\.tensormap"), PROXY, r"cp\.async\.bulk\.tensor", "x"),
]
