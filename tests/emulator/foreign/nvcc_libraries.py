"""Cases of kernels written with libraries: the CUDA C++ standard library, cooperative groups and CUB."""

from __future__ import annotations

import numpy as np

from .cases import Launch, Nvcc, Result, i32, integers

NVCC = Nvcc()


@NVCC.case("standard")
def barrier_copy(random: np.random.Generator) -> Launch:
    x = integers(random, (768,), np.int32, -1000, 1000)
    y = np.zeros_like(x)
    return Launch([x, y], [Result(y, 3 * x)], (3, 1, 1), (64, 1, 1))


@NVCC.case("standard")
def pipeline_sum(random: np.random.Generator) -> Launch:
    x = integers(random, (5, 64), np.int32, -1000, 1000)
    y = np.zeros(64, np.int32)
    return Launch([x, y, i32(5)], [Result(y, x.sum(0, dtype=np.int32)[::-1].copy())], block=(64, 1, 1))


@NVCC.case("standard")
def hand_over(random: np.random.Generator) -> Launch:
    x = integers(random, (64,), np.int32, -1000, 1000)
    box, flag, out, total = np.zeros(64, np.int32), np.zeros(1, np.int32), np.zeros(64, np.int32), np.zeros(1, np.int64)
    after = 2 * x[::-1] + 1
    results = [
        Result(box, 2 * x),
        Result(flag, np.array([64], np.int32)),
        Result(out, after),
        Result(total, after.sum(keepdims=True, dtype=np.int64)),
    ]
    return Launch([x, box, flag, out, total], results, (2, 1, 1), (64, 1, 1))


@NVCC.case("standard")
def groups(random: np.random.Generator) -> Launch:
    x = integers(random, (64,), np.int32, -1000, 1000)
    out = np.zeros((4, 8, 8), np.int32)
    v = x.reshape(8, 8)
    inclusive = np.cumsum(v, axis=1)
    down = np.where(np.arange(8) + 2 < 8, np.roll(v, -2, axis=1), v)
    same = ((v & 3)[:, :, None] == (v & 3)[:, None, :]) @ (1 << np.arange(8))
    positive = v > 0
    alike = positive[:, :, None] == positive[:, None, :]
    expected = np.stack(
        [
            np.broadcast_to(v.sum(1, keepdims=True) + v.max(1, keepdims=True), v.shape),
            inclusive * 2 + (inclusive - v),
            v[:, 3:4] - down + same,
            alike.sum(2) * 100 + (alike * v[:, None, :]).sum(2),
        ]
    )
    return Launch([x, out], [Result(out, expected.astype(np.int32))], block=(64, 1, 1))


@NVCC.case("standard")
def block_algorithms(random: np.random.Generator) -> Launch:
    x = random.integers(0, 1 << 32, 256).astype(np.uint32)
    x[:20] = x[100:120]
    arrays = [
        np.zeros(n, t)
        for n, t in ((256, np.uint32), (256, np.int32), (256, np.uint32), (1, np.uint32), (16, np.uint32))
    ]
    order = np.argsort(x, kind="stable")
    sums = np.cumsum(x, dtype=np.uint32)
    expected = [
        x[order],
        order.astype(np.int32),
        sums - x,
        sums[-1:],
        np.bincount(x & 15, minlength=16).astype(np.uint32),
    ]
    results = [Result(array, values) for array, values in zip(arrays, expected, strict=True)]
    return Launch([x, *arrays], results, block=(64, 1, 1))
