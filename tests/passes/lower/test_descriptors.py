"""Matrix descriptors against the address formulas of the PTX ISA, element by element."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilec.dialects.tile import BF16, F16, SmemType, widest_swizzle
from tilec.passes.lower.descriptors import Operand, instruction_descriptor

HOPPER_SWIZZLE = {0: 16, 1: 128, 2: 64, 3: 32}
BLACKWELL_SWIZZLE = {0: 16, 2: 128, 4: 64, 6: 32}


def operand(mn: int, k: int, *, mn_major: bool, swizzle: int | None = None, dtype=F16) -> Operand:
    fast_bytes = (mn if mn_major else k) * dtype.bytes
    chosen = swizzle or widest_swizzle(fast_bytes)
    assert chosen is not None
    return Operand(SmemType.of((mn, k), dtype.type, order=(0, 1) if mn_major else (1, 0), swizzle=chosen))


def address(mn: int, k: int, *, mn_major: bool, swizzle: int, lbo: int, sbo: int) -> int:
    """Byte offset of 16-bit element (mn, k) of one instruction's operand (PTX ISA 9.7.15.5.1.2), before the swizzle."""
    if not mn_major:
        kb = 2 * k
        if swizzle == 16:
            return (mn // 8) * sbo + (mn % 8) * 16 + (kb // 16) * lbo + kb % 16
        # The instruction's 32 bytes of K may span rows of 32 bytes or more, never the next block.
        assert kb < swizzle
        return (mn // 8) * sbo + (mn % 8) * swizzle + kb
    mnb = 2 * mn
    if swizzle == 16:
        return (mnb // 16) * sbo + mnb % 16 + (k // 8) * lbo + (k % 8) * 16
    return (mnb // swizzle) * lbo + mnb % swizzle + (k // 8) * sbo + (k % 8) * swizzle


def fields(descriptor: int) -> tuple[int, int]:
    """LBO and SBO in bytes."""
    return (descriptor >> 16 & 0x3FFF) << 4, (descriptor >> 32 & 0x3FFF) << 4


@given(
    mn=st.sampled_from([8, 16, 24, 40, 64, 128, 256]),
    k=st.sampled_from([16, 32, 48, 64, 80, 128]),
    mn_major=st.booleans(),
    swizzle=st.sampled_from([16, 32, 64, 128]),
)
def test_every_element_of_every_step_is_where_the_instruction_looks(mn, k, mn_major, swizzle):
    if (mn if mn_major else k) * 2 % swizzle:
        return
    op = operand(mn, k, mn_major=mn_major, swizzle=swizzle)
    for descriptor, codes, shift in ((op.wgmma, HOPPER_SWIZZLE, 62), (op.tcgen05, BLACKWELL_SWIZZLE, 61)):
        assert codes[descriptor >> shift] == swizzle
        lbo, sbo = fields(descriptor)
        for step in range(op.k_steps):
            for m, kk in product(range(mn), range(16)):
                expected = op.step(step) + address(m, kk, mn_major=mn_major, swizzle=swizzle, lbo=lbo, sbo=sbo)
                fast, slow = (m, 16 * step + kk) if mn_major else (16 * step + kk, m)
                assert op.type.layout.linear(fast, slow) == expected


@pytest.mark.parametrize(
    ("mn_major", "wgmma", "tcgen05"),
    [(False, 0x4000004000010000, 0x4000404000010000), (True, 0x4000004002000000, 0x4000404002000000)],
    ids=["K-major", "MN-major"],
)
def test_worked_examples_of_64x64_with_128_byte_swizzle(mn_major, wgmma, tcgen05):
    op = operand(64, 64, mn_major=mn_major)
    assert op.wgmma == wgmma
    assert op.tcgen05 == tcgen05


@pytest.mark.parametrize(
    ("m", "n", "dtype", "b_mn_major", "expected"),
    [
        (128, 128, BF16, False, 0x08200490),
        (128, 256, BF16, False, 0x08400490),
        (128, 128, BF16, True, 0x08210490),
        (64, 64, F16, False, 0x04100010),
    ],
)
def test_instruction_descriptors_of_the_ptx_isa(m, n, dtype, b_mn_major, expected):
    a = operand(m, 64, mn_major=False, dtype=dtype)
    b = operand(n, 64, mn_major=b_mn_major, dtype=dtype)
    assert instruction_descriptor(m, n, a, b) == expected
