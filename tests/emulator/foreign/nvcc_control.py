"""Cases of nvcc's kernels about calls and control flow."""

from __future__ import annotations

import numpy as np

from .cases import Launch, Nvcc, Result, i32, integers

NVCC = Nvcc()
TABLE = [3, 1, 4, 1, 5, 9, 2, 6]


@NVCC.case("functions")
def recursion(random: np.random.Generator) -> Launch:
    x = integers(random, (32,), np.int32, 0, 9)
    out = np.zeros_like(x)
    fibonacci = [0, 1, 1, 2, 3, 5, 8, 13, 21]
    return Launch([x, out], [Result(out, np.array(fibonacci, np.int32)[x])])


@NVCC.case("functions")
def pointers(random: np.random.Generator) -> Launch:
    x, which = integers(random, (64,), np.int32, -1000, 1000), integers(random, (64,), np.int32, 0, 3)
    out = np.zeros_like(x)
    return Launch([x, which, out], [Result(out, np.choose(which, [2 * x, x * x, -x]) + 1)], block=(64, 1, 1))


@NVCC.case("functions")
def virtuals(random: np.random.Generator) -> Launch:
    x = integers(random, (64,), np.int32, -1000, 1000)
    out, t = np.zeros_like(x), np.arange(64, dtype=np.int32)
    return Launch([x, out], [Result(out, np.where(x & 1, x * t, x + t))], block=(64, 1, 1))


@NVCC.case("functions")
def switches(random: np.random.Generator) -> Launch:
    kind, x = integers(random, (64,), np.int32, 0, 11), integers(random, (64,), np.int32, -1000, 1000)
    out = integers(random, (64,), np.int32, -1000, 1000)
    expected = np.zeros_like(out)
    for t in range(64):
        v, old = int(x[t]), int(out[t])
        after = {
            0: v + 11,
            1: v * v,
            2: (v & 0xFFFFFFFF).bit_count() - 4,
            3: ((v ^ 0x55) + old) * 3 - 1,
            4: v * 3 - 1,
            5: v + sum(i * i for i in range(t)),
            6: int(v / 3),
            7: 7,
            8: v << 3 | 1,
        }
        expected[t] = after.get(int(kind[t]), -1)
    return Launch([kind, x, out], [Result(out, expected)], block=(64, 1, 1))


@NVCC.case("functions")
def local_array(random: np.random.Generator) -> Launch:
    x = integers(random, (40, 8), np.int32, -1000, 1000)
    out = np.zeros_like(x)
    added = np.array([[TABLE[(t + i) & 7] for i in range(8)] for t in range(40)], np.int32)
    return Launch([x, out], [Result(out, np.sort(x, 1) + added)], block=(40, 1, 1))


@NVCC.case("functions")
def constants(random: np.random.Generator) -> Launch:
    x, t = integers(random, (48,), np.float32, -100, 100), np.arange(48)
    out, bits, old = np.zeros(48, np.float32), np.zeros(48, np.uint64), np.zeros(48, np.int32)
    scales = np.array([0.5, 1.0, 2.0, -1.0], np.float32)
    expected = x * scales[t & 3] + np.array(TABLE, np.float32)[t & 7]
    mixed = np.array([0x0123456789ABCDEF, 0xFEDCBA9876543210], np.uint64)
    results = [
        Result(out, expected),
        Result(bits, mixed[t & 1] >> (t & 15).astype(np.uint64)),
        Result(old, np.ones(48, np.int32)),
    ]
    return Launch([x, out, bits, old], results, block=(48, 1, 1))


@NVCC.case("functions", entry="speaking")
def silent(random: np.random.Generator) -> Launch:
    x = integers(random, (64,), np.int32, 0, 1000)
    out = np.zeros_like(x)
    return Launch([x, out, i32(0)], [Result(out, x + 1)], block=(64, 1, 1))


@NVCC.case("functions")
def speaking(random: np.random.Generator) -> Launch:
    x = integers(random, (64,), np.int32, 0, 1000)
    out = np.zeros_like(x)
    return Launch([x, out, i32(1)], [Result(out, x + 1)], block=(64, 1, 1))


@NVCC.case("functions")
def structures(random: np.random.Generator) -> Launch:
    layout = np.dtype([("a", np.int32), ("b", np.int16, 3), ("d", np.float64), ("c", np.uint8, 5)], align=True)
    value = np.zeros((), layout)
    value["a"], value["b"], value["d"], value["c"] = 1234, [-7, 300, 25], 0.125, [1, 2, 3, 250, 5]
    p, t = integers(random, (32,), np.int32, -1000, 1000), np.arange(32)
    out = np.zeros(32)
    b, c = value["b"].astype(int) + value["c"][:3], value["c"].astype(int)
    return Launch([value[()], p, out], [Result(out, -1234 + b[t % 3] + 0.25 + c[t % 5] + p)])


@NVCC.case("functions")
def divergence(random: np.random.Generator) -> Launch:
    x = random.integers(1, 60, 128).astype(np.uint32)
    out = np.zeros_like(x)
    steps = np.zeros(128, np.uint32)
    for i, start in enumerate(x.tolist()):
        v, count = start, 0
        while v != 1:
            if v % 2:
                v = 3 * v + 1
                if v % 5 == 0:
                    count += 100
                    continue
            else:
                v //= 2
            count += 1
        steps[i] = count
    best = np.repeat(steps.reshape(4, 32).max(1), 32)
    return Launch([x, out], [Result(out, steps << np.uint32(16) | best & np.uint32(0xFFFF))], (2, 1, 1), (64, 1, 1))


@NVCC.case("functions")
def positions(random: np.random.Generator) -> Launch:
    grid, block = (2, 3, 2), (4, 3, 5)
    out, expected = np.zeros((12, 60, 4), np.uint32), np.zeros((12, 60, 4), np.uint32)
    for bz, by, bx in np.ndindex(grid[::-1]):
        for tz, ty, tx in np.ndindex(block[::-1]):
            b, t = bx + 2 * (by + 3 * bz), tx + 4 * (ty + 3 * tz)
            where = tx | ty << 4 | tz << 8 | bx << 12 | by << 16 | bz << 20
            expected[b, t] = [where, t % 32 | t // 32 << 8 | 3 << 16, (1 << t % 32) - 1, 1]
    return Launch([out], [Result(out, expected)], grid, block)
