"""tcgen05.mma against NumPy: kinds, shapes, majors, swizzles, operands in tensor memory, masks and scaling."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray
from tensor_operands import (
    SPAN,
    accumulate,
    accumulator_cell,
    instruction_descriptor,
    matrix_descriptor,
    put_k_major,
    put_mn_major,
    random_cells,
    random_matrix,
    row_bytes,
)
from tensor_rig import BASE, Finished, move, run

K = {"f16": 16, "bf16": 16, "tf32": 8}


@dataclass(frozen=True)
class Product:
    """One product: kind, types and shape; `modes` are the swizzles of A and B, `mn_major` how they lie."""

    kind: str
    a: str
    b: str
    d: str
    m: int
    n: int
    modes: tuple[str, str] = ("128B", "128B")
    mn_major: tuple[bool, bool] = (False, False)
    group: int = 1
    weights: bool = False

    @property
    def k(self) -> int:
        return K.get(self.a, 32)

    def __str__(self) -> str:
        majors = "".join("mk"[not x] for x in self.mn_major)
        return f"{self.kind}-{self.a}-{self.b}-{self.d}-{self.m}x{self.n}-{self.modes[0]}-{self.modes[1]}-{majors}-{self.group}{self.weights}"


def put(image: NDArray[np.uint8], start: int, codes: NDArray[np.uint8], type: str, mode: str, mn_major: bool) -> int:
    """Lay out a matrix at `start` and return its descriptor. Strides leave gaps, so that they matter."""
    span = SPAN[mode]
    if not mn_major:
        sbo, lbo = (8 * span * 2, 0) if mode != "none" else (272, 128 * 40)
        put_k_major(image, BASE, start, row_bytes(codes, type), mode, sbo, lbo)
        return matrix_descriptor(start, mode, lbo or 16, sbo)
    group = 8 * span if mode != "128B_ATOM_32B" else 4 * span
    sbo, lbo = (2 * group, 8 * group) if mode != "none" else (128 + 16, 128 * 40)
    put_mn_major(image, BASE, start, codes, mode, lbo, sbo)
    return matrix_descriptor(start, mode, lbo, sbo)


def multiply(
    p: Product, *, seed: int = 0, extra: str = "", d_lane: int = 0
) -> tuple[Finished, NDArray[np.uint32], NDArray[np.uint32]]:
    """Run D += A B at column 32. Returns what ran, the cells that D takes, and those expected."""
    rng = np.random.default_rng(seed)
    image = rng.integers(0, 256, (p.group, 160 * 1024), dtype=np.uint8)
    a_codes, a = random_matrix(rng, p.a, (p.m, p.k))
    b_codes, b = random_matrix(rng, p.b, (p.n, p.k))
    starts = 0x400, 0x400 + 80 * 1024
    descriptors = (0, 0)
    for cta in range(p.group):
        rows, columns = p.m // p.group, p.n // p.group
        parts = a_codes[rows * cta : rows * (cta + 1)], b_codes[columns * cta : columns * (cta + 1)]
        descriptors = tuple(
            put(image[cta], start, part, type, mode, mn)
            for start, part, type, mode, mn in zip(starts, parts, (p.a, p.b), p.modes, p.mn_major, strict=True)
        )
    tensor = random_cells(rng, p.d, (p.group, 128, 320))
    bits = instruction_descriptor(p.m, p.n, p.a, p.b, p.d, transposed=p.mn_major)
    where = 32 | d_lane << 16
    body = (
        move("t0", where)
        + move("d0", descriptors[0])
        + move("d1", descriptors[1])
        + move("t1", bits)
        + f"tcgen05.mma{'.ws' if p.weights else ''}.cta_group::{p.group}.kind::{p.kind} [t0], d0, d1, t1, yes{extra};\n"
    )
    done = run(body, image, tensor)
    cell = accumulator_cell(
        p.group, p.m, p.n, np.arange(p.m)[:, None], np.arange(p.n)[None, :], weights=p.weights, half=d_lane // 16
    )
    index = cell[0], cell[1], cell[2] + 32
    expected = tensor.copy()
    expected[index] = accumulate(p.d, a @ b.T, tensor[index])
    return done, done.tensor, expected


SWIZZLES = ("none", "32B", "64B", "128B")
PRODUCTS = [
    *(Product("f16", t, t, d, 128, 64, (mode, mode)) for t, d in (("f16", "f32"), ("f16", "f16"), ("bf16", "f32")) for mode in SWIZZLES),
    Product("f16", "f16", "bf16", "f32", 128, 8),
    Product("f16", "f16", "f16", "f32", 128, 256),
    Product("f16", "f16", "f16", "f32", 128, 24, ("128B_ATOM_32B", "32B")),
    Product("f16", "bf16", "bf16", "f32", 64, 40, ("64B", "none")),
    *(Product("f16", "bf16", "bf16", "f32", 128, 128, (mode, mode), (True, True)) for mode in SWIZZLES),
    Product("f16", "f16", "f16", "f32", 64, 64, ("128B", "64B"), (True, False)),
    Product("f16", "f16", "f16", "f16", 128, 64, ("32B", "128B"), (False, True)),
    *(Product("tf32", "tf32", "tf32", "f32", 128, 32, (mode, mode)) for mode in SWIZZLES),
    Product("tf32", "tf32", "tf32", "f32", 128, 64, ("128B_ATOM_32B", "128B_ATOM_32B"), (True, True)),
    Product("tf32", "tf32", "tf32", "f32", 64, 96, ("128B", "128B_ATOM_32B"), (False, True)),
    *(
        Product("f8f6f4", a, b, d, 128, 16)
        for a in ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1")
        for b, d in (("e4m3", "f32"), ("e2m1", "f32"), ("e3m2", "f16"))
    ),
    Product("f8f6f4", "e2m3", "e5m2", "f32", 64, 48, ("none", "32B")),
    *(Product("f8f6f4", "e4m3", "e5m2", "f32", 128, 128, (mode, mode), (True, True)) for mode in SWIZZLES),
    *(Product("i8", a, b, "s32", 128, 48) for a in ("u8", "s8") for b in ("u8", "s8")),
    Product("i8", "s8", "u8", "s32", 64, 32, ("none", "64B")),
    Product("i8", "s8", "s8", "s32", 128, 32, ("64B", "128B"), (True, True)),
    *(Product("f16", "f16", "f16", "f32", m, n, weights=True) for m in (32, 64, 128) for n in (64, 128)),
    Product("i8", "s8", "s8", "s32", 32, 256, weights=True),
    Product("tf32", "tf32", "tf32", "f32", 64, 64, weights=True),
    Product("f16", "bf16", "bf16", "f32", 256, 256, group=2),
    Product("f16", "f16", "f16", "f16", 128, 96, group=2),
    Product("f16", "f16", "f16", "f32", 256, 128, ("128B", "64B"), (True, True), group=2),
    Product("tf32", "tf32", "tf32", "f32", 128, 64, group=2),
    Product("f8f6f4", "e2m1", "e4m3", "f32", 256, 32, group=2),
    Product("i8", "u8", "s8", "s32", 128, 64, group=2),
]  # fmt: skip


@pytest.mark.parametrize("p", PRODUCTS, ids=str)
def test_product(p: Product) -> None:
    """Exactly the cells of D change, to the sum rounded once."""
    _, found, expected = multiply(p)
    np.testing.assert_array_equal(found, expected)


def test_half_of_the_lanes_from_lane_16_on() -> None:
    _, found, expected = multiply(Product("f16", "f16", "f16", "f32", 64, 64), d_lane=16)
    np.testing.assert_array_equal(found, expected)
