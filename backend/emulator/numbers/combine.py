"""What atomic operations and reductions make of the value in memory and their operand (PTX 9.7.13.5).

Values are arrays of any shape: integers and f16 by their NumPy types, bf16 as bits; the packed types are twice as many of their
elements.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilec.backend.emulator.numbers.float_codes import NAN_F16, brain, first_nan, single
from tilec.backend.emulator.numbers.narrow_floats import decode_bf16

Array = NDArray[Any]
Combine = Callable[[Array, Array], Array]
"""The new value from the old one and the operand."""


@dataclass(frozen=True)
class Element:
    """What a type is in memory: `per_value` elements of `dtype` make one value."""

    dtype: np.dtype[Any]
    per_value: int = 1


ELEMENTS = {
    **{f"{kind}{bits}": Element(np.dtype(f"u{bits // 8}")) for kind in "bu" for bits in (16, 32, 64)},
    **{f"s{bits}": Element(np.dtype(f"i{bits // 8}")) for bits in (32, 64)},
    "b128": Element(np.dtype(np.uint64), 2),
    "f16": Element(np.dtype(np.float16)),
    "bf16": Element(np.dtype(np.uint16)),
    "f16x2": Element(np.dtype(np.float16), 2),
    "bf16x2": Element(np.dtype(np.uint16), 2),
    "f32": Element(np.dtype(np.float32)),
    "f64": Element(np.dtype(np.float64)),
}

_BITWISE: dict[str, Combine] = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
_INTEGER: dict[str, Combine] = {"add": np.add, "min": np.minimum, "max": np.maximum}


def _exchange(old: Array, value: Array) -> Array:
    return value


def _increment(old: Array, limit: Array) -> Array:
    return np.where(old >= limit, np.uint32(0), old + np.uint32(1))


def _decrement(old: Array, limit: Array) -> Array:
    return np.where((old == 0) | (old > limit), limit, old - np.uint32(1))


def find(op: str, type: str, *, in_global: bool = False) -> Combine | None:
    """The operation `op` on values of a type; None if there is none. `in_global`: as atomic operations of threads do it in global
    memory, where additions of f32 take subnormal numbers for zeros of their sign, and make such zeros of them."""
    if op == "exch":
        return _exchange
    if type in ("b32", "b64", "u32", "u64", "s32", "s64") and op in _BITWISE:
        return _BITWISE[op]
    if type in ("u32", "u64", "s32", "s64") and op in _INTEGER:
        return _INTEGER[op]
    if type == "u32" and op in ("inc", "dec"):
        return _increment if op == "inc" else _decrement
    match op, type:
        case "add", "f32":
            return _add_flushing if in_global else _add_f32
        case "add", "f64":
            return _add_f64 if in_global else _add_f64_by_thread
        case "add", "f16" | "f16x2":
            return _add_f16
        case "add", "bf16" | "bf16x2":
            return _add_bf16
        case "min" | "max", "f16" | "f16x2" | "bf16" | "bf16x2":
            return _smallest(type.startswith("bf16")) if op == "min" else _largest(type.startswith("bf16"))
        case _:
            return None


def _add_f32(old: Array, value: Array) -> Array:
    return single(old + value)


def _add_f64(old: Array, value: Array) -> Array:
    """An operand that is a NaN, else an old value that is one, is the result as it is (measured on an H200)."""
    return np.where(np.isnan(value), value, np.where(np.isnan(old), old, first_nan(old + value)))


def _add_f64_by_thread(old: Array, value: Array) -> Array:
    """Threads add doubles in shared memory by ordinary instructions, and swap the sums in."""
    return first_nan(old + value, old, value)


def _add_flushing(old: Array, value: Array) -> Array:
    return _flush(single(_flush(old) + _flush(value)))


def _flush(values: Array) -> Array:
    tiny = np.abs(values) < np.finfo(np.float32).smallest_normal
    return np.where(tiny, np.copysign(np.float32(0), values), values)


def _add_f16(old: Array, value: Array) -> Array:
    # The sum of two f16 in single precision, rounded again, is the sum rounded once: 24 >= 2 * 11 + 2 bits.
    sums = (old.astype(np.float32) + value.astype(np.float32)).astype(np.float16)
    return np.where(np.isnan(sums), NAN_F16, sums)


def _add_bf16(old: Array, value: Array) -> Array:
    return brain(decode_bf16(old).astype(np.float64) + decode_bf16(value))


def _smallest(brain: bool) -> Combine:
    return _extreme(brain, np.less, np.bitwise_or)


def _largest(brain: bool) -> Combine:
    return _extreme(brain, np.greater, np.bitwise_and)


def _extreme(brain: bool, better: Callable[[Array, Array], Array], tie: Combine) -> Combine:
    """A NaN gives way to a number, two make the canonical one, and -0 is less than +0 (PTX 9.7.4.7). Equal numbers differ at
    most in the sign of zero, which `tie` chooses."""

    def combine(old: Array, value: Array) -> Array:
        a, b = old.view(np.uint16), value.view(np.uint16)
        x, y = (decode_bf16(a), decode_bf16(b)) if brain else (a.view(np.float16), b.view(np.float16))
        chosen = np.where(x == y, tie(a, b), np.where(better(x, y) | np.isnan(y), a, b))
        chosen = np.where(np.isnan(x) & np.isnan(y), np.uint16(0x7FFF), chosen)
        return chosen.view(old.dtype)

    return combine
