"""Lesson 09, step 6, as a Python function: TMA loads, a ring of stages, and CTAs that loop over many output tiles.

    python examples/step6.py

The program of step6_persistent.tile, with its barriers and phases by hand; compare gemm.py, where passes make them. It
launches on a GPU where there is one (with torch), and otherwise executes in the simulator.
"""
# The extents in annotations are symbols, which linters take for forward references.
# ruff: noqa: F821
# pyright: basic, reportUndefinedVariable=false, reportMissingImports=false

import importlib.util
from typing import Any

import numpy as np

import tilec
from tilec import tile

BLK_M, BLK_N, BLK_K = 128, 128, 64
HALF = BLK_N // 2
PIPE_DEPTH = 2


def drain(acc: tile.Acc, column: int, dsmem: tile.Smem, any_k: tile.Bool):
    """Half an accumulator -> registers -> cast -> staging tile; zeros where nothing was accumulated."""
    if any_k:
        r = tile.copy_async(acc[:, column : column + HALF], dispatch="tmem")
        tile.tmem.wait_ld()
        tile.store(r.to(dsmem.dtype), dsmem)
    else:
        tile.store(tile.zeros(dsmem.shape, dsmem.dtype), dsmem)


def epilogue(acc: tile.Acc, dsmem: tile.Smem, D: tile.View, m: tile.Index, n: tile.Index, any_k: tile.Bool):
    """Staging tile -> TMA store, one half of the columns after the other."""
    drain(acc, 0, dsmem, any_k)
    tile.fence("proxy_async")
    tile.cta_sync()  # every thread has written and fenced
    with tile.single_thread():
        tile.copy_async(dsmem, D[m, n], dispatch="tma")
        tile.bulk.commit_group()
        tile.bulk.wait_group(0, read=True)
    tile.cta_sync()  # the staging tile has been read: it may be rewritten
    right = n + HALF
    drain(acc, HALF, dsmem, any_k)
    tile.fence("proxy_async")
    tile.fence("before_thread_sync")  # the accumulator has been read
    tile.cta_sync()
    with tile.single_thread():
        tile.copy_async(dsmem, D[m, right], dispatch="tma")
        tile.bulk.commit_group()
        tile.bulk.wait_group(0)
    tile.fence("after_thread_sync")


def prefetch(
    A: tile.View,
    B: tile.View,
    place: tuple[tile.Index, tile.Index, tile.Index],
    ring_a: tile.Ring,
    ring_b: tile.Ring,
    bar: tile.Mbarrier,
    s: tile.Index,
):
    """Fill stage s of both rings with the tiles at (m, n, k)."""
    m, n, k = place
    with tile.single_thread():
        a = ring_a[s]
        b = ring_b[s]
        tile.mbarrier.arrive.expect_tx(bar[s], a.nbytes + b.nbytes)
        tile.copy_async(A[m, k], a, dispatch="tma", signal=bar[s])
        tile.copy_async(B[n, k], b, dispatch="tma", signal=bar[s])


@tilec.jit
def step6(A: tile.View["M", "K"], B: tile.View["N", "K"]):
    """Lesson 09, step 6: a fixed pool of CTAs, each looping over many output tiles; setup is paid once.

    Stage and phases are carried from tile to tile: a barrier keeps its parity for the life of the kernel.
    """
    D = tile.empty("M", "N", dtype=A.dtype)
    Asmem = tile.ring(BLK_M, BLK_K, A.dtype, depth=PIPE_DEPTH, swizzle=128)
    Bsmem = tile.ring(BLK_N, BLK_K, B.dtype, depth=PIPE_DEPTH, swizzle=128)
    dsmem = tile.smem(BLK_M, HALF, D.dtype, swizzle=128)
    acc = tile.acc(BLK_M, BLK_N)
    tma_bar = tile.mbarrier.init(count=1, depth=PIPE_DEPTH)
    mma_bar = tile.mbarrier.init(count=1)
    tile.cta_sync()

    K = tile.dim(A, 1)
    stage = tile.index(0)
    phase_tma = tile.i32(0)
    phase_mma = tile.i32(0)
    for m, n in tile.persistent(D, step=(BLK_M, BLK_N), group=8):
        # Prologue: prefetch the first PIPE_DEPTH tiles, from the stage where the last tile stopped.
        for i in tile.loop(0, PIPE_DEPTH):
            k = i * BLK_K
            s = (stage + i) % PIPE_DEPTH
            if k < K:
                prefetch(A, B, (m, n, k), Asmem, Bsmem, tma_bar, s)

        # Steady state: as in step 5; stage and phases go on where the last tile left them.
        for k in tile.loop(0, K, BLK_K):
            a = Asmem[stage]
            b = Bsmem[stage]
            tile.mbarrier.try_wait(tma_bar[stage], phase_tma)
            tile.fence("after_thread_sync")
            tile.mma(acc, a, b, accumulate=k != 0)
            tile.commit(mma_bar)
            tile.mbarrier.try_wait(mma_bar, phase_mma)
            phase_mma ^= 1

            next_k = k + PIPE_DEPTH * BLK_K
            if next_k < K:
                with tile.single_thread():
                    tile.mbarrier.arrive.expect_tx(tma_bar[stage], a.nbytes + b.nbytes)
                    tile.copy_async(A[m, next_k], a, dispatch="tma", signal=tma_bar[stage])
                    tile.copy_async(B[n, next_k], b, dispatch="tma", signal=tma_bar[stage])
            wrapped = stage == PIPE_DEPTH - 1
            stage = 0 if wrapped else stage + 1
            phase_tma = phase_tma ^ 1 if wrapped else phase_tma

        tile.fence("after_thread_sync")
        epilogue(acc, dsmem, D, m, n, K != 0)
        tile.cta_sync()  # the staging tile and the accumulator are free for the next tile
        tile.fence("after_thread_sync")  # the next tile's first MMA comes after this tile's reads
    tile.free(acc)
    return D


def run(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> tuple[str, np.ndarray[Any, Any]]:
    """Where it ran, and the product."""
    if importlib.util.find_spec("torch") is not None:
        import torch

        if torch.cuda.is_available():
            d = step6(torch.from_numpy(a).cuda(), torch.from_numpy(b).cuda())
            return torch.cuda.get_device_name(), d.cpu().numpy()
    return "the simulator", step6(a, b)


def main() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((200, 136), (264, 136)))
    where, d = run(a, b)
    want = a.astype(np.float64) @ b.astype(np.float64).T
    error = np.linalg.norm(d - want) / np.linalg.norm(want)
    print(f"{d.shape[0]}x{d.shape[1]} on {where}: relative error {error:.1e} {'PASS' if error < 1e-3 else 'FAIL'}")


if __name__ == "__main__":
    main()
