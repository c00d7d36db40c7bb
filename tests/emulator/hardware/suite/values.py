"""Operand values: every pair of the special values of a type, then random ones."""

from __future__ import annotations

import numpy as np

from suite.cases import Array

_F32 = [
    0x00000000, 0x80000000, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC12345, 0x7F812345,
    0x00000001, 0x807FFFFF, 0x00800000, 0x7F7FFFFF, 0x3F000001,
]  # fmt: skip
_F64 = [
    0x0000000000000000, 0x8000000000000000, 0x3FF0000000000000, 0xBFF0000000000000, 0x7FF0000000000000,
    0xFFF0000000000000, 0x7FF8000000000000, 0xFFF8123456789ABC, 0x7FF0123456789ABC, 0x0000000000000001,
    0x800FFFFFFFFFFFFF, 0x0010000000000000, 0x7FEFFFFFFFFFFFFF, 0x3FE0000000000001,
]  # fmt: skip
_F16 = [
    0x0000, 0x8000, 0x3C00, 0xBC00, 0x7C00, 0xFC00, 0x7E00, 0xFE12, 0x7D01, 0x0001, 0x83FF, 0x0400, 0x7BFF, 0x3801,
]  # fmt: skip
_BF16 = [
    0x0000, 0x8000, 0x3F80, 0xBF80, 0x7F80, 0xFF80, 0x7FC0, 0xFFC5, 0x7F81, 0x0001, 0x807F, 0x0080, 0x7F7F, 0x3F01,
]  # fmt: skip
_BITS = {"f16": 16, "bf16": 16, "f16x2": 32, "bf16x2": 32, "f32": 32, "f64": 64, "e8x2": 16, "shift": 32}
_FLOATS = {"f16": _F16, "bf16": _BF16, "f32": _F32, "f64": _F64}
_MANTISSA = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52}


def bits_of(kind: str) -> int:
    """The width of an operand kind: `i16`, `u32`, `f32`, `f16x2`, ..."""
    return _BITS.get(kind) or int(kind.lstrip("iu"))


def operand(kind: str, position: int, rows: int, rng: np.random.Generator) -> Array:
    """`rows` bit patterns for operand `position` (0, 1, ...) of an instruction."""
    if kind == "shift":
        return rng.choice(np.array([*range(0, 70), 0xFFFFFFFF, 0x80000000, 0x100], np.uint32), rows)
    if kind in ("f16x2", "bf16x2"):
        lower = operand(kind[:-2], position, rows, rng).astype(np.uint32)
        return lower | rng.permutation(lower) << 16
    width = bits_of(kind)
    unsigned = np.dtype(f"u{width // 8}")
    random = rng.integers(0, 2**width, rows, dtype=unsigned, endpoint=False) if width < 64 else rng.integers(
        0, 2**64 - 1, rows, dtype=np.uint64, endpoint=True
    )  # fmt: skip
    if kind == "e8x2":
        return (np.arange(rows) * 0x0101 + rng.integers(0, 2, rows) * 0x8000).astype(unsigned)
    if kind in _FLOATS:
        specials, near = np.array(_FLOATS[kind], unsigned), _near_one(kind, rows, rng)
        random = np.where(rng.random(rows) < 0.7, near, random)
    else:
        specials = _integers(width)
        small = rng.integers(0, 40, rows).astype(unsigned)
        random = np.where(rng.random(rows) < 0.3, small, random)
    count = len(specials)
    if position >= 2:
        return np.where(rng.random(rows) < 0.5, rng.choice(specials, rows), random)
    row = np.arange(rows)
    chosen = specials[row // count % count if position == 0 else row % count]
    return np.where(row < count * count, chosen, random)


def _integers(width: int) -> Array:
    top = 1 << width - 1
    values = [0, 1, 2, 3, 31, 32, top - 1, top, top + 1, 2 * top - 1, 2 * top - 2, 0x55555555_55555555 & 2 * top - 1]
    return np.array(values, f"u{width // 8}")


def _near_one(kind: str, rows: int, rng: np.random.Generator) -> Array:
    """Floats with exponents within a few steps of 1, where sums round and cancel."""
    unsigned = np.dtype(f"u{bits_of(kind) // 8}")
    mantissa = _MANTISSA[kind]
    bias = (1 << bits_of(kind) - mantissa - 2) - 1
    exponent = rng.integers(bias - 4, bias + 5, rows).astype(np.uint64) << np.uint64(mantissa)
    fraction = rng.integers(0, 1 << mantissa, rows, dtype=np.uint64)
    sign = rng.integers(0, 2, rows, dtype=np.uint64) << np.uint64(bits_of(kind) - 1)
    return (sign | exponent | fraction).astype(unsigned)
