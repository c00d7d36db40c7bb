"""tcgen05.cp: every shape, multicast and conversion, and descriptors with swizzles."""

from __future__ import annotations

import numpy as np
import pytest
from tensor_operands import SPAN, matrix_descriptor, put_k_major
from tensor_rig import BASE, move, run

START, COLUMN = 0x400 + 1024, 32
LANES = {
    "128x256b": [list(range(128))],
    "128x128b": [list(range(128))],
    "4x256b": [[0, 32, 64, 96]],
    "64x128b.warpx2::02_13": [list(range(64)), list(range(64, 128))],
    "64x128b.warpx2::01_23": [[*range(32), *range(64, 96)], [*range(32, 64), *range(96, 128)]],
    "32x128b.warpx4": [list(range(32 * w, 32 * w + 32)) for w in range(4)],
}


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("mode", ["none", "32B", "128B"])
@pytest.mark.parametrize("shape", list(LANES))
def test_shapes(shape: str, mode: str, group: int) -> None:
    """Row r of the source goes to the r-th lane of each copy; nothing else changes."""
    rng = np.random.default_rng(9)
    rows, width = int(shape.split("x")[0]), 32 if "256b" in shape else 16
    image = rng.integers(0, 256, (group, 32 * 1024), dtype=np.uint8)
    data = rng.integers(0, 256, (group, rows, width), dtype=np.uint8)
    sbo, lbo = (256, 8192) if mode == "none" else (8 * SPAN[mode], 16)
    for cta in range(group):
        put_k_major(image[cta], BASE, START, data[cta], mode, sbo, lbo)
    tensor = rng.integers(0, 2**32, (group, 128, 64), dtype=np.uint32)
    first = 31 if shape == "4x256b" else 0
    body = (
        move("t0", first << 16 | COLUMN)
        + move("d0", matrix_descriptor(START, mode, lbo, sbo))
        + f"tcgen05.cp.cta_group::{group}.{shape} [t0], d0;\n"
    )
    found = run(body, image, tensor, order="random", seed=group).tensor
    expected = tensor.copy()
    for cta in range(group):
        for lanes in LANES[shape]:
            expected[cta, np.array(lanes) + first, COLUMN : COLUMN + width // 4] = data[cta].view(np.uint32)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("source", ["b6x16_p32", "b4x16_p64"])
def test_conversions(source: str) -> None:
    """16 codes in 12 or 8 bytes, and padding, become 16 bytes: 6 bits in the low ones, 4 bits in the middle."""
    rng = np.random.default_rng(10)
    bits = int(source[1])
    codes = rng.integers(0, 2**bits, (128, 32))
    data = np.array(
        [
            [byte for at in (0, 16) for byte in sum(int(c) << bits * i for i, c in enumerate(row[at : at + 16])).to_bytes(16, "little")]
            for row in codes
        ],
        np.uint8,
    )  # fmt: skip
    image = rng.integers(0, 256, (1, 32 * 1024), dtype=np.uint8)
    put_k_major(image[0], BASE, START, data, "32B", 256)
    tensor = np.zeros((1, 128, 64), np.uint32)
    body = (
        move("t0", COLUMN)
        + move("d0", matrix_descriptor(START, "32B", 16, 256))
        + f"tcgen05.cp.cta_group::1.128x256b.b8x16.{source} [t0], d0;\n"
    )
    found = run(body, image, tensor).tensor[0, :, COLUMN : COLUMN + 8]
    wanted = (codes << (2 if bits == 4 else 0)).astype(np.uint8)
    np.testing.assert_array_equal(np.ascontiguousarray(found).view(np.uint8), wanted)
