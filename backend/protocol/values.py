"""Scalars of an abstract execution: known numbers, counters and extents of which only differences matter, tiles' places.

A *bound* is an extent of a view, the number of tiles that a CTA visits, or a bound divided by a constant: a number that a
launch chooses. A *counter* is a loop's variable, or a value that a loop carries and adds a constant to. Both are *bases*.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

INFINITY = 1 << 60
"""Stands for no upper limit; sums that come near it are it."""


class Linear(NamedTuple):
    """``scale * base + offset``."""

    base: int
    offset: int
    scale: int


class Residue(NamedTuple):
    """Some number that is `residue` modulo `modulus`."""

    modulus: int
    residue: int


class Coordinate(NamedTuple):
    """Where the tile of a turn starts in one dimension of the view that is scheduled, plus an offset in elements.

    `turn` is None for the one tile of a grid, and `Past` for tiles of turns that are over.
    """

    turn: int | Linear | Past | None
    dimension: int
    offset: int
    kind: str = "tile"


@dataclass(frozen=True)
class Past:
    """Any value that a counter had before: what starts there lies behind all that the counter reaches from here on."""

    counter: int


@dataclass(frozen=True)
class Unknown:
    """Any number."""


UNKNOWN = Unknown()
Value = int | Linear | Residue | Coordinate | Past | Unknown


class Interval(NamedTuple):
    """All integers from `low` to `high`."""

    low: int
    high: int

    @property
    def exact(self) -> bool:
        return self.low == self.high

    def shifted(self, by: int) -> Interval:
        return Interval(self.low + by, INFINITY if self.high >= INFINITY // 2 else self.high + by)


class Difference(NamedTuple):
    """``bound - scale * counter``: an interval, and what an assumption says of it.

    With `modulus` over 1, ``ceil(difference / step)`` is `residue` modulo `modulus`.
    """

    low: int
    high: int
    step: int = 1
    modulus: int = 1
    residue: int = 0

    def within(self, low: int, high: int) -> Difference | None:
        """The part from `low` to `high`, or None when nothing is there."""
        low, high = max(low, self.low), min(high, self.high)
        part = Difference(low, high, self.step, self.modulus, self.residue)
        return part if low <= high and has_multiple(part) else None

    def advanced(self, by: int) -> Difference:
        """The difference after the counter has grown by `by` (times its scale)."""
        high = INFINITY if self.high >= INFINITY // 2 else self.high - by
        if by % self.step:
            return Difference(self.low - by, high)
        residue = (self.residue - by // self.step) % self.modulus
        return Difference(self.low - by, high, self.step, self.modulus, residue)


def has_multiple(part: Difference) -> bool:
    """Whether some number of the interval satisfies the congruence."""
    if part.modulus == 1:
        return True
    first = -(-part.low // part.step)
    last = INFINITY if part.high >= INFINITY // 2 else -(-part.high // part.step)
    return first + (part.residue - first) % part.modulus <= last


class Bound(NamedTuple):
    """A number that a launch chooses: `name` says which. A quotient is ``(parent + addend) // divisor``."""

    name: str
    parent: int | None = None
    divisor: int = 1
    addend: int = 0
    step: int = 1
    multiple: int = 1
    """What the kernel assumes: ceil(bound / step) is a multiple of it."""
