"""Correct rounding of binary floating point in every direction (PTX 9.7.3, 9.7.9.21), on arrays.

A result of single precision or less is first made in double precision *rounded to odd*: a value that is not exact gets an odd
last bit. Rounding it again, to at least two bits less and in any direction, is then the same as rounding the exact value once
(Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums", 2008).
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Mode = Literal["rn", "rna", "rz", "rm", "rp"]
Array = NDArray[Any]

_TIE = np.int64(1 << 28)
_BELOW_SINGLE = np.int64((1 << 29) - 1)
_SMALL_SINGLE = 2.0**-125


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """The sum of two doubles rounded to nearest, and its exact error (Knuth); NaN where the sum is not finite."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def to_odd(nearest: Array, error: Array) -> Array:
    """What ``nearest + error`` is when rounded to odd; `nearest` is that sum rounded to nearest."""
    bits = nearest.view(np.int64)
    inexact = (np.abs(error) > 0) & (bits & 1 == 0)
    return np.where(inexact, bits + np.where((error > 0) == (nearest > 0), 1, -1), bits).view(np.float64)


def directed(nearest: Array, error: Array, mode: Mode) -> Array:
    """What ``nearest + error`` is when rounded in the direction of `mode`; the sum does not overflow."""
    match mode:
        case "rm":
            return np.where(error < 0, np.nextafter(nearest, -np.inf), nearest)
        case "rp":
            return np.where(error > 0, np.nextafter(nearest, np.inf), nearest)
        case "rz":
            return np.where(np.sign(error) * np.sign(nearest) < 0, np.nextafter(nearest, 0.0), nearest)
        case _:
            return nearest


def sum_to_odd(a: Array, b: Array, mode: Mode) -> Array:
    """The sum of two doubles rounded to odd, to be rounded by `mode`: that decides the sign of a zero."""
    nearest, error = two_sum(a, b)
    if mode == "rm":
        nearest = np.where((nearest == 0) & (np.signbit(a) | np.signbit(b)), -0.0, nearest)
    return to_odd(nearest, error)


def narrowed(values: Array, dtype: type[np.float32] | type[np.float16], mode: Mode) -> Array:
    """Doubles rounded to single or half precision."""
    near = values.astype(dtype)
    if mode == "rn":
        return near
    back, zero, infinity = near.astype(np.float64), dtype(0), dtype(np.inf)
    match mode:
        case "rz":
            return np.where(np.abs(back) > np.abs(values), np.nextafter(near, zero), near)
        case "rm":
            return np.where(back > values, np.nextafter(near, -infinity), near)
        case "rp":
            return np.where(back < values, np.nextafter(near, infinity), near)
        case _:
            raise ValueError(mode)


def fused_single(a: Array, b: Array, c: Array, mode: Mode) -> Array:
    """``a * b + c`` of singles, or of doubles that hold singles, rounded once to single precision."""
    product, c = a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64)
    if mode == "rn":
        total = product + c
        # Rounding twice differs from rounding once only where the first result is halfway between two singles.
        doubtful = (total.view(np.int64) & _BELOW_SINGLE == _TIE) | (np.abs(total) < _SMALL_SINGLE)
        if not doubtful.any():
            return total.astype(np.float32)
    return narrowed(sum_to_odd(product, c, mode), np.float32, mode)


def to_integral(values: Array, mode: Mode) -> Array:
    """Values rounded to integers, in their own format."""
    match mode:
        case "rn":
            return np.rint(values)
        case "rz":
            return np.trunc(values)
        case "rm":
            return np.floor(values)
        case "rp":
            return np.ceil(values)
        case "rna":
            whole = np.trunc(values)
            return np.where(np.abs(values - whole) >= 0.5, whole + np.copysign(1.0, values), whole)
