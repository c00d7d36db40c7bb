"""Rounding to narrow floating-point formats, from their definitions."""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from .cases import Array


@dataclass(frozen=True)
class Format:
    """A binary format: significand bits with the hidden one, exponent bits and bias; `largest` is the largest finite value."""

    exponent_bits: int
    fraction_bits: int
    bias: int
    largest: float
    has_infinity: bool

    def decode(self, code: int) -> float:
        sign = -1.0 if code >> (self.exponent_bits + self.fraction_bits) & 1 else 1.0
        exponent = code >> self.fraction_bits & ((1 << self.exponent_bits) - 1)
        fraction = code & ((1 << self.fraction_bits) - 1)
        if exponent:
            value = (1 + fraction / 2**self.fraction_bits) * 2.0 ** (exponent - self.bias)
        else:
            value = fraction / 2**self.fraction_bits * 2.0 ** (1 - self.bias)
        if value > self.largest:
            value = np.inf if self.has_infinity and not fraction else np.nan
        return sign * value

    def encode(self, value: float) -> int:
        """The nearest code, ties to even, saturating; the sign of zero is kept. Not for NaN."""
        half = 1 << (self.exponent_bits + self.fraction_bits)
        magnitude = min(abs(value), self.largest)
        finite = [self.decode(code) for code in range(half) if self.decode(code) <= self.largest]
        above = bisect.bisect_left(finite, magnitude)
        near = range(max(above - 1, 0), above + 1)
        best = min(near, key=lambda code: (abs(Fraction(finite[code]) - Fraction(magnitude)), code & 1))
        return best | (half if np.signbit(value) else 0)


E4M3 = Format(4, 3, 7, 448.0, False)
E5M2 = Format(5, 2, 15, 57344.0, True)
E2M1 = Format(2, 1, 1, 6.0, False)
E2M3 = Format(2, 3, 1, 7.5, False)
E3M2 = Format(3, 2, 3, 28.0, False)


def encode(values: Array, form: Format) -> NDArray[np.uint8]:
    """Codes of an array of floats."""
    different, where = np.unique(values.astype(np.float64).view(np.uint64), return_inverse=True)
    codes = np.array([form.encode(float(v)) for v in different.view(np.float64)], dtype=np.uint8)
    return codes[where].reshape(values.shape)


def decode(codes: Array, form: Format) -> NDArray[np.float64]:
    """Values of an array of codes."""
    return np.array([form.decode(int(c)) for c in codes.reshape(-1)]).reshape(codes.shape)


def to_bf16(values: Array, toward_zero: bool = False) -> NDArray[np.uint16]:
    """The bits of the nearest bf16 (ties to even), or of the next toward zero, straight from float64."""
    wide = np.asarray(values, dtype=np.float64)
    near = wide.astype(np.float32)
    # float32 between the two: cut it to "round to odd" so that the second rounding sees which way the first one went.
    bits = near.view(np.uint32).astype(np.uint64)
    above = np.abs(near.astype(np.float64)) > np.abs(wide)
    inexact = (near.astype(np.float64) != wide) & ~np.isnan(wide)
    bits = np.where(above, bits - 1, bits) | inexact.astype(np.uint64)
    kept = bits >> np.uint64(16)
    if not toward_zero:
        rest = bits & np.uint64(0xFFFF)
        kept = kept + ((rest > 0x8000) | ((rest == 0x8000) & (kept & np.uint64(1) == 1)))
    kept = np.where(np.isnan(wide), np.uint64(0x7FFF), kept)
    return kept.astype(np.uint16)


def from_bf16(bits: Array) -> NDArray[np.float32]:
    """The values of bf16 bits."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def directed(exact: Fraction, dtype: type[np.float32] | type[np.float64], mode: str) -> float:
    """A rational rounded to float32 or float64: mode "n" nearest, "z" toward zero, "d" down, "u" up."""
    near = dtype(float(exact))
    if dtype is np.float32:
        around = [near, np.nextafter(near, dtype(np.inf)), np.nextafter(near, dtype(-np.inf))]
        near = min(around, key=lambda v: (abs(Fraction(float(v)) - exact), int(v.view(np.uint32)) & 1))
    error = Fraction(float(near)) - exact
    down = mode == "d" or (mode == "z" and exact > 0)
    up = mode == "u" or (mode == "z" and exact < 0)
    if down and error > 0:
        near = np.nextafter(near, dtype(-np.inf))
    elif up and error < 0:
        near = np.nextafter(near, dtype(np.inf))
    return float(near)
