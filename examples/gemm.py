"""D[M, N] = A[M, K] * B[N, K]^T as a Python function: the program of gemm.tile, and its schedule as a line of text.

python examples/gemm.py          on a GPU with torch, else by executing the program's meaning with NumPy
"""

from __future__ import annotations

import tilec
from tilec import tile


@tilec.jit(pipeline="tma,pipeline(2),persistent")
def gemm(A: tile.View[M, K], B: tile.View[N, K]):  # noqa: F821
    D = tile.empty("M", "N", dtype=A.dtype)
    for m, n in tile.grid(D, step=(128, 128)):
        a = tile.smem(128, 64, A.dtype)
        b = tile.smem(128, 64, B.dtype)
        acc = tile.acc(128, 128)
        for k in tile.range(A, dim=1, step=64):
            tile.copy(A[m, k], a)
            tile.copy(B[n, k], b)
            tile.mma(acc, a, b)
        tile.copy(acc, D[m, n])
    return D
