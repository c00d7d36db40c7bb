"""Encoders of the floating formats, correctly rounded: from values to codes (PTX 5.2.3, 9.7.9.21).

The decoders are in narrow_floats.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilec.backend.emulator.numbers.narrow_floats import FORMATS, Format
from tilec.backend.emulator.numbers.rounding import Array, Mode, narrowed, to_integral

ENCODED = {
    **{name: format for name, format in FORMATS.items() if format.signed},
    "f32": Format(8, 23, 127, "ieee"),
    "f16": Format(5, 10, 15, "ieee"),
    "bf16": Format(8, 7, 127, "ieee"),
    "tf32": Format(8, 10, 127, "ieee"),
}
"""The formats that `encode` knows. A code of tf32 is the upper 19 bits of its 32."""

NAN_F32 = np.array(0x7FFFFFFF, np.uint32).view(np.float32)
NAN_F16 = np.array(0x7FFF, np.uint16).view(np.float16)
NAN_BF16 = np.uint16(0x7FFF)
NAN_OUTSIDE = np.uint16(0x7FF7)
"""The NaN of 16 bits by which TMA fills what lies outside of a tensor (measured on an H200)."""
_LOW_HALF, _HALFWAY, _BELOW_HALFWAY = np.uint32(0xFFFF), np.uint32(0x8000), np.uint32(0x7FFF)
_SIXTEEN, _ONE = np.uint32(16), np.uint32(1)
_QUIET = np.uint64(1 << 51)
_INVALID = np.uint64(0xFFF8000000000000)


def largest(format: Format) -> int:
    """The code of the largest finite value."""
    above = {"ieee": 1 << format.mantissa, "nan": 1, "none": 0}[format.specials]
    return (1 << (format.exponent + format.mantissa)) - above - 1


def encode(name: str, values: Array, mode: Mode, *, saturate: bool = False) -> NDArray[np.uint32]:
    """Codes of doubles. What is too large becomes what `mode` says, or the largest finite value if `saturate`. NaN becomes the
    canonical NaN, all ones but for the sign, and the largest value in formats without NaN."""
    units, base = in_units(ENCODED[name], values)
    return _finished(ENCODED[name], values, base + np.abs(to_integral(units, mode)), mode, saturate)


def encode_stochastic(name: str, values: Array, random: Array, bits: int, *, saturate: bool) -> NDArray[np.uint32]:
    """Codes of doubles that hold singles: magnitudes are cut off after `random`, a number of so many bits, is added to the
    first bits that are cut off (PTX 9.7.9.21, .rs)."""
    units, base = in_units(ENCODED[name], values)
    codes = base + np.floor(np.abs(units) + np.ldexp(random.astype(np.float64), -bits))
    return _finished(ENCODED[name], values, codes, "rn", saturate)


def in_units(format: Format, values: Array) -> tuple[Array, Array]:
    """Finite values (0 for others) in units of the last place that the format has there, with their sign; and the code to which
    so many units are added to make that of the magnitude."""
    finite = np.where(np.isfinite(values), values, 0.0)
    lowest = 1 - format.bias
    exponent = np.where(finite == 0, lowest, np.maximum(np.frexp(finite)[1] - 1, lowest))
    return np.ldexp(finite, format.mantissa - exponent), (exponent - lowest) * float(1 << format.mantissa)


def _finished(format: Format, values: Array, codes: Array, mode: Mode, saturate: bool) -> NDArray[np.uint32]:
    most, negative = largest(format), np.signbit(values)
    infinite = most if saturate or format.specials == "none" else most + 1
    inward = mode == "rz" or (~negative if mode == "rm" else negative if mode == "rp" else False)
    codes = np.where(codes > most, np.where(inward, most, infinite), codes)
    codes = np.where(np.isinf(values), infinite, codes).astype(np.uint32)
    sign = np.where(negative, np.uint32(1 << (format.exponent + format.mantissa)), np.uint32(0))
    nan = most if format.specials == "none" else (1 << (format.exponent + format.mantissa)) - 1
    return np.where(np.isnan(values), np.uint32(nan), codes | sign)


def encode_scale(values: Array, mode: Mode, *, saturate: bool) -> NDArray[np.uint32]:
    """ue8m0 codes of doubles: powers of two, of the magnitude, with no zero and no infinity. `mode`: rz or rp."""
    fraction, exponent = np.frexp(np.abs(values))
    codes = exponent + 126 + ((mode == "rp") & (fraction > 0.5))
    codes = np.where(values == 0, 0, np.maximum(codes, 0))
    codes = np.where(np.isinf(values) | (codes > 254), 254 if saturate else 255, codes)
    return np.where(np.isnan(values), 255, codes).astype(np.uint32)


def quiet(values: Array) -> Array:
    """Doubles with NaN made quiet: it keeps its sign and its other bits, as in double-precision instructions of the hardware."""
    return _patched(values, np.isnan(values), values.view(np.uint64) | _QUIET)


def first_nan(found: Array, *operands: Array) -> Array:
    """Doubles in which a NaN is the first of the operands that is one, made quiet, or if none is, the one of an invalid operation."""
    nan = np.isnan(found)
    if not nan.any():
        return found
    bits = _INVALID
    for operand in reversed(operands):
        bits = np.where(np.isnan(operand), operand.view(np.uint64) | _QUIET, bits)
    return _patched(found, nan, bits)


def _patched(values: Array, where: Array, bits: Array | np.uint64) -> Array:
    return np.where(where, bits, values.view(np.uint64)).view(np.float64) if where.any() else values


def narrowed_nan(name: str, values: Array) -> NDArray[np.uint32]:
    """What a NaN among doubles becomes in a narrower format: it keeps its sign and its highest bits, and is quiet."""
    format = ENCODED[name]
    bits = values.view(np.uint64)
    fraction = (bits & np.uint64((1 << 52) - 1)) >> np.uint64(52 - format.mantissa)
    quiet_nan = ((1 << format.exponent) - 1) << format.mantissa | 1 << format.mantissa - 1
    sign = bits >> np.uint64(63) << np.uint64(format.exponent + format.mantissa)
    return (sign | fraction | np.uint64(quiet_nan)).astype(np.uint32)


def single(values: Array) -> Array:
    """Singles with NaN in its canonical form (what single-precision arithmetic answers)."""
    nan = np.isnan(values)
    return np.where(nan, NAN_F32, values) if nan.any() else values


def half(values: Array, mode: Mode = "rn") -> Array:
    """Doubles rounded to half precision, with the canonical NaN."""
    rounded = narrowed(values, np.float16, mode)
    nan = np.isnan(rounded)
    return np.where(nan, NAN_F16, rounded) if nan.any() else rounded


def brain(values: Array) -> NDArray[np.uint16]:
    """bf16 bits nearest to doubles."""
    near = values.astype(np.float32)
    bits = near.view(np.uint32)
    tie = bits & _LOW_HALF == _HALFWAY
    if tie.any():
        # A single halfway between two bf16 is on the side of it where the double is.
        back = np.abs(near.astype(np.float64))
        exact = np.abs(values)
        bits = bits + (tie & (back < exact)).astype(np.uint32) - (tie & (back > exact)).astype(np.uint32)
    rounded = ((bits + (bits >> _SIXTEEN & _ONE) + _BELOW_HALFWAY) >> _SIXTEEN).astype(np.uint16)
    nan = np.isnan(near)
    return np.where(nan, NAN_BF16, rounded) if nan.any() else rounded


def encoder(name: str, mode: Mode, *, saturate: bool) -> Callable[[Array], NDArray[Any]]:
    """`encode` of one format in one way: what the halves nearest to doubles are is found quicker."""
    if mode == "rn" and not saturate and name == "f16":
        return lambda values: half(values).view(np.uint16)
    if mode == "rn" and not saturate and name == "bf16":
        return brain
    return lambda values: encode(name, values, mode, saturate=saturate)
