"""mbarriers that are used before their time, too often or with wrong counts, and `.aligned` instructions in divergent code."""

from __future__ import annotations

import pytest
from faults.seeded import ORDERS, Edit, Fault, check, check_original, subjects_of, without

from tilec.backend.emulator.faults import FaultKind

MBARRIER, DIVERGENT = FaultKind.MBARRIER, FaultKind.DIVERGENT
LATE = ("adversarial",)
"""Only there engines end as late as they may."""

FAULTS = [
    Fault(
        "every thread arrives, not the elected one",
        "tma_copy",
        Edit(r"@elect (mbarrier\.arrive\.expect_tx)", r"\1"),
        MBARRIER,
        r"mbarrier\.arrive\.expect_tx",
        r"1 arrival at the mbarrier at 0x400, whose phase 0 expects only 0 more, and waits for 16384 bytes",
    ),
    Fault(
        "the producer does not wait for its consumers",
        "wgmma.sm_90a:wgmma_gemm",
        without(r"@%p10 bra"),
        MBARRIER,
        r"mbarrier\.arrive\.expect_tx",
        r"1 arrival at the mbarrier at 0x400, whose phase 0 expects only 0 more, and waits for 32768 bytes",
        orders=LATE,
    ),
    Fault(
        "bytes of the whole array",
        "tma.sm_100a:tile_scale",
        Edit(r"mov\.b32(\s+)%r29, 4096", r"mov.b32\1%r29, 1048576"),
        MBARRIER,
        r"mbarrier\.arrive\.expect_tx",
        r"the tx-count of the mbarrier at 0x1400 would become 1048576; it is from -1048575 to 1048575",
    ),
    Fault(
        "a mebibyte of bytes",
        "mbarrier",
        Edit(r"mov\.u32 bytes, 32768", "mov.u32 bytes, 0x100000"),
        MBARRIER,
        r"mbarrier\.arrive\.expect_tx",
        r"the tx-count of the mbarrier at 0x400 would become 1048576; it is from -1048575 to 1048575",
    ),
    Fault(
        "bytes completed that are too many",
        "mbarrier",
        Edit(r"(complete_tx\S+ \[bar\]), bytes", r"\1, 0x7fffffff"),
        MBARRIER,
        r"mbarrier\.complete_tx",
        r"the tx-count of the mbarrier at 0x400 would become -2147450879; it is from -1048575 to 1048575",
    ),
    Fault(
        "the empty barriers are not initialised",
        "mbarrier",
        without(r"mbarrier\.init", 1),
        MBARRIER,
        r"mbarrier\.arrive\.shared",
        r"no mbarrier has been initialised at 0x408",
    ),
    Fault(
        "the barrier is not initialised",
        "wgmma",
        without(r"mbarrier\.init"),
        MBARRIER,
        r"mbarrier\.arrive\.expect_tx",
        r"no mbarrier has been initialised at 0x400",
    ),
    Fault(
        "threads do not wait for the initialisation",
        "tma.sm_90a:tile_scale",
        without(r"bar\.sync"),
        MBARRIER,
        r"mbarrier\.try_wait",
        r"no mbarrier has been initialised at 0x1400",
        orders=LATE,
    ),
    Fault(
        "one barrier is initialised twice",
        "mbarrier",
        Edit(r"mbarrier\.init\.shared::cta\.b64 \[bar\+8\]", "mbarrier.init.shared::cta.b64 [bar]"),
        MBARRIER,
        r"mbarrier\.init",
        r"the mbarrier at 0x400 is initialised again, although it is live",
        1,
    ),
    Fault(
        "two stages share a barrier",
        "tcgen05.sm_100a:tcgen05_gemm",
        Edit(r"add\.s32(\s+)%r28, %r27, 8", r"add.s32\1%r28, %r27, 0"),
        MBARRIER,
        r"mbarrier\.init",
        r"the mbarrier at 0x400 is initialised again, although it is live",
        1,
    ),
    Fault(
        "every thread initialises",
        "gemm.sm_90a:k64",
        Edit(r"@%p3 bra(\s+)\$L__BB0_4;", "", 0),
        MBARRIER,
        r"mbarrier\.init",
        r"the mbarrier at 0x18400 is initialised by \d+ threads at once",
    ),
    Fault(
        "used after inval",
        "mbarrier",
        Edit(
            r"mapa\.shared::cluster\.u32 rem, bar, 0;",
            "bar.sync 0;  @elect mbarrier.inval.shared::cta.b64 [bar];  mapa.shared::cluster.u32 rem, bar, 0;",
        ),
        MBARRIER,
        r"mbarrier\.arrive\.release\.cluster",
        r"the mbarrier at 0x400 is used, but mbarrier\.inval of line <line> has ended its life",
        other=(r"bar\.sync", 1),
    ),
    Fault(
        "a barrier under a condition",
        "tma.sm_90a:tile_scale",
        Edit(r"bar\.sync(\s+)0", r"@%p1 bar.sync\1 0"),
        DIVERGENT,
        r"bar\.sync",
        r"only lanes 1 to 31 of warp 0 execute bar\.sync, and the other threads that take part never do",
    ),
    Fault(
        "a barrier under a condition, compiled",
        "gemm.sm_100a:k64",
        Edit(r"bar\.sync(\s+)0", r"@%p3 bar.sync\1 0", 1),
        DIVERGENT,
        r"bar\.sync",
        r"only lanes 1 to 31 of warp 0 execute bar\.sync, and the other threads that take part never do",
        1,
    ),
    Fault(
        "wgmma by three warps",
        "wgmma",
        Edit(r"  wgmma\.fence", "  setp.ge.u32 p, t, 96;\n  @p ret;\n  wgmma.fence"),
        DIVERGENT,
        r"wgmma\.mma_async",
        r"wgmma needs the four warps of a warpgroup; of threads 0 to 127 some do not exist or have exited",
    ),
    Fault(
        "wgmma by the first thread",
        "gemm.sm_90a:k64",
        Edit(r"(\$L__BB0_4:)", r"\1\n@%p3 ret;"),
        DIVERGENT,
        r"wgmma\.mma_async",
        r"wgmma needs the four warps of a warpgroup; of threads 0 to 127 some do not exist or have exited",
    ),
    Fault(
        "tcgen05.alloc by one thread",
        "tcgen05",
        Edit(r"@!w0 bra SKIP_ALLOC", "@!elect bra SKIP_ALLOC"),
        DIVERGENT,
        r"tcgen05\.alloc",
        r"only lane 0 of warp 0 executes tcgen05\.alloc\.cta_group::1\.sync\.aligned\.shared::cta\.b32, and the other threads that take part never do",
    ),
    Fault(
        "tcgen05.ld by half of a warp",
        "tcgen05",
        Edit(r"WD: mbar", "setp.lt.u32 p, l, 16;\n  @p ret;\nWD: mbar"),
        DIVERGENT,
        r"tcgen05\.ld",
        r"tcgen05\.ld\.sync\.aligned\.32x32b\.x64\.b32 needs all 32 threads of warp 0; 16 of them have exited",
    ),
    Fault(
        "barrier.cluster.arrive.aligned by one thread",
        "multicast",
        Edit(r"  barrier\.cluster\.arrive", "  @elect barrier.cluster.arrive"),
        DIVERGENT,
        r"barrier\.cluster\.arrive",
        r"only lane 0 of warp 0 executes barrier\.cluster\.arrive\.release\.aligned, and the other threads that take part never do",
    ),
    Fault(
        "the pair's peer does not allocate",
        "tcgen05_pair",
        Edit(r"@!w0 bra SKIP_ALLOC", "@!lead bra SKIP_ALLOC"),
        DIVERGENT,
        r"tcgen05\.alloc",
        r"only lane 0 of warp 0 executes tcgen05\.alloc\.cta_group::2\.sync\.aligned\.shared::cta\.b32, and the other threads that take part never do",
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
