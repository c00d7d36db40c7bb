"""Threads of a fresh process that compile: whoever comes first imports, compiles and fails for itself alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from xdsl.dialects.builtin import IndexType
from xdsl.dialects.test import TestOp as Values
from xdsl.ir import Block, Region

import tilec
from tilec.dialects.tile import F16, ForOp, ViewType
from tilec.source import parse_text

TESTS = Path(__file__).resolve().parents[1]
THREADS = 8
PRELUDE = f"""
import json, sys, threading
sys.path.insert(0, {str(TESTS)!r})
sys.setswitchinterval(1e-5)
from gemm_text import gemm
import tilec

def together(jobs):
    start = threading.Barrier(len(jobs))
    results = [None] * len(jobs)
    def work(i, job):
        start.wait()
        try:
            results[i] = job()
        except BaseException as error:
            results[i] = f"{{type(error).__module__}}.{{type(error).__name__}}: {{error}}"
    threads = [threading.Thread(target=work, args=pair, daemon=True) for pair in enumerate(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive(), "it hangs"
    return results

def texts():
    # Of different sizes, so that they are ready at different times.
    sizes = [(64, 64, 32), (128, 64, 64), (64, 128, 32), (128, 128, 64)]
    return [gemm(*size, dtype=dtype, out=dtype) for size in sizes for dtype in ("f16", "bf16")]

FAULTY = gemm().replace("%b = tile.alloc : !tile.smem<128x64", "%b = tile.alloc : !tile.smem<128x32")

def ptx(text):
    return tilec.compile(text, pipeline="tma").variant(target="sm_90a").asm["ptx"]
"""
FAULT = """\
tilec.diagnostics.TilecError: <text>:10:7: error: K differs: a is 128x64 (MxK), b is 128x32 (NxK)
      tile.mma %acc, %a, %b
      ^"""

REFUSED = """\
tilec.pass_error.PassError: <text>:10:7: error: no MMA computes this accumulator: M = 192: sm_90a takes 64, 128, 256 rows
      tile.mma %acc, %a, %b
      ^
hint: choose other tile sizes: retile(m, n, k)"""


def fresh(program: str) -> object:
    """What a process of its own prints as JSON, without a disk cache."""
    ran = subprocess.run(
        [sys.executable, "-c", PRELUDE + program],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "TILEC_CACHE_DIR": "off"},
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


ONE_KERNEL = """
import numpy as np
kernel = tilec.compile(gemm(), pipeline="tma")
count = 0

def job():
    rng = np.random.default_rng()
    a, b = (rng.integers(-2, 3, (128, 64)).astype(np.float16) for _ in range(2))
    d = np.full((128, 128), np.nan, np.float16)
    kernel(a, b, d)
    return bool((d == a.astype(np.float64) @ b.astype(np.float64).T).all())

def profile(frame, event, argument):
    # Counted from outside, by the name of the one path that compiles.
    global count
    if event == "call" and frame.f_code.co_name == "compile_module":
        count += 1

threading.setprofile(profile)
results = together([job] * 8)
print(json.dumps([count, results]))
"""


@pytest.mark.parametrize("repetition", range(2))
def test_one_kernel_in_all_threads(repetition: int) -> None:
    """One compilation, eight correct results."""
    assert fresh(ONE_KERNEL) == [1, [True] * THREADS]


def test_a_kernel_in_each_thread() -> None:
    """All at a time, and then one by one: the same code, to the letter."""
    result = fresh(
        "results = together([lambda t=t: ptx(t) for t in texts()])\n"
        "print(json.dumps([len(set(results)), [r == ptx(t) for r, t in zip(results, texts())]]))"
    )
    assert result == [THREADS, [True] * THREADS]


def test_a_faulty_kernel_among_them() -> None:
    """Its own thread is told, in full; the others do not notice, and what was wrong once is as wrong as before."""
    result = fresh(
        "sources = texts()\nsources[3] = FAULTY\n"
        "results = together([lambda t=t: ptx(t) for t in sources])\n"
        "again = together([lambda: ptx(FAULTY)] * 2)\n"
        "print(json.dumps([[r if t == FAULTY else r == ptx(t) for r, t in zip(results, sources)], again]))"
    )
    assert result == [[FAULT if i == 3 else True for i in range(THREADS)], [FAULT] * 2]


def test_one_faulty_kernel_in_all_threads() -> None:
    """What only a pass refuses: each caller is told it."""
    result = fresh(
        "kernel = tilec.compile(gemm(192), pipeline='tma')\n"
        "results = together([lambda: kernel.variant(target='sm_90a').asm['ptx']] * 8)\n"
        "print(json.dumps(results))"
    )
    assert isinstance(result, list) and len(result) == THREADS and len(set(result)) == 1
    assert result[0] == REFUSED


def test_remarks_go_to_the_thread_that_collects_them() -> None:
    """And are not lost where another thread compiles what they are about."""
    result = fresh(
        "from tilec.diagnostics import collect\n"
        "off = {'a': ', align = 2, tail = free'}\n"
        "sources = [gemm(dtype=d, out=d, **(off if i % 2 else {})) for i in range(2) for d in ('f16', 'bf16')]\n"
        "def job(text):\n"
        "    with collect() as said:\n"
        "        ptx(text)\n"
        "    return [one.message.split(':')[0] for one in said]\n"
        "results = together([lambda t=t: job(t) for t in sources])\n"
        "print(json.dumps(results))"
    )
    assert result == [[], [], ["the threads load this tile"], ["the threads load this tile"]]


FUNCTIONS = """
import tilec
from tilec import tile

def of(rows, columns):
    @tilec.jit(pipeline="tma")
    def gemm(A: tile.View["M", "K"], B: tile.View["N", "K"]):
        D = tile.empty("M", "N", dtype="f32")
        for m, n in tile.grid(D, step=(rows, columns)):
            a = tile.smem(rows, 64, A.dtype)
            b = tile.smem(columns, 64, B.dtype)
            acc = tile.acc(rows, columns)
            for k in tile.range(A, dim=1, step=64):
                tile.copy(A[m, k], a)
                tile.copy(B[n, k], b)
                tile.mma(acc, a, b)
            tile.copy(acc, D[m, n])
        return D
    return gemm

@tilec.jit
def faulty(A: tile.View["M", "K"], B: tile.View["N", "K"]):
    D = tile.empty("M", "N", dtype="f32")
    for m, n in tile.grid(D, step=(64, 64)):
        a = tile.smem(64, 64, A.dtype)
        tile.copy(A[m, n], b)
    return D
"""
CALLS = """
import numpy as np
import functions

def correct(function):
    rng = np.random.default_rng()
    a, b = (rng.integers(-2, 3, (70, 72)).astype(np.float16) for _ in range(2))
    return bool((function(a, b) == a.astype(np.float64) @ b.astype(np.float64).T).all())
"""


def in_module(folder: Path, program: str) -> object:
    """With the functions in a file: a function is compiled from its source."""
    (folder / "functions.py").write_text(FUNCTIONS)
    return fresh(f"sys.path.insert(0, {str(folder)!r})\n{CALLS}{program}")


def test_one_function_in_all_threads(tmp_path: Path) -> None:
    result = in_module(
        tmp_path,
        """
count = 0
def profile(frame, event, argument):
    global count
    count += event == "call" and frame.f_code.co_name == "compile_module"
threading.setprofile(profile)
one = functions.of(64, 64)
results = together([lambda: correct(one)] * 8)
print(json.dumps([count, results]))
""",
    )
    assert result == [1, [True] * THREADS]


def test_a_function_in_each_thread_and_a_faulty_one(tmp_path: Path) -> None:
    result = in_module(
        tmp_path,
        """
made = [functions.of(rows, columns) for rows in (64, 128) for columns in (32, 64, 96, 128)]
made[5] = functions.faulty
results = together([lambda f=f: correct(f) for f in made])
again = together([lambda: correct(functions.faulty)] * 2)
print(json.dumps([results, again]))
""",
    )
    line = FUNCTIONS.splitlines().index("        tile.copy(A[m, n], b)") + 1
    assert isinstance(result, list)
    results, again = result
    error = results.pop(5)
    assert results == [True] * (THREADS - 1)
    assert error.startswith(f"tilec.diagnostics.TilecError: {tmp_path}/functions.py:{line}:28: error: ")
    assert "\n        tile.copy(A[m, n], b)\n" + " " * 27 + "^" in error
    assert again == [error, error]


LOOPS = """
tile.kernel @loops(%A: !tile.view<MxKxf16>) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  tile.for %k over %A dim 1 step 64 {
  }
  scf.for %i = %zero to %one step %one {
  }
}
"""


def in_threads(job: Callable[[], None]) -> None:
    """With a change of threads as often as can be."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=job) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)


def test_texts_are_read_at_a_time() -> None:
    """Loops whose terminators no text spells out: xDSL makes them by a way that threads share."""
    want = str(parse_text(LOOPS))
    found: list[str] = []

    def work() -> None:
        for _ in range(50):
            try:
                found.append(str(parse_text(LOOPS)))
            except tilec.TilecError as error:
                found.append(str(error))

    in_threads(work)
    assert found == [want] * (50 * THREADS)
    assert str(parse_text(LOOPS)) == want


def test_loops_are_made_at_a_time() -> None:
    """As passes and the front end make them."""
    ends: list[list[str]] = []

    def work() -> None:
        view = Values(result_types=[ViewType.of(["M"], F16.type)]).results[0]
        for _ in range(200):
            body = Block(arg_types=[IndexType()])
            try:
                ForOp(view, 0, 64, Region(body))
            except Exception as error:
                ends.append([str(error)])
            else:
                ends.append([op.name for op in body.ops])

    in_threads(work)
    assert ends == [["tile.yield"]] * (200 * THREADS)
