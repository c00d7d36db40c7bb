"""Integer quotients and remainders (PTX 9.7.1.8, 9.7.1.9)."""

from __future__ import annotations

import numpy as np

from tilec.backend.emulator.execution.decode import Decoder
from tilec.backend.emulator.execution.lanes import Execute
from tilec.backend.emulator.instructions.typed import INTEGERS, elementwise, typed
from tilec.backend.emulator.numbers.types import Values, dtype_of, is_signed


@typed("div rem", INTEGERS)
def divide(d: Decoder, type: str) -> Execute:
    """Quotients are rounded towards zero, so that a remainder has the sign of the dividend. What a division by zero gives is
    left to the machine: it gives all ones, for quotients and remainders."""
    dtype = dtype_of(type)
    unsigned = np.dtype(f"u{dtype.itemsize}")
    ones = unsigned.type(2 ** (8 * dtype.itemsize) - 1)
    quotient = d.instruction.parts[0] == "div"
    operation = np.floor_divide if quotient else np.remainder

    def magnitudes(a: Values, b: Values) -> Values:
        zero = b == 0
        return np.where(zero, ones, operation(a, np.where(zero, unsigned.type(1), b)))

    def signed(a: Values, b: Values) -> Values:
        found = magnitudes(np.abs(a).view(unsigned), np.abs(b).view(unsigned)).view(dtype)
        negative = (a < 0) != (b < 0) if quotient else a < 0
        return np.where(negative & (b != 0), -found, found)

    return elementwise(d, signed if is_signed(type) else magnitudes, type, type, type)
