"""Every legal pipeline of the passes is proved, and computes what the program says: the examples, and all of `gemm.tile`.

A proof is for every size. The simulations beside it are on shapes where protocols break: no K tile, fewer K tiles than
stages, odd and even numbers of them, one output tile, fewer and more tiles than CTAs, edges that hang over. The inputs are
whole numbers, whose sums are exact: results are compared with those of the synchronous program to the last bit.
"""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path

import pytest
from pipelined import Meaning, compiled
from xdsl.dialects.builtin import ModuleOp

from tilec.backend.protocol import check
from tilec.diagnostics import TilecError
from tilec.driver import find_kernel
from tilec.pass_error import PassError
from tilec.source import parse_file, parse_text

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

GROUPS = (1, 2, 8, 16)
LAUNCHES = (1, 7, 100, 132, 148)
"""CTAs: one, few, and as many as chips have multiprocessors."""
K_STEP = 64


@dataclass(frozen=True)
class Tiling:
    """`gemm.tile` with square output tiles."""

    tile: int
    retile: str
    depths: range
    """Of rings, all that fit."""


TILINGS = (Tiling(128, "", range(1, 7)), Tiling(64, "retile(64,64,64)", range(1, 9)))


@dataclass(frozen=True)
class Row:
    """Who loads, and how far loads run ahead; each row ends in a plain grid or in persistent CTAs."""

    tiling: Tiling
    first: str
    stages: int = 0
    """0: no ring."""
    lag: int = 0

    def line(self, last: str = "") -> str:
        ring = f"pipeline({self.stages}, lag={self.lag})" if self.stages else ""
        return ",".join(one for one in (self.tiling.retile, self.first, ring, last) if one)

    def __str__(self) -> str:
        return self.line()


def _rows(*firsts: str, tilings: tuple[Tiling, ...] = TILINGS) -> Iterator[Row]:
    for tiling, first in product(tilings, firsts):
        yield Row(tiling, first)
        yield from (Row(tiling, first, stages, lag) for stages in tiling.depths for lag in (0, 1) if lag < stages)


ROWS = [*_rows("tma", "threads")]
STAGED = [*_rows("tma(staging=1)", tilings=TILINGS[:1])]
"""An epilogue of two chunks through one slot. Where the epilogue has one chunk, or two slots, staging changes nothing."""


@cache
def gemm() -> Meaning:
    return Meaning(parse_file(EXAMPLES / "gemm.tile"))


def prove(module: ModuleOp, what: str) -> None:
    verdict = check(module)
    assert (verdict.status, verdict.diagnostic, verdict.assumptions) == ("proved", None, ()), f"{what}: {verdict}"


def extents(tiling: Tiling, rows: int, columns: int, k_tiles: int, tail: int = 24) -> dict[str, int]:
    """So many tiles, the last ones `tail` elements short (a multiple of 8: TMA's 16-byte grid)."""
    sizes = {"M": rows * tiling.tile, "N": columns * tiling.tile, "K": k_tiles * K_STEP}
    return {name: max(size - tail, 0) for name, size in sizes.items()}


def k_tiles(row: Row) -> list[int]:
    """None, one, fewer than the stages, as many, more: odd and even."""
    stages = max(row.stages, 1)
    return sorted({0, 1, 2, stages - 1, stages, stages + 1, 2 * stages + 1, 2 * stages + 2})


@pytest.mark.parametrize("row", [*ROWS, *STAGED], ids=str)
def test_a_plain_grid(row: Row) -> None:
    module = compiled(gemm().program, row.line())
    prove(module, str(row))
    for count in k_tiles(row):
        gemm().check(module, extents(row.tiling, 1, 2, count), str(row))
    gemm().check(module, extents(row.tiling, 1, 1, 3, tail=0), str(row))
    gemm().check(module, extents(row.tiling, 2, 3, 2), str(row))


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_persistent(row: Row) -> None:
    """Each group is proved and launched; two of the four on many tiles. Over the rows all launches come round."""
    turn = ROWS.index(row)
    for place, group in enumerate(GROUPS):
        line = row.line(f"persistent({group})")
        module = compiled(gemm().program, line)
        prove(module, line)
        some, many = LAUNCHES[(turn + place) % 5], LAUNCHES[(turn + place + 2) % 5]
        if (turn + place) % 2:
            # 156 tiles: more than any launch has CTAs.
            gemm().check(module, extents(row.tiling, 12, 13, (turn // 2 + place) % 3), line, ctas=many)
        gemm().check(module, extents(row.tiling, 2, 3, max(row.stages, 1) + 1), line, ctas=some)
        gemm().check(module, extents(row.tiling, 1, 1, 2 + place, tail=0), line, ctas=some)


@pytest.mark.parametrize("row", [*ROWS, *STAGED], ids=str)
def test_from_tile_to_tile(row: Row) -> None:
    """Stages and phases go on: every number of K tiles, by one CTA that visits all tiles and by CTAs that visit some."""
    module = compiled(gemm().program, row.line("persistent"))
    if row in STAGED:
        prove(module, str(row))
    for count in k_tiles(row):
        gemm().check(module, extents(row.tiling, 2, 2, count), str(row), ctas=1 + count % 2)


@pytest.mark.parametrize("ctas", LAUNCHES)
def test_every_launch(ctas: int) -> None:
    """More tiles than CTAs, as many, fewer, and one."""
    tiling = TILINGS[1]
    line = f"{tiling.retile},tma,pipeline(3),persistent"
    module = compiled(gemm().program, line)
    for rows, columns, counts in ((13, 12, (0, 1, 2)), (1, ctas, (0, 1, 4)), (3, 2, range(7)), (1, 1, range(7))):
        for count in counts:
            gemm().check(module, extents(tiling, rows, columns, count), line, ctas=ctas)


@pytest.mark.parametrize("last", ["", "pipeline(1)", "pipeline(3, lag=0)", "pipeline(4, lag=1)"])
@pytest.mark.parametrize("first", ["tma", "threads"])
def test_either_target(first: str, last: str) -> None:
    """Down to L1 a target is a word in the kernel: the proof for one is the proof for the other."""
    line = ",".join(one for one in (first, last, "persistent") if one)
    unnamed = str(compiled(gemm().program, line))
    for target in ("sm_90a", "sm_100a"):
        module = compiled(gemm().program, f"target({target}),{line}")
        prove(module, f"{line} for {target}")
        for count in (0, 1, 5):
            gemm().check(module, extents(TILINGS[0], 2, 2, count), f"{line} for {target}", ctas=2)
        kernel = find_kernel(module)
        assert kernel.target is not None and kernel.target.data == target
        del kernel.attributes["target"]
        assert str(module) == unnamed


def test_deeper_rings_do_not_fit() -> None:
    """So that the rows are all that there are: 7 stages of 128x128x64 tiles are too many, a lag is less than the stages."""
    for first in ("tma", "threads", "tma(staging=1)"):
        with pytest.raises(PassError, match="7 stages need"):
            compiled(gemm().program, f"{first},pipeline(7)")
    with pytest.raises(TilecError, match="lag is at least 0 and less than stages"):
        compiled(gemm().program, "tma,pipeline(1, lag=1)")


# The examples

BY_HAND = ("step4_tma", "step5_pipeline", "step6_persistent")


@pytest.mark.parametrize("name", BY_HAND)
def test_by_hand(name: str) -> None:
    module = parse_file(EXAMPLES / f"{name}.tile")
    prove(module, name)
    for count in range(7):
        for rows, columns, ctas in ((1, 1, 1), (2, 2, 1), (2, 3, 4)):
            gemm().check(module, extents(TILINGS[0], rows, columns, count), name, ctas=ctas)


@pytest.mark.parametrize("last", ["", "persistent"])
@pytest.mark.parametrize("ring", ["", *(f"pipeline({stages}, lag={lag})" for stages in (2, 3, 5) for lag in (0, 1))])
@pytest.mark.parametrize("first", ["tma", "threads", "tma(staging=1)"])
def test_bias_relu(first: str, ring: str, last: str) -> None:
    line = ",".join(one for one in (first, ring, last) if one)
    module = compiled(_bias_relu().program, line)
    prove(module, f"bias_relu by {line}")
    for count in (0, 1, 2, 5):
        _bias_relu().check(module, extents(TILINGS[0], 2, 2, count), f"bias_relu by {line}", ctas=1 if last else None)


@cache
def _bias_relu() -> Meaning:
    return Meaning(parse_file(EXAMPLES / "bias_relu.tile"))


def test_the_python_example() -> None:
    function = runpy.run_path(str(EXAMPLES / "gemm.py"))["gemm"]
    program = parse_text(function.kernel("f16", "f16").ir())
    line = "tma,pipeline(2),persistent"
    module = compiled(program, line)
    prove(module, f"gemm.py by {line}")
    Meaning(program).check(module, extents(TILINGS[0], 2, 2, 3), "gemm.py", ctas=1)
