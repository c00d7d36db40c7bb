"""Where the rows of a box lie in shared memory: 16-byte units, moved by the swizzle."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tilec.backend.emulator.tma.swizzle import Swizzle

UNIT = 16
_REPEATS = 1024
"""A multiple of the period of every swizzle."""


@dataclass(frozen=True, eq=False)
class Placement:
    """`units` of shared memory in the order of the data, counted from the start of the window."""

    units: NDArray[np.intp]

    def write(self, shared: NDArray[np.uint8], data: NDArray[np.uint8]) -> None:
        """Put `data`, 16 bytes for each unit, into the bytes of shared memory."""
        shared.reshape(-1, UNIT)[self.units] = data.reshape(-1, UNIT)

    def read(self, shared: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """The bytes of the units in the order of the data, shape (units, 16)."""
        return shared.reshape(-1, UNIT)[self.units]


def place(offset: int, rows: int, row_bytes: int, swizzle: Swizzle) -> Placement:
    """The placement of `rows` rows of `row_bytes` bytes, a multiple of 16, from `offset` of the shared window on.

    Rows follow one another; under a swizzle each takes the whole span of the pattern, also where the box is narrower.
    """
    start = offset // _REPEATS * _REPEATS
    return Placement(_relative(offset - start, rows, row_bytes, swizzle) + start // UNIT)


@lru_cache(512)
def _relative(offset: int, rows: int, row_bytes: int, swizzle: Swizzle) -> NDArray[np.intp]:
    pitch = swizzle.span or row_bytes
    plain = offset + np.arange(rows)[:, None] * pitch + np.arange(0, row_bytes, UNIT)[None, :]
    return (swizzle(plain.ravel()) // UNIT).astype(np.intp)
