"""Descriptors of matrices and instructions, accumulators of wgmma, and tensor memory: its allocation and its accesses."""

from __future__ import annotations

import pytest
from faults.mutants import ORDERS, Edit, Fault, check, check_original, subjects_of, without

from tilec.backend.emulator.faults import FaultKind

DESCRIPTOR, IN_FLIGHT, UNINITIALISED, TENSOR = (
    FaultKind.DESCRIPTOR,
    FaultKind.IN_FLIGHT,
    FaultKind.UNINITIALISED,
    FaultKind.TENSOR_MEMORY,
)
LATE = ("adversarial",)

FAULTS = [
    Fault(
        "a descriptor of 18 bits of address",
        "wgmma",
        without(r"shr\.u32 sa, sa, 4"),
        FaultKind.OUT_OF_BOUNDS,
        r"wgmma\.mma_async",
        r"wgmma accesses shared memory at 0x8800; it is 0x400 to 0x8800",
    ),
    Fault(
        "Blackwell's version in Hopper's descriptor",
        "gemm.sm_90a:k64",
        Edit(r"4611686293305360384", "4611756662049538048"),
        DESCRIPTOR,
        r"wgmma\.mma_async",
        r"A: bits 46 of the matrix descriptor 0x[0-9a-f]+ must be 0",
    ),
    Fault(
        "Hopper's descriptor for Blackwell",
        "tcgen05.sm_100a:tcgen05_gemm",
        Edit(r"4611756662049538048", "4611686293305360384"),
        DESCRIPTOR,
        r"tcgen05\.mma",
        r"B: bits 46-48 of the matrix descriptor 0x4000004000010480 are 0, not 1",
    ),
    Fault(
        "a swizzle that does not exist",
        "tcgen05",
        Edit("0x4000404000010000", "0x6000404000010000"),
        DESCRIPTOR,
        r"tcgen05\.mma",
        r"A: bits 61-63 of the matrix descriptor 0x6000404000010080: there is no swizzle 3; there are 0 \(none\), 1 \(128B with 32-byte atoms\), 2 \(128B\), 4 \(64B\) and 6 \(32B\)",
    ),
    Fault(
        "N in the place of M",
        "tcgen05",
        Edit("0x08200490", "0x10200490"),
        DESCRIPTOR,
        r"tcgen05\.mma",
        r"instruction descriptor 0x10200490 of kind::f16: M is 256; it is one of 64, 128 with cta_group::1",
    ),
    Fault(
        "the type of A of another kind",
        "tcgen05.sm_100a:tcgen05_gemm",
        Edit("135267472", str(135267472 + 128)),
        DESCRIPTOR,
        r"tcgen05\.mma",
        r"instruction descriptor 0x08100510 of kind::f16: the type of A \(bits 7-9\) is 2; it is one of 0 \(f16\), 1 \(bf16\)",
    ),
    Fault(
        "M = 128 for the block scale of a pair",
        "block_scaled",
        Edit("0x08820000", "0x00820000"),
        DESCRIPTOR,
        r"tcgen05\.mma\S*mxf8f6f4",
        r"instruction descriptor 0x00820000 of kind::mxf8f6f4: M is 0; it is one of 128 with cta_group::1",
    ),
    Fault(
        "the accumulator is read before the wait",
        "wgmma",
        without(r"wgmma\.wait_group"),
        IN_FLIGHT,
        r"st\.global\.v2",
        r"register %f0 belongs to the wgmma of line <line>, which has not been waited for",
        other=(r"wgmma\.mma_async", 0),
    ),
    Fault(
        "the accumulator is converted before the wait",
        "gemm.sm_90a:k64",
        without(r"wgmma\.wait_group"),
        IN_FLIGHT,
        r"cvt\.rn\.f16x2",
        r"register %r145 belongs to the wgmma of line <line>, which has not been waited for",
        other=(r"wgmma\.mma_async", 0),
    ),
    Fault(
        "a group too many is left",
        "wgmma.sm_90a:wgmma_gemm",
        Edit(r"wgmma\.wait_group\.sync\.aligned 0", "wgmma.wait_group.sync.aligned 1"),
        IN_FLIGHT,
        r"cp\.async\.bulk\.tensor",
        r"the TMA load writes shared memory at 0x800, which wgmma of line <line> still reads",
        other=(r"wgmma\.mma_async", 0),
        orders=LATE,
    ),
    Fault(
        "wgmma is not committed",
        "matmul_tma.sm_90a",
        without(r"wgmma\.commit_group"),
        IN_FLIGHT,
        r"cvt\.rn",
        r"register %r75 belongs to the wgmma of line <line>, which has not been waited for",
        other=(r"wgmma\.mma_async", 0),
    ),
    # uninitialised
    Fault(
        "the first product adds to what is there",
        "tcgen05",
        Edit(r"idesc, pz", "idesc, pt"),
        UNINITIALISED,
        r"tcgen05\.mma",
        r"tcgen05\.mma accumulates onto tensor memory at lane 0, column 0, where nothing has been written since it was allocated",
    ),
    Fault(
        "the first product adds to what is there (nvcc)",
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
    # in flight
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
        "the commit is not waited for (hand)",
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
        "the commit is not waited for (tilec)",
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
    # allocation
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
