"""Accesses out of bounds and misaligned ones, in each kind of memory."""

from __future__ import annotations

import pytest
from faults.seeded import ORDERS, Edit, Fault, check, check_original, subjects_of

from tilec.backend.emulator.faults import FaultKind

OUT, MISALIGNED = FaultKind.OUT_OF_BOUNDS, FaultKind.MISALIGNED

FAULTS = [
    Fault(
        "one element too many (>= became >)",
        "matrix.sm_90a:pipelined_scale",
        Edit(r"setp\.ge\.s32( \t%p25, %r102, %r36|\s+%p25, %r102, %r36)", r"setp.gt.s32\1"),
        OUT,
        r"st\.global\.v4",
        r"16 bytes at address 0x[0-9a-f]+: the address is 0 bytes behind the end of array pipelined_scale_param_1 \(4800 bytes\)",
        4,
    ),
    Fault(
        "a row pitch twice as large",
        "wgmma.sm_90a:wgmma_gemm",
        Edit(r"shl\.b32(\s+)%r74, %r101, 3", r"shl.b32\1%r74, %r101, 4"),
        OUT,
        r"st\.global\.v2\.f32\s+\[%rd20\]",
        r"8 bytes at address 0x[0-9a-f]+: the address is 0 bytes behind the end of array wgmma_gemm_param_2 \(32768 bytes\)",
    ),
    Fault(
        "a pointer off by a whole array",
        "functions.sm_90a:local_array",
        Edit(r"st\.global\.u32(\s+)\[(%rd\d+)\]", r"st.global.u32\1[\2+1280]"),
        OUT,
        r"st\.global\.u32",
        r"4 bytes at address 0x[0-9a-f]+: the address is \d+ bytes behind the end of array local_array_param_1 \(1280 bytes\)",
    ),
    Fault(
        "a row too far",
        "matrix.sm_90a:transpose",
        Edit(r"\[%r7\+3168\]", "[%r7+4224]"),
        OUT,
        r"st\.shared\.f32\s+\[%r7\+4224\]",
        r"4 bytes at address 0x1480: the address is 0 bytes behind the end of shared memory \(5248 bytes\)",
    ),
    Fault(
        "a staging buffer that begins at the barriers",
        "gemm.sm_90a:k192",
        Edit(r"\[%r12\+65536\]", "[%r12+98304]"),
        OUT,
        r"st\.shared\.b32\s+\[%r12\+98304\]",
        r"4 bytes at address 0x18490: the address is 112 bytes behind the end of shared memory \(99360 bytes\)",
    ),
    Fault(
        "an index that is not masked",
        "functions.sm_90a:local_array",
        Edit(r"and\.b64(\s+)%rd47, %rd46, 28", r"and.b64\1%rd47, %rd46, 60"),
        OUT,
        r"st\.local\.u32\s+\[%rd48\]",
        r"4 bytes at address 0x200000020: the address is 0 bytes behind the end of local memory \(32 bytes\)",
    ),
    Fault(
        "one past the end of a local array",
        "functions.sm_100a:local_array",
        Edit(r"\[%rd1\+28\]", "[%rd1+32]"),
        OUT,
        r"(st|ld)\.local\.u32.*\[%rd1\+32\]",
        r"4 bytes at address 0x200000020: the address is 0 bytes behind the end of local memory \(32 bytes\)",
    ),
    Fault(
        "a parameter that is not there",
        "wgmma.sm_90a:wgmma_gemm",
        Edit(r"\[wgmma_gemm_param_4\]", "[wgmma_gemm_param_4+4]"),
        OUT,
        r"ld\.param\.u32\s+%r17",
        r"4 bytes at address 0x300000110: the address is 0 bytes behind the end of the kernel's parameters \(272 bytes\)",
    ),
    Fault(
        "a wide read of the last parameter",
        "tma_copy",
        Edit(r"ld\.param\.u32 y, \[cy\]", "ld.param.v2.u32 {y, x}, [cy+4]"),
        OUT,
        r"ld\.param\.v2",
        r"8 bytes at address 0x300000108: the address is 0 bytes behind the end of the kernel's parameters \(264 bytes\)",
    ),
    Fault(
        "a rank beyond the cluster",
        "cluster.sm_90a:cluster_ring",
        Edit(r"rem\.u32(\s+)%r12, %r16, %r5", r"mov.u32\1%r12, %r16"),
        OUT,
        r"mapa",
        r"mapa to the CTA of rank 4, but the cluster has 4",
    ),
    Fault(
        "bins beyond the cluster's",
        "cluster.sm_90a:cluster_histogram",
        Edit(r"and\.b32(\s+)%r21, %r20, 48", r"and.b32\1%r21, %r20, 112"),
        OUT,
        r"mapa",
        r"mapa to the CTA of rank \d+, but the cluster has 4",
    ),
    Fault(
        "an element behind a bin array of another CTA",
        "cluster.sm_100a:cluster_histogram",
        Edit(r"atom\.add\.u32(\s+%r\d+), \[(%rd\d+)\]", r"atom.add.u32\1, [\2+64]"),
        OUT,
        r"atom\.add",
        r"4 bytes at address 0x[0-9a-f]+: the address is \d+ bytes behind the end of shared memory \(1088 bytes\)",
    ),
    Fault(
        "a map over more rows than the array has",
        "matmul_tma_device.sm_90a",
        Edit(r"(global_dim\S+ \[ %rd2 \+ 0 \], 0x1, )%r9", r"\g<1>%r6"),
        OUT,
        r"cp\.async\.bulk\.tensor",
        r"the TMA load reads the box at \(0, 128\): 16672 bytes from address 0x[0-9a-f]+ on, which reach 8928 bytes over the end of array matmul_tma_device_param_0 \(52800 bytes\)",
    ),
    Fault(
        "a new address that is too high",
        "reduction",
        Edit(r"ld\.param\.u64 na, \[newaddr\];", "ld.param.u64 na, [newaddr];  add.u64 na, na, 1600;"),
        OUT,
        r"cp\.reduce",
        r"the TMA reduction writes the box at \(4, 2\): 2528 bytes from address 0x[0-9a-f]+ on, which reach 1264 bytes over the end of array newaddr \(3200 bytes\)",
    ),
    Fault(
        "a copy of one chunk too many",
        "tma.sm_90a:bulk_copy",
        Edit(
            r"cp\.async\.bulk\.global\.shared::cta\.bulk_group \[(%rd\d+)\]",
            r"cp.async.bulk.global.shared::cta.bulk_group [\1+16]",
            1,
        ),
        OUT,
        r"cp\.async\.bulk\.global",
        r"the bulk copy writes global memory: 208 bytes from address 0x[0-9a-f]+ on, which reach 16 bytes over the end of array bulk_copy_param_1 \(1248 bytes\)",
        1,
    ),
    Fault(
        "a tile that does not fit",
        "tma_copy",
        Edit(r"\[dst\], \[d0", "[dst+1024], [d0"),
        OUT,
        r"cp\.async\.bulk\.tensor",
        r"the TMA load accesses shared memory at 0x2800; it is 0x400 to 0x2800",
    ),
    Fault(
        "operand B one tile too far",
        "wgmma",
        Edit(r"add\.u32 sb, sa, 8192", "add.u32 sb, sa, 32768"),
        OUT,
        r"cp\.async\.bulk\.tensor",
        r"the TMA load accesses shared memory at 0x8800; it is 0x400 to 0x8800",
        1,
    ),
    Fault(
        "the descriptor of operand B is one tile off",
        "tcgen05.sm_100a:tcgen05_gemm",
        Edit(r"add\.s32(\s+)%r55, %r54, 16384", r"add.s32\1%r55, %r54, 32768"),
        OUT,
        r"tcgen05\.mma",
        r"tcgen05\.mma accesses shared memory at 0xe800; it is 0x400 to 0xc800",
    ),
    Fault(
        "a vector store off by one word",
        "wgmma.sm_90a:wgmma_gemm",
        Edit(r"\[%rd18\+32\]", "[%rd18+36]"),
        MISALIGNED,
        r"st\.global\.v2\.f32\s+\[%rd18\+36\]",
        r"8 bytes at address 0x[0-9a-f]+: the address is 4 bytes behind a multiple of 8 \(in array wgmma_gemm_param_2 at offset \d+\)",
    ),
    Fault(
        "a store off by one byte",
        "gemm.sm_100a:k192",
        Edit(r"(st\.shared\.v4\.b32\s+\[%r\d+)\+65536\]", r"\1+65537]"),
        MISALIGNED,
        r"st\.shared\.v4\.b32\s+\[%r\d+\+65537\]",
        r"16 bytes at address 0x[0-9a-f]+: the address is 1 bytes behind a multiple of 16 \(in shared memory\)",
    ),
    Fault(
        "a tile at 64 bytes",
        "tma_copy",
        Edit(r"\[dst\], \[d0", "[dst+64], [d0"),
        MISALIGNED,
        r"cp\.async\.bulk\.tensor",
        r"the destination 0x840 is not a multiple of 128 bytes",
    ),
    Fault(
        "an mbarrier at 4 bytes",
        "mbarrier",
        Edit(r"(mbarrier\.init\.shared::cta\.b64 )\[bar\+8\]", r"\1[bar+4]"),
        MISALIGNED,
        r"mbarrier\.init\.shared::cta\.b64 \[bar\+4\]",
        r"8 bytes at address 0x404: the address is 4 bytes behind a multiple of 8 \(in shared memory\)",
    ),
    Fault(
        "a bulk copy from 8 bytes",
        "tma.sm_100a:bulk_copy",
        Edit(r"(cp\.async\.bulk\.shared::cluster\.global\S+ \[%r\d+\], \[%rd\d+)\]", r"\1+8]"),
        MISALIGNED,
        r"cp\.async\.bulk\.shared::cluster",
        r"the source 0x[0-9a-f]+ is not a multiple of 16 bytes",
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
