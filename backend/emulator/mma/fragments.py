"""Where the elements of a matrix lie in the registers of a warp, for `mma` (PTX 9.7.14.5.1 to 9.7.14.5.13).

A fragment is a pair of arrays, rows and columns, of shape (32, elements): for each lane the places of its elements in the order
of their registers, lowest bits first. All shapes but the oldest follow one rule: a quarter warp holds a row, each lane as many
neighbours as fit a register, and further registers go down by 8 rows first, then along K.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Fragment = tuple[NDArray[np.intp], NDArray[np.intp]]
_LANE = np.arange(32)[:, None]


def _both(rows: NDArray[np.intp], columns: NDArray[np.intp]) -> Fragment:
    shape = np.broadcast_shapes(rows.shape, columns.shape)
    return np.broadcast_to(rows, shape), np.broadcast_to(columns, shape)


@lru_cache(maxsize=64)
def operand_a(m: int, k: int, bits: int) -> Fragment:
    """A, m x k elements of `bits` bits; m is 8 or 16."""
    per = max(32 // bits, 1)
    element = np.arange(m * k // 32)[None, :]
    register, within = element // per, element % per
    tall = m // 8
    row = _LANE // 4 + 8 * (register % tall)
    return _both(row, per * (_LANE % 4) + within + 4 * per * (register // tall))


@lru_cache(maxsize=64)
def operand_b(n: int, k: int, bits: int) -> Fragment:
    """B by its columns, n x k (n = 8): row of the result is the column of B."""
    return operand_a(n, k, bits)


@lru_cache(maxsize=16)
def accumulator(m: int, n: int) -> Fragment:
    """C and D, m x n (n = 8): two neighbours of a row, then 8 rows down."""
    element = np.arange(m * n // 32)[None, :]
    return _both(_LANE // 4 + 8 * (element // 2), 2 * (_LANE % 4) + element % 2)


@dataclass(frozen=True)
class Quads:
    """The four independent products of `mma.m8n8k4` with f16 (PTX 9.7.14.5.1): `of` numbers the product of each lane."""

    of: NDArray[np.intp]

    @staticmethod
    def operand_a(layout: str) -> Fragment:
        """A, 8 x 4, by its rows or columns; four elements a lane."""
        i, low = np.arange(4)[None, :], np.where(_LANE < 16, 0, 4)
        if layout == "row":
            return _both(_LANE % 4 + low, i)
        return _both(i + low, _LANE % 4)

    @staticmethod
    def operand_b(layout: str) -> Fragment:
        """B by its columns, 8 x 4: as A of the other layout."""
        return Quads.operand_a("row" if layout == "col" else "col")

    @staticmethod
    def accumulator(type: str) -> Fragment:
        """C and D, 8 x 8; eight elements a lane."""
        i, low = np.arange(8)[None, :], np.where(_LANE < 16, 0, 4)
        if type == "f16":
            return _both(_LANE % 4 + low, i)
        return _both((_LANE & 1) + (i & 2) + low, (i & 4) + (_LANE & 2) + (i & 1))


QUADS = Quads(np.arange(32) % 16 // 4)
