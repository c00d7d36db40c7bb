"""First calls in fresh processes: `first_calls` measures them, `python first_call.py tilec` (or `triton`) is such a process.

The clock starts after the libraries are imported and CUDA has made a tensor. Seconds: `names` until the names that a kernel is
written with are there (``import tilec`` alone imports nothing of it), `define` until the kernel function is there, `call` of
the first call until it returns, `wait` until the GPU is done, `other` of the first call of the same function with another tile,
until it returns. `modules`: those of the compiler that were imported up to the first call.
"""

from __future__ import annotations

import importlib.util
import json
import os
import runpy
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from measurements import Measurements

EXAMPLE = Path(__file__).parents[1] / "examples" / "gemm.py"
COMPILER = ("xdsl", "llvmlite")
SHAPE = (200, 264, 136)


def first_calls(repeats: int, *, warm: bool) -> list[Measurements]:
    """Seconds in fresh processes."""
    group = "first call, warm disk cache" if warm else "first call, no cache"
    rows: dict[str, Measurements] = {}
    libraries = ["tilec", *(["triton"] if importlib.util.find_spec("triton") is not None else [])]
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(repeats + warm):
            for library in libraries:
                cache = Path(folder) / ("warm" if warm else f"{library} {turn}")
                found = first_call(library, cache, warm=warm)
                if warm and turn == 0:
                    continue
                if warm and library == "tilec" and found["modules"]:
                    raise SystemExit(f"a process with a warm disk cache imported {', '.join(found['modules'])}")
                named = {
                    "first call": found["call"],
                    "names of the library, definition and first call": found["names"] + found["define"] + found["call"],
                    "definition and first call": found["define"] + found["call"],
                    "definition, first call, GPU done": found["define"] + found["call"] + found["wait"],
                    "another tile, same process": found["other"],
                }
                for what, seconds in named.items():
                    name = f"{library}: {what}"
                    rows.setdefault(name, Measurements(group, name, "ms")).values.append(seconds * 1e3)
    return sorted(rows.values(), key=lambda row: row.name.partition(": ")[2])


def first_call(library: str, cache: Path, *, warm: bool) -> dict[str, Any]:
    environment = {
        **os.environ,
        "TILEC_CACHE_DIR": str(cache / "tilec") if warm else "off",
        "TRITON_CACHE_DIR": str(cache / "triton"),
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    ran = subprocess.run(
        [sys.executable, __file__, library],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
    )
    if ran.returncode:
        raise SystemExit(f"the first call of {library} failed:\n{ran.stdout}{ran.stderr}")
    return json.loads(ran.stdout.splitlines()[-1])


def of_tilec() -> tuple[Callable[..., None], Callable[..., None]]:
    gemm = runpy.run_path(str(EXAMPLE))["gemm"]

    def first(a: Any, b: Any, d: Any) -> None:
        gemm(a, b, out=d)

    def other(a: Any, b: Any, d: Any) -> None:
        gemm.__wrapped__.__globals__["BLOCK_N"] = 64
        gemm(a, b, out=d)

    return first, other


def of_triton() -> tuple[Callable[..., None], Callable[..., None]]:
    import triton_gemm

    return triton_gemm.multiply, lambda a, b, d: triton_gemm.multiply(a, b, d, (128, 64, 64))


def main(library: str) -> None:
    m, n, k = SHAPE
    a, b = (torch.randn(rows, k, device="cuda").half() for rows in (m, n))
    d = torch.full((m, n), float("nan"), dtype=torch.float16, device="cuda")
    want = a.double() @ b.double().t()
    torch.cuda.synchronize()
    if library == "tilec":
        import tilec
    else:
        import triton  # pyright: ignore[reportMissingImports]
        import triton.tools.tensor_descriptor  # pyright: ignore[reportMissingImports]  # noqa: F401

    def check(what: str) -> None:
        torch.cuda.synchronize()
        error = float((d.double() - want).norm() / want.norm())
        if not error < 1e-3:
            raise SystemExit(f"{what} of {library}: relative error {error:.2e}: wrong result")

    imported = time.perf_counter()
    if library == "tilec":
        _ = tilec.jit, tilec.tile  # pyright: ignore[reportPossiblyUnboundVariable]
    start = time.perf_counter()
    first, other = of_tilec() if library == "tilec" else of_triton()
    defined = time.perf_counter()
    first(a, b, d)
    called = time.perf_counter()
    torch.cuda.synchronize()
    done = time.perf_counter()
    modules = sorted(set(COMPILER) & set(sys.modules))
    check("the first call")
    d.fill_(float("nan"))
    torch.cuda.synchronize()
    again = time.perf_counter()
    other(a, b, d)
    compiled = time.perf_counter()
    check("the other tile")
    seconds = {
        "names": start - imported,
        "define": defined - start,
        "call": called - defined,
        "wait": done - called,
        "other": compiled - again,
    }
    print(json.dumps({**seconds, "modules": modules}))


if __name__ == "__main__":
    main(sys.argv[1])
