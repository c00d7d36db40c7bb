"""Descriptors of matrices and instructions, and accumulators of wgmma that have not been waited for."""

from __future__ import annotations

import pytest
from faults.seeded import ORDERS, Edit, Fault, check, check_original, subjects_of, without

from tilec.backend.emulator.faults import FaultKind

DESCRIPTOR, IN_FLIGHT = FaultKind.DESCRIPTOR, FaultKind.IN_FLIGHT
LATE = ("adversarial",)
"""Only there engines end as late as they may."""

FAULTS = [
    Fault(
        "the address in the descriptor is not shifted",
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
        "M of a pair for one CTA",
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
        "M is left out of the instruction descriptor",
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
]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.subject}: {fault.error}")
def test_fault(fault: Fault, order: str) -> None:
    check(fault, order)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", subjects_of(FAULTS))
def test_original(name: str, order: str) -> None:
    check_original(name, order)
