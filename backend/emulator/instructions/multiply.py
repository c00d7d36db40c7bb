"""Integer products (PTX 9.7.1.3 to 9.7.1.6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilec.backend.emulator.execution.decode import Decoder, instruction
from tilec.backend.emulator.execution.lanes import Execute
from tilec.backend.emulator.instructions.integer import saturated
from tilec.backend.emulator.instructions.typed import INTEGERS, elementwise, take_type, typed
from tilec.backend.emulator.numbers.types import Values, bytes_of, dtype_of, is_signed

Product = Callable[[Any, Any], Any]


def widened(type: str) -> str:
    """The integer type of twice the width."""
    return f"{type[0]}{bytes_of(type) * 16}"


def product(mode: str, type: str) -> Product:
    """The product of two integers of `type`: its low half, its high half, or all of it, in the type of twice the width."""
    if mode == "lo":
        return np.multiply
    if type == "u64":
        return _high_unsigned
    if type == "s64":
        return _high_signed
    narrow, wide = dtype_of(type), dtype_of(widened(type))
    if mode == "wide":
        return lambda a, b: np.multiply(a, b, dtype=wide)
    shift = wide.type(bytes_of(type) * 8)
    return lambda a, b: (np.multiply(a, b, dtype=wide) >> shift).astype(narrow)


def _high_unsigned(a: Values, b: Values) -> Values:
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    a_low, a_high, b_low, b_high = a & low, a >> half, b & low, b >> half
    middle = a_high * b_low + (a_low * b_low >> half)
    other = a_low * b_high + (middle & low)
    return a_high * b_high + (middle >> half) + (other >> half)


def _high_signed(a: Values, b: Values) -> Values:
    unsigned = _high_unsigned(a.view(np.uint64), b.view(np.uint64)).view(np.int64)
    return unsigned - np.where(a < 0, b, 0) - np.where(b < 0, a, 0)


@typed("mul.lo mul.hi mul.wide", INTEGERS)
def mul(d: Decoder, type: str) -> Execute:
    mode = d.instruction.parts[1]
    _check_wide(d, mode, type)
    return elementwise(d, product(mode, type), widened(type) if mode == "wide" else type, type, type)


@typed("mad.lo mad.hi mad.wide", INTEGERS)
def mad(d: Decoder, type: str) -> Execute:
    mode = d.instruction.parts[1]
    _check_wide(d, mode, type)
    result = widened(type) if mode == "wide" else type
    multiply = product(mode, type)
    return elementwise(d, lambda a, b, c: multiply(a, b) + c, result, type, type, result)


@typed("mad.hi.sat", ("s32",))
def mad_saturating(d: Decoder, type: str) -> Execute:
    multiply = product("hi", type)
    return elementwise(d, lambda a, b, c: saturated(np.add(multiply(a, b), c, dtype=np.int64)), type, type, type, type)


def _check_wide(d: Decoder, mode: str, type: str) -> None:
    if mode == "wide" and bytes_of(type) == 8:
        d.unsupported("a product of 128 bits: .wide is for 16-bit and 32-bit types")


def _product_24(mode: str, type: str) -> Product:
    """Bits 31 to 0 (.lo) or 47 to 16 (.hi) of the product of the low 24 bits of two registers."""
    wide = np.dtype(np.int64 if is_signed(type) else np.uint64)
    unused, shift = wide.type(40), wide.type(16 if mode == "hi" else 0)

    def multiply(a: Values, b: Values) -> Values:
        return (a.astype(wide) << unused >> unused) * (b.astype(wide) << unused >> unused) >> shift

    return multiply


@instruction("mul24")
def mul24(d: Decoder) -> Execute:
    type, mode = take_type(d, ("u32", "s32")), d.take("lo", "hi")
    if mode is None:
        d.unsupported("a 24-bit product without .lo or .hi")
    multiply, narrow = _product_24(mode, type), dtype_of(type)
    return elementwise(d, lambda a, b: multiply(a, b).astype(narrow), type, type, type)


@instruction("mad24")
def mad24(d: Decoder) -> Execute:
    type, mode = take_type(d, ("u32", "s32")), d.take("lo", "hi")
    if mode is None:
        d.unsupported("a 24-bit product without .lo or .hi")
    multiply, narrow = _product_24(mode, type), dtype_of(type)
    if d.take("sat") is None:
        return elementwise(d, lambda a, b, c: multiply(a, b).astype(narrow) + c, type, type, type, type)
    if mode != "hi" or type != "s32":
        d.unsupported(".sat is for mad24.hi.s32")
    return elementwise(d, lambda a, b, c: saturated(multiply(a, b) + c), type, type, type, type)
