"""Parts of tensor memory: 128 lanes by 512 columns of 32 bits (PTX 9.7.16.1)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

LANES = 128
COLUMNS = 512

LaneIndex = slice | NDArray[np.intp]
"""Lanes as an index: a slice where they are neighbours."""


@dataclass(frozen=True, slots=True)
class Region:
    """All cells of some lanes in some columns; both are sets, as bits of an integer. Columns from 512 on do not exist, but a
    region may name them until it is checked."""

    lanes: int
    columns: int

    def overlaps(self, other: Region) -> bool:
        return bool(self.lanes & other.lanes) and bool(self.columns & other.columns)


def bits(first: int, count: int) -> int:
    """The set of `count` numbers from `first` on."""
    return ((1 << count) - 1) << first


def half_lanes(upper: int) -> int:
    """The lanes of layouts that use half of each partition of 32 lanes: the lower 16 of each, or the upper 16."""
    return sum(bits(32 * partition + 16 * upper, 16) for partition in range(4))


@lru_cache(maxsize=256)
def members(numbers: int) -> NDArray[np.intp]:
    """A set of numbers as an array, ascending."""
    found = np.array([n for n in range(numbers.bit_length()) if numbers >> n & 1], np.intp)
    found.flags.writeable = False
    return found


@lru_cache(maxsize=256)
def index_of(numbers: int) -> LaneIndex:
    """A set of numbers as the cheapest index."""
    found = members(numbers)
    first, last = int(found[0]), int(found[-1])
    return slice(first, last + 1) if last - first + 1 == len(found) else found


def ranges(numbers: int) -> str:
    """A set of numbers in words: "0-31, 64"; "none" if it is empty."""
    found: list[str] = []
    at = 0
    while numbers >> at:
        if not numbers >> at & 1:
            at += 1
            continue
        end = at
        while numbers >> (end + 1) & 1:
            end += 1
        found.append(str(at) if at == end else f"{at}-{end}")
        at = end + 1
    return ", ".join(found) or "none"
