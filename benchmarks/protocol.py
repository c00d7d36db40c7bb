"""How long proofs and simulations take, and how much memory a simulation needs.

    python benchmarks/protocol.py

The proof (`tilec check`) of `examples/gemm.tile` for rings of several depths and of the other examples, and the simulator on
products of f16 matrices with tiles of 128x128x64, in this process (warm). Memory is the most that the simulator holds beside
the caller's matrices: for each element of the output who stored it and when, and the tiles of one CTA. Prints tables; asserts
nothing.
"""

from __future__ import annotations

import gc
import os
import platform
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
_PROOF_GOAL_S = 1.0
_SIMULATION_GOAL_S = 10.0
_MEMORY_GOAL = 16
"""Bytes for each element of the output."""
_PRODUCTS = [(1024, 1024, 1024), (2048, 2048, 1024)]
"""M, N, K: 64 and 256 tiles, each of 16 steps."""

_PROVED = [
    *(("gemm.tile", f"tma,pipeline({stages}),persistent") for stages in (1, 2, 3, 4)),
    ("gemm.tile", "retile(64,64,64),tma,pipeline(8),persistent"),
    ("gemm.tile", "tma"),
    ("gemm.tile", "threads"),
    ("bias_relu.tile", "tma,pipeline(2),persistent"),
    ("step4_tma.tile", ""),
    ("step5_pipeline.tile", ""),
    ("step6_persistent.tile", ""),
]


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


def _proofs() -> Table:
    table = Table(title=f"proof; {os.cpu_count()} cores, Python {platform.python_version()}")
    table.add_column("kernel")
    table.add_column("verdict")
    for heading in ("states", f"median of {_RUNS} [s]", "worst [s]", "goal [s]"):
        table.add_column(heading, justify="right")
    for file, pipeline in _PROVED:
        module = _kernel(file, pipeline)
        verdict = protocol.check(module)
        times = _times(lambda module=module: protocol.check(module), _RUNS)
        name = " ".join(part for part in (file, pipeline) if part)
        numbers = (str(verdict.states), f"{median(times):.3f}", f"{max(times):.3f}", f"{_PROOF_GOAL_S:g}")
        table.add_row(name, verdict.status, *numbers)
    return table


def _simulations() -> Table:
    pipeline = "tma,pipeline(2),persistent"
    table = Table(title=f"simulator; gemm.tile, {pipeline}, f16, NumPy {np.__version__}")
    table.add_column("M x N x K")
    for heading in (
        "tiles",
        "median of 3 [s]",
        "worst [s]",
        "goal [s]",
        "peak memory [MiB]",
        "bytes an output",
        "goal",
    ):
        table.add_column(heading, justify="right")
    module = _kernel("gemm.tile", pipeline)
    for m, n, k in _PRODUCTS:
        arrays = integer_inputs(find_kernel(module), {"M": m, "N": n, "K": k})
        times = _times(lambda arrays=arrays: simulator.run(module, arrays), 3)
        gc.collect()
        tracemalloc.start()
        tiles = simulator.run(module, arrays).tiles
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        goal = _SIMULATION_GOAL_S * tiles / 64
        seconds = (f"{median(times):.2f}", f"{max(times):.2f}", f"{goal:g}")
        memory = (f"{peak / 2**20:.1f}", f"{peak / (m * n):.1f}", str(_MEMORY_GOAL))
        table.add_row(f"{m} x {n} x {k}", str(tiles), *seconds, *memory)
    return table


def main() -> None:
    console = Console(width=140)
    console.print(_proofs())
    console.print(_simulations())


if __name__ == "__main__":
    main()
