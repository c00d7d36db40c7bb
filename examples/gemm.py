"""D[M, N] = A[M, K] * B[N, K]^T as a Python function: the program of gemm.tile, and its schedule as a line of text.

    python examples/gemm.py

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

BLOCK_M, BLOCK_N, BLOCK_K = 128, 128, 64


@tilec.jit(pipeline="tma,pipeline(2),persistent")
def gemm(A: tile.View["M", "K"], B: tile.View["N", "K"]):
    D = tile.empty("M", "N", dtype=A.dtype)
    for m, n in tile.grid(D, step=(BLOCK_M, BLOCK_N)):
        a = tile.smem(BLOCK_M, BLOCK_K, A.dtype)
        b = tile.smem(BLOCK_N, BLOCK_K, B.dtype)
        acc = tile.acc(BLOCK_M, BLOCK_N)
        for k in tile.range(A, dim=1, step=BLOCK_K):
            tile.copy(A[m, k], a)
            tile.copy(B[n, k], b)
            tile.mma(acc, a, b)
        tile.copy(acc, D[m, n])
    return D


def run(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> tuple[str, np.ndarray[Any, Any]]:
    """Where it ran, and the product."""
    if importlib.util.find_spec("torch") is not None:
        import torch

        if torch.cuda.is_available():
            d = gemm(torch.from_numpy(a).cuda(), torch.from_numpy(b).cuda())
            return torch.cuda.get_device_name(), d.cpu().numpy()
    return "the simulator", gemm(a, b)


def main() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((200, 136), (264, 136)))
    where, d = run(a, b)
    want = a.astype(np.float64) @ b.astype(np.float64).T
    error = np.linalg.norm(d - want) / np.linalg.norm(want)
    print(f"{d.shape[0]}x{d.shape[1]} on {where}: relative error {error:.1e} {'PASS' if error < 1e-3 else 'FAIL'}")


if __name__ == "__main__":
    main()
