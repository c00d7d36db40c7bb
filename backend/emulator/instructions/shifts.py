"""Shifts and funnel shifts (PTX 9.7.8.7 to 9.7.8.9)."""

from __future__ import annotations

import numpy as np

from tilec.backend.emulator.execution.decode import Decoder, instruction
from tilec.backend.emulator.execution.lanes import Execute
from tilec.backend.emulator.instructions.typed import BITS, INTEGERS, elementwise, take_type
from tilec.backend.emulator.numbers.types import Values, dtype_of


@instruction("shl")
def shl(d: Decoder) -> Execute:
    """Amounts beyond the width shift all bits out."""
    type = take_type(d, BITS)
    dtype = dtype_of(type)
    width = np.uint32(8 * dtype.itemsize)
    return elementwise(d, lambda a, n: np.left_shift(a, np.minimum(n, width).astype(dtype)), type, type, "u32")


@instruction("shr")
def shr(d: Decoder) -> Execute:
    """Signed types fill up with the sign."""
    type = take_type(d, (*BITS, *INTEGERS))
    dtype = dtype_of(type)
    width = np.uint32(8 * dtype.itemsize)
    return elementwise(d, lambda a, n: np.right_shift(a, np.minimum(n, width).astype(dtype)), type, type, "u32")


@instruction("shf")
def shf(d: Decoder) -> Execute:
    """Of ``b << 32 | a`` shifted to the left the high word, or shifted to the right the low word."""
    take_type(d, ("b32",))
    direction, mode = d.take("l", "r"), d.take("clamp", "wrap")
    if direction is None or mode is None:
        d.unsupported("a funnel shift without a direction or a mode")

    def shift(low: Values, high: Values, amount: Values) -> Values:
        amount = np.minimum(amount, np.uint32(32)) if mode == "clamp" else amount & np.uint32(31)
        both = high.astype(np.uint64) << np.uint64(32) | low.astype(np.uint64)
        count = amount.astype(np.uint64)
        shifted = both << count >> np.uint64(32) if direction == "l" else both >> count
        return shifted.astype(np.uint32)

    return elementwise(d, shift, "b32", "b32", "b32", "u32")
