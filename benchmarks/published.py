"""Predictions for sm_100a beside figures that others have published for B200 and GB200. Nothing was fitted to them.

    python benchmarks/published.py

The course: "Modern GPU Programming for MLSys", book (milliseconds, img/scripts/gen_gemm_perf.py) and slides (TFLOP/s, summary_journey.html),
fp16. Gluon: python/tutorials/gluon/07-persistence.py, fp16, 8192 x 8192 x 16384, GB200, persistent, without roles.
Whether several CTAs share a multiprocessor is not told of either: the last columns are for one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tilec.backend.timeline import predict
from tilec.driver import compile_module
from tilec.ladder import rung
from tilec.source import parse_file

GEMM = Path(__file__).parents[1] / "examples" / "gemm.tile"


@dataclass(frozen=True)
class Published:
    """One figure: TFLOP/s, of two operations for each multiply-add."""

    source: str
    step: str
    shape: tuple[int, int, int]
    tflops: float
    pipeline: str
    """Our passes for the same schedule and tile."""


def from_milliseconds(shape: tuple[int, int, int], milliseconds: float) -> float:
    m, n, k = shape
    return 2 * m * n * k / milliseconds / 1e9


SQUARE = (4096, 4096, 4096)
LONG = (8192, 8192, 16384)
PUBLISHED = [
    Published("course, book", "4 TMA", SQUARE, from_milliseconds(SQUARE, 0.4938), "tma"),
    Published("course, slides", "4 TMA", (2048, 2048, 2048), 330, "tma"),
    Published("course, slides", "5 pipelined", SQUARE, 639, "tma,pipeline(2)"),
    Published("course, slides", "6 persistent", SQUARE, 723, "tma,pipeline(2),persistent"),
    Published("Gluon", "BK 128, 2 stages", LONG, 736, "retile(128,256,128),tma(staging=1),pipeline(2),persistent"),
    Published("Gluon", "BK 64, 3 stages", LONG, 1054, "retile(128,256,64),tma,pipeline(3),persistent"),
    Published("Gluon", "BK 64, 4 stages", LONG, 1176, "retile(128,256,64),tma,pipeline(4),persistent"),
]


def main() -> None:
    program = parse_file(GEMM)
    table = Table(
        "source", "step", "shape", "passes", "published", "predicted", "error", "bound by", "one CTA an SM", "error"
    )
    for one in PUBLISHED:
        shape = dict(zip("MNK", one.shape, strict=True))
        compiled = compile_module(program, pipeline=one.pipeline, target="sm_100a", emit="tile")
        last = rung(program, compiled, one.pipeline, shape).prediction
        alone = predict(compiled.asynchronous, shape, resident=1)
        tflops, of_one = (found.flops / found.seconds / 1e12 for found in (last, alone))
        row = one.source, one.step, "x".join(map(str, one.shape)), one.pipeline
        figures = f"{tflops:.0f}", f"{tflops / one.tflops - 1:+.0%}", last.bound
        table.add_row(*row, f"{one.tflops:.0f}", *figures, f"{of_one:.0f}", f"{of_one / one.tflops - 1:+.0%}")
    Console(width=max(190, Console().width)).print(table)


if __name__ == "__main__":
    main()
