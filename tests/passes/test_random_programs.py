"""Random loop bodies: whatever the order of loads, MMAs, reads and writes, passes keep the meaning and the ordering, or the simulator says so."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from test_equivalence import Case
from tile_programs import Program

LEFT, RIGHT = ("a", "a2"), ("b", "b2")
VIEWS = {"a": "A[%m, %k]", "a2": "C[%m, %k]", "b": "B[%n, %k]", "b2": "B[%n, %k]"}
SHAPES = {"a": "64x16xf16", "a2": "64x16xf16", "b": "32x16xf16", "b2": "32x16xf16"}

left, right = st.sampled_from(LEFT), st.sampled_from(RIGHT)
statements = st.one_of(
    st.tuples(st.just("copy"), st.sampled_from(LEFT + RIGHT)),
    st.tuples(st.just("mma"), left, right),
    st.tuples(st.just("load"), left),
    st.tuples(st.just("store"), left),
    st.tuples(st.just("load acc")),
    st.tuples(st.just("copy out"), left),
    st.tuples(st.just("copy acc out")),
)


def program(body: list[tuple[str, ...]], behind: list[tuple[str, ...]], *, fill_inside: bool) -> Program:
    """`body` in a loop over K, `behind` after it. Tiles are filled before they are read, in the loop or before it."""
    filled: set[str] = set()
    missing: list[str] = []
    for kind, *tiles in body:
        if kind in ("copy", "store"):
            filled.add(tiles[0])
        else:
            missing += [tile for tile in tiles if tile not in (*filled, *missing)]
    missing += sorted({tile for _, *tiles in behind for tile in tiles} - filled - set(missing))
    used = sorted({tile for _, *tiles in (*body, *behind) for tile in tiles})
    before = missing if not fill_inside else []
    read_behind = {tile for kind, *tiles in behind for tile in tiles if kind not in ("copy", "store")}
    before += [tile for tile in sorted(read_behind) if tile not in before]  # no iteration may run
    first = [("copy", tile) for tile in missing] if fill_inside else []
    numbers = iter(range(1, 1000))
    x, y = "x", "y"

    def emit(statement: tuple[str, ...], k: str) -> list[str]:
        nonlocal x, y
        kind, *tiles = statement
        i = next(numbers)
        match kind:
            case "copy":
                return [f"tile.copy %{VIEWS[tiles[0]].replace('%k', k)} to %{tiles[0]}"]
            case "mma":
                return [f"tile.mma %acc, %{tiles[0]}, %{tiles[1]}"]
            case "load":
                old, x = x, f"x{i}"
                return [f"%r{i} = tile.load %{tiles[0]} : !tile.reg<64x16xf16>", f"%{x} = tile.sub %r{i}, %{old}"]
            case "store":
                return [f"tile.store %{x} to %{tiles[0]}"]
            case "load acc":
                old, y = y, f"y{i}"
                return [f"%r{i} = tile.load %acc : !tile.reg<64x32xf32>", f"%{y} = tile.sub %r{i}, %{old}"]
            case "copy out":
                return [f"tile.copy %{tiles[0]} to %E[%m, {k}]"]
            case _:
                return ["tile.copy %acc to %F[%m, %n]"]

    inits = [line for tile in before for line in emit(("copy", tile), "%c0")]
    loop = [line for statement in (*first, *body) for line in emit(statement, "%k")]
    loop.append(f"tile.yield %{x}, %{y} : !tile.reg<64x16xf16>, !tile.reg<64x32xf32>")
    x, y = "xl", "yl"
    tail = [line for statement in behind for line in emit(statement, "%c0")]
    newline = "\n    "
    text = f"""
tile.kernel @f(%A: !tile.view<MxKxf16>, %B: !tile.view<NxKxf16>, %C: !tile.view<MxKxf16>, %E: !tile.view<MxPxf16>,
               %F: !tile.view<MxNxf16>, %G: !tile.view<MxNxf32>, %H: !tile.view<Mx16xf16>) {{
  tile.grid (%m, %n) over %G step (64, 32) {{
    {newline.join(f"%{tile} = tile.alloc : !tile.smem<{SHAPES[tile]}>" for tile in used)}
    %acc = tile.alloc : !tile.acc<64x32xf32>
    %c0 = arith.constant 0 : index
    %x0 = tile.splat 1.0 : !tile.reg<64x16xf16>
    %y0 = tile.splat 0.0 : !tile.reg<64x32xf32>
    {newline.join(inits)}
    %xl, %yl = tile.for %k over %A dim 1 step 16 iter_args(%x = %x0, %y = %y0) {{
      {(newline + "  ").join(loop)}
    }}
    {newline.join(tail)}
    tile.copy %{y} to %G[%m, %n]
    tile.copy %{x} to %H[%m, %c0]
  }}
}}"""
    return Program("random", text, outputs=4)


@given(
    body=st.lists(statements, min_size=1, max_size=7),
    behind=st.lists(statements, max_size=3),
    fill_inside=st.booleans(),
    first=st.sampled_from(["tma(0)", "tma(1500)", "threads"]),
    ring=st.sampled_from(["", ",pipeline(1)", ",pipeline(2)", ",pipeline(3)", ",pipeline(4, lag=2)"]),
    tiles=st.sampled_from([0, 1, 3]),
)
@settings(max_examples=60)
def test_random_programs(
    body: list[tuple[str, ...]],
    behind: list[tuple[str, ...]],
    fill_inside: bool,
    first: str,
    ring: str,
    tiles: int,
) -> None:
    one = program(body, behind, fill_inside=fill_inside)
    loop = one.text[one.text.index("tile.for") : one.text.index("tile.yield")]
    if not any(f"tile.copy %{view}" in loop for view in "ABC"):
        ring = ""  # nothing to run ahead
    # One column of tiles: every tile of the grid that writes to E would write the same elements.
    case = Case(one, {"M": 128, "N": 32, "K": 16 * tiles, "P": 64})
    with np.errstate(all="ignore"):
        case.check(f"{first}{ring}")
        case.check(f"{first}{ring},persistent", ctas=1)
