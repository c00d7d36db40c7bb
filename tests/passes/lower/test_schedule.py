"""The tile scheduler's arithmetic, evaluated with 32-bit integers: every tile exactly once, as the reference has it."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tilec.backend.reference import schedule
from tilec.passes.lower.control import _tile_offsets  # pyright: ignore[reportPrivateUsage]

MASK = 0xFFFFFFFF


class Numbers:
    """The operations of an `Emitter` that the scheduler uses, on unsigned 32-bit numbers."""

    def plus(self, a: int, b: int) -> int:
        return (a + b) & MASK

    def minus(self, a: int, b: int) -> int:
        return (a - b) & MASK

    def times(self, a: int, b: int) -> int:
        return (a * b) & MASK

    def divided(self, a: int, b: int) -> int:
        return a // b

    def modulo(self, a: int, b: int) -> int:
        return a % b

    def minimum(self, a: int, b: int) -> int:
        return min(a, b)

    def select(self, condition: bool, a: int, b: int) -> int:
        return a if condition else b

    def compare(self, predicate: str, a: int, b: int) -> bool:
        assert predicate == "eq"
        return a == b

    def ceil_divided(self, a: int, b: int) -> int:
        return -(-a // b)


def lowered(rows: int, columns: int, group: int, tile: int) -> tuple[int, ...]:
    """Row and column of a tile, by the code that builds the kernel's arithmetic."""

    def once(_: str, make: Callable[[], int]) -> int:
        return make()

    extents = (rows, columns)
    k = SimpleNamespace(
        e=Numbers(), once=once, view=lambda _: SimpleNamespace(index=0), extent=lambda _, dim: extents[dim]
    )
    return tuple(cast("list[int]", _tile_offsets(cast(Any, k), cast(Any, None), (1, 1), group, cast(Any, tile))))


@pytest.mark.parametrize("group", [1, 2, 3, 4, 8, 16, 65536])
def test_every_tile_once(group: int) -> None:
    for rows in range(1, 13):
        for columns in range(1, 13):
            tiles = rows * columns
            places = [lowered(rows, columns, group, tile) for tile in range(tiles)]
            assert sorted(places) == [(m, n) for m in range(rows) for n in range(columns)]
            assert places == [schedule(0, tile, tiles, rows, columns, group)[1:] for tile in range(tiles)]


@pytest.mark.parametrize("group", [1, 8, 65536])
def test_past_the_last_tile_nothing_is_divided_by_zero(group: int) -> None:
    for rows in range(1, 20):
        for columns in range(1, 6):
            for tile in range(rows * columns, rows * columns + 300):
                lowered(rows, columns, group, tile)


@pytest.mark.parametrize(("rows", "columns"), [(1 << 15, 1 << 16), (1 << 20, 1 << 11), (3, 1 << 29)])
def test_many_tiles_do_not_overflow(rows: int, columns: int) -> None:
    last = rows * columns - 1
    assert lowered(rows, columns, 65536, last) == (rows - 1, columns - 1)
    assert lowered(rows, columns, 8, last) == (rows - 1, columns - 1)
