"""Tensor memory: its allocation, cells that nothing has written, and cells that are in flight."""

from __future__ import annotations

import pytest
from faults.seeded import ORDERS, Edit, Fault, check, check_original, subjects_of, without

from tilec.backend.emulator.faults import FaultKind

IN_FLIGHT, UNINITIALISED, TENSOR = FaultKind.IN_FLIGHT, FaultKind.UNINITIALISED, FaultKind.TENSOR_MEMORY
LATE = ("adversarial",)
"""Only there engines end as late as they may."""

FAULTS = [
    Fault(
        "the first product adds to what is there",
        "tcgen05",
        Edit(r"idesc, pz", "idesc, pt"),
        UNINITIALISED,
        r"tcgen05\.mma",
        r"tcgen05\.mma accumulates onto tensor memory at lane 0, column 0, where nothing has been written since it was allocated",
    ),
    Fault(
        "the first product adds to what is there",
        "tcgen05.sm_100a:tcgen05_gemm",
        Edit(r"setp\.ne\.b32 p, %r172, 0", "setp.eq.b32 p, %r172, 0"),
        UNINITIALISED,
        r"tcgen05\.mma",
        r"tcgen05\.mma accumulates onto tensor memory at lane 0, column 0, where nothing has been written since it was allocated",
    ),
    Fault(
        "N is half of what is read",
        "tcgen05.sm_100a:tcgen05_gemm",
        Edit("135267472", str(135267472 - (4 << 17))),
        UNINITIALISED,
        r"tcgen05\.ld",
        r"tcgen05\.ld reads tensor memory at lane \d+, column 32, where nothing has been written since it was allocated",
        4,
    ),
    Fault(
        "the commit is not waited for",
        "tcgen05.sm_100a:tcgen05_gemm",
        without(r"@%p14 bra"),
        UNINITIALISED,
        r"tcgen05\.ld",
        r"tcgen05\.ld reads tensor memory at lane 96, column 0, where nothing has been written since it was allocated",
        orders=LATE,
        also=(IN_FLIGHT,),
    ),
    Fault(
        "the commit is not waited for",
        "tcgen05",
        without(r"@!p bra WD"),
        UNINITIALISED,
        r"tcgen05\.ld",
        r"tcgen05\.ld reads tensor memory at lane 96, column 0, where nothing has been written since it was allocated",
        orders=LATE,
        also=(IN_FLIGHT,),
    ),
    Fault(
        "the commit of a pair is not waited for",
        "tcgen05_pair",
        without(r"@!p bra WD"),
        UNINITIALISED,
        r"tcgen05\.ld",
        r"tcgen05\.ld reads tensor memory at lane 96, column 0, where nothing has been written since it was allocated",
        orders=LATE,
        also=(IN_FLIGHT,),
    ),
    Fault(
        "the commit is not waited for, and all threads are past a barrier",
        "gemm.sm_100a:k64",
        without(r"@%p14 bra"),
        IN_FLIGHT,
        r"tcgen05\.ld",
        r"tcgen05\.ld reads lanes 0-127, columns 0-127 of tensor memory, which tcgen05\.mma of line <line> still writes",
        other=(r"tcgen05\.mma", 0),
        orders=LATE,
    ),
    Fault(
        "the store is not waited for",
        "block_scaled",
        without(r"tcgen05\.wait::st"),
        IN_FLIGHT,
        r"tcgen05\.mma",
        r"tcgen05\.mma writes lanes \d+-\d+, columns 0-3 of tensor memory, which tcgen05\.st of line <line> still writes",
        other=(r"tcgen05\.st", 0),
    ),
    Fault(
        "the commit comes before the last product",
        "tcgen05",
        Edit(r"(  @elect tcgen05\.mma[^\n]*\n)(  @elect tcgen05\.commit[^\n]*\n)", r"\2\1"),
        IN_FLIGHT,
        r"tcgen05\.ld",
        r"tcgen05\.ld reads lanes 0-127, columns 0-127 of tensor memory, which tcgen05\.mma of line <line> still writes",
        other=(r"tcgen05\.mma", 3),
    ),
    Fault(
        "a quarter of the columns",
        "tcgen05",
        Edit(r"\[tp\], 128", "[tp], 32"),
        TENSOR,
        r"tcgen05\.mma",
        r"tcgen05\.mma writes columns 0-127 of tensor memory, of which 32-127 are not allocated; allocated are 0-31",
    ),
    Fault(
        "no allocation, and the address taken for 0",
        "tcgen05",
        Edit(r"tcgen05\.alloc[^;]*;((?:\n.*)*?)ld\.shared\.b32 td, \[tp\];", r"\1mov.b32 td, 0;"),
        TENSOR,
        r"tcgen05\.mma",
        r"tcgen05\.mma writes columns 0-127 of tensor memory, of which 0-127 are not allocated; allocated are none",
    ),
    Fault(
        "the dealloc comes before the second half is read",
        "tcgen05",
        Edit(
            r"add\.u32 ta, ta, 64;  add\.u64 o, o, 256;",
            "add.u32 ta, ta, 64;  add.u64 o, o, 256;\n  bar.sync 0;\n  @w0 tcgen05.dealloc.cta_group::1.sync.aligned.b32 td, 128;\n  bar.sync 0;",
        ),
        TENSOR,
        r"tcgen05\.ld",
        r"tcgen05\.ld reads columns 64-127 of tensor memory, of which 64-127 are not allocated; allocated are none",
        1,
    ),
    Fault(
        "warp 0 does not wait for the others before the dealloc",
        "tcgen05.sm_100a:tcgen05_gemm",
        without(r"bar\.sync", 1),
        TENSOR,
        r"tcgen05\.ld",
        r"tcgen05\.ld reads columns 0-7 of tensor memory, of which 0-7 are not allocated; allocated are none",
        0,
        orders=LATE,
        seed=1,
    ),
    Fault(
        "no dealloc",
        "tcgen05",
        without(r"tcgen05\.dealloc"),
        TENSOR,
        r"tcgen05\.alloc",
        r"CTA \(0, 0, 0\) has exited, but columns 0-127 of tensor memory have not been deallocated",
    ),
    Fault(
        "no dealloc, compiled",
        "gemm.sm_100a:k64",
        without(r"tcgen05\.dealloc"),
        TENSOR,
        r"tcgen05\.alloc",
        r"CTA \(0, 0, 0\) has exited, but columns 0-127 of tensor memory have not been deallocated",
    ),
    Fault(
        "one CTA of a pair does not dealloc",
        "tcgen05_pair",
        Edit(r"@!w0 bra DONE", "@!lead bra DONE"),
        TENSOR,
        r"tcgen05\.alloc",
        r"CTA \(1, 0, 0\) has exited, but columns 0-255 of tensor memory have not been deallocated",
    ),
    Fault(
        "every warp deallocates",
        "tcgen05.sm_100a:tcgen05_gemm",
        without(r"@%p15 bra"),
        TENSOR,
        r"tcgen05\.dealloc",
        r"tcgen05\.dealloc of 64 columns at 0x0: there is no such allocation; allocated are nothing",
    ),
    Fault(
        "dealloc twice",
        "gemm.sm_100a:k64",
        Edit(r"(tcgen05\.dealloc[^;]*;)", r"\1\n\1"),
        TENSOR,
        r"tcgen05\.dealloc",
        r"tcgen05\.dealloc of 128 columns at 0x0: there is no such allocation; allocated are nothing",
        1,
    ),
    Fault(
        "alloc after the permit is given up",
        "tcgen05",
        Edit(r"(  tcgen05\.alloc[^\n]*\n)(  tcgen05\.relinquish[^\n]*\n)", r"\2\1"),
        TENSOR,
        r"tcgen05\.alloc",
        r"tcgen05\.alloc after tcgen05\.relinquish_alloc_permit of line <line>",
        other=(r"tcgen05\.relinquish_alloc_permit", 0),
    ),
    Fault(
        "a warp reads the lanes of another",
        "tcgen05",
        Edit(r"shl\.b32 lane16, w, 21", "shl.b32 lane16, w, 20"),
        TENSOR,
        r"tcgen05\.ld",
        r"tcgen05\.ld of warp \d+ at lanes \d+-\d+ of tensor memory; a warp with that number reaches lanes \d+-\d+, from a multiple of 16 on",
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
