"""The static tile scheduler is a bijection of tiles and (CTA, turn): the lowered kernel's own arithmetic is evaluated.

`lower` turns `tile.schedule` into 32-bit integer operations of the llvm dialect. They are read off a kernel that copies tiles,
backwards from the coordinates of its TMA load, and evaluated with NumPy. All extents, CTA counts and turns at once are too
many to try. But the number of a tile is the only value through which CTA, turn and CTA count reach validity and coordinates
(which is checked), so that it is enough to try all of them for that number, and all numbers in all grids.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from xdsl.dialects import llvm
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from tilec.backend.reference import schedule
from tilec.dialects import nvvm
from tilec.driver import compile_module
from tilec.source import parse_text

sys.path.append(str(Path(__file__).parents[1] / "passes"))
from tile_programs import COPY

Numbers = npt.NDArray[np.uint32]
Unsigned = Callable[[Numbers, Numbers], npt.NDArray[np.generic]]

STEP = (64, 32)
"""Of the copying kernel's tiles, in elements."""
GROUPS = [*range(1, 17), 65536]
MOST_TILES = 40
MOST_CTAS = 150


def _divide(a: Numbers, b: Numbers) -> npt.NDArray[np.generic]:
    assert b.all(), "a division by zero"
    return a // b


def _remainder(a: Numbers, b: Numbers) -> npt.NDArray[np.generic]:
    assert b.all(), "a division by zero"
    return a % b


BINARY: dict[type[Operation], Unsigned] = {
    llvm.AddOp: np.add,
    llvm.SubOp: np.subtract,
    llvm.MulOp: np.multiply,
    llvm.UDivOp: _divide,
    llvm.URemOp: _remainder,
}
COMPARE: dict[str, Unsigned] = {"eq": np.equal, "ne": np.not_equal, "ult": np.less}


class Scheduler:
    """The arithmetic of a lowered kernel that says which tile comes next."""

    def __init__(self, pipeline: str):
        module = compile_module(parse_text(COPY.text), pipeline=pipeline, emit="nvvm").nvvm
        function = next(op for op in module.walk() if isinstance(op, llvm.FuncOp))
        entry = function.body.blocks[0]
        loads = [op for op in module.walk() if isinstance(op, nvvm.CpAsyncBulkTensorGlobalToSharedClusterOp)]
        self.n, self.m = loads[0].coordinates
        self.rows, self.columns = entry.args[:2]
        self.cta = self._register(nvvm.BlockIdXOp, entry)

    @staticmethod
    def _register(kind: type[Operation], block: Block) -> SSAValue:
        (op,) = (op for op in block.ops if isinstance(op, kind))
        return op.results[0]


class PersistentScheduler(Scheduler):
    """That of a persistent kernel: a loop over turns."""

    def __init__(self, group: int):
        super().__init__(f"tma,persistent(group={group})")
        entry = self.rows.owner
        assert isinstance(entry, Block)
        self.ctas = self._register(nvvm.GridDimXOp, entry)
        inner = {leaf for leaf in leaves(self.m) if isinstance(leaf, BlockArgument) and leaf.owner is not entry}
        (self.turn,) = inner
        head = self.turn.owner
        assert isinstance(head, Block) and isinstance(head.last_op, llvm.CondBrOp)
        self.valid = head.last_op.cond


@cache
def persistent(group: int) -> PersistentScheduler:
    return PersistentScheduler(group)


def leaves(value: SSAValue, stop: SSAValue | None = None) -> set[SSAValue]:
    """What a value is computed from: arguments and special registers; and `stop`, behind which nothing is looked at."""
    found: set[SSAValue] = set()
    seen: set[SSAValue] = set()
    pending = [value]
    while pending:
        one = pending.pop()
        if one in seen:
            continue
        seen.add(one)
        owner = one.owner
        if one is stop or isinstance(owner, Block) or not (owner.operands or isinstance(owner, llvm.ConstantOp)):
            found.add(one)
        else:
            pending += owner.operands
    return found


def inner_values(value: SSAValue) -> Iterator[SSAValue]:
    """All that a value is computed from, itself first."""
    pending, seen = [value], set[SSAValue]()
    while pending:
        one = pending.pop(0)
        if one not in seen:
            seen.add(one)
            yield one
            if not isinstance(one.owner, Block):
                pending += one.owner.operands


def unsigned(values: npt.NDArray[np.generic]) -> Numbers:
    return values.astype(np.uint32, copy=False)


def evaluate(value: SSAValue, known: Mapping[SSAValue, Numbers]) -> npt.NDArray[np.generic]:
    """The value in 32-bit arithmetic, for arrays of what it is computed from."""
    memo: dict[SSAValue, npt.NDArray[np.generic]] = dict(known)

    def compute(one: SSAValue) -> npt.NDArray[np.generic]:
        if one not in memo:
            memo[one] = apply(one.owner)
        return memo[one]

    def apply(op: Operation | Block) -> npt.NDArray[np.generic]:
        assert isinstance(op, Operation), "an argument that is not known"
        if isinstance(op, llvm.ConstantOp):
            assert isinstance(op.value, IntegerAttr)
            return np.array([op.value.value.data]).astype(np.uint32)
        operands = [compute(operand) for operand in op.operands]
        if type(op) in BINARY:
            return BINARY[type(op)](unsigned(operands[0]), unsigned(operands[1]))
        if isinstance(op, llvm.ICmpOp):
            predicate = llvm.ICmpPredicateFlag.from_int(op.predicate.value.data).value
            return COMPARE[predicate](unsigned(operands[0]), unsigned(operands[1]))
        if isinstance(op, llvm.SelectOp):
            return np.where(operands[0], operands[1], operands[2])
        assert isinstance(op, llvm.ZExtOp), f"no rule for {op.name}"
        return unsigned(operands[0])

    return compute(value)


def tile_number(s: PersistentScheduler, value: SSAValue) -> SSAValue:
    """The one value through which CTA, turn and CTA count reach `value`."""
    moving = {s.cta, s.ctas, s.turn}
    cuts = [one for one in inner_values(value) if one not in moving and not leaves(value, stop=one) & moving]
    assert cuts, "CTA, turn and CTA count reach the tile by several ways"
    return cuts[-1]


@cache
def all_grids(most: int, past: int = 0) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Tiles along M, along N, number, and the index of the grid's first tile in a list of all tiles, for every tile.

    With `past`, so many numbers past the last tile too.
    """
    m, n = (axis.ravel() for axis in np.meshgrid(*[np.arange(1, most + 1)] * 2, indexing="ij"))
    tiles = m * n + past
    starts = np.concatenate([[0], np.cumsum(tiles)[:-1]])
    number = np.arange(int(tiles.sum())) - np.repeat(starts, tiles)
    return (
        unsigned(np.repeat(m, tiles)),
        unsigned(np.repeat(n, tiles)),
        unsigned(number),
        unsigned(np.repeat(starts, tiles)),
    )


def extents(s: Scheduler, m: Numbers, n: Numbers) -> dict[SSAValue, Numbers]:
    """Extents that make so many tiles, most of them with an edge that hangs over."""
    return {s.rows: m * STEP[0] - n % STEP[0], s.columns: n * STEP[1] - m % STEP[1]}


def places(s: Scheduler, known: Mapping[SSAValue, Numbers]) -> tuple[Numbers, Numbers]:
    """Row and column of the tile, in tiles."""
    m, n = unsigned(evaluate(s.m, known)), unsigned(evaluate(s.n, known))
    assert not (m % STEP[0]).any() and not (n % STEP[1]).any()
    return m // STEP[0], n // STEP[1]


@pytest.mark.parametrize("group", GROUPS)
def test_turns_count_from_zero(group: int) -> None:
    s = persistent(group)
    block = s.turn.owner
    assert isinstance(block, Block) and isinstance(s.turn, BlockArgument)
    region = block.parent
    assert region is not None
    branches = [b.last_op for b in region.blocks if b.last_op is not None and block in b.last_op.successors]
    assert all(isinstance(branch, llvm.BrOp) for branch in branches)
    start, after = (branch.operands[s.turn.index] for branch in branches)
    turns = np.arange(5, dtype=np.uint32)
    assert evaluate(start, {}) == 0
    np.testing.assert_array_equal(evaluate(after, {s.turn: turns}), turns + 1)


@pytest.mark.parametrize("group", GROUPS)
def test_numbers_are_turns_of_ctas(group: int) -> None:
    """For each CTA count: (CTA, turn) to number is a bijection on the natural numbers, by c + t * count."""
    s = persistent(group)
    most = MOST_TILES**2 + 2 * MOST_CTAS
    parts: list[Numbers] = []
    for count in range(1, MOST_CTAS + 1):
        cta, turn = np.meshgrid(np.arange(count), np.arange(-(-most // count)))
        parts.append(np.stack([cta.ravel(), turn.ravel(), np.full(cta.size, count)]).astype(np.uint32))
    cta, turn, ctas = np.concatenate(parts, axis=1)
    for root in (s.m, s.n, s.valid):
        number = tile_number(s, root)
        assert leaves(number) == {s.cta, s.turn, s.ctas}
        assert leaves(root, stop=number) <= {number, s.rows, s.columns}
        got = evaluate(number, {s.cta: cta, s.turn: turn, s.ctas: ctas})
        np.testing.assert_array_equal(got, cta + turn * ctas)
        for count in range(1, MOST_CTAS + 1):
            mine = np.sort(got[ctas == count])
            np.testing.assert_array_equal(mine, np.arange(mine.size))


@pytest.mark.parametrize("group", GROUPS)
def test_each_number_is_one_tile(group: int) -> None:
    """In all grids of up to 40 x 40 tiles."""
    s = persistent(group)
    assert tile_number(s, s.m) is tile_number(s, s.n)
    m, n, number, first = all_grids(MOST_TILES)
    row, column = places(s, {tile_number(s, s.m): number, **extents(s, m, n)})
    assert (row < m).all() and (column < n).all()
    visits = np.bincount(first + row * n + column, minlength=number.size)
    assert (visits == 1).all()


@pytest.mark.parametrize("group", GROUPS)
def test_valid_up_to_the_last_tile(group: int) -> None:
    s = persistent(group)
    m, n, number, _ = all_grids(MOST_TILES, past=16)
    np.testing.assert_array_equal(
        evaluate(s.valid, {tile_number(s, s.valid): number, **extents(s, m, n)}), number < m * n
    )


@pytest.mark.parametrize("group", GROUPS)
def test_past_the_last_tile_nothing_is_divided_by_zero(group: int) -> None:
    s = persistent(group)
    m, n, number, _ = all_grids(20, past=2 * MOST_CTAS)
    places(s, {tile_number(s, s.m): number, **extents(s, m, n)})


@pytest.mark.parametrize("group", [1, 2, 3, 4, 8, 16])
def test_launches(group: int) -> None:
    """The whole of it, CTA by CTA and turn by turn: grids up to 12 x 12, launches of few, just enough and many CTAs."""
    s = persistent(group)
    for m in range(1, 13):
        for n in range(1, 13):
            tiles = m * n
            counts = sorted({1, max(1, tiles - 1), tiles, tiles + 1, 132, 148})
            pairs = [
                np.stack([np.repeat(np.arange(c), t), np.tile(np.arange(t), c), np.full(c * t, c)])
                for c in counts
                for t in [-(-tiles // c) + 1]
            ]
            cta, turn, ctas = np.concatenate(pairs, axis=1).astype(np.uint32)
            grid = extents(s, np.full_like(cta, m), np.full_like(cta, n))
            known = {s.cta: cta, s.turn: turn, s.ctas: ctas, **grid}
            valid = evaluate(s.valid, known)
            row, column = places(s, known)
            for count in counts:
                mine = valid & (ctas == count)
                visits = np.bincount(row[mine] * n + column[mine], minlength=tiles)
                assert visits.size == tiles and (visits == 1).all(), (m, n, count)


@pytest.mark.parametrize("group", GROUPS)
def test_as_the_reference_has_it(group: int) -> None:
    """All grids up to 12 x 12, and a sample of larger ones."""
    s = persistent(group)
    m, n, number, _ = all_grids(12, past=3)
    large = np.random.default_rng(group).integers(1, MOST_TILES + 1, (2, 2000))
    m = np.concatenate([m, large[0].astype(np.uint32)])
    n = np.concatenate([n, large[1].astype(np.uint32)])
    number = np.concatenate([number, (np.arange(2000) * 7919 % (large[0] * large[1])).astype(np.uint32)])
    ctas = number % 7 + 1
    known = {s.cta: number % ctas, s.turn: number // ctas, s.ctas: ctas, **extents(s, m, n)}
    valid = evaluate(s.valid, known)
    row, column = places(s, known)
    grids = zip(*(values.tolist() for values in (number, ctas, m, n)), strict=True)
    for place, (tile, count, rows, columns) in enumerate(grids):
        wanted = schedule(tile // count, tile % count, count, rows, columns, group)
        assert wanted[0] == valid[place]
        assert not wanted[0] or wanted[1:] == (row[place], column[place])


@pytest.mark.parametrize(("rows", "columns"), [(1 << 15, 1 << 16), (1 << 20, 1 << 11), (3, 1 << 26)])
@pytest.mark.parametrize("group", [8, 65536])
def test_many_tiles_do_not_overflow(rows: int, columns: int, group: int) -> None:
    s = persistent(group)
    m, n, last = (np.array([x], np.uint32) for x in (rows, columns, rows * columns - 1))
    row, column = places(s, {tile_number(s, s.m): last, s.rows: m * STEP[0], s.columns: n * STEP[1]})
    assert (row[0], column[0]) == (rows - 1, columns - 1)


def test_a_plain_grid_numbers_its_tiles_by_cta() -> None:
    s = Scheduler("tma")
    m, n, number, first = all_grids(MOST_TILES)
    assert leaves(s.m) | leaves(s.n) == {s.cta, s.rows, s.columns}
    row, column = places(s, {s.cta: number, **extents(s, m, n)})
    assert (row < m).all() and (column < n).all()
    assert (np.bincount(first + row * n + column, minlength=number.size) == 1).all()
