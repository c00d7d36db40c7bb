"""How long a compilation takes.

    python benchmarks/compile.py

IR to PTX in this process (warm), ``tilec compile`` and ``tilec --help`` as whole processes, for `examples/gemm.tile` with the
passes of the README, without ptxas. Prints a table; asserts nothing.
"""

from __future__ import annotations

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


def _times(work: Callable[[], object]) -> list[float]:
    """Seconds of each run, after one that is not counted."""
    work()
    times: list[float] = []
    for _ in range(_RUNS):
        start = perf_counter()
        work()
        times.append(perf_counter() - start)
    return times


def _tilec(*arguments: str) -> Callable[[], object]:
    # Without ptxas: no assembler on the path, and a folder of its own for what is written.
    folder = tempfile.mkdtemp(prefix="tilec-benchmark-")
    environment = {**os.environ, "PATH": folder}
    environment.pop("TILEC_PTXAS", None)
    command = [sys.executable, "-m", "tilec", *arguments]
    return lambda: subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)


def main() -> None:
    module = parse_file(_GEMM)
    rows: list[tuple[str, str, Callable[[], object]]] = [
        *(
            (
                f"IR to PTX in process, {target}",
                "0.3",
                lambda t=target: compile_module(module, pipeline=_PIPELINE, target=t),
            )
            for target in TARGETS
        ),
        ("tilec compile", "1.5", _tilec("compile", str(_GEMM), f"--pipeline={_PIPELINE}", "-o", os.devnull)),
        ("tilec --help", "0.2", _tilec("--help")),
    ]
    table = Table(title=f"gemm.tile, {_PIPELINE}; {os.cpu_count()} cores, Python {platform.python_version()}")
    table.add_column("what")
    for heading in (f"median of {_RUNS} [s]", "best [s]", "worst [s]", "goal [s]"):
        table.add_column(heading, justify="right")
    for what, goal, work in rows:
        times = _times(work)
        table.add_row(what, *(f"{t:.3f}" for t in (median(times), min(times), max(times))), goal)
    Console().print(table)


if __name__ == "__main__":
    main()
