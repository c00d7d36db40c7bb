"""How long proofs and simulations take, and how much memory a simulation needs.

    python benchmarks/protocol.py

The proof (`tilec check`) of `examples/gemm.tile` for rings of several depths and of the other examples in this process (warm);
`tilec compile` as a whole process with the proof and without, no ptxas; the simulator on products of f16 matrices with tiles of
128x128x64. All of it on one core. Memory is the most that the simulator holds beside the caller's matrices: the tiles of one
CTA, and 16 bytes for each piece of the output that is stored at once, two a tile. Prints tables; asserts nothing.
"""

from __future__ import annotations

import gc
import os
import platform
import subprocess
import sys
import tempfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
from rich.console import Console
from rich.table import Table
from xdsl.dialects.builtin import ModuleOp

from tilec.backend import protocol, simulator
from tilec.backend.protocol.inputs import integer_inputs
from tilec.diagnostics import collect
from tilec.driver import compile_module, find_kernel
from tilec.source import parse_file

_EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
_RUNS = 9
_PIPELINE = "tma,pipeline(2),persistent"
_COMPILE_GOAL_S = 1.5
_PRODUCTS = [((1024, 1024, 1024), "3"), ((2048, 2048, 1024), "")]
"""M, N, K: 64 and 256 tiles, each of 16 steps; and the goal in seconds."""
_GROWING = [(1024, 1024, 128), (2048, 2048, 128), (4096, 4096, 128)]
"""M, N, K: 64, 256 and 1024 tiles, each of 2 steps."""
_MEMORY_GOAL = 64
"""Bytes for each tile beyond 64 of them."""

_PROVED = [
    *(("gemm.tile", f"tma,pipeline({stages}),persistent", 0.15) for stages in (1, 2, 3, 4)),
    ("gemm.tile", "retile(64,64,64),tma,pipeline(8),persistent", 0.5),
    ("gemm.tile", "tma", 0.15),
    ("gemm.tile", "threads", 0.15),
    ("bias_relu.tile", _PIPELINE, 0.5),
    ("step4_tma.tile", "", 0.5),
    ("step5_pipeline.tile", "", 0.5),
    ("step6_persistent.tile", "", 0.5),
]
"""File, passes and the goal in seconds."""


def _kernel(file: str, pipeline: str) -> ModuleOp:
    with collect():
        return compile_module(parse_file(_EXAMPLES / file), pipeline=pipeline, emit="tile").tile


def _times(work: Callable[[], object], runs: int) -> list[float]:
    """Seconds of each run, after one that is not counted."""
    work()
    times: list[float] = []
    for _ in range(runs):
        start = perf_counter()
        work()
        times.append(perf_counter() - start)
    return times


def _table(title: str, words: tuple[str, ...], numbers: tuple[str, ...]) -> Table:
    table = Table(title=title)
    for heading in words:
        table.add_column(heading)
    for heading in numbers:
        table.add_column(heading, justify="right")
    return table


def _seconds(times: list[float], goal: float | str) -> tuple[str, str, str]:
    return f"{median(times):.3f}", f"{max(times):.3f}", str(goal)


def _proofs() -> Table:
    table = _table(
        f"proof; one of {os.cpu_count()} cores, Python {platform.python_version()}",
        ("kernel", "verdict"),
        ("states", f"median of {_RUNS} [s]", "worst [s]", "goal [s]"),
    )
    for file, pipeline, goal in _PROVED:
        module = _kernel(file, pipeline)
        verdict = protocol.check(module)
        times = _times(lambda module=module: protocol.check(module), _RUNS)
        name = " ".join(part for part in (file, pipeline) if part)
        table.add_row(name, verdict.status, str(verdict.states), *_seconds(times, goal))
    return table


def _compilations() -> Table:
    table = _table(
        f"whole process; gemm.tile, {_PIPELINE}", ("command",), (f"median of {_RUNS} [s]", "worst [s]", "goal [s]")
    )
    with tempfile.TemporaryDirectory(prefix="tilec-benchmark-") as folder:
        # Without ptxas: no assembler on the path.
        environment = {**os.environ, "PATH": folder}
        environment.pop("TILEC_PTXAS", None)
        for options in ((), ("--no-check",)):
            words = ("compile", *options, str(_EXAMPLES / "gemm.tile"), f"--pipeline={_PIPELINE}", "-o", os.devnull)
            command = [sys.executable, "-m", "tilec", *words]
            times = _times(
                lambda command=command: subprocess.run(
                    command, cwd=folder, env=environment, check=True, capture_output=True
                ),
                _RUNS,
            )
            goal = "" if options else _COMPILE_GOAL_S
            table.add_row(" ".join(("tilec compile", *options)), *_seconds(times, goal))
    return table


def _simulations() -> Table:
    table = _table(
        f"simulator; gemm.tile, {_PIPELINE}, f16, one core, NumPy {np.__version__}",
        ("M x N x K",),
        ("tiles", "median of 3 [s]", "worst [s]", "goal [s]"),
    )
    module = _kernel("gemm.tile", _PIPELINE)
    for (m, n, k), goal in _PRODUCTS:
        arrays = integer_inputs(find_kernel(module), {"M": m, "N": n, "K": k})
        tiles = simulator.run(module, arrays).tiles
        times = _times(lambda arrays=arrays: simulator.run(module, arrays), 3)
        table.add_row(f"{m} x {n} x {k}", str(tiles), *_seconds(times, goal))
    return table


def _memory() -> Table:
    table = _table(
        f"memory of the simulator beyond the caller's arrays; gemm.tile, {_PIPELINE}, f16",
        ("M x N x K",),
        ("CTAs", "tiles", "caller's [bytes]", "most beyond [bytes]", "more for each tile [bytes]", "goal [bytes]"),
    )
    module = _kernel("gemm.tile", _PIPELINE)
    for ctas in (1, 16):
        fewest: tuple[int, int] | None = None
        for m, n, k in _GROWING:
            arrays = integer_inputs(find_kernel(module), {"M": m, "N": n, "K": k})
            simulator.run(module, arrays, ctas=ctas)
            gc.collect()
            tracemalloc.start()
            tiles = simulator.run(module, arrays, ctas=ctas).tiles
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            numbers = (ctas, tiles, sum(array.nbytes for array in arrays), peak)
            if fewest is None:
                fewest, growth = (tiles, peak), ("", "")
            else:
                growth = (f"{(peak - fewest[1]) / (tiles - fewest[0]):.0f}", str(_MEMORY_GOAL))
            table.add_row(f"{m} x {n} x {k}", *map(str, numbers), *growth)
    return table


def main() -> None:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    console = Console(width=140)
    for measured in (_proofs, _compilations, _simulations, _memory):
        console.print(measured())


if __name__ == "__main__":
    main()
