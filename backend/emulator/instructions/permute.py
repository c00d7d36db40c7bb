"""Permutation of the bytes of two registers (PTX 9.7.9.7)."""

from __future__ import annotations

import numpy as np

from tilec.backend.emulator.execution.decode import Decoder, instruction
from tilec.backend.emulator.execution.lanes import Execute
from tilec.backend.emulator.instructions.typed import elementwise, packed, parts_of, take_type
from tilec.backend.emulator.numbers.types import Values

_MODES = {
    "f4e": ((0, 1, 2, 3), (1, 2, 3, 4), (2, 3, 4, 5), (3, 4, 5, 6)),
    "b4e": ((0, 7, 6, 5), (1, 0, 7, 6), (2, 1, 0, 7), (3, 2, 1, 0)),
    "rc8": ((0, 0, 0, 0), (1, 1, 1, 1), (2, 2, 2, 2), (3, 3, 3, 3)),
    "ecl": ((0, 1, 2, 3), (1, 1, 2, 3), (2, 2, 2, 3), (3, 3, 3, 3)),
    "ecr": ((0, 0, 0, 0), (0, 1, 1, 1), (0, 1, 2, 2), (0, 1, 2, 3)),
    "rc16": ((0, 1, 0, 1), (2, 3, 2, 3), (0, 1, 0, 1), (2, 3, 2, 3)),
}
"""For each value of the selector, which source bytes become bytes 0 to 3."""
_BYTE = np.dtype(np.uint8)
_NIBBLES = np.array([0, 4, 8, 12], np.uint32)


def _sources(a: Values, b: Values) -> Values:
    """Bytes 0 to 7, shape (lanes or 1, 8)."""
    return parts_of(a.astype(np.uint64) | b.astype(np.uint64) << np.uint64(32), _BYTE)


def _pick(sources: Values, chosen: Values) -> Values:
    lanes = max(len(sources), len(chosen))
    sources, chosen = np.broadcast_to(sources, (lanes, 8)), np.broadcast_to(chosen, (lanes, 4))
    return np.take_along_axis(sources, chosen, axis=1)


@instruction("prmt")
def prmt(d: Decoder) -> Execute:
    """Four bytes by their numbers; where bit 3 of one is set, copies of the sign of the byte."""
    mode = d.take(*_MODES)
    take_type(d, ("b32",))
    if mode is None:
        return elementwise(d, _permute, "b32", "b32", "b32", "b32")
    table = np.array(_MODES[mode])

    def extract(a: Values, b: Values, c: Values) -> Values:
        chosen = table[np.atleast_1d(c) & np.uint32(3)]
        return packed(_pick(_sources(a, b), chosen), np.dtype(np.uint32))

    return elementwise(d, extract, "b32", "b32", "b32", "b32")


def _permute(a: Values, b: Values, c: Values) -> Values:
    control = np.atleast_1d(c)[:, None] >> _NIBBLES & np.uint32(15)
    chosen = _pick(_sources(a, b), (control & np.uint32(7)).astype(np.intp))
    sign = np.where(chosen & 0x80, np.uint8(0xFF), np.uint8(0))
    return packed(np.where(control & np.uint32(8), sign, chosen), np.dtype(np.uint32))
