"""mbarriers, aligned instructions in divergent code, deadlocks, traps, and what must not be left behind at the exit."""

from __future__ import annotations

import pytest
from faults.mutants import ORDERS, Edit, Fault, check, without

from tilec.backend.emulator.faults import FaultKind

MBARRIER, DIVERGENT, DEADLOCK, ILLEGAL, TRAP, LEFT = FaultKind.MBARRIER, FaultKind.DIVERGENT, FaultKind.DEADLOCK, FaultKind.ILLEGAL, FaultKind.TRAP, FaultKind.LEFT_BEHIND
LATE = ("adversarial",)

FAULTS = [
    Fault("every thread arrives, not the elected one", "tma_copy", Edit(r"@elect (mbarrier\.arrive\.expect_tx)", r"\1"), MBARRIER, r"mbarrier\.arrive\.expect_tx", "x"),
    Fault("the producer does not wait for its consumers", "wgmma.sm_90a:wgmma_gemm", without(r"@%p10 bra"), MBARRIER, r"mbarrier\.arrive\.expect_tx", "x", orders=LATE),
    Fault("bytes of the whole array", "tma.sm_100a:tile_scale", Edit(r"mov\.b32(\s+)%r29, 4096", r"mov.b32\1%r29, 1048576"), MBARRIER, r"mbarrier\.arrive\.expect_tx", "x"),
    Fault("bytes expected again in each wait", "mbarrier", Edit(r"mov\.u32 bytes, 32768", "mov.u32 bytes, 0x100000"), MBARRIER, r"mbarrier\.arrive\.expect_tx", "x"),
    Fault("bytes completed that are too many", "mbarrier", Edit(r"(complete_tx\S+ \[bar\]), bytes", r"\1, 0x7fffffff"), MBARRIER, r"mbarrier\.complete_tx", "x"),
    Fault("the empty barriers are not initialised", "mbarrier", without(r"mbarrier\.init", 1), MBARRIER, r"mbarrier\.arrive\.shared", "x"),
    Fault("the barrier is not initialised", "wgmma", without(r"mbarrier\.init"), MBARRIER, r"mbarrier\.arrive\.expect_tx", "x"),
    Fault("threads do not wait for the initialisation", "tma.sm_90a:tile_scale", without(r"bar\.sync"), MBARRIER, r"mbarrier\.try_wait", "x", orders=LATE),
    Fault("one barrier is initialised twice", "mbarrier", Edit(r"mbarrier\.init\.shared::cta\.b64 \[bar\+8\]", "mbarrier.init.shared::cta.b64 [bar]"), MBARRIER, r"mbarrier\.init", "x", 1),
    Fault("two stages share a barrier", "tcgen05.sm_100a:tcgen05_gemm", Edit(r"add\.s32(\s+)%r28, %r27, 8", r"add.s32\1%r28, %r27, 0"), MBARRIER, r"mbarrier\.init", "x", 1),
    Fault("every thread initialises", "gemm.sm_90a:k64", Edit(r"@%p3 bra(\s+)\$L__BB0_4;", "", 0), MBARRIER, r"mbarrier\.init", "x"),
    Fault("used after inval", "mbarrier", Edit(r"mapa\.shared::cluster\.u32 rem, bar, 0;", "bar.sync 0;  @elect mbarrier.inval.shared::cta.b64 [bar];  mapa.shared::cluster.u32 rem, bar, 0;"), MBARRIER, r"mbarrier\.arrive\.release\.cluster", "x"),
    # divergent
    Fault("a barrier under a condition", "tma.sm_90a:tile_scale", Edit(r"bar\.sync(\s+)0", r"@%p1 bar.sync\1 0"), DIVERGENT, r"bar\.sync", "x"),
    Fault("half of each warp at the barrier", "gemm.sm_100a:k64", Edit(r"bar\.sync(\s+)0", r"@%p3 bar.sync\1 0", 1), DIVERGENT, r"bar\.sync", "x", 1),
    Fault("wgmma by three warps", "wgmma", Edit(r"  wgmma\.fence", "  setp.ge.u32 p, t, 96;\n  @p ret;\n  wgmma.fence"), DIVERGENT, r"wgmma\.mma_async", "x"),
    Fault("wgmma by the first thread", "gemm.sm_90a:k64", Edit(r"(\$L__BB0_4:)", r"\1\n@%p3 ret;"), DIVERGENT, r"wgmma\.mma_async", "x"),
    Fault("tcgen05.alloc by one thread", "tcgen05", Edit(r"@!w0 bra SKIP_ALLOC", "@!elect bra SKIP_ALLOC"), DIVERGENT, r"tcgen05\.alloc", "x"),
    Fault("tcgen05.ld by half of a warp", "tcgen05", Edit(r"WD: mbar", "setp.lt.u32 p, l, 16;\n  @p ret;\nWD: mbar"), DIVERGENT, r"tcgen05\.ld", "x"),
    Fault("barrier.cluster.arrive.aligned by one thread", "multicast", Edit(r"  barrier\.cluster\.arrive", "  @elect barrier.cluster.arrive"), DIVERGENT, r"barrier\.cluster\.arrive", "x"),
    Fault("bar.warp.sync by one thread", "tma_copy", Edit(r"  bar\.warp\.sync", "  @elect bar.warp.sync"), DIVERGENT, r"bar\.warp\.sync", "x", 1),
    # deadlock
    Fault("16 bytes too many are expected", "tma.sm_100a:tile_scale", Edit(r"mov\.b32(\s+)%r29, 4096", r"mov.b32\1%r29, 4112"), DEADLOCK, r"mbarrier\.try_wait", "x"),
    Fault("16 bytes too few are expected", "tma.sm_100a:tile_scale", Edit(r"mov\.b32(\s+)%r29, 4096", r"mov.b32\1%r29, 4080"), DEADLOCK, r"mbarrier\.try_wait", "x"),
    Fault("one of two tiles is not counted", "gemm.sm_90a:k64", Edit(r"(mov\.b32\s+%r53, )32768", r"\g<1>65536"), DEADLOCK, r"mbarrier\.try_wait", "x"),
    Fault("only half of the bytes are expected", "wgmma", Edit(r"_, \[bar\], 16384", "_, [bar], 8192"), FaultKind.IN_FLIGHT, r"wgmma\.mma_async", "x", orders=LATE, also=(DEADLOCK,)),
    Fault("a barrier of 96 threads", "tma.sm_90a:tile_scale", Edit(r"bar\.sync(\s+)0", r"bar.sync\1 0, 96"), DEADLOCK, r"bar\.sync", "x"),
    Fault("consumers do not arrive", "wgmma.sm_90a:wgmma_gemm", without(r"mbarrier\.arrive\.shared"), DEADLOCK, r"mbarrier\.try_wait", "x"),
    Fault("no commit", "tcgen05", without(r"tcgen05\.commit"), DEADLOCK, r"mbarrier\.try_wait", "x", 1),
    Fault("the peer does not arrive", "tcgen05_pair", without(r"@peer mbarrier\.arrive"), DEADLOCK, r"mbarrier\.try_wait", "x"),
    Fault("the pair's peer does not allocate", "tcgen05_pair", Edit(r"@!w0 bra SKIP_ALLOC", "@!lead bra SKIP_ALLOC"), DIVERGENT, r"tcgen05\.alloc", "x"),
    # trap
    Fault("an assertion is turned round", "functions.sm_90a:speaking", Edit(r"setp\.gt\.s32(\s+)%p1, %r\d+, -1", r"setp.lt.s32\1%p1, %r1, -1"), TRAP, r"call", "x"),
    Fault("a trap for large sizes", "wgmma.sm_90a:wgmma_gemm", Edit(r"(shr\.s32\s+%r1, %r21, 6;)", r"\1\n\tsetp.gt.s32 %p1, %r1, 2;\n\t@%p1 trap;"), TRAP, r"trap", "x"),
    # illegal
    Fault("an inner coordinate off the grid", "tma.sm_90a:tile_scale", Edit(r"shl\.b32(\s+)%r1, %r(\d+), 5", r"mul.lo.s32\1%r1, %r\2, 33"), ILLEGAL, r"cp\.async\.bulk\.tensor", "x"),
    Fault("the second tile begins at 65", "gemm.sm_100a:k192", Edit(r"(mov\.b32\s+%r43, )64", r"\g<1>65"), ILLEGAL, r"cp\.async\.bulk\.tensor", "x", 2),
    Fault("a bulk copy of 8 bytes too many", "cluster.sm_90a:cluster_async", Edit(r"(mov\.u32\s+%r34, )256", r"\g<1>264"), ILLEGAL, r"cp\.async\.bulk\.shared", "x"),
    # left behind
    Fault("the store is not waited for", "tma.sm_90a:tile_scale", without(r"cp\.async\.bulk\.wait_group"), LEFT, r"cp\.async\.bulk\.tensor\.2d\.global", "x", orders=LATE),
    Fault("the reduction is not waited for", "tma.sm_90a:tile_reduce", without(r"cp\.async\.bulk\.wait_group"), LEFT, r"cp\.reduce", "x", orders=LATE),
    Fault("the tile is not waited for", "tma_copy", Edit(r"W: mbarrier", "ret;\nW: mbarrier"), LEFT, r"cp\.async\.bulk\.tensor", "x"),
]
