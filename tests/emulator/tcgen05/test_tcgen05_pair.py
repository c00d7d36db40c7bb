"""A pair of CTAs as one program: TMA brings each its halves, the leader multiplies, the commit tells both."""

from __future__ import annotations

import numpy as np
import pytest

from tilec.backend.emulator.launch import OrderName, emulate
from tilec.backend.emulator.tensor_map import TensorMap

_REGISTERS = [f"x{i}" for i in range(32)]
_STORES = "\n ".join(
    f"st.global.v4.b32 [out+{16 * i}], {{{', '.join(_REGISTERS[4 * i : 4 * i + 4])}}};" for i in range(8)
)
PROGRAM = f"""
.version 8.6
.target sm_100a
.address_size 64
.extern .shared .align 1024 .b8 tiles[];
.visible .entry pair(.param .align 64 .b8 a_[128], .param .align 64 .b8 b_[128], .param .u64 out_)
.reqntid 128
.reqnctapercluster 2, 1, 1
{{
 .reg .pred p, warp0, leads, follows, first, no, yes;
 .reg .b16 both;
 .reg .b32 tid, warp, rank, full, leader, done, slot, tile_a, tile_b, row, zero, d, bits, lane, column, {", ".join(_REGISTERS)};
 .reg .b64 a, b, da, db, k, out, offset;
 .shared .align 8 .b64 bars[2];
 .shared .align 4 .b32 taddr;
 mov.u32 full, bars;
 add.u32 done, full, 8;
 mov.u32 slot, taddr;
 mov.u32 tile_a, tiles;
 add.u32 tile_b, tile_a, 16384;
 mov.b64 a, a_;
 cvta.param.u64 a, a;
 mov.b64 b, b_;
 cvta.param.u64 b, b;
 mov.u32 tid, %tid.x;
 mov.u32 rank, %cluster_ctarank;
 mov.u32 zero, 0;
 shr.u32 warp, tid, 5;
 setp.eq.u32 warp0, warp, 0;
 setp.eq.u32 first, tid, 0;
 setp.eq.and.u32 leads, rank, 0, first;
 setp.ne.and.u32 follows, rank, 0, first;
 setp.ne.u32 no, zero, 0;
 setp.eq.u32 yes, zero, 0;
 @first mbarrier.init.shared::cta.b64 [full], 2;
 @first mbarrier.init.shared::cta.b64 [done], 1;
 @first fence.mbarrier_init.release.cluster;
 barrier.cluster.arrive.release.aligned;
 barrier.cluster.wait.acquire.aligned;
 @warp0 tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [slot], 256;
 @warp0 tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;
 tcgen05.fence::before_thread_sync;
 barrier.cluster.arrive.release.aligned;
 barrier.cluster.wait.acquire.aligned;
 tcgen05.fence::after_thread_sync;
 ld.shared.b32 d, [slot];
 and.b32 leader, full, 0xFEFFFFFF;
 shl.b32 row, rank, 7;
 @first cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.cta_group::2 [tile_a], [a, {{zero, row}}], [leader];
 @first cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.cta_group::2 [tile_b], [b, {{zero, row}}], [leader];
 @leads mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 65536;
 @follows mbarrier.arrive.release.cluster.shared::cluster.b64 _, [leader];
 bfe.u32 tile_a, tile_a, 4, 14;
 cvt.u64.u32 da, tile_a;
 bfe.u32 tile_b, tile_b, 4, 14;
 cvt.u64.u32 db, tile_b;
 mov.b64 k, 0x4000404000010000;
 or.b64 da, da, k;
 or.b64 db, db, k;
 mov.b32 bits, 0x10400490;
 mov.u16 both, 3;
 @!leads bra EPILOGUE;
FULL:
 mbarrier.try_wait.parity.shared::cta.b64 p, [full], 0;
 @!p bra FULL;
 tcgen05.fence::after_thread_sync;
 tcgen05.mma.cta_group::2.kind::f16 [d], da, db, bits, no;
 add.s64 da, da, 2;
 add.s64 db, db, 2;
 tcgen05.mma.cta_group::2.kind::f16 [d], da, db, bits, yes;
 add.s64 da, da, 2;
 add.s64 db, db, 2;
 tcgen05.mma.cta_group::2.kind::f16 [d], da, db, bits, yes;
 add.s64 da, da, 2;
 add.s64 db, db, 2;
 tcgen05.mma.cta_group::2.kind::f16 [d], da, db, bits, yes;
 tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [done], both;
EPILOGUE:
 bar.warp.sync 0xffffffff;
DONE:
 mbarrier.try_wait.parity.shared::cta.b64 p, [done], 0;
 @!p bra DONE;
 tcgen05.fence::after_thread_sync;
 ld.param.u64 out, [out_];
 mad.lo.u32 row, rank, 128, tid;
 mul.wide.u32 offset, row, 1024;
 add.u64 out, out, offset;
 shl.b32 lane, warp, 21;
 add.u32 lane, lane, d;
 mov.u32 column, 0;
READ:
 tcgen05.ld.sync.aligned.32x32b.x32.b32 {{{", ".join(_REGISTERS)}}}, [lane];
 tcgen05.wait::ld.sync.aligned;
 {_STORES}
 add.u64 out, out, 128;
 add.u32 lane, lane, 32;
 add.u32 column, column, 32;
 setp.lt.u32 p, column, 256;
 @p bra READ;
 tcgen05.fence::before_thread_sync;
 barrier.cluster.arrive.release.aligned;
 barrier.cluster.wait.acquire.aligned;
 @warp0 tcgen05.dealloc.cta_group::2.sync.aligned.b32 d, 256;
 ret;
}}
"""


@pytest.mark.parametrize(("order", "seed"), [("fifo", 0), ("random", 1), ("random", 2), ("adversarial", 1)])
def test_a_tile_of_a_pair(order: OrderName, seed: int) -> None:
    rng = np.random.default_rng(12)
    a, b = (rng.integers(-8, 9, (256, 64)).astype(np.float32) for _ in range(2))
    halves = [(matrix.view(np.uint32) >> 16).astype(np.uint16) for matrix in (a, b)]
    out = np.zeros((256, 256), np.float32)
    maps = [TensorMap(matrix, (128, 64), dtype="bf16") for matrix in halves]
    done = emulate(PROGRAM, None, 2, 128, [*maps, out], dynamic_smem=32768, order=order, seed=seed)
    np.testing.assert_array_equal(out, a @ b.T)
    assert done.mmas == {"tcgen05.mma.cta_group::2.kind::f16": 4}
