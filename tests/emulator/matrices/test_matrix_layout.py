"""Swizzles, matrix descriptors and canonical layouts of operands in shared memory (PTX 5.5.7, 9.7.15.5.1, 9.7.16.4)."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilec.backend.emulator.matrices.layout import (
    SPAN,
    Descriptor,
    Swizzle,
    chunks,
    decode_tcgen05,
    decode_wgmma,
    gather,
    swizzled,
)

_LINES: dict[Swizzle, list[list[int]]] = {
    "none": [[0, 1, 2, 3, 4, 5, 6, 7]],
    "32B": [[0, 1, 2, 3, 4, 5, 6, 7], [1, 0, 3, 2, 5, 4, 7, 6]],
    "64B": [[0, 1, 2, 3, 4, 5, 6, 7], [1, 0, 3, 2, 5, 4, 7, 6], [2, 3, 0, 1, 6, 7, 4, 5], [3, 2, 1, 0, 7, 6, 5, 4]],
    "128B": [
        [0, 1, 2, 3, 4, 5, 6, 7],
        [1, 0, 3, 2, 5, 4, 7, 6],
        [2, 3, 0, 1, 6, 7, 4, 5],
        [3, 2, 1, 0, 7, 6, 5, 4],
        [4, 5, 6, 7, 0, 1, 2, 3],
        [5, 4, 7, 6, 1, 0, 3, 2],
        [6, 7, 4, 5, 2, 3, 0, 1],
        [7, 6, 5, 4, 3, 2, 1, 0],
    ],
    "128B_ATOM_32B": [
        [0, 1, 2, 3, 4, 5, 6, 7],
        [2, 3, 0, 1, 6, 7, 4, 5],
        [4, 5, 6, 7, 0, 1, 2, 3],
        [6, 7, 4, 5, 2, 3, 0, 1],
    ],
}
"""The tables of PTX 5.5.7: for each line of 128 bytes which chunk of 16 bytes lies in each place of it."""
_SWIZZLES: tuple[Swizzle, ...] = get_args(Swizzle)
_WGMMA_CODES: dict[Swizzle, int] = {"none": 0, "128B": 1, "64B": 2, "32B": 3}
_TCGEN05_CODES: dict[Swizzle, int] = {"none": 0, "128B_ATOM_32B": 1, "128B": 2, "64B": 4, "32B": 6}
_FIELDS = st.integers(0, 0x3FFF)


def held_at(address: int, mode: Swizzle, base_offset: int = 0) -> int:
    """Where the byte is held, by the tables."""
    line, within = divmod(address, 128)
    table = _LINES[mode]
    return 128 * line + 16 * table[(line - base_offset) % len(table)].index(within // 16) + within % 16


@pytest.mark.parametrize("mode", _SWIZZLES)
@pytest.mark.parametrize("base_offset", range(8))
def test_patterns(mode: Swizzle, base_offset: int) -> None:
    addresses = np.arange(0, 4096, dtype=np.int64)
    expected = [held_at(int(a), mode, base_offset) for a in addresses]
    np.testing.assert_array_equal(swizzled(addresses, mode, base_offset), expected)


@given(_FIELDS, _FIELDS, _FIELDS, st.integers(0, 7), st.sampled_from(list(_WGMMA_CODES)))
def test_wgmma_descriptors(start: int, leading: int, stride: int, base: int, mode: Swizzle) -> None:
    bits = start | leading << 16 | stride << 32 | base << 49 | _WGMMA_CODES[mode] << 62
    assert decode_wgmma(bits) == Descriptor(16 * start, 16 * leading, 16 * stride, base, mode)


@given(_FIELDS, _FIELDS, _FIELDS, st.integers(0, 7), st.sampled_from(list(_TCGEN05_CODES)))
def test_tcgen05_descriptors(start: int, leading: int, stride: int, base: int, mode: Swizzle) -> None:
    bits = start | leading << 16 | stride << 32 | 1 << 46 | base << 49 | _TCGEN05_CODES[mode] << 61
    assert decode_tcgen05(bits) == Descriptor(16 * start, 16 * leading, 16 * stride, base, mode)


@pytest.mark.parametrize("bit", [14, 15, 30, 31, 46, 47, 48, *range(52, 62)])
def test_reserved_bits_of_wgmma(bit: int) -> None:
    bits = 1 << bit | 0x40
    assert decode_wgmma(bits) == f"bits {bit} of the matrix descriptor 0x{bits:016x} must be 0"


@pytest.mark.parametrize("bit", [14, 15, 30, 31, *range(53, 61)])
def test_reserved_bits_of_tcgen05(bit: int) -> None:
    bits = 1 << bit | 1 << 46
    assert decode_tcgen05(bits) == f"bits {bit} of the matrix descriptor 0x{bits:016x} must be 0"


def test_several_reserved_bits() -> None:
    assert decode_wgmma(1 << 14 | 1 << 31) == "bits 14, 31 of the matrix descriptor 0x0000000080004000 must be 0"


@pytest.mark.parametrize("version", [0, 2, 3, 4, 5, 6, 7])
def test_version_of_tcgen05(version: int) -> None:
    bits = version << 46
    assert decode_tcgen05(bits) == f"bits 46-48 of the matrix descriptor 0x{bits:016x} are {version}, not 1"


@pytest.mark.parametrize("code", [3, 5, 7])
def test_swizzles_that_tcgen05_lacks(code: int) -> None:
    bits = 1 << 46 | code << 61
    assert decode_tcgen05(bits) == (
        f"bits 61-63 of the matrix descriptor 0x{bits:016x}: there is no swizzle {code}; there are 0 (none), 1 (128B with 32-byte "
        "atoms), 2 (128B), 4 (64B) and 6 (32B)"
    )


def test_absolute_leading_dimension_of_tcgen05() -> None:
    bits = 1 << 46 | 1 << 52
    assert decode_tcgen05(bits) == (
        f"bit 52 of the matrix descriptor 0x{bits:016x} asks for an absolute leading dimension, which sm_103a alone has"
    )


_DESCRIPTORS = st.builds(
    lambda start, leading, stride, base, mode: Descriptor(16 * start, 16 * leading, 16 * stride, base, mode),
    _FIELDS,
    st.integers(0, 600),
    st.integers(0, 600),
    st.integers(0, 7),
    st.sampled_from(_SWIZZLES),
)


@given(_DESCRIPTORS, st.sampled_from([8, 24, 64]), st.sampled_from([(8, 32), (16, 16), (32, 8), (32, 16)]))
def test_k_major(d: Descriptor, mn: int, depth: tuple[int, int]) -> None:
    """Eight rows of the pattern lie together, the next eight `stride` on; without a swizzle chunks of a row lie `leading` apart."""
    bits, k = depth
    found = chunks(d, "K", mn, k, bits)
    for row in range(mn):
        for chunk in range(k * bits // 128):
            if d.swizzle == "none":
                address = d.start + row // 8 * d.stride + row % 8 * 16 + chunk * d.leading
            else:
                address = d.start + row // 8 * d.stride + row % 8 * SPAN[d.swizzle] + 16 * chunk
            assert found[row, chunk] == held_at(address, d.swizzle, d.base_offset) // 16 % 2**14
    assert found.shape == (mn, k * bits // 128)


@given(_DESCRIPTORS, st.sampled_from([8, 24, 64, 128]), st.sampled_from([(8, 32), (16, 16), (32, 8)]))
def test_mn_major(d: Descriptor, mn: int, depth: tuple[int, int]) -> None:
    """As PTX 9.7.15.5.1.2.1.2 has it: patterns follow one another along MN by `leading`, along K by `stride`; without a swizzle the other
    way round."""
    bits, k = depth
    if mn * bits % 128:
        return
    found = chunks(d, "MN", mn, k, bits)
    span = SPAN[d.swizzle]
    together = 4 if d.swizzle == "128B_ATOM_32B" else 8
    for column in range(k):
        for chunk in range(mn * bits // 128):
            byte = 16 * chunk
            if d.swizzle == "none":
                address = chunk * d.stride + column // 8 * d.leading + column % 8 * 16
            else:
                address = byte // span * d.leading + byte % span
                address += column // together * d.stride + column % together * span
            assert found[column, chunk] == held_at(d.start + address, d.swizzle, d.base_offset) // 16 % 2**14
    assert found.shape == (k, mn * bits // 128)


def test_examples_of_the_isa() -> None:
    """Canonical layouts ((8,2),(4,4)):((4,32),(1,64)) and ((8,2),(4,4)):((8,64),(1,4)) of tf32, ((8,1,2),(8,2)):((1,8,64),(8,128)) of
    bf16, in elements."""
    none = chunks(Descriptor(0, 256, 128, 0, "none"), "K", 16, 16, 32)
    assert [4 * none[1, 0], 4 * none[8, 0], 4 * none[0, 1]] == [4, 32, 64]
    swizzle = chunks(Descriptor(0, 16, 256, 0, "32B"), "K", 16, 8, 32)
    assert [4 * swizzle[1, 0], 4 * swizzle[8, 0], 4 * swizzle[0, 1]] == [8, 64, 4]
    across = chunks(Descriptor(0, 256, 128, 0, "none"), "MN", 16, 16, 16)
    assert [8 * across[0, 1], 8 * across[1, 0], 8 * across[8, 0]] == [64, 8, 128]


@pytest.mark.parametrize("major", ["K", "MN"])
def test_gather(major: str) -> None:
    """Operands come as (mn, k) whichever way they lie."""
    matrix = np.arange(16 * 16, dtype=np.uint16).reshape(16, 16)
    data = np.zeros(4096, np.uint8)
    d = Descriptor(1024, 512, 256, 0, "32B")
    rows = matrix if major == "K" else matrix.T
    for at, row in enumerate(np.ascontiguousarray(rows).view(np.uint8)):
        for byte, value in enumerate(row):
            data[held_at(d.start + at // 8 * d.stride + at % 8 * 32 + byte, "32B")] = value
    way = "K" if major == "K" else "MN"
    np.testing.assert_array_equal(gather(data, chunks(d, way, 16, 16, 16), way, np.dtype(np.uint16)), matrix)
