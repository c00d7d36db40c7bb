"""Tile sizes, layouts, and programs other than the plain GEMM, with integers, so that every result is exact."""

from __future__ import annotations

import pytest
from harness import EXAMPLES, Buffer, Problem, finish, kernel, torch

import tilec

SCHEDULE = "tma,pipeline(2),persistent"
COLUMNS = {"transposed": True}


def exact(got: object, want: object) -> None:
    wrong = int((got != want).sum())  # pyright: ignore
    assert wrong == 0, f"{wrong} elements differ"


@pytest.mark.parametrize("n", range(8, 257, 8))
def test_every_width_of_a_tile(n: int) -> None:
    """Both layouts of B, several tiles of columns, a tail."""
    widened = kernel(f"retile(64,{n},64),{SCHEDULE}")
    for b in (None, COLUMNS):
        Problem(136, 8 * ((2 * n + 16) // 8), 200, integers=True, b=b).run(widened)


@pytest.mark.parametrize("k", [16, 32, 48, 64, 80, 96, 112, 128])
@pytest.mark.parametrize("n", [64, 128])
def test_every_depth_of_a_tile(k: int, n: int) -> None:
    """K tiles of one swizzle row, of a part of one and of several, in both layouts of A."""
    deepened = kernel(f"retile(128,{n},{k}),{SCHEDULE}")
    for a in (None, COLUMNS):
        Problem(264, 200, 2 * k + 8, integers=True, a=a).run(deepened)


@pytest.mark.parametrize(("m", "n"), [(64, 256), (128, 256), (256, 64), (256, 128)])
@pytest.mark.parametrize("schedule", ["tma", SCHEDULE, "tma,pipeline(3),persistent"])
def test_heights_of_a_tile(m: int, n: int, schedule: str) -> None:
    tall = kernel(f"retile({m},{n},64),{schedule}")
    for a in (None, COLUMNS):
        for b in (None, COLUMNS):
            Problem(600, 520, 328, integers=True, a=a, b=b).run(tall)


GEMM = (EXAMPLES / "gemm.tile").read_text()
BIAS = GEMM.replace("%D:", "%bias: !tile.view<Nxf32>, %D:").replace(
    "    tile.copy %acc to %D[%m, %n]\n",
    """    %row = tile.alloc : !tile.smem<128xf32>
    tile.copy %bias[%n] to %row
    %r = tile.load %acc : !tile.reg<128x128xf32>
    %one_row = tile.load %row : !tile.reg<128xf32>
    %rows = tile.broadcast %one_row : !tile.reg<128x128xf32>
    %sum = tile.add %r, %rows
    %zeros = tile.splat 0.0 : !tile.reg<128x128xf32>
    %positive = tile.max %sum, %zeros
    tile.copy %positive to %D[%m, %n]
""",
)


@pytest.mark.parametrize("schedule", ["threads", "tma", SCHEDULE, "tma(min_bytes=0),pipeline(2),persistent"])
def test_bias_and_relu(schedule: str) -> None:
    fused = tilec.compile(BIAS, pipeline=schedule)
    for m, n, k in ((128, 128, 64), (200, 136, 72), (520, 392, 0)):
        case = Problem(m, n, k, integers=True)
        bias = torch.randint(-9, 10, (n,), device="cuda").float()
        d = Buffer(m, n, "f16")
        fused(case.a.tensor, case.b.tensor, bias, d.tensor)
        finish()
        exact(d.tensor, (case.want + bias).clamp_min(0).half())
        d.check_beside()


LOOP = """
tile.kernel @loop(%A: !tile.view<MxKxf16>, %B: !tile.view<NxKxf16>, %v: !tile.view<Kxf16>, %D: !tile.view<MxNxf32>) {
  tile.grid (%m, %n) over %D step (64, WIDTH) {
    %a = tile.alloc : !tile.smem<64xWIDTHxf16>
    %b = tile.alloc : !tile.smem<WIDTHxWIDTHxf16>
    %w = tile.alloc : !tile.smem<WIDTHxf16>
    %acc = tile.alloc : !tile.acc<64xWIDTHxf32>
    %start = tile.splat 0.0 : !tile.reg<WIDTHxf16>
    %end = tile.for %k over %A dim 1 step WIDTH iter_args(%sum = %start) {
      tile.copy %A[%m, %k] to %a
      tile.copy %B[%n, %k] to %b
      tile.copy %v[%k] to %w
      tile.mma %acc, %a, %b
      %x = tile.load %w : !tile.reg<WIDTHxf16>
      %next = tile.add %sum, %x
      tile.yield %next : !tile.reg<WIDTHxf16>
    }
    %wide = tile.cast %end : !tile.reg<WIDTHxf32>
    %rows = tile.broadcast %wide : !tile.reg<64xWIDTHxf32>
    %r = tile.load %acc : !tile.reg<64xWIDTHxf32>
    %out = tile.add %r, %rows
    tile.copy %out to %D[%m, %n]
  }
}
"""


@pytest.mark.parametrize("width", [16, 32, 64])
@pytest.mark.parametrize("min_bytes", ["", "(min_bytes=0)"], ids=["threads", "tma"])
def test_a_row_beside_the_operands(width: int, min_bytes: str) -> None:
    """D = A B^T + the sum over K tiles of a slice of v, carried through the loop in registers."""
    for depth in (1, 2, 3, 4):
        for persistent in ("", ",persistent"):
            looped = tilec.compile(
                LOOP.replace("WIDTH", str(width)), pipeline=f"tma{min_bytes},pipeline({depth}){persistent}"
            )
            for tiles in (0, 1, 2, 5):
                k = width * tiles
                case = Problem(200, width * 3, k, integers=True)
                v = torch.randint(-2, 3, (k,), device="cuda").half()
                d = Buffer(200, width * 3, "f32")
                looped(case.a.tensor, case.b.tensor, v, d.tensor)
                finish()
                slices = v.double().view(tiles, width).sum(0) if tiles else torch.zeros(width, device="cuda")
                exact(d.tensor, (case.want + slices.repeat(3)).float())
                d.check_beside()


TWO = GEMM.replace("%D:", "%A2: !tile.view<MxKxf16>, %B2: !tile.view<NxKxf16>, %D:").replace(
    "      tile.mma %acc, %a, %b\n",
    """      %a2 = tile.alloc : !tile.smem<128x64xf16>
      %b2 = tile.alloc : !tile.smem<128x64xf16>
      tile.copy %A2[%m, %k] to %a2
      tile.copy %B2[%n, %k] to %b2
      tile.mma %acc, %a, %b
      tile.mma %acc, %a2, %b2
""",
)


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_two_mmas_on_one_accumulator(stages: int) -> None:
    twice = tilec.compile(TWO, pipeline=f"tma,pipeline({stages}),persistent")
    for tiles in (1, 2, 3):
        first, second = (Problem(256, 264, 64 * tiles, integers=True, a=a) for a in (None, {"pitch": 64 * tiles + 8}))
        d = Buffer(256, 264, "f16")
        twice(first.a.tensor, first.b.tensor, second.a.tensor, second.b.tensor, d.tensor)
        finish()
        exact(d.tensor, (first.want + second.want).half())


COPY = """
tile.kernel @copy(%A: !tile.view<MxNxTYPE>, %D: !tile.view<MxNxTYPE>) {
  tile.grid (%m, %n) over %D step (ROWS, COLUMNS) {
    %t = tile.alloc : !tile.smem<ROWSxCOLUMNSxTYPE>
    tile.copy %A[%m, %n] to %t
    tile.copy %t to %D[%m, %n]
  }
}
"""


@pytest.mark.parametrize("schedule", ["threads", "tma", "tma,persistent"])
@pytest.mark.parametrize("dtype", ["f16", "f32"])
@pytest.mark.parametrize(("rows", "columns"), [(512, 64), (257, 16), (16, 512), (32, 128)])
def test_copies_without_an_mma(rows: int, columns: int, dtype: str, schedule: str) -> None:
    """Tiles larger than one TMA box, in either direction."""
    text = COPY.replace("ROWS", str(rows)).replace("COLUMNS", str(columns)).replace("TYPE", dtype)
    copy = tilec.compile(text, pipeline=schedule)
    for m, n in ((rows, columns), (700, 600), (3, 470), (520, 8)):
        source, dest = Buffer(m, n, dtype), Buffer(m, n, dtype)
        source.tensor.copy_(torch.randn(m, n, device="cuda"))
        copy(source.tensor, dest.tensor)
        finish()
        exact(dest.tensor, source.tensor)
        dest.check_beside()


TWO_OUTPUTS = GEMM.replace(") {", ", %E: !tile.view<MxNxf32>) {", 1).replace(
    "    tile.copy %acc to %D[%m, %n]\n", "    tile.copy %acc to %D[%m, %n]\n    tile.copy %acc to %E[%m, %n]\n"
)


@pytest.mark.parametrize("schedule", ["tma", SCHEDULE, "tma,pipeline(4),persistent"])
def test_two_outputs(schedule: str) -> None:
    both = tilec.compile(TWO_OUTPUTS, pipeline=schedule)
    case = Problem(520, 392, 328, integers=True)
    d, e = Buffer(520, 392, "f16"), Buffer(520, 392, "f32")
    for ctas in (None, 1) if "persistent" in schedule else (None,):
        both(case.a.tensor, case.b.tensor, d.tensor, e.tensor, max_ctas=ctas)
        finish()
        exact(d.tensor, case.want.half())
        exact(e.tensor, case.want.float())
        d.poison()
        e.poison()
