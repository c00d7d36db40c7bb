"""Which parts of views a kernel touches, and that the tiles of all turns are stored."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from xdsl.ir import BlockArgument, Operation

from tilec.backend.protocol.machine import Broken, OutOfScope
from tilec.backend.protocol.regions import conflicting, tile_of
from tilec.backend.protocol.rules.context import Context, Run
from tilec.backend.protocol.state import Region, State
from tilec.backend.protocol.values import Coordinate, Linear
from tilec.dialects.tile import CopyAsyncOp, ScheduleOp, SmemType


def region_noter(k: Context, op: CopyAsyncOp, kind: str) -> Callable[[State, int], None]:
    """Note which part of a view a copy touches, where that may matter, and check it against the others."""
    view = op.source if op.is_load else op.dest
    tile = op.dest if op.is_load else op.source
    assert isinstance(view, BlockArgument) and tile is not None and isinstance(tile.type, SmemType)
    number, shape = view.index, tile.type.shape
    if kind == "load" and number not in k.mutable:
        return lambda s, event: None
    at = [k.ids[index] for index in op.indices]

    def note(s: State, event: int) -> None:
        start = tuple(s.environment[i] for i in at)
        region = Region(kind, number, start, shape, event)
        if k.tiles.several and tile_of(region, k.tiles) is None:
            raise OutOfScope(op, _outside(k, region, kind))
        for other in s.regions:
            if conflicting(k.machine, s, region, other, k.tiles):
                raise Broken(op, "this may touch the same part of the view as an earlier copy that may not be done")
        s.regions |= {region}
        if kind != "load" and number == k.scheduled:
            _count_tile(k, s, op, region)

    return note


def _outside(k: Context, region: Region, kind: str) -> str:
    """Why other CTAs may touch what a copy touches."""
    told = {place.dimension for place in region.start if isinstance(place, Coordinate)}
    blind = sorted(k.tiles.several - told)
    what = "this load of a view that is also written" if kind == "load" else "this store"
    if blind:
        return (
            f"{what} does not depend on where the tile lies along dimension {blind[0]}: where there are several tiles, "
            "other CTAs store there too"
        )
    return f"{what} may reach into the tile of another CTA"


def _count_tile(k: Context, s: State, op: Operation, region: Region) -> None:
    """Tiles are stored turn after turn, none twice, none left out, each as a whole."""
    turns = {place.turn for place in region.start if isinstance(place, Coordinate)}
    if len(turns) != 1:
        return
    (turn,) = turns
    ahead = _turns_between(k, s, s.stored, turn)
    if ahead == 1 and (isinstance(turn, int | Linear)):
        _check_covered(k, s, op)
        s.stored, s.covered = turn, frozenset()
    elif ahead != 0:
        raise Broken(op, "the tile that is stored here is not that of the turn after the last one stored")
    offsets = [place.offset if isinstance(place, Coordinate) else place for place in region.start]
    fixed = tuple(offset for offset in offsets if isinstance(offset, int))
    s.covered |= {(fixed, region.shape) if len(fixed) == len(offsets) else _SOMEWHERE}


_SOMEWHERE: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
"""Part of a tile: a store in a loop, of which only the tile is known."""


def _check_covered(k: Context, s: State, op: Operation) -> None:
    """What was stored of the last turn's tile is all of it. (Stores of which the place is not known are not counted.)"""
    if not s.covered or _SOMEWHERE in s.covered:
        return
    parts = list(s.covered)
    for i, (start, shape) in enumerate(parts):
        for other, extents in parts[:i]:
            spans = zip(start, shape, other, extents, strict=True)
            if all(a < b + y and b < a + x for a, x, b, y in spans):
                raise OutOfScope(op, "stores that overlap inside of a tile")
    inside = sum(
        prod(min(a + x, whole) - a for a, x, whole in zip(start, shape, k.tiles.shape, strict=True) if a < whole)
        for start, shape in parts
    )
    if inside != prod(k.tiles.shape):
        raise Broken(op, "only a part of the last turn's tile has been stored")


def _turns_between(k: Context, s: State, a: object, b: object) -> int | None:
    match a, b:
        case int(), int():
            return b - a
        case Linear(base, offset, scale), Linear(other, addend, factor) if (base, scale) == (other, factor):
            return addend - offset
        case ((int() | Linear()), (int() | Linear())):
            one, other = k.machine.resolved(s, a), k.machine.resolved(s, b)
            return other - one if isinstance(one, int) and isinstance(other, int) else None
        case _:
            return None


def schedule(k: Context, op: ScheduleOp, single: bool) -> Run:
    del single
    assert k.turns is not None
    turn_at, valid_at = k.ids[op.turn], k.ids[op.valid]
    offsets = [k.ids[offset] for offset in op.offsets]
    limit = Linear(~k.turns, 0, 1)

    def run(s: State) -> None:
        turn = s.environment[turn_at]
        if not isinstance(k.machine.resolved(s, turn), int | Linear):
            raise OutOfScope(op, "the turn of a scheduler is not a counter")
        s.environment[valid_at] = int(k.machine.below(s, turn, limit))
        place = turn if isinstance(turn, int | Linear) else None
        for dimension, at in enumerate(offsets):
            s.environment[at] = Coordinate(place, dimension, 0)

    return run


def check_turns(k: Context, s: State, op: Operation) -> None:
    """All tiles of the CTA have been stored: the last turn was the one before the first that is not valid."""
    assert k.turns is not None
    if isinstance(s.stored, int):
        limits = k.machine.bound_interval(s, k.turns)
        done = limits == (s.stored + 1, s.stored + 1)
    elif isinstance(s.stored, Linear):
        left = k.machine.difference(s, k.turns, s.stored.base, s.stored.scale)
        done = left is not None and (left.low, left.high) == (s.stored.offset + 1, s.stored.offset + 1)
    else:
        done = False
    _check_covered(k, s, op)
    if not done:
        raise Broken(op, "a CTA ends before it has stored the tiles of all its turns")


rules = {ScheduleOp: schedule}
