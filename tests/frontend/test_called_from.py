"""What is wrong in a helper that was lowered in place is told with the calls that led there, whoever finds it."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest

import tilec
from tilec.backend.protocol import check
from tilec.diagnostics import TilecError, collect
from tilec.frontend.lowering import lower

STEP6 = Path(__file__).parents[2] / "examples" / "step6.py"
WAIT = "        tile.bulk.wait_group(0, read=True)\n"
FENCE = '    drain(acc, 0, dsmem, any_k)\n    tile.fence("proxy_async")\n'
NO_WAIT = """\
step6.py:30:9: error: the TMA store that reads %dsmem has not been waited for: nothing orders this write of %dsmem after it
        tile.store(r.to(dsmem.dtype), dsmem)
        ^
hint: the issuing thread waits first, `tile.bulk.wait_group 0 read` or fewer pending, then `tile.cta_sync` tells the other threads
step6.py:45:5: note: called from epilogue
    drain(acc, HALF, dsmem, any_k)
    ^
step6.py:124:9: note: called from step6
        epilogue(acc, dsmem, D, m, n, K != 0)
        ^
step6.py:41:9: note: the TMA store that reads %dsmem
        tile.copy_async(dsmem, D[m, n], dispatch="tma")
        ^
step6.py:124:9: note: called from step6
        epilogue(acc, dsmem, D, m, n, K != 0)
        ^"""
NO_FENCE = """\
step6.py:40:9: error: no fence proxy_async orders this TMA store's read of %dsmem after the threads' write of %dsmem
        tile.copy_async(dsmem, D[m, n], dispatch="tma")
        ^
hint: put `tile.fence proxy_async` between that and the `tile.cta_sync` behind it: TMA and MMAs go through another proxy than \
the threads' loads and stores
step6.py:124:9: note: called from step6
        epilogue(acc, dsmem, D, m, n, K != 0)
        ^
step6.py:30:9: note: the threads' write of %dsmem
        tile.store(r.to(dsmem.dtype), dsmem)
        ^
step6.py:37:5: note: called from epilogue
    drain(acc, 0, dsmem, any_k)
    ^
step6.py:124:9: note: called from step6
        epilogue(acc, dsmem, D, m, n, K != 0)
        ^"""
HAPPENS = """
step6.py:76:1: note: this happens with M = 128, K = 64, N = 128: one tile
def step6(A: tile.View["M", "K"], B: tile.View["N", "K"]):
^"""


def kernel_in(path: Path, text: str, name: str = "kernel") -> tilec.JitFunction:
    path.write_text(text)
    return runpy.run_path(str(path))[name]


@pytest.mark.parametrize(
    ("line", "instead", "message"), [(WAIT, "", NO_WAIT), (FENCE, FENCE.split("\n")[0] + "\n", NO_FENCE)]
)
def test_a_broken_protocol_in_a_helper(line: str, instead: str, message: str, tmp_path: Path) -> None:
    text = STEP6.read_text()
    assert text.count(line) == 1
    path = tmp_path / "step6.py"
    step6 = kernel_in(path, text.replace(line, instead), "step6")
    ones = np.ones((256, 256), np.float16)
    with pytest.raises(TilecError) as simulated:
        step6(ones, ones)
    assert str(simulated.value).replace(str(path), "step6.py") == message
    with pytest.raises(TilecError) as proved:
        step6.variant("f16", "f16", target="sm_100a").artifact  # noqa: B018
    assert str(proved.value).replace(str(path), "step6.py") == message + HAPPENS


UNPROVED = """\
import tilec
from tilec import tile

def last(ring, n):
    return ring[min(n, 1)]

@tilec.jit
def kernel(A: tile.View["M", "K"]):
    D = tile.empty("M", "K", dtype=A.dtype)
    ring = tile.ring(64, 64, A.dtype, depth=2, swizzle=128)
    full = tile.mbarrier.init(count=1)
    tile.cta_sync()
    for m, k in tile.grid(D, step=(64, 64)):
        a = last(ring, A.shape[1])
        with tile.single_thread():
            tile.mbarrier.arrive.expect_tx(full, a.nbytes)
            tile.copy_async(A[m, k], a, dispatch="tma", signal=full)
        tile.mbarrier.try_wait(full, 0)
        with tile.single_thread():
            tile.copy_async(a, D[m, k], dispatch="tma")
            tile.bulk.commit_group()
            tile.bulk.wait_group(0)
    return D
"""


def test_what_cannot_be_proved_in_a_helper(tmp_path: Path) -> None:
    path = tmp_path / "kernel.py"
    kernel = kernel_in(path, UNPROVED)
    found = check(lower(kernel.function, ("f16",), {}).module).diagnostic
    assert found is not None
    assert found.render().replace(str(path), "kernel.py") == (
        "kernel.py:5:12: warning: not proved: the stage of a ring depends on more than its depth\n"
        "    return ring[min(n, 1)]\n"
        "           ^\n"
        "hint: write the loop over an extent, and stages and phases as values that wrap at the ring's depth\n"
        "kernel.py:14:13: note: called from kernel\n"
        "        a = last(ring, A.shape[1])\n"
        "            ^"
    )


REMARKED = """\
import tilec
from tilec import tile

def fill(A, m, n, a):
    tile.copy(A[m, n + 1], a)

@tilec.jit(pipeline="tma")
def kernel(A: tile.View["M", "K"]):
    D = tile.empty("M", "K", dtype=A.dtype)
    for m, n in tile.grid(D, step=(64, 64)):
        a = tile.smem(64, 64, A.dtype)
        fill(A, m, n, a)
        tile.copy(a, D[m, n])
    return D
"""


def test_a_remark_on_a_helper(tmp_path: Path) -> None:
    path = tmp_path / "kernel.py"
    with collect() as remarks:
        kernel_in(path, REMARKED).variant("f16", target="sm_90a").artifact  # noqa: B018
    assert [one.render().replace(str(path), "kernel.py") for one in remarks] == [
        "kernel.py:5:5: remark: the threads load this tile: the innermost coordinate is not known to be a multiple of 16 "
        "bytes\n"
        "    tile.copy(A[m, n + 1], a)\n"
        "    ^\n"
        "kernel.py:12:9: note: called from kernel\n"
        "        fill(A, m, n, a)\n"
        "        ^"
    ]
