"""Conversions between scalar types (PTX 9.7.9.21). convert_packed.py has those that pack or unpack."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np

from tilec.backend.emulator.execution.decode import Decoder, instruction
from tilec.backend.emulator.execution.lanes import Execute
from tilec.backend.emulator.instructions.convert_packed import PACKED, convert_packed
from tilec.backend.emulator.instructions.typed import elementwise
from tilec.backend.emulator.numbers import float_codes, floats
from tilec.backend.emulator.numbers.floats import KINDS
from tilec.backend.emulator.numbers.narrow_floats import decode_bf16
from tilec.backend.emulator.numbers.rounding import Array, Mode, directed, narrowed, to_integral, to_odd, two_sum
from tilec.backend.emulator.numbers.types import Values, dtype_of

INTEGERS = tuple(f"{kind}{bits}" for kind in "us" for bits in (8, 16, 32, 64))
FLOATS = ("bf16", "f16", "f32", "f64")
_TYPES = (*INTEGERS, *FLOATS, "tf32", *PACKED)
_WIDTH = {"bf16": 16, "f16": 16, "f32": 32, "f64": 64}
_TO_INTEGRAL: dict[str, Mode] = {"rni": "rn", "rzi": "rz", "rmi": "rm", "rpi": "rp"}
_ROUNDINGS = ("rn", "rz", "rm", "rp")
Function = Callable[[Values], Values]


@instruction("cvt")
def cvt(d: Decoder) -> Execute:
    types = [m for m in d.modifiers if m in _TYPES]
    if len(types) != 2:
        d.unsupported("a conversion has two types that the emulator knows")
    target, source = types
    # Modifiers may also follow the types.
    d.modifiers = [m for m in d.modifiers if m not in _TYPES]
    if source in PACKED or target in PACKED:
        return convert_packed(d, target, source)
    if target == "tf32" and source == "f32":
        return _to_tf32(d)
    if source in INTEGERS:
        if target in INTEGERS:
            return elementwise(d, _integer_to_integer(d, target, source), target, source)
        if target in FLOATS:
            return elementwise(d, _integer_to_float(d, target, source), target, source)
    if source in FLOATS:
        if target in INTEGERS:
            return elementwise(d, _float_to_integer(d, target, source), target, source)
        if target in FLOATS:
            return elementwise(d, _float_to_float(d, target, source), target, source)
    d.unsupported(f"no conversion from .{source} to .{target}")


def _integer_to_integer(d: Decoder, target: str, source: str) -> Function:
    to = dtype_of(target)
    if d.take("sat") is None:
        return lambda v: v.astype(to)
    given, wanted = np.iinfo(dtype_of(source)), np.iinfo(to)
    low, high = max(given.min, wanted.min), min(given.max, wanted.max)
    if (low, high) == (given.min, given.max):
        d.unsupported(f"every .{source} is a .{target}: there is nothing for .sat to limit")
    return lambda v: np.clip(v, v.dtype.type(low), v.dtype.type(high)).astype(to)


def _take_float_rounding(d: Decoder, why: str) -> Mode:
    mode = d.take(*_ROUNDINGS)
    if mode is None:
        d.unsupported(f"{why} names its rounding: .rn, .rz, .rm or .rp")
    return cast(Mode, mode)


def _integer_to_float(d: Decoder, target: str, source: str) -> Function:
    mode = _take_float_rounding(d, "a conversion from an integer")
    if target == "f32":
        d.take("ftz")
    saturates = _take_saturation(d, target)
    if mode == "rn" and target in ("f32", "f64") and not saturates:
        # NumPy's own conversions are rounded to nearest, once.
        return lambda v: v.astype(dtype_of(target))
    wide = source in ("u64", "s64")

    def convert(v: Values) -> Values:
        if not wide:
            numbers = v.astype(np.float64)
        else:
            # Both halves are doubles, and so is the error of their sum.
            upper = (v >> v.dtype.type(32)).astype(np.float64) * 2.0**32
            nearest, error = two_sum(upper, (v & v.dtype.type(0xFFFFFFFF)).astype(np.float64))
            numbers = directed(nearest, error, mode) if target == "f64" else to_odd(nearest, error)
        return _stored(target, floats.saturate(numbers) if saturates else numbers, mode)

    return convert


def _stored(target: str, numbers: Array, mode: Mode) -> Values:
    """Doubles as registers hold them in the type `target`, with NaN in its canonical form."""
    match target:
        case "f64":
            return numbers
        case "f32":
            return float_codes.single(narrowed(numbers, np.float32, mode))
        case "f16":
            return float_codes.half(numbers, mode)
        case _ if mode == "rn":
            return float_codes.brain(numbers)
        case _:
            return float_codes.encode("bf16", numbers, mode).astype(np.uint16)


def _take_saturation(d: Decoder, target: str) -> bool:
    """Whether the result is limited to 0 .. 1."""
    saturates = d.take("sat") is not None
    if saturates and target == "bf16":
        d.unsupported(".sat goes with .f16, .f32 and .f64, not with .bf16")
    return saturates


def _float_to_integer(d: Decoder, target: str, source: str) -> Function:
    """What lies outside becomes the nearest integer that there is. A NaN becomes 0, or the integer with the highest bit alone
    if one of the types is of 64 bits."""
    name = d.take(*_TO_INTEGRAL)
    if name is None:
        d.unsupported("a conversion to an integer names its rounding: .rni, .rzi, .rmi or .rpi")
    mode, flush = _TO_INTEGRAL[name], source == "f32" and d.take("ftz") is not None
    d.take("sat")
    kind, to = KINDS[source], dtype_of(target)
    limits = np.iinfo(to)
    nan = to.type(0)
    if source == "f64" or target in ("u64", "s64"):
        nan = np.array(1 << limits.bits - 1, f"u{to.itemsize}").view(to)
    above = 2.0 ** (limits.bits - (target[0] == "s"))
    # The largest double below what is too large; it is the largest integer, or the conversion is told to give that.
    below = np.nextafter(above, 0.0)

    def convert(v: Values) -> Values:
        numbers = kind.load(v)
        whole = to_integral(floats.flush(kind, numbers) if flush else numbers, mode).astype(np.float64)
        unknown = np.isnan(whole)
        inside = np.where(unknown, 0.0, np.clip(whole, float(limits.min), below))
        return np.where(unknown, nan, np.where(whole >= above, to.type(limits.max), inside.astype(to)))

    return convert


def _float_to_float(d: Decoder, target: str, source: str) -> Function:
    integral = d.take(*_TO_INTEGRAL)
    flush = "f32" in (target, source) and d.take("ftz") is not None
    saturation = _take_saturation(d, target)
    if integral is not None:
        if source != target:
            d.unsupported(f".{integral} rounds to an integral value of the same type")
        mode: Mode = "rn"
    elif _WIDTH[target] > _WIDTH[source] or target == source:
        mode = "rn"
        if source == "bf16" and target != source:
            d.take(*_ROUNDINGS)
    else:
        mode = _take_float_rounding(d, "a conversion that loses precision")
    single = source == "f32" and target in ("f16", "bf16") and mode in ("rn", "rz")
    relu, finite = single and d.take("relu") is not None, single and d.take("satfinite") is not None
    from_kind, to_kind = KINDS[source], KINDS[target]
    # A half is rounded as if there were no .ftz: an H200 does not flush what it converts to .f16.
    flush_source = flush and source == "f32" and target != "f16"
    if (target, source) == ("f32", "bf16") and not flush and not saturation:
        return decode_bf16

    def store(numbers: Array) -> Values:
        if source == "f64" and target != "f64":
            bits = dtype_of(f"b{_WIDTH[target]}")
            kept = float_codes.narrowed_nan(target, numbers).astype(bits)
            return np.where(np.isnan(numbers), kept, _stored(target, numbers, mode).view(bits)).view(dtype_of(target))
        if target == "f64":
            return float_codes.quiet(numbers)
        if finite:
            return float_codes.encode(target, numbers, mode, saturate=True).astype(np.uint16).view(dtype_of(target))
        return _stored(target, numbers, mode)

    def convert(v: Values) -> Values:
        numbers = from_kind.load(v)
        if flush_source:
            # What flushes also makes the NaN of a single the canonical one.
            numbers = float_codes.single(floats.flush(from_kind, numbers))
        numbers = numbers.astype(np.float64)
        if integral is not None:
            numbers = to_integral(numbers, _TO_INTEGRAL[integral])
        if saturation:
            numbers = floats.saturate(numbers)
        if relu:
            numbers = floats.rectify(numbers)
        found = store(numbers)
        return floats.flush(to_kind, found) if flush and target == "f32" else found

    return convert


def _to_tf32(d: Decoder) -> Execute:
    """The upper 19 bits of a single, rounded; the others are zero. By .rna, a NaN is cut off like that."""
    mode = d.take("rn", "rz", "rna")
    if mode is None:
        d.unsupported("a conversion to .tf32 names its rounding: .rn, .rz or .rna")
    finite, relu = d.take("satfinite") is not None, d.take("relu") is not None

    def convert(v: Values) -> Values:
        numbers = (floats.rectify(v) if relu else v).astype(np.float64)
        codes = float_codes.encode("tf32", numbers, cast(Mode, mode), saturate=finite) << np.uint32(13)
        return np.where(np.isnan(v), v.view(np.uint32) & np.uint32(0xFFFFE000), codes) if mode == "rna" else codes

    return elementwise(d, convert, "tf32", "f32")
