"""Sparse A: metadata in tensor memory say where the stored half of each row belongs."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from tensor_operands import (
    accumulator_cell,
    instruction_descriptor,
    matrix_descriptor,
    put_k_major,
    random_matrix,
    row_bytes,
    scaled_descriptor,
)
from tensor_rig import BASE, move, run

A_START, B_START, META = 0x400, 0x400 + 64 * 1024, 300
PAIRS = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 1), (2, 3)]


def _spread(
    rng: np.random.Generator, stored: NDArray[np.float64], kind: str
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """A dense matrix that the stored elements make, and the four bits of each group."""
    rows, half = stored.shape
    unit = 2 if kind == "mxf4" else 1
    held = 1 if kind == "tf32" else 2
    groups = half // (held * unit)
    dense, codes = np.zeros((rows, 2 * half)), np.zeros((rows, groups), np.int64)
    for row in range(rows):
        for group in range(groups):
            if kind == "tf32":
                place = int(rng.integers(0, 2))
                codes[row, group] = (0b0100, 0b1110)[place]
                dense[row, 2 * group + place] = stored[row, group]
                continue
            pair = PAIRS[rng.integers(0, len(PAIRS))]
            codes[row, group] = pair[0] | pair[1] << 2
            for at, place in enumerate(pair):
                to, of = (4 * group + place) * unit, (2 * group + at) * unit
                dense[row, to : to + unit] = stored[row, of : of + unit]
    return dense, codes


def _place(tensor: NDArray[np.uint32], kind: str, codes: NDArray[np.int64], lanes: int, column: int) -> None:
    """16-bit and tf32: half of K of row r at lane r % 8 + 8 * half of its 16, in the low or (rows 8-15) high 16 bits."""
    for row in range(len(codes)):
        for group in range(codes.shape[1]):
            if kind in ("f16", "tf32"):
                lane, bit = 16 * (row // 16) + row % 8 + 8 * (group // 4), 16 * (row // 8 % 2) + 4 * (group % 4)
                at = column
            else:
                lane, at, bit = row, column + group // 8, 4 * (group % 8)
            tensor[lanes + lane, at] |= np.uint32(int(codes[row, group]) << bit)


@pytest.mark.parametrize(
    ("kind", "type", "m", "group", "weights", "selector"),
    [
        ("f16", "f16", 128, 1, False, 0),
        ("f16", "bf16", 128, 1, False, 1),
        ("tf32", "tf32", 128, 1, False, 0),
        ("f8f6f4", "e4m3", 128, 1, False, 0),
        ("i8", "s8", 128, 1, False, 0),
        ("f16", "f16", 256, 2, False, 0),
        ("i8", "u8", 256, 2, False, 0),
        ("f16", "f16", 64, 1, True, 0),
        ("tf32", "tf32", 32, 1, True, 0),
        ("f8f6f4", "e5m2", 64, 1, True, 0),
        ("mxf8f6f4", "e4m3", 128, 1, False, 0),
        ("mxf4", "e2m1", 128, 1, False, 0),
    ],
)
def test_sparse(kind: str, type: str, m: int, group: int, weights: bool, selector: int) -> None:
    rng = np.random.default_rng(11)
    n, packed = 64, kind == "mxf4"
    image = rng.integers(0, 256, (group, 128 * 1024), dtype=np.uint8)
    half = {"f16": 16, "tf32": 8, "mxf4": 64}.get(kind, 32)
    a_codes, stored = random_matrix(rng, type, (m, half))
    b_codes, b = random_matrix(rng, type, (n, 2 * half))
    dense, codes = _spread(rng, stored, kind)
    tensor = np.zeros((group, 128, 320), np.uint32)
    rows = m // group
    for cta in range(group):
        put_k_major(
            image[cta],
            BASE,
            A_START,
            row_bytes(a_codes[rows * cta : rows * (cta + 1)], type, packed=packed),
            "64B",
            512,
        )
        put_k_major(
            image[cta],
            BASE,
            B_START,
            row_bytes(b_codes[n // group * cta : n // group * (cta + 1)], type, packed=packed),
            "128B",
            1024,
        )
        for copy in range(128 // rows):
            _place(tensor[cta], kind, codes[rows * cta : rows * (cta + 1)], rows * copy, META + selector)
    d = "s32" if kind == "i8" else "f32"
    scaled = kind.startswith("mx")
    if scaled:
        tensor[:, :, 280:284] = 0x7F7F7F7F
        tensor[:, :, 284:288] = 0x7F7F7F7F
        bits = scaled_descriptor(m, n, type, type, "ue8m0", four_bit=packed, sparse=True)
    else:
        bits = instruction_descriptor(m, n, type, type, d, sparse=True, selector=selector)
    opcode = (
        f"tcgen05.mma{'.ws' if weights else ''}.sp.cta_group::{group}.kind::{kind}{'.block_scale' if scaled else ''}"
    )
    body = (
        move("d0", matrix_descriptor(A_START, "64B", 16, 512)) + move("d1", matrix_descriptor(B_START, "128B", 16, 1024))
        + move("t0", 0) + move("t1", bits) + move("t2", META) + move("t3", 280) + move("t4", 284)
        + f"{opcode} [t0], d0, d1, [t2], t1, {'[t3], [t4], ' if scaled else ''}no;\n"
    )  # fmt: skip
    found = run(body, image, tensor).tensor
    product = dense @ b.T
    at = accumulator_cell(group, m, n, np.arange(m)[:, None], np.arange(n)[None, :], weights=weights)
    wanted = (
        product.astype(np.int64).astype(np.int32).view(np.uint32)
        if d == "s32"
        else product.astype(np.float32).view(np.uint32)
    )
    zeros = (found[at] | wanted) == 0x80000000
    np.testing.assert_array_equal(np.where(zeros, 0, found[at]), np.where(zeros, 0, wanted))
