"""The GEMM of examples/gemm.tile in Triton: with TMA descriptors, as the kernel of tilec has them, and with pointers.

One program computes one tile (the kernel of tilec is persistent; for a single tile that is the same).
"""
# pyright: basic, reportMissingImports=false, reportIndexIssue=false

from typing import Any

import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

BLOCKS = (128, 128, 64)
OPTIONS = {"num_stages": 2, "num_warps": 4}


@triton.jit
def with_descriptors(A, B, D, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM
    n = tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in tl.range(0, K, BK):
        a = A.load([m, k])
        b = B.load([n, k])
        acc = tl.dot(a, b.T, acc)
    D.store([m, n], acc.to(tl.float16))


@triton.jit
def with_pointers(A, B, D, M, N, K, a_row, b_row, d_row, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in tl.range(0, K, BK):
        inside = k[None, :] < K - start
        a = tl.load(A + m[:, None] * a_row + start + k[None, :], mask=(m[:, None] < M) & inside, other=0.0)
        b = tl.load(B + n[:, None] * b_row + start + k[None, :], mask=(n[:, None] < N) & inside, other=0.0)
        acc = tl.dot(a, b.T, acc)
    tl.store(D + m[:, None] * d_row + n[None, :], acc.to(tl.float16), mask=(m[:, None] < M) & (n[None, :] < N))


def descriptors(a: Any, b: Any, d: Any, blocks: tuple[int, int, int] = BLOCKS) -> tuple[Any, Any, Any]:
    m, n, k = blocks
    return (
        TensorDescriptor.from_tensor(a, [m, k]),
        TensorDescriptor.from_tensor(b, [n, k]),
        TensorDescriptor.from_tensor(d, [m, n]),
    )


def multiply(a: Any, b: Any, d: Any, blocks: tuple[int, int, int] = BLOCKS) -> None:
    """Launch with descriptors that are made for this call."""
    grid = (triton.cdiv(d.shape[0], blocks[0]), triton.cdiv(d.shape[1], blocks[1]))
    with_descriptors[grid](*descriptors(a, b, d, blocks), a.shape[1], *blocks, **OPTIONS)
