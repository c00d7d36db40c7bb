"""Random programs under random pipelines: what passes make is proved, and what is proved runs without a fault and is right.

The programs are those of `tests/passes/test_random_programs.py`, over a column of output tiles: a second column would store
the same elements of two outputs. None of them reads a tile that nothing has written, not even where there is no K tile: tiles
that are read are filled before the loop, or at the top of its body. So each of them has a proof.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pipelined import Meaning, compiled

from tilec.backend.protocol import check
from tilec.source import parse_text

sys.path.append(str(Path(__file__).parents[1]))
sys.path.append(str(Path(__file__).parents[1] / "passes"))
from test_random_programs import program, statements

firsts = st.sampled_from(["tma(0)", "tma(1500)", "tma", "tma(0, staging=1)", "threads"])
rings = st.sampled_from(
    ["", "pipeline(1)", "pipeline(2)", "pipeline(2, lag=1)", "pipeline(3)", "pipeline(4, lag=2)", "pipeline(5)"]
)
ends = st.sampled_from(["", "persistent", "persistent(1)"])

GRID = "tile.grid (%m, %n) over %G step (64, 32) {"
ROWS = "tile.grid (%m) over %V step (64) {\n    %n = arith.constant 0 : index"


def column(text: str) -> str:
    """The same program with a grid of one dimension."""
    assert GRID in text
    return text.replace(GRID, ROWS).replace("@f(", "@f(%V: !tile.view<Mxf32>, ")


shapes = st.fixed_dictionaries(
    {
        "M": st.integers(1, 200),  # up to four tiles
        "N": st.sampled_from([8, 24, 32]),  # one tile
        "K": st.one_of(st.just(0), st.integers(0, 12).map(lambda eights: 8 * eights)),
        "P": st.sampled_from([16, 40, 96]),
    }
)


@example(  # two stores to one place by threads, the first behind a meeting that is not between them
    body=[("store", "a"), ("copy out", "a"), ("copy out", "a")],
    behind=[],
    fill_inside=False,
    first="tma(0)",
    ring="",
    end="",
    sizes=[{"M": 72, "N": 24, "K": 40, "P": 40}],
    ctas=1,
)
@given(
    body=st.lists(statements, min_size=1, max_size=7),
    behind=st.lists(statements, max_size=3),
    fill_inside=st.booleans(),
    first=firsts,
    ring=rings,
    end=ends,
    sizes=st.lists(shapes, min_size=2, max_size=2),
    ctas=st.integers(1, 3),
)
@settings(max_examples=250)
def test_random_protocols(
    body: list[tuple[str, ...]],
    behind: list[tuple[str, ...]],
    fill_inside: bool,
    first: str,
    ring: str,
    end: str,
    sizes: list[dict[str, int]],
    ctas: int,
) -> None:
    one = program(body, behind, fill_inside=fill_inside)
    loop = one.text[one.text.index("tile.for") : one.text.index("tile.yield")]
    if not any(f"tile.copy %{view}" in loop for view in "ABC"):
        ring = ""  # nothing to run ahead
    line = ",".join(part for part in (first, ring, end) if part)
    text = column(one.text)
    meaning = Meaning(parse_text(text))
    module = compiled(meaning.program, line)
    verdict = check(module)
    assert verdict.status == "proved", f"{line}: {verdict}\n{text}"
    with np.errstate(all="ignore"):
        for shape in (*sizes, {**sizes[0], "K": 0}):
            meaning.check(module, shape, line, ctas=ctas if end else None)
