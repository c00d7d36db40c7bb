"""Descriptors of matrices and instructions, accumulators of wgmma, and tensor memory: its allocation and its accesses."""

from __future__ import annotations

import pytest
from faults.mutants import ORDERS, Edit, Fault, check, without

from tilec.backend.emulator.faults import FaultKind

DESCRIPTOR, IN_FLIGHT, UNINITIALISED, TENSOR = FaultKind.DESCRIPTOR, FaultKind.IN_FLIGHT, FaultKind.UNINITIALISED, FaultKind.TENSOR_MEMORY
LATE = ("adversarial",)

FAULTS = [
    Fault("a descriptor of 18 bits of address", "wgmma", without(r"shr\.u32 sa, sa, 4"), FaultKind.OUT_OF_BOUNDS, r"wgmma\.mma_async", "x"),
    Fault("Blackwell's version in Hopper's descriptor", "gemm.sm_90a:k64", Edit(r"4611686293305360384", "4611756662049538048"), DESCRIPTOR, r"wgmma\.mma_async", "x"),
    Fault("Hopper's descriptor for Blackwell", "tcgen05.sm_100a:tcgen05_gemm", Edit(r"4611756662049538048", "4611686293305360384"), DESCRIPTOR, r"tcgen05\.mma", "x"),
    Fault("a swizzle that does not exist", "tcgen05", Edit("0x4000404000010000", "0x6000404000010000"), DESCRIPTOR, r"tcgen05\.mma", "x"),
    Fault("N in the place of M", "tcgen05", Edit("0x08200490", "0x10200490"), DESCRIPTOR, r"tcgen05\.mma", "x"),
    Fault("the type of A of another kind", "tcgen05.sm_100a:tcgen05_gemm", Edit("135267472", str(135267472 + 128)), DESCRIPTOR, r"tcgen05\.mma", "x"),
    Fault("M = 128 for the block scale of a pair", "block_scaled", Edit("0x08820000", "0x00820000"), DESCRIPTOR, r"tcgen05\.mma\S*mxf8f6f4", "x"),
    Fault("the accumulator is read before the wait", "wgmma", without(r"wgmma\.wait_group"), IN_FLIGHT, r"st\.global\.v2", "x"),
    Fault("the accumulator is converted before the wait", "gemm.sm_90a:k64", without(r"wgmma\.wait_group"), IN_FLIGHT, r"cvt\.rn\.f16x2", "x"),
    Fault("a group too many is left", "wgmma.sm_90a:wgmma_gemm", Edit(r"wgmma\.wait_group\.sync\.aligned 0", "wgmma.wait_group.sync.aligned 1"), IN_FLIGHT, r"cp\.async\.bulk\.tensor", "x", orders=LATE),
    Fault("wgmma is not committed", "matmul_tma.sm_90a", without(r"wgmma\.commit_group"), IN_FLIGHT, r"cvt\.rn", "x"),
    # uninitialised
    Fault("the first product adds to what is there", "tcgen05", Edit(r"idesc, pz", "idesc, pt"), UNINITIALISED, r"tcgen05\.mma", "x"),
    Fault("the first product adds to what is there (nvcc)", "tcgen05.sm_100a:tcgen05_gemm", Edit(r"setp\.ne\.b32 p, %r172, 0", "setp.eq.b32 p, %r172, 0"), UNINITIALISED, r"tcgen05\.mma", "x"),
    Fault("N is half of what is read", "tcgen05.sm_100a:tcgen05_gemm", Edit("135267472", str(135267472 - (4 << 17))), UNINITIALISED, r"tcgen05\.ld", "x", 4),
    # in flight
    Fault("the commit is not waited for", "tcgen05.sm_100a:tcgen05_gemm", without(r"@%p14 bra"), UNINITIALISED, r"tcgen05\.ld", "x", orders=LATE, also=(IN_FLIGHT,)),
    Fault("the commit is not waited for (hand)", "tcgen05", without(r"@!p bra WD"), UNINITIALISED, r"tcgen05\.ld", "x", orders=LATE, also=(IN_FLIGHT,)),
    Fault("the commit of a pair is not waited for", "tcgen05_pair", without(r"@!p bra WD"), UNINITIALISED, r"tcgen05\.ld", "x", orders=LATE, also=(IN_FLIGHT,)),
    Fault("the commit is not waited for (tilec)", "gemm.sm_100a:k64", without(r"@%p14 bra"), IN_FLIGHT, r"tcgen05\.ld", "x", orders=LATE),
    Fault("the store is not waited for", "block_scaled", without(r"tcgen05\.wait::st"), IN_FLIGHT, r"tcgen05\.mma", "x"),
    Fault("the commit comes before the last product", "tcgen05", Edit(r"(  @elect tcgen05\.mma[^\n]*\n)(  @elect tcgen05\.commit[^\n]*\n)", r"\2\1"), IN_FLIGHT, r"tcgen05\.ld", "x"),
    # allocation
    Fault("a quarter of the columns", "tcgen05", Edit(r"\[tp\], 128", "[tp], 32"), TENSOR, r"tcgen05\.mma", "x"),
    Fault("no allocation, and the address taken for 0", "tcgen05", Edit(r"tcgen05\.alloc[^;]*;((?:\n.*)*?)ld\.shared\.b32 td, \[tp\];", r"\1mov.b32 td, 0;"), TENSOR, r"tcgen05\.mma", "x"),
    Fault("the dealloc comes before the second half is read", "tcgen05", Edit(r"add\.u32 ta, ta, 64;  add\.u64 o, o, 256;", "add.u32 ta, ta, 64;  add.u64 o, o, 256;\n  bar.sync 0;\n  @w0 tcgen05.dealloc.cta_group::1.sync.aligned.b32 td, 128;\n  bar.sync 0;"), TENSOR, r"tcgen05\.ld", "x", 1),
    Fault("warp 0 does not wait for the others before the dealloc", "tcgen05.sm_100a:tcgen05_gemm", without(r"bar\.sync", 1), TENSOR, r"tcgen05\.ld", "x", 0, orders=LATE, seed=1),
    Fault("no dealloc", "tcgen05", without(r"tcgen05\.dealloc"), TENSOR, r"tcgen05\.alloc", "x"),
    Fault("no dealloc, compiled", "gemm.sm_100a:k64", without(r"tcgen05\.dealloc"), TENSOR, r"tcgen05\.alloc", "x"),
    Fault("one CTA of a pair does not dealloc", "tcgen05_pair", Edit(r"@!w0 bra DONE", "@!lead bra DONE"), TENSOR, r"tcgen05\.alloc", "x"),
    Fault("every warp deallocates", "tcgen05.sm_100a:tcgen05_gemm", without(r"@%p15 bra"), TENSOR, r"tcgen05\.dealloc", "x"),
    Fault("dealloc twice", "gemm.sm_100a:k64", Edit(r"(tcgen05\.dealloc[^;]*;)", r"\1\n\1"), TENSOR, r"tcgen05\.dealloc", "x", 1),
    Fault("alloc after the permit is given up", "tcgen05", Edit(r"(  tcgen05\.alloc[^\n]*\n)(  tcgen05\.relinquish[^\n]*\n)", r"\2\1"), TENSOR, r"tcgen05\.alloc", "x"),
    Fault("a warp reads the lanes of another", "tcgen05", Edit(r"shl\.b32 lane16, w, 21", "shl.b32 lane16, w, 20"), TENSOR, r"tcgen05\.ld", "x"),
]
