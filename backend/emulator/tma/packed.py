"""Elements of 4 and 6 bits that shared memory holds with gaps (PTX 5.5.1.1)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilec.backend.emulator.tma.elements import ElementType

_UNIT = 16
_ELEMENTS = 16
"""Elements of a unit of 16 bytes."""


def unpack_rows(data: NDArray[np.uint8], type: ElementType) -> NDArray[np.uint8]:
    """Each 16 elements of a load at the start of 16 bytes; the gap behind them, which PTX leaves open, is filled with 0xA5."""
    held = _ELEMENTS * type.bits // 8
    chunks = data.reshape(-1, held)
    units = np.full((len(chunks), _UNIT), 0xA5, np.uint8)
    units[:, :held] = chunks
    return units


def pack_rows(units: NDArray[np.uint8], type: ElementType) -> NDArray[np.uint8]:
    """The low bits of each byte of a store, side by side."""
    bits = np.unpackbits(units.reshape(-1, 1), axis=1, bitorder="little")[:, : type.bits]
    return np.packbits(bits.reshape(-1, _ELEMENTS * type.bits), axis=1, bitorder="little")
