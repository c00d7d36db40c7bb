"""Selection by a predicate or a sign (PTX 9.7.6.3, 9.7.6.4)."""

from __future__ import annotations

import numpy as np

from tilec.backend.emulator.execution.decode import Decoder, instruction
from tilec.backend.emulator.execution.lanes import Execute
from tilec.backend.emulator.instructions.typed import BITS, INTEGERS, elementwise, take_type
from tilec.backend.emulator.numbers.types import Values

_TYPES = (*BITS, *INTEGERS, "f32", "f64")


@instruction("selp")
def selp(d: Decoder) -> Execute:
    type = take_type(d, _TYPES)
    return elementwise(d, lambda a, b, c: np.where(c, a, b), type, type, type, "pred")


@instruction("slct")
def slct(d: Decoder) -> Execute:
    """The first operand where the third is not negative; a NaN selects the second, and a negative zero the first."""
    sign, type = take_type(d, ("s32", "f32")), take_type(d, _TYPES)

    def select(a: Values, b: Values, c: Values) -> Values:
        return np.where(c >= 0, a, b)

    def select_flushed(a: Values, b: Values, c: Values) -> Values:
        return np.where((c >= 0) | (np.abs(c) < np.finfo(np.float32).tiny), a, b)

    flush = sign == "f32" and d.take("ftz") is not None
    return elementwise(d, select_flushed if flush else select, type, type, type, sign)
