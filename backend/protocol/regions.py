"""Parts of views: which may overlap, and how they age when a loop goes on."""

from __future__ import annotations

from dataclasses import dataclass

from tilec.backend.protocol.machine import Machine
from tilec.backend.protocol.state import ISSUER, Region, State
from tilec.backend.protocol.values import Coordinate, Linear, Past, Value


@dataclass(frozen=True)
class Tiles:
    """What a grid or a scheduler divides its view into."""

    view: int = -1
    """Its argument."""
    steps: tuple[int, ...] = ()
    """From one tile to the next, in elements."""
    shape: tuple[int, ...] = ()
    """A tile, as far as the view has elements for it."""
    several: frozenset[int] = frozenset()
    """The dimensions along which there may be more than one."""
    group: int = 0
    """Rows that a scheduler visits together."""


def conflicting(machine: Machine, s: State, new: Region, old: Region, tiles: Tiles) -> bool:
    """Whether a copy that starts now may touch what an earlier one still does."""
    if new.view != old.view or (new.kind == old.kind == "load"):
        return False
    if (old.kind == "load" and old.event & s.known[ISSUER] & s.present) or (
        old.kind == "load" and not old.event & s.present
    ):
        return False  # it has arrived, and the issuer knows
    if old.kind == "issuer" and new.kind != "threads":
        return False
    return not _apart(machine, s, new, old, tiles)


def _apart(machine: Machine, s: State, a: Region, b: Region, tiles: Tiles) -> bool:
    one, other = tile_of(a, tiles), tile_of(b, tiles)
    if one is not None and other is not None and _is_other_turn(one[0], other[0]):
        return True
    return any(
        _dimension_apart(machine, s, *place, *extents)
        for place, extents in zip(zip(a.start, b.start, strict=True), zip(a.shape, b.shape, strict=True), strict=True)
    )


def _is_other_turn(a: object, b: object) -> bool:
    """Whether two turns are certainly not the same."""
    match a, b:
        case int(), int():
            return a != b
        case Linear(), Linear():
            return (a.base, a.scale) == (b.base, b.scale) and a.offset != b.offset
        case (Past(counter), Linear(base, offset, _)) | (Linear(base, offset, _), Past(counter)):
            return counter == base and offset >= 0
        case _:
            return False


def tile_of(region: Region, tiles: Tiles) -> tuple[object] | None:
    """The turn in whose tile the region lies wholly; None if other tiles may reach into it."""
    turns: set[object] = set()
    dimensions: set[int] = set()
    for place, extent in zip(region.start, region.shape, strict=True):
        if isinstance(place, Coordinate) and 0 <= place.offset <= tiles.steps[place.dimension] - extent:
            turns.add(place.turn)
            dimensions.add(place.dimension)
    if len(turns) != 1 or not tiles.several <= dimensions:
        return None
    (turn,) = turns
    return (turn,)


def _dimension_apart(machine: Machine, s: State, a: Value, b: Value, a_extent: int, b_extent: int) -> bool:
    if isinstance(a, Past) and isinstance(b, Linear):
        return b.base == a.counter and b.offset >= 0
    if isinstance(b, Past) and isinstance(a, Linear):
        return a.base == b.counter and a.offset >= 0
    match a, b:
        case Coordinate(), Coordinate() if (a.turn, a.dimension) == (b.turn, b.dimension):
            x, y = a.offset, b.offset
        case Linear(), Linear() if (a.base, a.scale) == (b.base, b.scale):
            x, y = a.offset, b.offset
        case _:
            x, y = machine.resolved(s, a), machine.resolved(s, b)
    return isinstance(x, int) and isinstance(y, int) and (x + a_extent <= y or y + b_extent <= x)
