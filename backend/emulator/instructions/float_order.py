"""Signs, minima and maxima, and tests of floating types (PTX 9.7.3.1, 9.7.3.2, 9.7.3.9 to 9.7.3.12, 9.7.4.5 to 9.7.4.8)."""

from __future__ import annotations

import numpy as np

from tilec.backend.emulator.execution.decode import Decoder, instruction
from tilec.backend.emulator.execution.lanes import Execute
from tilec.backend.emulator.instructions.float_arithmetic import HALVES, Function, on_numbers, take_flush
from tilec.backend.emulator.instructions.typed import elementwise, take_type
from tilec.backend.emulator.numbers.float_codes import first_nan, quiet
from tilec.backend.emulator.numbers.floats import KINDS
from tilec.backend.emulator.numbers.rounding import Array
from tilec.backend.emulator.numbers.types import Values


@instruction("abs", "neg")
def sign(d: Decoder) -> Execute:
    """A NaN becomes the canonical one, but a double keeps its bits, and its sign."""
    type = take_type(d, ("f32", "f64", *HALVES))
    flush = take_flush(d, type)
    function = np.abs if d.instruction.parts[0] == "abs" else np.negative
    if type == "f64":
        return elementwise(d, lambda a: first_nan(function(a), a), type, type)
    return elementwise(d, on_numbers(KINDS[type], function, flush=flush), type, type)


def _lesser(a: Array, b: Array) -> Array:
    """-0 is less than +0."""
    return np.where((a < b) | ((a == b) & np.signbit(a)), a, b)


def _greater(a: Array, b: Array) -> Array:
    return np.where((a > b) | ((a == b) & ~np.signbit(a)), a, b)


def _by_nan(choose: Function, nan_wins: bool) -> Function:
    """`choose` for numbers; a NaN among the two is the result if `nan_wins`, and otherwise gives way to a number."""

    def chosen(a: Array, b: Array) -> Array:
        first, second = (a, b) if nan_wins else (b, a)
        return np.where(np.isnan(a), first, np.where(np.isnan(b), second, choose(a, b)))

    return chosen


@instruction("min", "max")
def extremum(d: Decoder) -> Execute:
    """With .xorsign.abs of magnitudes, with the product of the signs."""
    type = take_type(d, ("f32", "f64", *HALVES))
    flush = take_flush(d, type)
    choose = _lesser if d.instruction.parts[0] == "min" else _greater
    choose = _by_nan(choose, nan_wins=type != "f64" and d.take("NaN") is not None)
    count = d.count(3, 4) - 1
    signed = type != "f64" and count == 2 and d.take("xorsign") is not None
    magnitudes = (signed or count == 3) and d.take("abs") is not None
    if signed and not magnitudes:
        d.unsupported(".xorsign goes with .abs")
    if count == 3 and type != "f32":
        d.unsupported(f"three operands of .{type}")

    def find(*numbers: Array) -> Array:
        a, b, *more = [np.abs(n) for n in numbers] if magnitudes else numbers
        found = choose(a, b)
        if more:
            found = choose(found, more[0])
        if type == "f64":
            return quiet(found)
        if signed:
            negative = np.signbit(numbers[0]) ^ np.signbit(numbers[1])
            return np.where(negative & ~np.isnan(found), -found, found)
        return found

    return elementwise(d, on_numbers(KINDS[type], find, flush=flush), type, *[type] * count)


@instruction("copysign")
def copysign(d: Decoder) -> Execute:
    """The sign of the first operand, the rest of the second."""
    type = take_type(d, ("f32", "f64"))
    bits = f"b{type[1:]}"
    top = (np.uint32 if type == "f32" else np.uint64)(1 << int(type[1:]) - 1)

    def compute(a: Values, b: Values) -> Values:
        return (a & top) | (b & ~top)

    return elementwise(d, compute, bits, bits, bits)


@instruction("testp")
def testp(d: Decoder) -> Execute:
    """Zero is normal, and infinity is not."""
    type = take_type(d, ("f32", "f64"))
    name = d.take("finite", "infinite", "number", "notanumber", "normal", "subnormal")
    tiny = np.float32(KINDS[type].tiny) if type == "f32" else np.float64(KINDS[type].tiny)

    def test(a: Values) -> Values:
        match name:
            case "finite":
                return np.isfinite(a)
            case "infinite":
                return np.isinf(a)
            case "number":
                return ~np.isnan(a)
            case "notanumber":
                return np.isnan(a)
            case "normal":
                return np.isfinite(a) & ((np.abs(a) >= tiny) | (a == 0))
            case _:
                return (np.abs(a) < tiny) & (a != 0)

    if name is None:
        d.unsupported("a test without a name")
    return elementwise(d, test, "pred", type)
