"""Block-scaled tcgen05.mma: scale factors in tensor memory, copied there from shared memory or stored by threads."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from tensor_operands import matrix_descriptor, put_k_major, random_matrix, row_bytes, scaled_descriptor
from tensor_rig import BASE, move, run

A_START, B_START, SF_START = 0x400, 0x400 + 32 * 1024, 0x400 + 60 * 1024
SFA_COLUMN, SFB_COLUMN = 288, 304


def _scale_codes(
    rng: np.random.Generator, scale: str, shape: tuple[int, int]
) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    """Codes and values: powers of two (ue8m0), or 3 mantissa bits (ue4m3)."""
    if scale == "ue8m0":
        codes = rng.integers(120, 135, shape).astype(np.uint8)
        return codes, 2.0 ** (codes.astype(np.float64) - 127)
    codes = rng.integers(1, 0x7F, shape).astype(np.uint8)
    exponent, mantissa = codes >> 3, (codes & 7) / 8
    values = np.where(exponent == 0, mantissa * 2.0**-6, (1 + mantissa) * 2.0 ** (exponent.astype(np.float64) - 7))
    return codes, values


def _place_scales(
    tensor: NDArray[np.uint32],
    column: int,
    codes: NDArray[np.uint8],
    first: int,
    partitions: tuple[int, ...] = (0, 1, 2, 3),
) -> None:
    """Row r in lane r % 32 of each partition, column r // 32, its factors in the bytes of the word from `first` on."""
    for row, factors in enumerate(codes):
        for at, code in enumerate(factors):
            for partition in partitions:
                cell = tensor[32 * partition + row % 32]
                shift = np.uint32(8 * (first + at))
                cell[column + row // 32] = (
                    cell[column + row // 32] & ~(np.uint32(255) << shift) | np.uint32(code) << shift
                )


CASES = [
    # kind, size, scale, types, m, n, group, scale factor ids
    ("mxf8f6f4", ".scale_vec::1X", "ue8m0", ("e4m3", "e4m3"), 128, 64, 1, (0, 0)),
    ("mxf8f6f4", "", "ue8m0", ("e5m2", "e2m1"), 128, 40, 1, (1, 3)),
    ("mxf8f6f4", ".block32", "ue8m0", ("e3m2", "e2m3"), 128, 8, 1, (2, 0)),
    ("mxf4", "", "ue8m0", ("e2m1", "e2m1"), 128, 128, 1, (0, 2)),
    ("mxf4", ".scale_vec::2X", "ue8m0", ("e2m1", "e2m1"), 128, 24, 1, (2, 0)),
    ("mxf4nvf4", ".block32", "ue8m0", ("e2m1", "e2m1"), 128, 64, 1, (2, 2)),
    ("mxf4nvf4", ".scale_vec::4X", "ue4m3", ("e2m1", "e2m1"), 128, 64, 1, (0, 0)),
    ("mxf4nvf4", ".block16", "ue8m0", ("e2m1", "e2m1"), 128, 256, 1, (0, 0)),
    ("mxf8f6f4", ".block32", "ue8m0", ("e4m3", "e5m2"), 256, 256, 2, (3, 1)),
    ("mxf4nvf4", ".block16", "ue4m3", ("e2m1", "e2m1"), 256, 64, 2, (0, 0)),
    ("mxf8f6f4", ".block32", "ue8m0", ("e4m3", "e4m3"), 128, 128, 2, (0, 0)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: "-".join(map(str, c)))
def test_scaled_product(case: tuple[str, str, str, tuple[str, str], int, int, int, tuple[int, int]]) -> None:
    kind, size, scale, (a_type, b_type), m, n, group, ids = case
    rng = np.random.default_rng(6)
    image = rng.integers(0, 256, (group, 64 * 1024), dtype=np.uint8)
    packed = kind != "mxf8f6f4"
    k = 64 if packed else 32
    factors = {".scale_vec::1X": 1, ".scale_vec::4X": 4, ".block16": 4}.get(size, 2 if packed else 1)
    a_codes, a = random_matrix(rng, a_type, (m, k))
    b_codes, b = random_matrix(rng, b_type, (n, k))
    sfa_codes, sfa = _scale_codes(rng, scale, (m, factors))
    sfb_codes, sfb = _scale_codes(rng, scale, (n, factors))
    tensor = np.zeros((group, 128, 320), np.uint32)
    rows, columns = m // group, n // group
    for cta in range(group):
        put_k_major(
            image[cta],
            BASE,
            A_START,
            row_bytes(a_codes[rows * cta : rows * (cta + 1)], a_type, packed=packed),
            "128B",
            1024,
        )
        put_k_major(
            image[cta],
            BASE,
            B_START,
            row_bytes(b_codes[columns * cta : columns * (cta + 1)], b_type, packed=packed),
            "128B",
            1024,
        )
        _place_scales(tensor[cta], SFA_COLUMN, sfa_codes[rows * cta : rows * (cta + 1)], ids[0])
        if rows == 64:
            _place_scales(tensor[cta], SFB_COLUMN, sfb_codes[: n // 2], ids[1], (0, 1))
            _place_scales(tensor[cta], SFB_COLUMN, sfb_codes[n // 2 :], ids[1], (2, 3))
        else:
            _place_scales(tensor[cta], SFB_COLUMN, sfb_codes, ids[1])
    bits = scaled_descriptor(m, n, a_type, b_type, scale, ids=ids, four_bit=packed)
    body = (
        move("d0", matrix_descriptor(A_START, "128B", 16, 1024)) + move("d1", matrix_descriptor(B_START, "128B", 16, 1024))
        + move("t0", 0) + move("t1", bits) + move("t2", ids[0] << 30 | SFA_COLUMN) + move("t3", ids[1] << 30 | SFB_COLUMN)
        + f"tcgen05.mma.cta_group::{group}.kind::{kind}.block_scale{size} [t0], d0, d1, t1, [t2], [t3], no;\n"
    )  # fmt: skip
    found = run(body, image, tensor).tensor.view(np.float32)
    product = (a * np.repeat(sfa, k // factors, axis=1)) @ (b * np.repeat(sfb, k // factors, axis=1)).T
    expected = product.astype(np.float32)
    for cta in range(group):
        part = expected[rows * cta : rows * (cta + 1)]
        if rows == 64:
            np.testing.assert_array_equal(found[cta, :64, : n // 2], part[:, : n // 2])
            np.testing.assert_array_equal(found[cta, 64:, : n // 2], part[:, n // 2 :])
        else:
            np.testing.assert_array_equal(found[cta, :, :n], part)


@pytest.mark.parametrize("order", ["fifo", "random", "adversarial"])
def test_scales_by_copy(order: str) -> None:
    """cp to mma needs no wait: 32 rows of 16 bytes, word j of row i for row i + 32 j, go to all four partitions."""
    rng = np.random.default_rng(7)
    image = rng.integers(0, 256, (1, 64 * 1024), dtype=np.uint8)
    a_codes, a = random_matrix(rng, "e2m1", (128, 64))
    b_codes, b = random_matrix(rng, "e2m1", (128, 64))
    put_k_major(image[0], BASE, A_START, row_bytes(a_codes, "e2m1", packed=True), "128B", 1024)
    put_k_major(image[0], BASE, B_START, row_bytes(b_codes, "e2m1", packed=True), "128B", 1024)
    codes, scales = _scale_codes(rng, "ue4m3", (128, 4))
    at = SF_START - BASE
    image[0, at : at + 512] = codes.reshape(4, 32, 4).transpose(1, 0, 2).ravel()
    bits = scaled_descriptor(128, 128, "e2m1", "e2m1", "ue4m3", four_bit=True)
    body = (
        move("d0", matrix_descriptor(A_START, "128B", 16, 1024)) + move("d1", matrix_descriptor(B_START, "128B", 16, 1024))
        + move("d2", matrix_descriptor(SF_START, "none", 16, 128))
        + move("t0", 0) + move("t1", bits) + move("t2", SFA_COLUMN) + move("t3", SFB_COLUMN)
        + "tcgen05.cp.cta_group::1.32x128b.warpx4 [t2], d2;\ntcgen05.cp.cta_group::1.32x128b.warpx4 [t3], d2;\n"
        + "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.block16 [t0], d0, d1, t1, [t2], [t3], no;\n"
    )  # fmt: skip
    tensor = np.zeros((1, 128, 320), np.uint32)
    found = run(body, image, tensor, order=order).tensor.view(np.float32)  # type: ignore[arg-type]
    by = np.repeat(scales, 16, axis=1)
    np.testing.assert_array_equal(found[0, :, :128], ((a * by) @ (b * by).T).astype(np.float32))
