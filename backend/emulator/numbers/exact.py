"""Double-precision arithmetic in every rounding direction, by integers (PTX 9.7.3). Slow: one value after the other.

Nothing wider than a double is at hand, so what has to be exact is computed with Python's integers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tilec.backend.emulator.numbers.rounding import Array, Mode, to_odd, two_sum

_SPLITTER = 134217729.0
_DIGITS = 53
_LOWEST = -1074


def _integer(x: float) -> tuple[int, int]:
    """m and e with x = m * 2**e."""
    fraction, exponent = math.frexp(x)
    return int(fraction * 2.0**_DIGITS), exponent - _DIGITS


def _rounded(m: int, e: int, mode: Mode) -> float:
    """``m * 2**e``, m not zero, rounded. A last bit of m that is set may stand for any fraction that follows it, if m has at
    least two bits more than a double."""
    magnitude, sign = abs(m), -1.0 if m < 0 else 1.0
    shift = max(magnitude.bit_length() - _DIGITS, _LOWEST - e)
    outward = mode == ("rm" if m < 0 else "rp")
    if shift > 0:
        whole, rest, half = magnitude >> shift, magnitude & ((1 << shift) - 1), 1 << (shift - 1)
        nearest = mode == "rn" and (rest > half or (rest == half and whole & 1 == 1))
        magnitude, e = whole + (nearest or (outward and rest > 0)), e + shift
    if magnitude.bit_length() + e > 1024:
        return sign * (math.inf if outward or mode == "rn" else float.fromhex("0x1.fffffffffffffp1023"))
    return sign * math.ldexp(float(magnitude), e)


def _fma(a: float, b: float, c: float, mode: Mode) -> float:
    if not (math.isfinite(a) and math.isfinite(b)):
        return a * b + c
    if not math.isfinite(c):
        return c
    (ma, ea), (mb, eb), (mc, ec) = _integer(a), _integer(b), _integer(c)
    product, e = ma * mb, ea + eb
    low = min(e, ec)
    total = (product << (e - low)) + (mc << (ec - low)) if product and mc else product or mc
    if total:
        return _rounded(total, low if product and mc else e if product else ec, mode)
    signs = math.copysign(1.0, a) * math.copysign(1.0, b), math.copysign(1.0, c)
    return math.copysign(0.0, min(signs) if mode == "rm" else max(signs))


def _divide(a: float, b: float, mode: Mode) -> float:
    if a == 0 or b == 0 or not (math.isfinite(a) and math.isfinite(b)):
        return float(np.float64(a) / np.float64(b))
    (ma, ea), (mb, eb) = _integer(a), _integer(b)
    quotient, rest = divmod(abs(ma) << 2 * _DIGITS, abs(mb))
    signed = quotient << 1 | (rest > 0)
    return _rounded(signed if (ma < 0) == (mb < 0) else -signed, ea - eb - 2 * _DIGITS - 1, mode)


def _root(a: float, mode: Mode) -> float:
    if not a > 0 or math.isinf(a):
        return float(np.sqrt(np.float64(a)))
    m, e = _integer(a)
    m, e = (m << 1, e - 1) if e & 1 else (m, e)
    m, e = m << 2 * _DIGITS + 2, e - 2 * _DIGITS - 2
    root = math.isqrt(m)
    return _rounded(root << 1 | (root * root != m), e // 2 - 1, mode)


def _each(function: Callable[..., float], operands: tuple[Array | np.float64, ...], mode: Mode) -> Array:
    whole = np.broadcast_arrays(*operands)
    values: list[Any] = [function(*row, mode) for row in zip(*(v.ravel().tolist() for v in whole), strict=True)]
    return np.array(values, np.float64).reshape(whole[0].shape)


def add(a: Array, b: Array, mode: Mode) -> Array:
    return a + b if mode == "rn" else _each(_fma, (a, np.float64(1.0), b), mode)


def multiply(a: Array, b: Array, mode: Mode) -> Array:
    if mode == "rn":
        return a * b
    # A zero of the sign of the product leaves it as it is.
    zero = np.where(np.signbit(a) ^ np.signbit(b), -0.0, 0.0)
    return _each(_fma, (a, b, zero), mode)


def divide(a: Array, b: Array, mode: Mode) -> Array:
    return a / b if mode == "rn" else _each(_divide, (a, b), mode)


def root(a: Array, mode: Mode) -> Array:
    return np.sqrt(a) if mode == "rn" else _each(_root, (a,), mode)


def fma(a: Array, b: Array, c: Array, mode: Mode) -> Array:
    """``a * b + c`` rounded once. To nearest it is computed for all lanes at once, by Boldo and Melquiond's algorithm, where
    no intermediate value can leave the range of normal doubles."""
    if mode != "rn":
        return _each(_fma, (a, b, c), mode)
    a, b, c = np.broadcast_arrays(a, b, c)
    product = np.abs(a * b)
    safe = (np.abs(a) < 2.0**500) & (np.abs(b) < 2.0**500) & (product > 2.0**-800) & (product < 2.0**900)
    safe &= (np.abs(c) < 2.0**900) & ((np.abs(c) > 2.0**-900) | (c == 0))
    found = _fast_fma(a, b, c)
    if safe.all():
        return found
    # The product with a factor that is zero, infinite or NaN is exact.
    plain = (a == 0) | (b == 0) | ~np.isfinite(a) | ~np.isfinite(b)
    found = np.where(safe, found, a * b + c)
    hard = ~(safe | plain)
    if hard.any():
        found[hard] = _each(_fma, (a[hard], b[hard], c[hard]), mode)
    return found


def _fast_fma(a: Array, b: Array, c: Array) -> Array:
    product, low = _two_product(a, b)
    high, low_error = two_sum(c, low)
    total, error = two_sum(product, high)
    return total + to_odd(*two_sum(low_error, error))


def _two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """The product of two doubles rounded to nearest, and its exact error (Dekker)."""
    product = a * b
    a_high, b_high = _upper(a), _upper(b)
    a_low, b_low = a - a_high, b - b_high
    return product, a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)


def _upper(a: Array) -> Array:
    """The upper 26 bits of doubles (Veltkamp)."""
    scaled = _SPLITTER * a
    return scaled - (scaled - a)
