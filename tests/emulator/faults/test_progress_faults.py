"""Deadlocks, traps, illegal instructions, and what must not be left behind at the exit."""

from __future__ import annotations

import pytest
from faults.seeded import ORDERS, Edit, Fault, check, check_original, subjects_of, without

from tilec.backend.emulator.faults import FaultKind

DEADLOCK, ILLEGAL, TRAP, LEFT = FaultKind.DEADLOCK, FaultKind.ILLEGAL, FaultKind.TRAP, FaultKind.LEFT_BEHIND
LATE = ("adversarial",)
"""Only there engines end as late as they may."""

FAULTS = [
    Fault(
        "16 bytes too many are expected",
        "tma.sm_100a:tile_scale",
        Edit(r"mov\.b32(\s+)%r29, 4096", r"mov.b32\1%r29, 4112"),
        DEADLOCK,
        r"mbarrier\.try_wait",
        r"no thread (of this (CTA|cluster) )?can go on, and nothing asynchronous is under way",
        notes="which is in phase 0 and lacks 16 of 4112 announced bytes",
    ),
    Fault(
        "16 bytes too few are expected",
        "tma.sm_100a:tile_scale",
        Edit(r"mov\.b32(\s+)%r29, 4096", r"mov.b32\1%r29, 4080"),
        DEADLOCK,
        r"mbarrier\.try_wait",
        r"no thread (of this (CTA|cluster) )?can go on, and nothing asynchronous is under way",
        notes="which is in phase 0; 16 bytes more than the 4080 announced have arrived",
    ),
    Fault(
        "twice the bytes are expected",
        "gemm.sm_90a:k64",
        Edit(r"(mov\.b32\s+%r53, )32768", r"\g<1>65536"),
        DEADLOCK,
        r"mbarrier\.try_wait",
        r"no thread (of this (CTA|cluster) )?can go on, and nothing asynchronous is under way",
        notes="which is in phase 0 and lacks 32768 of 65536 announced bytes",
    ),
    Fault(
        "only half of the bytes are expected",
        "wgmma",
        Edit(r"_, \[bar\], 16384", "_, [bar], 8192"),
        FaultKind.IN_FLIGHT,
        r"wgmma\.mma_async",
        r"wgmma reads shared memory at 0x800, which the TMA load of line <line> still writes",
        other=(r"cp\.async\.bulk", 0),
        orders=LATE,
        also=(DEADLOCK,),
    ),
    Fault(
        "bar.warp.sync by one thread",
        "tma_copy",
        Edit(r"  bar\.warp\.sync", "  @elect bar.warp.sync"),
        DEADLOCK,
        r"mbarrier\.try_wait",
        r"no thread (of this (CTA|cluster) )?can go on, and nothing asynchronous is under way",
        notes="lane 0 of warp 0: waits at bar.warp.sync for the threads 0xfffffffe of its member mask 0xffffffff",
    ),
    Fault(
        "a barrier of 96 threads",
        "tma.sm_90a:tile_scale",
        Edit(r"bar\.sync(\s+)0", r"bar.sync\1 0, 96"),
        DEADLOCK,
        r"bar\.sync",
        r"no thread (of this (CTA|cluster) )?can go on, and nothing asynchronous is under way",
        notes="wait at bar.sync for barrier 0: 64 of 96 threads have arrived (warps 0, 1)",
    ),
    Fault(
        "consumers do not arrive",
        "wgmma.sm_90a:wgmma_gemm",
        without(r"mbarrier\.arrive\.shared"),
        DEADLOCK,
        r"mbarrier\.try_wait",
        r"no thread (of this (CTA|cluster) )?can go on, and nothing asynchronous is under way",
        notes="which is in phase 0 and lacks 128 arrivals",
    ),
    Fault(
        "no commit",
        "tcgen05",
        without(r"tcgen05\.commit"),
        DEADLOCK,
        r"mbarrier\.try_wait",
        r"no thread (of this (CTA|cluster) )?can go on, and nothing asynchronous is under way",
        1,
        notes="the mbarrier at 0x408, which is in phase 0 and lacks 1 arrival",
    ),
    Fault(
        "the peer does not arrive",
        "tcgen05_pair",
        without(r"@peer mbarrier\.arrive"),
        DEADLOCK,
        r"mbarrier\.try_wait",
        r"no thread (of this (CTA|cluster) )?can go on, and nothing asynchronous is under way",
        notes="the mbarrier at 0x400 of the CTA of rank 0, which is in phase 0 and lacks 1 arrival",
    ),
    Fault(
        "an assertion is turned round",
        "functions.sm_90a:speaking",
        Edit(r"setp\.gt\.s32(\s+)%p1, %r\d+, -1", r"setp.lt.s32\1%p1, %r1, -1"),
        TRAP,
        r"call",
        r"functions\.cu:86: void speaking\(const int \*, int \*, int\): assertion `x\[t\] >= 0` failed",
    ),
    Fault(
        "a trap for large sizes",
        "wgmma.sm_90a:wgmma_gemm",
        Edit(r"(shr\.s32\s+%r1, %r21, 6;)", r"\1\n\tsetp.gt.s32 %p1, %r1, 2;\n\t@%p1 trap;"),
        TRAP,
        r"trap",
        r"the program executed a trap",
    ),
    Fault(
        "an inner coordinate off the grid",
        "tma.sm_90a:tile_scale",
        Edit(r"shl\.b32(\s+)%r1, %r(\d+), 5", r"mul.lo.s32\1%r1, %r\2, 33"),
        ILLEGAL,
        r"cp\.async\.bulk\.tensor",
        r"coordinate \d+ along the innermost dimension is byte \d+ of a row of f32: it must be a multiple of 16 bytes",
    ),
    Fault(
        "the second tile begins at 65",
        "gemm.sm_100a:k192",
        Edit(r"(mov\.b32\s+%r43, )64", r"\g<1>65"),
        ILLEGAL,
        r"cp\.async\.bulk\.tensor",
        r"coordinate 65 along the innermost dimension is byte 130 of a row of f16: it must be a multiple of 16 bytes",
        2,
    ),
    Fault(
        "a bulk copy of 8 bytes too many",
        "cluster.sm_90a:cluster_async",
        Edit(r"(mov\.u32\s+%r34, )256", r"\g<1>264"),
        ILLEGAL,
        r"cp\.async\.bulk\.shared",
        r"the size of 264 bytes is not a multiple of 16",
    ),
    Fault(
        "the store is not waited for",
        "tma.sm_90a:tile_scale",
        without(r"cp\.async\.bulk\.wait_group"),
        LEFT,
        r"cp\.async\.bulk\.tensor\.2d\.global",
        r"CTA \(1, 1, 0\) has exited, but the TMA store still uses its shared memory",
        orders=LATE,
    ),
    Fault(
        "the reduction is not waited for",
        "tma.sm_90a:tile_reduce",
        without(r"cp\.async\.bulk\.wait_group"),
        LEFT,
        r"cp\.reduce",
        r"CTA \(2, 0, 0\) has exited, but the TMA reduction still uses its shared memory",
        orders=LATE,
    ),
    Fault(
        "the tile is not waited for",
        "tma_copy",
        Edit(r"W: mbarrier", "ret;\nW: mbarrier"),
        LEFT,
        r"cp\.async\.bulk\.tensor",
        r"CTA \(0, 0, 0\) has exited, but the TMA load still uses its shared memory",
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
