"""What a synchronous program means, and which arrays it takes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilec.backend.reference import Array, run, schedule
from tilec.diagnostics import TilecError
from tilec.source import parse_file, parse_text

COPY = """
tile.kernel @copy(%A: !tile.view<MxNxf16>, %D: !tile.view<PxQxf16>) {{
  %i = arith.constant {i} : index
  %j = arith.constant {j} : index
  %zero = arith.constant 0 : index
  %t = tile.alloc : !tile.smem<4x6xf16>
  tile.copy %A[{load}] to %t
  tile.copy %t to %D[{store}]
}}
"""


def numbered(*shape: int) -> Array:
    return np.arange(1, np.prod(shape) + 1).reshape(shape).astype(np.float16)


@pytest.mark.parametrize("i", [-9, -4, -3, -1, 0, 2, 3, 5, 8])
@pytest.mark.parametrize("j", [-7, -6, -2, 0, 1, 7, 11])
def test_a_load_is_zero_outside_the_tensor(i: int, j: int) -> None:
    a, d = numbered(5, 7), np.full((4, 6), np.nan, np.float16)
    run(parse_text(COPY.format(i=i, j=j, load="%i, %j", store="%zero, %zero")), [a, d])
    padded = np.pad(a, 16)
    assert np.array_equal(d, padded[16 + i : 20 + i, 16 + j : 22 + j])


@pytest.mark.parametrize("i", [-9, -4, -3, -1, 0, 2, 3, 5, 8])
@pytest.mark.parametrize("j", [-7, -6, -2, 0, 1, 7, 11])
def test_a_store_writes_nothing_outside_the_tensor(i: int, j: int) -> None:
    a, buffer = numbered(4, 6), np.zeros((37, 39), np.float16)
    d = buffer[16:21, 16:23]
    run(parse_text(COPY.format(i=i, j=j, load="%zero, %zero", store="%i, %j")), [a, d])
    expected = np.zeros((37, 39), np.float16)
    expected[16 + i : 20 + i, 16 + j : 22 + j] = a
    inside = np.zeros_like(expected)
    inside[16:21, 16:23] = expected[16:21, 16:23]
    assert np.array_equal(buffer, inside)


def test_views_have_any_strides(examples: Path) -> None:
    gemm = parse_file(examples / "gemm.tile")
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, (130, 70)).astype(np.float16) for _ in range(2))
    exact = a.astype(np.int64) @ b.astype(np.int64).T
    wide = np.zeros((260, 300), np.float16)
    wide[::2, 17:157:2] = a
    buffer = np.full((200, 300), 7, np.float16)
    d = buffer[3:133, 5:135]
    run(gemm, [wide[::2, 17:157:2], np.asfortranarray(b), d])
    assert np.array_equal(d, exact)
    buffer[3:133, 5:135] = 7
    assert (buffer == 7).all()
    backwards = np.zeros((130, 130), np.float16)
    run(gemm, [a[::-1], b.T.copy().T, backwards[::-1, ::-1].T.T])
    assert np.array_equal(backwards[::-1, ::-1], exact[::-1])


def test_the_order_of_a_view_does_not_change_what_is_computed() -> None:
    text = """
    tile.kernel @f(%A: !tile.view<KxMxf16, order = [0, 1]>, %D: !tile.view<KxMxf16>) {
      tile.grid (%k, %m) over %A step (8, 16) {
        %t = tile.alloc : !tile.smem<8x16xf16, order = [0, 1], swizzle = 16>
        tile.copy %A[%k, %m] to %t
        tile.copy %t to %D[%k, %m]
      }
    }
    """
    a, d = numbered(11, 23), np.zeros((11, 23), np.float16)
    run(parse_text(text), [a, d])
    assert np.array_equal(a, d)


def test_an_accumulator_is_zero_at_each_execution_of_its_alloc() -> None:
    text = """
    tile.kernel @f(%A: !tile.view<Kx16xf16>, %D: !tile.view<Kx8xf32>) {
      %zero = arith.constant 0 : index
      tile.for %k over %A dim 0 step 8 {
        %a = tile.alloc : !tile.smem<8x16xf16>
        %acc = tile.alloc : !tile.acc<8x8xf32>
        tile.copy %A[%k, %zero] to %a
        tile.mma %acc, %a, %a
        tile.copy %acc to %D[%k, %zero]
      }
    }
    """
    a, d = np.ones((24, 16), np.float16), np.zeros((24, 8), np.float32)
    run(parse_text(text), [a, d])
    assert (d == 16).all()


@pytest.mark.parametrize("extent", [0, 1, 4, 9])
def test_tiles_of_a_row(extent: int) -> None:
    fill = "%r = tile.splat 1.0 : !tile.reg<4xf32>\ntile.copy %r to %D[%i]"
    grid = f"tile.kernel @f(%D: !tile.view<Nxf32>) {{\ntile.grid (%i) over %D step (4) {{\n{fill}\n}}\n}}"
    schedule = f"""
    tile.kernel @f(%D: !tile.view<Nxf32>) {{
      %zero = arith.constant 0 : index
      %one = arith.constant 1 : index
      %end = scf.while (%t = %zero) : (index) -> (index) {{
        %valid, %n = tile.schedule %t over %D step (4) group 2
        scf.condition(%valid) %t : index
      }} do {{
      ^bb0(%t: index):
        %valid, %i = tile.schedule %t over %D step (4) group 2
        {fill}
        %next = arith.addi %t, %one : index
        scf.yield %next : index
      }}
    }}
    """
    for text in (grid, schedule):
        buffer = np.zeros(extent + 8, np.float32)
        run(parse_text(text), [buffer[4 : extent + 4]])
        assert np.array_equal(buffer, np.pad(np.ones(extent), 4))


def test_a_register_tile_is_a_value() -> None:
    text = """
    tile.kernel @f(%A: !tile.view<Nxf32>, %D: !tile.view<Nxf32>) {
      %i = arith.constant 0 : index
      %t = tile.alloc : !tile.smem<4xf32>
      tile.copy %A[%i] to %t
      %r = tile.load %t : !tile.reg<4xf32>
      %other = tile.splat 9.0 : !tile.reg<4xf32>
      tile.store %other to %t
      tile.copy %r to %D[%i]
    }
    """
    a, d = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    run(parse_text(text), [a, d])
    assert np.array_equal(d, a)


def test_loops_carry_values() -> None:
    text = """
    tile.kernel @f(%A: !tile.view<Kxf32>, %D: !tile.view<4xf32>) {
      %i = arith.constant 0 : index
      %t = tile.alloc : !tile.smem<4xf32>
      %zero = tile.splat 0.0 : !tile.reg<4xf32>
      %sum, %last = tile.for %k over %A dim 0 step 4 iter_args(%s = %zero, %l = %i) {
        tile.copy %A[%k] to %t
        %r = tile.load %t : !tile.reg<4xf32>
        %next = tile.add %s, %r
        tile.yield %next, %k : !tile.reg<4xf32>, index
      }
      tile.copy %sum to %D[%i]
    }
    """
    for extent in (0, 3, 4, 11):
        a, d = np.arange(extent, dtype=np.float32), np.full(4, np.nan, np.float32)
        run(parse_text(text), [a, d])
        assert np.array_equal(d, np.pad(a, (0, -extent % 4)).reshape(-1, 4).sum(axis=0))


def test_structured_control_flow() -> None:
    # Collatz: D[i] = steps from A's extent, found by a loop that does not know its end.
    text = """
    tile.kernel @f(%A: !tile.view<Nxf32>, %D: !tile.view<Sxf32>) {
      %zero = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %c3 = arith.constant 3 : index
      %n = tile.dim %A, 0
      %one = tile.splat 1.0 : !tile.reg<1xf32>
      %end, %steps = scf.while (%x = %n, %s = %zero) : (index, index) -> (index, index) {
        %more = arith.cmpi ne, %x, %c1 : index
        scf.condition(%more) %x, %s : index, index
      } do {
      ^bb0(%x: index, %s: index):
        %rest = arith.remui %x, %c2 : index
        %odd = arith.index_cast %rest : index to i1
        %y = scf.if %odd -> (index) {
          %t = arith.muli %x, %c3 : index
          %u = arith.addi %t, %c1 : index
          scf.yield %u : index
        } else {
          %h = arith.divui %x, %c2 : index
          scf.yield %h : index
        }
        %t = arith.addi %s, %c1 : index
        scf.yield %y, %t : index, index
      }
      scf.for %i = %zero to %steps step %c1 {
        tile.copy %one to %D[%i]
      }
    }
    """
    d = np.zeros(30, np.float32)
    run(parse_text(text), [np.zeros(6, np.float32), d])
    assert d.sum() == 8  # 6 3 10 5 16 8 4 2 1


BINARY = {
    "addi": (250, 10, 4), "subi": (3, 5, 254), "muli": (100, 3, 44), "divui": (250, 7, 35), "remui": (250, 7, 5),
    "ceildivui": (250, 7, 36), "divsi": (-7 % 256, 2, -3 % 256), "remsi": (-7 % 256, 2, -1 % 256),
    "floordivsi": (-7 % 256, 2, -4 % 256), "ceildivsi": (-7 % 256, 2, -3 % 256), "andi": (12, 10, 8),
    "ori": (12, 10, 14), "xori": (12, 10, 6), "minui": (200, 100, 100), "maxui": (200, 100, 200), "minsi": (200, 100, 200),
    "maxsi": (200, 100, 100), "shli": (129, 1, 2), "shrui": (200, 3, 25), "shrsi": (200, 3, 249),
}  # fmt: skip
COMPARE = {
    "eq": (False, True, False), "ne": (True, False, True), "ult": (False, False, True), "ule": (False, True, True),
    "ugt": (True, False, False), "uge": (True, True, False), "slt": (True, False, False), "sle": (True, True, False),
    "sgt": (False, False, True), "sge": (False, True, True),
}  # fmt: skip


def evaluate(lines: str) -> int:
    """The i8 value %r, as the number of elements written."""
    text = f"""
    tile.kernel @f(%D: !tile.view<300xf16>) {{
      %zero = arith.constant 0 : index
      %step = arith.constant 1 : index
      %one = tile.splat 1.0 : !tile.reg<1xf16>
      {lines}
      %wide = arith.extui %r : i8 to i32
      %n = arith.index_cast %wide : i32 to index
      scf.for %i = %zero to %n step %step {{
        tile.copy %one to %D[%i]
      }}
    }}
    """
    d = np.zeros(300, np.float16)
    run(parse_text(text), [d])
    return int(d.sum())


@pytest.mark.parametrize("op", BINARY)
def test_integer_arithmetic_wraps(op: str) -> None:
    a, b, expected = BINARY[op]
    assert (
        evaluate(f"%a = arith.constant {a} : i8\n%b = arith.constant {b} : i8\n%r = arith.{op} %a, %b : i8") == expected
    )


@pytest.mark.parametrize("predicate", COMPARE)
def test_comparisons_know_signs(predicate: str) -> None:
    for (a, b), expected in zip(((200, 100), (100, 100), (100, 200)), COMPARE[predicate], strict=True):
        value = evaluate(
            f"%a = arith.constant {a} : i8\n%b = arith.constant {b} : i8\n"
            f"%c = arith.cmpi {predicate}, %a, %b : i8\n%r = arith.select %c, %a, %b : i8"
        )
        assert value == (a if expected else b)


def test_integer_casts() -> None:
    extended = "%a = arith.constant 200 : i8\n%b = arith.extsi %a : i8 to i32\n%c = arith.constant 3 : i32\n"
    assert evaluate(extended + "%d = arith.shrsi %b, %c : i32\n%r = arith.trunci %d : i32 to i8") == 249
    unsigned = "%a = arith.constant 200 : i8\n%b = arith.extui %a : i8 to i32\n%c = arith.constant 3 : i32\n"
    assert evaluate(unsigned + "%d = arith.shrsi %b, %c : i32\n%r = arith.trunci %d : i32 to i8") == 25


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("%a = arith.constant 0 : i8\n%r = arith.divui %a, %a : i8", "division by zero"),
        ("%a = arith.constant 8 : i8\n%r = arith.shli %a, %a : i8", "a shift of 8 bits by 8"),
        ("%a = arith.constant 1.0 : f32\n%r = arith.fptoui %a : f32 to i8", "a constant of type f32"),
    ],
)
def test_what_arithmetic_refuses(lines: str, message: str) -> None:
    with pytest.raises(TilecError, match=message):
        evaluate(lines)


tile_counts = st.integers(0, 12)
groups = st.integers(1, 9)


@given(tile_counts, tile_counts, st.integers(1, 20), groups)
def test_every_tile_is_visited_exactly_once(tiles_m: int, tiles_n: int, ctas: int, group: int) -> None:
    visited: Counter[tuple[int, int]] = Counter()
    for cta in range(ctas):
        turn = 0
        while (found := schedule(turn, cta, ctas, tiles_m, tiles_n, group))[0]:
            visited[found[1:]] += 1
            turn += 1
        assert not schedule(turn + 1, cta, ctas, tiles_m, tiles_n, group)[0]
    assert visited == Counter((m, n) for m in range(tiles_m) for n in range(tiles_n))


@given(tile_counts, tile_counts, groups)
def test_tiles_are_numbered_in_groups_along_m(tiles_m: int, tiles_n: int, group: int) -> None:
    order = [
        (m, n)
        for first in range(0, tiles_m, group)
        for n in range(tiles_n)
        for m in range(first, min(first + group, tiles_m))
    ]
    assert [schedule(turn, 0, 1, tiles_m, tiles_n, group) for turn in range(len(order))] == [(True, *t) for t in order]


def arrays(a: tuple[int, ...], b: tuple[int, ...], d: tuple[int, ...]) -> list[Array]:
    return [np.zeros(shape, np.float16) for shape in (a, b, d)]


@pytest.mark.parametrize(
    ("given", "message", "column"),
    [
        (arrays((8, 4), (8, 4), (8, 8))[:2], "@gemm takes 3 arrays, not 2", 1),
        (arrays((8, 4), (8, 5), (8, 8)), "K is 4 in dimension 1 of %A, but 5 in dimension 1 of %B", 44),
        (arrays((8, 4), (8, 4), (9, 8)), "M is 8 in dimension 0 of %A, but 9 in dimension 0 of %D", 69),
        (arrays((8, 4), (8, 4), (8,)), "%D has rank 2, its array has rank 1", 69),
        (
            [np.zeros((8, 4), np.float32), *arrays((8, 4), (8, 4), (8, 8))[1:]],
            "%A is f16: it takes float16 arrays, not float32",
            19,
        ),
    ],
)
def test_arrays_that_do_not_fit(given: list[Array], message: str, column: int, examples: Path) -> None:
    path = examples / "gemm.tile"
    with pytest.raises(TilecError) as error:
        run(parse_file(path), given)
    assert error.value.diagnostic.message == message
    assert str(error.value.diagnostic.location) == f"{path}:2:{column}"


def test_a_declared_extent_binds() -> None:
    module = parse_text("tile.kernel @f(%A: !tile.view<8x?xf16>) {\n}")
    run(module, [np.zeros((8, 3), np.float16)])
    with pytest.raises(TilecError, match="dimension 0 of %A is 8, its array has 9"):
        run(module, [np.zeros((9, 3), np.float16)])


def test_bf16_arrays_hold_bf16_numbers() -> None:
    text = "tile.kernel @f(%A: !tile.view<Nxbf16>, %D: !tile.view<Nxbf16>) {\n  %i = arith.constant 0 : index\n"
    text += "  %r = tile.splat 1.0 : !tile.reg<4xbf16>\n  tile.copy %r to %D[%i]\n}"
    tenth = np.full(4, 0.1, np.float32)
    with pytest.raises(TilecError, match="%A is bf16, but its array holds values that are not"):
        run(parse_text(text), [tenth, np.zeros(4, np.float32)])
    run(parse_text(text), [np.full(4, np.nan, np.float32), tenth])  # what an output held does not matter
    assert (tenth == 1).all()


def test_an_output_must_be_writable(examples: Path) -> None:
    a, b, d = arrays((8, 4), (8, 4), (8, 8))
    a.flags.writeable = False
    run(parse_file(examples / "gemm.tile"), [a, b, d])
    d.flags.writeable = False
    with pytest.raises(TilecError, match="%D is written, but its array is read-only"):
        run(parse_file(examples / "gemm.tile"), [a, b, d])


def test_one_kernel_is_chosen() -> None:
    fill = "  %i = arith.constant 0 : index\n  %r = tile.splat {} : !tile.reg<4xf32>\n  tile.copy %r to %D[%i]\n}}\n"
    one = "tile.kernel @one(%D: !tile.view<Nxf32>) {\n" + fill.format("1.0")
    two = "tile.kernel @two(%D: !tile.view<Nxf32>) {\n" + fill.format("2.0")
    d = np.zeros(4, np.float32)
    run(parse_text(one + two), [d], kernel="two")
    assert (d == 2).all()
    with pytest.raises(TilecError, match="several kernels: @one, @two"):
        run(parse_text(one + two), [d])
    with pytest.raises(TilecError, match="no kernel @three in this module"):
        run(parse_text(one + two), [d], kernel="three")
    with pytest.raises(TilecError, match="no kernel in this module"):
        run(parse_text("builtin.module {\n}"), [d])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "%c = arith.constant 0 : index\n%v, %i = tile.schedule %c over %D step (4) group 1\n"
            "tile.grid (%j) over %D step (4) {\n}",
            "a kernel has one tile.grid",
        ),
        ("%x = builtin.unrealized_conversion_cast %D : !tile.view<Nxf32> to i32", "cannot be executed here"),
        ("%c = arith.constant 0 : index\nscf.for %i = %c to %c step %c {\n}", "the loop's step is 0"),
    ],
)
def test_what_cannot_be_executed(body: str, message: str) -> None:
    with pytest.raises(TilecError, match=message):
        run(parse_text(f"tile.kernel @f(%D: !tile.view<Nxf32>) {{\n{body}\n}}"), [np.zeros(4, np.float32)])


def test_shared_memory_is_poison_until_it_is_written() -> None:
    text = """
    tile.kernel @f(%D: !tile.view<Nxf32>) {
      %i = arith.constant 0 : index
      %t = tile.alloc : !tile.smem<4xf32>
      tile.copy %t to %D[%i]
    }
    """
    d = np.zeros(4, np.float32)
    run(parse_text(text), [d])
    assert np.isnan(d).all()


# Shapes and accumulation that others got wrong


@pytest.mark.parametrize("n", range(8, 257, 8))
@pytest.mark.parametrize("order", ["", ", order = [0, 1]"])
def test_every_width_of_an_accumulator(n: int, order: str) -> None:
    text = f"""
    tile.kernel @f(%A: !tile.view<64x32xbf16>, %B: !tile.view<Nx32xbf16{order}>, %D: !tile.view<64xNxf32>) {{
      tile.grid (%m, %n) over %D step (64, {n}) {{
        %a = tile.alloc : !tile.smem<64x32xbf16>
        %b = tile.alloc : !tile.smem<{n}x32xbf16{order}>
        %acc = tile.alloc : !tile.acc<64x{n}xf32>
        tile.for %k over %A dim 1 step 32 {{
          tile.copy %A[%m, %k] to %a
          tile.copy %B[%n, %k] to %b
          tile.mma %acc, %a, %b
        }}
        tile.copy %acc to %D[%m, %n]
      }}
    }}
    """
    rng = np.random.default_rng(n)
    a, b = rng.integers(-8, 9, (64, 32)).astype(np.float32), rng.integers(-8, 9, (2 * n - 3, 32)).astype(np.float32)
    d = np.zeros((64, len(b)), np.float32)
    run(parse_text(text), [a, np.asfortranarray(b) if order else b, d])
    assert np.array_equal(d, a @ b.T)


def ones(k: int, block_k: int) -> Array:
    text = f"""
    tile.kernel @f(%A: !tile.view<MxKxbf16>, %B: !tile.view<NxKxbf16>, %D: !tile.view<MxNxf32>) {{
      tile.grid (%m, %n) over %D step (64, 64) {{
        %a = tile.alloc : !tile.smem<64x{block_k}xbf16>
        %b = tile.alloc : !tile.smem<64x{block_k}xbf16>
        %acc = tile.alloc : !tile.acc<64x64xf32>
        tile.for %k over %A dim 1 step {block_k} {{
          tile.copy %A[%m, %k] to %a
          tile.copy %B[%n, %k] to %b
          tile.mma %acc, %a, %b
        }}
        tile.copy %acc to %D[%m, %n]
      }}
    }}
    """
    d = np.zeros((64, 64), np.float32)
    run(parse_text(text), [np.ones((64, k), np.float32), np.ones((64, k), np.float32), d])
    return d


@pytest.mark.parametrize(("k", "block_k"), [(24, 16), (24, 32), (64, 64), (128, 64), (128, 16), (8, 64)])
def test_no_part_of_k_is_dropped_or_counted_twice(k: int, block_k: int) -> None:
    assert (ones(k, block_k) == k).all()


@pytest.mark.parametrize("block_k", [24, 40, 56])
def test_a_k_tile_that_no_instruction_divides_is_refused(block_k: int) -> None:
    with pytest.raises(TilecError, match=f"K = {block_k} is not a multiple of 16, the K of one bf16 instruction"):
        ones(24, block_k)


def test_asynchronous_kernels_belong_to_the_simulator(examples: Path) -> None:
    with pytest.raises(TilecError) as error:
        run(parse_file(examples / "step4_tma.tile"), [np.zeros((8, 8), np.float16) for _ in range(3)])
    assert error.value.diagnostic.message == (
        "tile.mbarrier.init is asynchronous: the reference executes synchronous kernels"
    )
    assert error.value.diagnostic.hint == "tilec.backend.simulator executes both"
