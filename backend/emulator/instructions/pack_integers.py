"""`cvt.pack` (PTX 9.7.9.22): two integers are limited to a narrower type and packed."""

from __future__ import annotations

import numpy as np

from tilec.backend.emulator.execution.decode import Decoder, instruction
from tilec.backend.emulator.execution.lanes import Execute
from tilec.backend.emulator.instructions.typed import elementwise
from tilec.backend.emulator.numbers.types import Values

_BITS = {f"{kind}{bits}": bits for kind in "us" for bits in (2, 4, 8, 16)}


@instruction("cvt.pack")
def cvt_pack(d: Decoder) -> Execute:
    """The second source goes to the lowest place and the first above it; a third operand, moved up, fills the rest."""
    saturates, more = d.take("sat"), d.take("b32")
    source, target = d.take("s32"), d.take(*_BITS)
    if saturates is None or source is None or target is None:
        d.unsupported("it is cvt.pack.sat.{u16, s16}.s32 or cvt.pack.sat.{u2, s2, u4, s4, u8, s8}.s32.b32")
    bits = _BITS[target]
    if (bits == 16) != (more is None):
        d.unsupported("a third operand, .b32, goes with types of 8 bits and less, and only with them")
    low, high = (0, (1 << bits) - 1) if target[0] == "u" else (-(1 << bits - 1), (1 << bits - 1) - 1)
    mask, place = np.uint32((1 << bits) - 1), np.uint32(bits)

    def field(values: Values) -> Values:
        return np.clip(values, np.int32(low), np.int32(high)).astype(np.int32).view(np.uint32) & mask

    def pair(a: Values, b: Values) -> Values:
        return field(a) << place | field(b)

    if more is None:
        return elementwise(d, pair, "u32", "s32", "s32")

    def filled(a: Values, b: Values, c: Values) -> Values:
        return c << np.uint32(2 * bits) | pair(a, b)

    return elementwise(d, filled, "u32", "s32", "s32", "b32")
