"""How long the emulator takes for a product of matrices, on one core.

    python benchmarks/emulator.py

The PTX of `examples/gemm.tile` under ``tma,pipeline(2)`` for both targets, 256x256x512 f16 in tiles of 128x128x64, random
normal inputs, compared with NumPy; in each of the emulator's orders. The first run of a process, which reads the PTX and makes
the tables of layouts, and the median of later ones. Prints a table; asserts nothing.
"""

from __future__ import annotations

import platform
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
from rich.console import Console
from rich.table import Table

from tilec.backend.emulator.launch import Emulation, OrderName
from tilec.driver import Compiled, compile_module
from tilec.emulation import emulate_kernel
from tilec.source import parse_file

_GEMM = Path(__file__).resolve().parent.parent / "examples" / "gemm.tile"
_PIPELINE = "tma,pipeline(2)"
_SHAPE = (256, 256, 512)
_RUNS = 5
_GOAL_S = 5.0
_ORDERS: tuple[OrderName, ...] = ("fifo", "random", "adversarial")


def _run(compiled: Compiled, order: OrderName) -> tuple[float, float, Emulation]:
    """Seconds, relative error, and what ran."""
    m, n, k = _SHAPE
    random = np.random.default_rng(1)
    a, b = (random.standard_normal(shape, np.float32).astype(np.float16) for shape in ((m, k), (n, k)))
    d = np.full((m, n), np.nan, np.float16)
    start = perf_counter()
    ran = emulate_kernel(compiled.abi, compiled.ptx, [a, b, d], order=order)
    seconds = perf_counter() - start
    assert ran is not None
    wanted = a.astype(np.float64) @ b.astype(np.float64).T
    return seconds, float(np.linalg.norm(d - wanted) / np.linalg.norm(wanted)), ran


def main() -> None:
    table = Table(title=f"gemm {'x'.join(map(str, _SHAPE))} f16, {_PIPELINE}, on the emulator")
    for heading in ("target", "order"):
        table.add_column(heading)
    for heading in ("first s", "median s", "goal s", "instructions", "us each", "relative error"):
        table.add_column(heading, justify="right")
    for target in ("sm_90a", "sm_100a"):
        compiled = compile_module(parse_file(_GEMM), pipeline=_PIPELINE, target=target, emit="ptx")
        for order in _ORDERS:
            times, error, ran = [], 0.0, None
            for _ in range(1 + _RUNS):
                seconds, error, ran = _run(compiled, order)
                times.append(seconds)
            assert ran is not None
            count, typical = ran.instructions.total(), median(times[1:])
            numbers = (
                f"{times[0]:.2f}",
                f"{typical:.2f}",
                f"{_GOAL_S:g}",
                f"{count}",
                f"{typical / count * 1e6:.0f}",
                f"{error:.1e}",
            )
            table.add_row(target, order, *numbers)
    console = Console()
    console.print(table)
    console.print(f"{platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__}")


if __name__ == "__main__":
    main()
