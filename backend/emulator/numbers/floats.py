"""The floating types of PTX that instructions compute with, as arrays: f32, f64, f16, bf16, and the packed ones (PTX 5.2.3).

Singles and doubles are computed with as they are; halves as doubles, in which sums and products of two are exact or far from
where the next rounding could go wrong, and which are rounded once when they are stored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tilec.backend.emulator.instructions.typed import packed, parts_of
from tilec.backend.emulator.numbers import exact, float_codes
from tilec.backend.emulator.numbers.float_codes import first_nan
from tilec.backend.emulator.numbers.narrow_floats import decode_bf16
from tilec.backend.emulator.numbers.rounding import Array, Mode, fused_single, narrowed, sum_to_odd
from tilec.backend.emulator.numbers.types import Values

_U16, _F16, _F32 = np.dtype(np.uint16), np.dtype(np.float16), np.dtype(np.float32)


@dataclass(frozen=True)
class Kind:
    """A floating type. `load` makes numbers of what registers hold, with one more axis if the type is packed, and `store` the
    inverse, with one rounding to nearest if numbers are wider than the type. `element` is the type of one number, and `tiny` the smallest
    normal one."""

    element: str
    load: Callable[[Values], Array]
    store: Callable[[Array], Values]
    tiny: float


def _same(values: Values) -> Array:
    return values


KINDS = {
    "f32": Kind("f32", _same, float_codes.single, 2.0**-126),
    "f64": Kind("f64", _same, _same, 2.0**-1022),
    "f16": Kind("f16", lambda v: v.astype(np.float64), float_codes.half, 2.0**-14),
    "bf16": Kind("bf16", lambda v: decode_bf16(v).astype(np.float64), float_codes.brain, 2.0**-126),
    "f32x2": Kind(
        "f32", lambda v: parts_of(v, _F32), lambda v: packed(float_codes.single(v), np.dtype(np.uint64)), 2.0**-126
    ),
    "f16x2": Kind(
        "f16",
        lambda v: parts_of(v, _F16).astype(np.float64),
        lambda v: packed(float_codes.half(v), np.dtype(np.uint32)),
        2.0**-14,
    ),
    "bf16x2": Kind(
        "bf16",
        lambda v: decode_bf16(parts_of(v, _U16)).astype(np.float64),
        lambda v: packed(float_codes.brain(v), np.dtype(np.uint32)),
        2.0**-126,
    ),
}


def flush(kind: Kind, values: Array) -> Array:
    """Subnormal numbers become zeros of their sign."""
    subnormal = np.abs(values) < kind.tiny
    return np.where(subnormal, np.copysign(values.dtype.type(0), values), values) if subnormal.any() else values


def saturate(values: Array) -> Array:
    """Limited to 0 .. 1; NaN becomes +0."""
    zero, one = values.dtype.type(0), values.dtype.type(1)
    return np.where(values > 0, np.minimum(values, one), zero)


def rectify(values: Array) -> Array:
    """Negative numbers become +0."""
    return np.where((values > 0) | np.isnan(values), values, values.dtype.type(0))


# A NaN in double precision is that of an operand. Which one, if several are NaN, is what an H200 does.


def add(kind: Kind, a: Array, b: Array, mode: Mode) -> Array:
    if kind.element == "f64":
        return first_nan(exact.add(a, b, mode), b, a)
    if kind.element == "f32" and mode != "rn":
        return narrowed(sum_to_odd(a.astype(np.float64), b.astype(np.float64), mode), np.float32, mode)
    return a + b


def subtract(kind: Kind, a: Array, b: Array, mode: Mode) -> Array:
    if kind.element == "f64":
        return first_nan(exact.add(a, -b, mode), b, a)
    return add(kind, a, -b, mode)


def multiply(kind: Kind, a: Array, b: Array, mode: Mode) -> Array:
    if kind.element == "f64":
        return first_nan(exact.multiply(a, b, mode), b, a)
    if kind.element == "f32" and mode != "rn":
        return narrowed(a.astype(np.float64) * b.astype(np.float64), np.float32, mode)
    return a * b


def fma(kind: Kind, a: Array, b: Array, c: Array, mode: Mode) -> Array:
    if kind.element == "f64":
        return first_nan(exact.fma(a, b, c, mode), b, c, a)
    if kind.element == "f32":
        return fused_single(a, b, c, mode)
    # The products of bf16 reach so far above and below their sums that doubles do not hold both; those of f16 do not.
    return a * b + c if kind.element == "f16" else sum_to_odd(a * b, c, mode)


def divide(kind: Kind, a: Array, b: Array, mode: Mode) -> Array:
    """Of singles or doubles. A quotient or a root of singles is never so near to what single precision rounds at that double
    precision does not tell."""
    if kind.element == "f64":
        return first_nan(exact.divide(a, b, mode), a, b)
    return a / b if mode == "rn" else narrowed(a.astype(np.float64) / b.astype(np.float64), np.float32, mode)


def root(kind: Kind, a: Array, mode: Mode) -> Array:
    """Square roots of singles or doubles."""
    if kind.element == "f64":
        return first_nan(exact.root(a, mode), a)
    return np.sqrt(a) if mode == "rn" else narrowed(np.sqrt(a.astype(np.float64)), np.float32, mode)
