"""Sums, products and quotients of floating types (PTX 9.7.3.3 to 9.7.3.8, 9.7.3.13, 9.7.3.15, 9.7.4.1 to 9.7.4.4, 9.7.5).

Single precision answers the canonical NaN 0x7fffffff, the half types 0x7fff.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from tilec.backend.emulator.execution.decode import Decoder, instruction
from tilec.backend.emulator.execution.lanes import Execute
from tilec.backend.emulator.instructions.typed import elementwise, parts_of, take_type
from tilec.backend.emulator.numbers import float_codes, floats
from tilec.backend.emulator.numbers.floats import KINDS, Kind
from tilec.backend.emulator.numbers.rounding import Array, Mode
from tilec.backend.emulator.numbers.types import Values

SINGLE = ("f32", "f32x2")
HALVES = ("f16", "f16x2", "bf16", "bf16x2")
FLUSHED = (*SINGLE, "f16", "f16x2")
Function = Callable[..., Array]


def take_flush(d: Decoder, type: str) -> bool:
    """Whether subnormal operands and results are zeros."""
    flush = d.take("ftz") is not None
    if flush and type not in FLUSHED:
        d.unsupported(f".ftz goes with .{', .'.join(FLUSHED)}, not with .{type}")
    return flush


def take_rounding(d: Decoder, type: str, *, required: bool) -> Mode:
    mode = d.take("rn", "rz", "rm", "rp")
    if mode is None:
        if required:
            d.unsupported("no rounding is named, and there is no default")
        return "rn"
    if mode != "rn" and type in HALVES:
        d.unsupported(f".{type} is rounded to nearest, not by .{mode}")
    return cast(Mode, mode)


def on_numbers(kind: Kind, function: Function, *, flush: bool = False, limit: Function | None = None) -> Function:
    """`function` of numbers as a function of what registers hold; `limit` is .sat or .relu."""

    def apply(*registers: Values) -> Values:
        numbers = [kind.load(r) for r in registers]
        if not flush:
            found = function(*numbers)
            return kind.store(found if limit is None else limit(found))
        found = floats.flush(kind, function(*(floats.flush(kind, n) for n in numbers)))
        return kind.store(found if limit is None else limit(found))

    return apply


def _take_limit(d: Decoder, type: str, *, fused: bool) -> Function | None:
    if d.take("sat") is not None:
        if type not in ("f32", "f16", "f16x2"):
            d.unsupported(f".sat goes with .f32, .f16 and .f16x2, not with .{type}")
        return floats.saturate
    if fused and type in HALVES and d.take("relu") is not None:
        return floats.rectify
    return None


def _flat(d: Decoder, type: str, operands: int, function: Function, *, fused: bool, required: bool) -> Execute:
    """An instruction whose operands are all of `type`."""
    kind, flush, mode = KINDS[type], take_flush(d, type), take_rounding(d, type, required=required)
    limit = _take_limit(d, type, fused=fused)
    compute = on_numbers(kind, lambda *n: function(kind, *n, mode), flush=flush, limit=limit)
    return elementwise(d, compute, type, *[type] * operands)


def _take_mixed(d: Decoder) -> str | None:
    """The half type of ``.f32.f16`` or ``.f32.bf16``, which modifiers may follow; None if it is not that."""
    for at, pair in enumerate(zip(d.modifiers, d.modifiers[1:], strict=False)):
        if pair in (("f32", "f16"), ("f32", "bf16")):
            del d.modifiers[at : at + 2]
            return pair[1]
    return None


def _mixed(d: Decoder, narrow: str, factors: int, function: Function, *, required: bool) -> Execute:
    """An instruction of single precision whose first operands, `factors`, are of a half type (PTX 9.7.5)."""
    mode = take_rounding(d, "f32", required=required)
    limit = floats.saturate if d.take("sat") is not None else None
    single, half = KINDS["f32"], KINDS[narrow]

    def compute(*registers: Values) -> Values:
        numbers = [half.load(r).astype(np.float32) for r in registers[:factors]]
        found = function(single, *numbers, registers[factors], mode)
        return single.store(found if limit is None else limit(found))

    return elementwise(d, compute, "f32", *[narrow] * factors, "f32")


_BINARY: dict[str, Function] = {"add": floats.add, "sub": floats.subtract, "mul": floats.multiply}


@instruction("add", "sub", "mul")
def binary(d: Decoder) -> Execute:
    name = d.instruction.parts[0]
    if name != "mul" and (narrow := _take_mixed(d)) is not None:
        return _mixed(d, narrow, 1, _BINARY[name], required=False)
    type = take_type(d, ("f64", *SINGLE, *HALVES))
    return _flat(d, type, 2, _BINARY[name], fused=False, required=False)


@instruction("fma")
def fma(d: Decoder) -> Execute:
    if (narrow := _take_mixed(d)) is not None:
        return _mixed(d, narrow, 2, floats.fma, required=True)
    type = take_type(d, ("f64", *SINGLE, *HALVES))
    if type in HALVES and d.take("oob") is not None:
        return _fma_out_of_bounds(d, type)
    return _flat(d, type, 3, floats.fma, fused=True, required=True)


def _fma_out_of_bounds(d: Decoder, type: str) -> Execute:
    """+0 where an operand is the NaN by which TMA fills what lies outside a tensor."""
    take_rounding(d, type, required=True)
    kind, limit = KINDS[type], _take_limit(d, type, fused=True)

    def compute(*registers: Values) -> Values:
        a, b, c = (kind.load(r) for r in registers)
        found = floats.fma(kind, a, b, c, "rn")
        halves = [parts_of(r, np.dtype(np.uint16)).reshape(n.shape) for r, n in zip(registers, (a, b, c), strict=True)]
        marked = np.logical_or.reduce([h == float_codes.NAN_OUTSIDE for h in halves])
        return kind.store(np.where(marked, 0.0, found if limit is None else limit(found)))

    return elementwise(d, compute, type, type, type, type)


@instruction("mad")
def mad(d: Decoder) -> Execute:
    """The same as fma from sm_20 on."""
    return _flat(d, take_type(d, ("f32", "f64")), 3, floats.fma, fused=True, required=True)


@instruction("div")
def div(d: Decoder) -> Execute:
    type = take_type(d, ("f32", "f64"))
    if type == "f32" and (form := d.take("approx", "full")) is not None:
        return _approximate_division(d, full=form == "full")
    kind, flush, mode = KINDS[type], take_flush(d, type), take_rounding(d, type, required=True)

    def divide(a: Array, b: Array) -> Array:
        return floats.divide(kind, a, b, mode)

    return elementwise(d, on_numbers(kind, divide, flush=flush), type, type, type)


def _approximate_division(d: Decoder, *, full: bool) -> Execute:
    """The nearest quotient, which lies within the 2 units that the ISA allows. For divisors beyond 2**126, .approx multiplies
    by a reciprocal that is zero."""
    kind, flush = KINDS["f32"], take_flush(d, "f32")

    def divide(a: Array, b: Array) -> Array:
        quotient = a / b
        if full:
            return quotient
        vast = (np.abs(b) > np.float32(2.0**126)) & np.isfinite(b)
        return np.where(vast, a * np.copysign(np.float32(0), b), quotient)

    return elementwise(d, on_numbers(kind, divide, flush=flush), "f32", "f32", "f32")


@instruction("rcp", "sqrt")
def unary(d: Decoder) -> Execute:
    """Reciprocals and square roots; .approx answers the nearest single, which lies within what the ISA allows."""
    type = take_type(d, ("f32", "f64"))
    kind, flush = KINDS[type], take_flush(d, type)
    if type == "f32" and d.take("approx") is not None:
        mode: Mode = "rn"
    else:
        mode = take_rounding(d, type, required=True)
    one: Any = np.float32(1) if type == "f32" else np.float64(1)
    reciprocal = d.instruction.parts[0] == "rcp"

    def compute(a: Array) -> Array:
        return floats.divide(kind, one, a, mode) if reciprocal else floats.root(kind, a, mode)

    return elementwise(d, on_numbers(kind, compute, flush=flush), type, type)
