"""Matrices as the rules of the PTX ISA lay them out, written from its formulas: formats, shared memory, descriptors, accumulators."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

SWIZZLE_CODE = {"none": 0, "128B_ATOM_32B": 1, "128B": 2, "64B": 4, "32B": 6}
SPAN = {"none": 16, "32B": 32, "64B": 64, "128B": 128, "128B_ATOM_32B": 128}
_XOR = {"none": (0, 0), "32B": (3, 0x10), "64B": (3, 0x30), "128B": (3, 0x70), "128B_ATOM_32B": (2, 0x60)}
TYPE_CODE = {
    "f16": 0,
    "bf16": 1,
    "tf32": 2,
    "e4m3": 0,
    "e5m2": 1,
    "e2m3": 3,
    "e3m2": 4,
    "e2m1": 5,
    "u8": 0,
    "s8": 1,
}
RESULT_CODE = {"f16": 0, "f32": 1, "s32": 2}
NARROW = {"e4m3": (4, 3, 7), "e5m2": (5, 2, 15), "e2m3": (2, 3, 1), "e3m2": (3, 2, 3), "e2m1": (2, 1, 1)}
"""Exponent bits, mantissa bits, bias."""


def narrow_value(type: str, code: int) -> float:
    """The value of a finite code: sign, exponent, mantissa; subnormal where the exponent is 0."""
    e, m, bias = NARROW[type]
    exponent, mantissa = code >> m & (2**e - 1), code & (2**m - 1)
    magnitude = (
        mantissa / 2**m * 2.0 ** (1 - bias) if exponent == 0 else (1 + mantissa / 2**m) * 2.0 ** (exponent - bias)
    )
    return -magnitude if code >> (e + m) & 1 else magnitude


def finite_codes(type: str) -> NDArray[np.int64]:
    e, m, _ = NARROW[type]
    top = {"e4m3": [0x7F, 0xFF], "e5m2": [s | 0x7C | x for s in (0, 0x80) for x in range(4)]}.get(type, [])
    return np.array([code for code in range(2 ** (1 + e + m)) if code not in top])


def random_matrix(
    rng: np.random.Generator, type: str, shape: tuple[int, int]
) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Codes and their values. The values are such that sums of their products are exact in double precision."""
    if type in NARROW:
        codes = rng.choice(finite_codes(type), shape).astype(np.uint8)
        return codes, np.vectorize(lambda c: narrow_value(type, int(c)))(codes).astype(np.float64)
    if type in ("u8", "s8"):
        raw = rng.integers(0, 256, shape).astype(np.uint8)
        return raw, raw.view(np.int8 if type == "s8" else np.uint8).astype(np.float64)
    values = rng.integers(-64, 65, shape).astype(np.float32) / np.float32(8)
    match type:
        case "f16":
            return values.astype(np.float16).view(np.uint16), values.astype(np.float64)
        case "bf16":
            return (values.view(np.uint32) >> 16).astype(np.uint16), values.astype(np.float64)
        case _:
            # The low 13 bits of tf32 are ignored: whatever they are.
            noise = rng.integers(0, 1 << 13, shape).astype(np.uint32)
            return values.view(np.uint32) | noise, values.astype(np.float64)


def row_bytes(codes: NDArray[Any], type: str, *, packed: bool = False) -> NDArray[np.uint8]:
    """Rows of K as they lie in shared memory: narrow codes in 16s with padding, or packed two to a byte (`kind::mxf4`)."""
    if type not in ("e2m3", "e3m2", "e2m1"):
        return np.ascontiguousarray(codes).view(np.uint8)
    rows: list[list[int]] = []
    for row in codes:
        out: list[int] = []
        size = 16 if not packed else len(row)
        for at in range(0, len(row), size):
            width = 4 if type == "e2m1" else 6
            whole = sum(int(c) << width * i for i, c in enumerate(row[at : at + size]))
            out += whole.to_bytes(16 if not packed else size // 2, "little")
        rows.append(out)
    return np.array(rows, np.uint8)


def swizzle(address: NDArray[np.int64], mode: str) -> NDArray[np.int64]:
    shift, mask = _XOR[mode]
    return address ^ (address >> shift & mask)


def put_k_major(
    image: NDArray[np.uint8], base: int, start: int, rows: NDArray[np.uint8], mode: str, sbo: int, lbo: int = 0
) -> None:
    """Rows of K into an image that lies at `base` of the window; `start` is an address in the window."""
    mn, k = np.arange(rows.shape[0])[:, None], np.arange(rows.shape[1])[None, :]
    if mode == "none":
        offset = mn // 8 * sbo + mn % 8 * 16 + k // 16 * lbo + k % 16
    else:
        offset = mn // 8 * sbo + mn % 8 * SPAN[mode] + k
    image[swizzle(start + offset, mode) - base] = rows


def put_mn_major(
    image: NDArray[np.uint8], base: int, start: int, codes: NDArray[Any], mode: str, lbo: int, sbo: int
) -> None:
    """A matrix (mn, k) of whole elements, its columns contiguous."""
    size = codes.dtype.itemsize
    columns = np.ascontiguousarray(codes.T).view(np.uint8)
    k, mn = np.arange(columns.shape[0])[:, None], np.arange(columns.shape[1])[None, :]
    assert mn.size == codes.shape[0] * size
    if mode == "none":
        offset = mn // 16 * sbo + mn % 16 + k // 8 * lbo + k % 8 * 16
    else:
        span, rows = SPAN[mode], 4 if mode == "128B_ATOM_32B" else 8
        offset = mn // span * lbo + mn % span + k // rows * sbo + k % rows * span
    image[swizzle(start + offset, mode) - base] = columns


def matrix_descriptor(start: int, mode: str, lbo: int, sbo: int) -> int:
    return (
        (start & 0x3FFFF) >> 4
        | ((lbo & 0x3FFFF) >> 4) << 16
        | ((sbo & 0x3FFFF) >> 4) << 32
        | 1 << 46
        | SWIZZLE_CODE[mode] << 61
    )


def instruction_descriptor(
    m: int,
    n: int,
    a: str,
    b: str,
    d: str = "f32",
    *,
    transposed: tuple[bool, bool] = (False, False),
    negated: tuple[bool, bool] = (False, False),
    saturate: bool = False,
    sparse: bool = False,
    selector: int = 0,
) -> int:
    """Of the kinds without block scaling (table 42)."""
    return (
        selector
        | sparse << 2
        | saturate << 3
        | RESULT_CODE[d] << 4
        | TYPE_CODE[a] << 7
        | TYPE_CODE[b] << 10
        | negated[0] << 13
        | negated[1] << 14
        | transposed[0] << 15
        | transposed[1] << 16
        | (n >> 3) << 17
        | (m >> 4) << 24
    )


def scaled_descriptor(
    m: int,
    n: int,
    a: str,
    b: str,
    scale: str,
    *,
    ids: tuple[int, int] = (0, 0),
    four_bit: bool = False,
    sparse: bool = False,
) -> int:
    """Of block-scaled kinds (tables 43 and 44)."""
    codes = (1, 1) if four_bit else (TYPE_CODE[a], TYPE_CODE[b])
    return (
        sparse << 2
        | ids[1] << 4
        | codes[0] << 7
        | codes[1] << 10
        | (n >> 3) << 17
        | (scale == "ue8m0") << 23
        | (m >> 7) << 27
        | ids[0] << 29
    )


def accumulator_cell(
    group: int, m_total: int, n_total: int, m: NDArray[Any], n: NDArray[Any], *, weights: bool = False, half: int = 0
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """CTA, lane and column of element (m, n) of D."""
    zero = np.zeros(np.broadcast_shapes(m.shape, n.shape), np.int64)
    m, n = m + zero, n + zero
    if group == 2:
        if m_total == 256:
            return m // 128, m % 128, n
        return m // 64, m % 64 + 64 * (n // (n_total // 2)), n % (n_total // 2)
    if m_total == 128:
        return zero, m, n
    if m_total == 64 and not weights:
        return zero, 32 * (m // 16) + m % 16 + 16 * half, n
    parts = 128 // m_total
    return zero, m + m_total * (n // (n_total // parts)), n % (n_total // parts)


def accumulate(
    d: str, product: NDArray[np.float64], held: NDArray[np.uint32], *, saturate: bool = False
) -> NDArray[np.uint32]:
    """Cells of D after `held` + product, rounded once."""
    if d == "s32":
        total = [int(h) + int(p) for h, p in zip(held.view(np.int32).ravel(), product.ravel(), strict=True)]
        if saturate:
            total = [min(max(t, -(2**31)), 2**31 - 1) for t in total]
        return np.array([t & 0xFFFFFFFF for t in total], np.uint32).reshape(held.shape)
    if d == "f32":
        return (held.view(np.float32).astype(np.float64) + product).astype(np.float32).view(np.uint32)
    with np.errstate(over="ignore"):
        total16 = (held.astype(np.uint16).view(np.float16).astype(np.float64) + product).astype(np.float16)
    return total16.view(np.uint16).astype(np.uint32)


def random_cells(rng: np.random.Generator, d: str, shape: tuple[int, ...]) -> NDArray[np.uint32]:
    """Cells that hold numbers of D's type."""
    if d == "s32":
        return rng.integers(0, 2**32, shape, dtype=np.uint32)
    values = rng.integers(-100, 101, shape).astype(np.float32) / np.float32(4)
    return values.view(np.uint32) if d == "f32" else values.astype(np.float16).view(np.uint16).astype(np.uint32)
