"""Integer sums, minima and maxima, absolute values and differences (PTX 9.7.1.1, 9.7.1.2, 9.7.1.7, 9.7.1.10 to 9.7.1.13)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilec.backend.emulator.execution.decode import Decoder, instruction
from tilec.backend.emulator.execution.lanes import Execute
from tilec.backend.emulator.instructions.typed import (
    INTEGERS,
    PAIRS,
    SIGNED,
    elementwise,
    packed,
    parts_of,
    take_type,
    typed,
)
from tilec.backend.emulator.numbers.types import Values, dtype_of

Binary = Callable[[Any, Any], Any]


def saturated(values: Values) -> Values:
    """64-bit integers limited to what a .s32 can hold, as int32."""
    limits = np.iinfo(np.int32)
    return np.clip(values, limits.min, limits.max).astype(np.int32)


def in_pairs(type: str, function: Binary) -> Binary:
    """Applies `function` to each half of .u16x2 or .s16x2 operands."""
    half = np.dtype(np.uint16 if type == "u16x2" else np.int16)
    return lambda a, b: packed(function(parts_of(a, half), parts_of(b, half)), np.dtype(np.uint32))


@typed("add", (*INTEGERS, *PAIRS))
def add(d: Decoder, type: str) -> Execute:
    function = in_pairs(type, np.add) if type in PAIRS else np.add
    return elementwise(d, function, type, type, type)


@typed("sub", INTEGERS)
def sub(d: Decoder, type: str) -> Execute:
    return elementwise(d, np.subtract, type, type, type)


@typed("add.sat sub.sat", ("s32",))
def saturating(d: Decoder, type: str) -> Execute:
    function = np.add if d.instruction.parts[0] == "add" else np.subtract
    return elementwise(d, lambda a, b: saturated(function(a, b, dtype=np.int64)), type, type, type)


@typed("min max", (*INTEGERS, *PAIRS))
@typed("min.relu max.relu", ("s32", "s16x2"))
def extremum(d: Decoder, type: str) -> Execute:
    function = np.minimum if d.instruction.parts[0] == "min" else np.maximum
    if "relu" in d.instruction.parts:
        if type not in ("s32", "s16x2"):
            d.unsupported(f".relu goes with .s32 and .s16x2, not with .{type}")
        d.take("relu")

        def limited(a: Values, b: Values) -> Values:
            return np.maximum(function(a, b), a.dtype.type(0))

        return elementwise(d, in_pairs(type, limited) if type in PAIRS else limited, type, type, type)
    return elementwise(d, in_pairs(type, function) if type in PAIRS else function, type, type, type)


@typed("abs neg", SIGNED)
def sign(d: Decoder, type: str) -> Execute:
    return elementwise(d, np.abs if d.instruction.parts[0] == "abs" else np.negative, type, type)


@instruction("sad")
def sad(d: Decoder) -> Execute:
    """``c + |a - b|``, the difference without overflow."""
    type = take_type(d, INTEGERS)
    unsigned = np.dtype(f"u{dtype_of(type).itemsize}")

    def difference(a: Values, b: Values, c: Values) -> Values:
        apart = np.where(a < b, b - a, a - b).view(unsigned)
        return apart + c.view(unsigned)

    return elementwise(d, difference, type, type, type, type)
