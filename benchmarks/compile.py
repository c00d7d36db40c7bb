"""How long a compilation takes.

    python benchmarks/compile.py

For `examples/gemm.tile` with the passes of the README: IR to PTX in this process (warm), the first two kernels of a fresh
process (proof included, to machine code where there is a ptxas; the clock starts before the compiler is imported), and
``tilec compile`` and ``tilec --help`` as whole processes, without ptxas. Prints a table; asserts nothing.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter

from rich.console import Console
from rich.table import Table

from tilec.backend.target import TARGETS
from tilec.driver import compile_module
from tilec.source import parse_file

_GEMM = Path(__file__).resolve().parent.parent / "examples" / "gemm.tile"
_PIPELINE = "tma,pipeline(2),persistent"
_RUNS = 9
_TWO_KERNELS = f"""
from time import perf_counter

def kernel():
    start = perf_counter()
    from tilec.collector import seldom_collecting
    with seldom_collecting():
        from tilec.backend.ptxas import find_ptxas
        from tilec.driver import compile_module
        from tilec.source import parse_file
        emit = "ptx" if find_ptxas() is None else "cubin"
        compile_module(parse_file({str(_GEMM)!r}), pipeline={_PIPELINE!r}, target="sm_90a", emit=emit, check=True)
    return perf_counter() - start

print([kernel(), kernel()])
"""


def _times(work: Callable[[], object]) -> list[float]:
    """Seconds of each run, after one that is not counted."""
    work()
    times: list[float] = []
    for _ in range(_RUNS):
        start = perf_counter()
        work()
        times.append(perf_counter() - start)
    return times


def _environment(folder: str) -> dict[str, str]:
    """Of a process that finds the bytecode of all modules, as an installed package has it, in `folder`."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": folder}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return environment


def _two_kernels(folder: str) -> tuple[list[float], list[float]]:
    """Seconds of the first and of the second kernel of fresh processes, after one that is not counted."""
    firsts: list[float] = []
    seconds: list[float] = []
    for run in range(_RUNS + 1):
        command = [sys.executable, "-c", _TWO_KERNELS]
        ran = subprocess.run(command, env=_environment(folder), check=True, capture_output=True, text=True)
        if run:
            first, second = json.loads(ran.stdout)
            firsts.append(first)
            seconds.append(second)
    return firsts, seconds


def _tilec(folder: str, *arguments: str) -> Callable[[], object]:
    # Without ptxas: no assembler on the path.
    environment = {**_environment(folder), "PATH": folder}
    environment.pop("TILEC_PTXAS", None)
    command = [sys.executable, "-m", "tilec", *arguments]
    return lambda: subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)


def main() -> None:
    module = parse_file(_GEMM)
    table = Table(title=f"gemm.tile, {_PIPELINE}; {os.cpu_count()} cores, Python {platform.python_version()}")
    table.add_column("what")
    for heading in (f"median of {_RUNS} [s]", "best [s]", "worst [s]", "goal [s]"):
        table.add_column(heading, justify="right")

    def add(what: str, goal: str, times: list[float]) -> None:
        table.add_row(what, *(f"{t:.3f}" for t in (median(times), min(times), max(times))), goal)

    for target in TARGETS:
        times = _times(lambda t=target: compile_module(module, pipeline=_PIPELINE, target=t))
        add(f"IR to PTX in process, {target}", "0.2", times)
    with tempfile.TemporaryDirectory(prefix="tilec-benchmark-") as folder:
        first, second = _two_kernels(folder)
        add("first kernel of a process, imports included", "0.5", first)
        add("second kernel of that process", "0.25", second)
        compile_gemm = _tilec(folder, "compile", str(_GEMM), f"--pipeline={_PIPELINE}", "-o", os.devnull)
        add("tilec compile", "1.5", _times(compile_gemm))
        add("tilec --help", "0.2", _times(_tilec(folder, "--help")))
    Console().print(table)


if __name__ == "__main__":
    main()
