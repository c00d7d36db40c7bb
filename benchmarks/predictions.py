"""What GEMMs take on one GPU: the figures that predictions are compared with.

    python benchmarks/predictions.py --json out.json
    python benchmarks/predictions.py --rows 4096x4096x4096 8192x8192x512 --json out.json
    python benchmarks/predictions.py --compare out.json

Each contender runs by itself: `--settle` ms without a pause, until the clock is what its own power makes of it, then the median of
`--rounds` bursts. (In a shuffle, as in gemm.py, all of them run at the clock that their mixture leads to.) Random normal data, results
compared with float64, clock and power read while a burst runs. What is there so far is written after each shape. `compare` puts
predictions beside the figures.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from compile_ahead import Program, compile_ahead
from gemm import GEMM, TORCH, Meter, Result, contender, timed
from rich.console import Console
from rich.table import Table

SHAPES = [
    "1024x1024x1024",
    "2048x2048x2048",
    "4096x4096x4096",
    "8192x8192x8192",
    "16384x16384x4096",
    "4096x14336x4096",
    "4096x4096x14336",
    "8192x8192x512",
    "128x8192x8192",
    "4000x4104x4072",
]
DEPTHS = (1, 2, 3, 4)
PERSISTENT = [
    *(f"tma,pipeline({depth}),persistent" for depth in DEPTHS),
    *(f"retile(128,256,64),tma,pipeline({depth}),persistent" for depth in DEPTHS),
]
ONE_TILE_A_CTA = ["tma", "tma,pipeline(2)"]
"""Measured at the shapes of `LADDER` only."""
FITTED = ("2048x2048x2048", "8192x8192x8192", "8192x8192x512", "128x8192x8192", "4000x4104x4072")
"""Of the shapes, those that the constants of `tilec.backend.timeline.models` were fitted to."""
LADDER = ("4096x4096x4096", "8192x8192x8192")


@dataclass(frozen=True)
class Measured:
    """One row: medians over the rounds, and the range of the times."""

    shape: str
    pipeline: str
    """Or "torch.matmul"."""
    seconds: float
    least: float
    most: float
    tflops: float
    mhz: float | None
    watts: float | None
    error: float
    """Relative, Frobenius norm, against float64."""


Predict = Callable[[tuple[int, int, int], str], float]
"""Seconds of one launch, from M, N, K and the pipeline."""


def extents(shape: str) -> tuple[int, int, int]:
    """M, N, K of "MxNxK"."""
    m, n, k = map(int, shape.split("x"))
    return m, n, k


def pipelines(shape: str) -> list[str]:
    return [*PERSISTENT, *(ONE_TILE_A_CTA if shape in LADDER else [])]


def measured(result: Result) -> Measured:
    m, n, k = extents(result.shape)
    seconds = sorted(2 * m * n * k / (tflops * 1e12) for tflops in result.tflops)
    return Measured(
        result.shape,
        result.name,
        statistics.median(seconds),
        seconds[0],
        seconds[-1],
        result.median,
        statistics.median(result.mhz) if result.mhz else None,
        statistics.median(result.watts) if result.watts else None,
        result.error,
    )


def alone(torch: Any, shape: str, options: argparse.Namespace, meter: Meter) -> list[Measured]:
    """All contenders at one shape, one after another."""
    m, n, k = extents(shape)
    a, b = (torch.randn(rows, k, device="cuda").to(torch.float16) for rows in (m, n))
    want = a.double() @ b.double().t()
    rows: list[Measured] = []
    for name in (TORCH, *pipelines(shape)):
        one = contender(torch, name, "f16", a, b, want, options.burst)
        timed(torch, one.launch, math.ceil(one.count * options.settle / options.burst), None)
        for _ in range(options.rounds):
            milliseconds, readings = timed(torch, one.launch, one.count, meter)
            one.result.tflops.append(2 * m * n * k / milliseconds / 1e9)
            if readings:
                one.result.mhz.append(statistics.median(clock for clock, _ in readings))
                one.result.watts.append(statistics.median(power for _, power in readings))
        if not torch.equal(one.output, one.checked):
            raise SystemExit(f"{shape} {name}: the result changed while it was timed")
        rows.append(measured(one.result))
    return rows


def compare(rows: Sequence[Measured], predict: Predict) -> list[float]:
    """Print each row beside its prediction, and the median and the worst of the errors, which are returned.

    An error is predicted / measured time - 1; torch has no prediction.
    """
    table = Table("shape", "pipeline", "measured", "predicted", "error")
    errors: list[tuple[float, Measured]] = []
    for row in rows:
        if row.pipeline == TORCH:
            continue
        seconds = predict(extents(row.shape), row.pipeline)
        error = seconds / row.seconds - 1
        errors.append((error, row))
        times = (f"{time * 1e3:.4f} ms" for time in (row.seconds, seconds))
        table.add_row(row.shape, row.pipeline, *times, f"{error:+.1%}")
    for column in table.columns[2:]:
        column.justify = "right"
    console = Console(width=max(120, Console().width))
    console.print(table)
    held_out = [one for one in errors if one[1].shape not in FITTED]
    for what, some in (("all", errors), ("of shapes that took no part in the fit", held_out)):
        if some:
            worst, at = max(some, key=lambda one: abs(one[0]))
            middle = statistics.median(abs(error) for error, _ in some)
            console.print(
                f"{len(some)} rows, {what}: median error {middle:.1%}, worst {worst:+.1%} ({at.shape}, {at.pipeline})",
                highlight=False,
            )
    return [error for error, _ in errors]


def predicted(shape: tuple[int, int, int], pipeline: str) -> float:
    """Seconds of a launch of examples/gemm.tile, for sm_90a."""
    from tilec.driver import compile_module
    from tilec.ladder import rung
    from tilec.source import parse_file

    program = parse_file(GEMM)
    compiled = compile_module(program, pipeline=pipeline, target="sm_90a", emit="tile")
    return rung(program, compiled, pipeline, dict(zip("MNK", shape, strict=True))).prediction.seconds


def read(path: Path) -> list[Measured]:
    """The rows of a JSON that was written here."""
    return [Measured(**row) for row in json.loads(path.read_text())["rows"]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", default=SHAPES, metavar="MxNxK", help="shapes (default: all)")
    parser.add_argument("--rounds", type=int, default=5, help="measurements of each contender (default: 5)")
    parser.add_argument("--burst", type=float, default=25.0, metavar="MS", help="timed part of one (default: 25 ms)")
    parser.add_argument("--settle", type=float, default=250.0, metavar="MS", help="before that (default: 250 ms)")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write all rows")
    parser.add_argument("--compare", type=Path, metavar="PATH", help="put predictions beside such rows; needs no GPU")
    options = parser.parse_args()
    if options.compare is not None:
        compare(read(options.compare), predicted)
        return
    text = GEMM.read_text()
    compile_ahead(Program(text, pipeline) for shape in options.rows for pipeline in pipelines(shape))
    torch: Any = importlib.import_module("torch")
    meter = Meter()
    start = time.monotonic()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, CUDA {torch.version.cuda}", flush=True)
    rows: list[Measured] = []
    for shape in options.rows:
        new = alone(torch, shape, options, meter)
        rows += new
        for row in new:
            clock = "   -" if row.mhz is None else f"{row.mhz:4.0f}"
            print(
                f"{row.shape:>18} | {row.seconds * 1e3:8.4f} ms ({row.least * 1e3:.4f} to {row.most * 1e3:.4f}) | "
                f"{row.tflops:4.0f} TFLOP/s | {clock} MHz | {row.watts or 0:4.0f} W | error {row.error:.1e} | {row.pipeline}",
                flush=True,
            )
        if options.json is not None:
            record = {
                "device": torch.cuda.get_device_name(),
                "torch": torch.__version__,
                "cuda": torch.version.cuda,
                "burst_ms": options.burst,
                "rounds": options.rounds,
                "settle_ms": options.settle,
                "rows": [asdict(row) for row in rows],
            }
            options.json.write_text(json.dumps(record, indent=1))
        print(f"{time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
