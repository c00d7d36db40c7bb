"""Cases of Triton's kernels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .cases import Array, Result, integers
from .formats import E4M3, E5M2, decode, encode, from_bf16, to_bf16
from .triton_launch import Call, Triton, padded

TRITON = Triton()
Constants = dict[str, Any]


def programs(m: int, n: int, constants: Constants) -> tuple[int, int]:
    return math.ceil(m / constants["BM"]), math.ceil(n / constants["BN"])


def matmul_call(
    constants: Constants, a: Array, b: Array, c: Array, expected: Array, pitches: tuple[int, int, int]
) -> Call:
    """A call of matmul with arrays at these pitches."""
    (m, k), n = a.shape, b.shape[1]
    out = padded(c, pitches[2])
    sizes = {"m": m, "n": n, "k": k, "lda": pitches[0], "ldb": pitches[1], "ldc": pitches[2]}
    arguments = {"a": padded(a, pitches[0]), "b": padded(b, pitches[1]), "c": out, **sizes}
    return Call(arguments, [Result(out, padded(expected, pitches[2]))], programs(m, n, constants))


@TRITON.case("matmul_f16", "matmul_cluster", "matmul_small")
def matmul_f16(random: np.random.Generator, constants: Constants) -> Call:
    m, n, k = (40, 20, 48) if constants["BM"] == 16 else (100, 75, 112)
    a, b = integers(random, (m, k), np.float32), integers(random, (k, n), np.float32)
    zero = np.zeros((m, n), np.float32)
    pitches = k, (n + 31) // 16 * 16, (n + 15) // 16 * 16
    return matmul_call(constants, a.astype(np.float16), b.astype(np.float16), zero, a @ b, pitches)


@TRITON.case("matmul_odd")
def matmul_odd(random: np.random.Generator, constants: Constants) -> Call:
    m, n, k = 45, 37, 51
    a, b = integers(random, (m, k), np.float32), integers(random, (k, n), np.float32)
    zero = np.zeros((m, n), np.float16)
    return matmul_call(
        constants, a.astype(np.float16), b.astype(np.float16), zero, (a @ b).astype(np.float16), (k + 2, n, n + 1)
    )


@TRITON.case("matmul_bf16_wide")
def matmul_bf16(random: np.random.Generator, constants: Constants) -> Call:
    m, n, k = 200, 60, 320
    a, b = integers(random, (m, k), np.float32), integers(random, (k, n), np.float32)
    zero = np.zeros((m, n), np.uint16)
    return matmul_call(constants, to_bf16(a), to_bf16(b), zero, to_bf16(a @ b), (k, 64, 64))


@TRITON.case("matmul_tf32", "matmul_ieee")
def matmul_f32(random: np.random.Generator, constants: Constants) -> Call:
    m, n, k = (20, 40, 48) if constants["BM"] == 16 else (70, 90, 80)
    a, b = integers(random, (m, k), np.float32), integers(random, (k, n), np.float32)
    return matmul_call(constants, a, b, np.zeros((m, n), np.float32), a @ b, (k + 16, 96, 96))


@TRITON.case("matmul_int8")
def matmul_int8(random: np.random.Generator, constants: Constants) -> Call:
    m, n, k = 64, 128, 192
    a, b = integers(random, (m, k), np.int8, -128, 128), integers(random, (n, k), np.int8, -128, 128)
    c = np.zeros((m, n), np.int32)
    sizes = {"k": k, "lda": k, "ldb": k, "ldc": n}
    expected = a.astype(np.int32) @ b.astype(np.int32).T
    return Call({"a": a, "b": b, "c": c, **sizes}, [Result(c, expected)], programs(m, n, constants))


@TRITON.case("matmul_fp8")
def matmul_fp8(random: np.random.Generator, constants: Constants) -> Call:
    m, n, k = 128, 64, 192
    a, b = integers(random, (m, k), np.float32), integers(random, (n, k), np.float32)
    c = np.zeros((m, n), np.float32)
    sizes = {"k": k, "lda": k, "ldb": k, "ldc": n}
    return Call(
        {"a": encode(a, E4M3), "b": encode(b, E4M3), "c": c, **sizes}, [Result(c, a @ b.T)], programs(m, n, constants)
    )


@TRITON.case("matmul_scaled")
def matmul_scaled(random: np.random.Generator, constants: Constants) -> Call:
    m, n, k = 128, 128, 256
    a, b = integers(random, (m, k), np.float32), integers(random, (n, k), np.float32)
    sa, sb = (random.integers(-2, 3, (rows, k // 32)) for rows in (m, n))
    c = np.zeros((m, n), np.float32)
    scaled = [x * np.repeat(2.0**s, 32, axis=1) for x, s in ((a, sa), (b, sb))]
    arguments = {
        "a": encode(a, E4M3),
        "sa": (sa + 127).astype(np.uint8),
        "b": encode(b, E4M3),
        "sb": (sb + 127).astype(np.uint8),
        "c": c,
        "k": k,
    }
    return Call(arguments, [Result(c, (scaled[0] @ scaled[1].T).astype(np.float32))], programs(m, n, constants))


@TRITON.case("matmul_tma", "matmul_tma_wide", "matmul_tma_device", "matmul_persistent", "matmul_roles")
def matmul_tma(random: np.random.Generator, constants: Constants) -> Call:
    """Ragged in m and k; n a multiple of 8 for the pitch."""
    m, n, k = (300, 72, 176) if "PROGRAMS" in constants else (150, 72, 176)
    a, b = integers(random, (m, k), np.float32), integers(random, (n, k), np.float32)
    c = np.zeros((m, n), np.float16)
    arguments = {"a": a.astype(np.float16), "b": b.astype(np.float16), "c": c, "m": m, "n": n, "k": k}
    grid = (constants["PROGRAMS"],) if "PROGRAMS" in constants else programs(m, n, constants)
    return Call(arguments, [Result(c, (a @ b.T).astype(np.float16))], grid)


@TRITON.case("softmax", "softmax_odd")
def softmax(random: np.random.Generator, constants: Constants) -> Call:
    single = constants["BLOCK"] == 1024
    rows, cols, stride = (2, 777, 784) if single else (3, 199, 203)
    dtype = np.float32 if single else np.float16
    x = (random.standard_normal((rows, cols)) * 3).astype(dtype)
    y = padded(np.zeros_like(x), stride)
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    expected = padded((e / e.sum(1, keepdims=True)).astype(dtype), stride)
    why = "float32 sums and ex2.approx" if single else "the same, stored as f16"
    close = Result(y, expected, 1e-5 if single else 2e-3, 0 if single else 1e-6, why)
    return Call({"x": padded(x, stride), "y": y, "cols": cols, "stride": stride}, [close], (rows,))


@TRITON.case("layer_norm")
def layer_norm(random: np.random.Generator, constants: Constants) -> Call:
    rows, cols, stride = 2, 601, 608
    x = (random.standard_normal((rows, cols)) * 2 + 5).astype(np.float16)
    gain, bias = random.standard_normal((2, cols)).astype(np.float32)
    y, mean, rstd = padded(np.zeros_like(x), stride), np.zeros(rows, np.float32), np.zeros(rows, np.float32)
    wide = x.astype(np.float64)
    deviation = 1 / np.sqrt(wide.var(1) + 1e-5)
    scaled = (wide - wide.mean(1, keepdims=True)) * deviation[:, None] * gain + bias
    results = [
        Result(y, padded(scaled.astype(np.float16), stride), 2e-3, 1e-4, "one f16 rounding of float32 sums"),
        Result(mean, wide.mean(1).astype(np.float32), 1e-6, 0, "float32 sums"),
        Result(rstd, deviation.astype(np.float32), 1e-5, 0, "float32 sums and approximate roots"),
    ]
    arguments = {"x": padded(x, stride), "gain": gain, "bias": bias, "y": y, "mean_out": mean, "rstd_out": rstd}
    return Call({**arguments, "cols": cols, "stride": stride, "eps": 1e-5}, results, (rows,))


@TRITON.case("transpose", "transpose_bytes")
def transpose(random: np.random.Generator, constants: Constants) -> Call:
    if constants["BLOCK"] == 32:
        x = random.standard_normal((48, 80)).astype(np.float32)
    else:
        x = random.integers(0, 256, (75, 101)).astype(np.uint8)
    rows, cols = x.shape
    y = np.zeros((cols, rows), x.dtype)
    grid = math.ceil(rows / constants["BLOCK"]), math.ceil(cols / constants["BLOCK"])
    return Call({"x": x, "y": y, "rows": rows, "cols": cols}, [Result(y, x.T.copy())], grid)


@TRITON.case("atomics")
def atomics(random: np.random.Generator, constants: Constants) -> Call:
    n, blocks = 700, math.ceil(700 / constants["BLOCK"])
    x, where = integers(random, (n,), np.float32, -50, 50), integers(random, (n,), np.int32, 5, 40)
    sums, extremes, ticket = np.ones(48, np.float32), np.array([1000, -1000], np.int32), np.zeros(3, np.int32)
    added = 1 + np.bincount(where, weights=x, minlength=48)
    results = [
        Result(sums, added.astype(np.float32)),
        Result(extremes, np.array([where.min(), where.max()], np.int32)),
        Result(ticket, np.array([blocks, 77, 5], np.int32)),
    ]
    return Call(
        {"x": x, "where": where, "sums": sums, "extremes": extremes, "ticket": ticket, "n": n}, results, (blocks,)
    )


@TRITON.case("scans")
def scans(random: np.random.Generator, constants: Constants) -> Call:
    block = constants["BLOCK"]
    x = random.permutation(block * 8)[:block].astype(np.int32)
    running, ordered = np.zeros((2, block), np.int32), np.zeros((2, block), np.int32)
    places, counts = np.zeros(2, np.int32), np.zeros(16, np.int32)
    results = [
        Result(running, np.stack([np.cumsum(x, dtype=np.int32), x[(np.arange(block) * 7 + 3) % block]])),
        Result(ordered, np.stack([np.sort(x), x[::-1]])),
        Result(places, np.array([x.argmax(), x.argmin()], np.int32)),
        Result(counts, np.bincount(x & 15, minlength=16).astype(np.int32)),
    ]
    return Call({"x": x, "running": running, "ordered": ordered, "places": places, "counts": counts}, results, (1,))


@TRITON.case("attention")
def attention(random: np.random.Generator, constants: Constants) -> Call:
    length, depth = 100, constants["D"]
    q, k, v = (random.standard_normal((length, depth)).astype(np.float16) for _ in range(3))
    out = np.zeros((length, depth), np.float16)
    scale = float(np.float32(1.4426950408889634 / math.sqrt(depth)))
    s = q.astype(np.float64) @ k.astype(np.float64).T * scale
    s[np.triu_indices(length, 1)] = -np.inf
    p = 2.0 ** (s - s.max(1, keepdims=True))
    expected = (p @ v.astype(np.float64) / p.sum(1, keepdims=True)).astype(np.float16)
    close = Result(out, expected, 4e-3, 4e-3, "probabilities and results are rounded to f16")
    arguments = {"q": q, "k": k, "v": v, "out": out, "length": length, "scale": scale}
    return Call(arguments, [close], (math.ceil(length / constants["BM"]),))


@TRITON.case("attention_tma", "attention_roles")
def attention_tma(random: np.random.Generator, constants: Constants) -> Call:
    queries, length, depth = 150, 192, constants["D"]
    q = random.standard_normal((queries, depth)).astype(np.float16)
    k, v = (random.standard_normal((length, depth)).astype(np.float16) for _ in range(2))
    out = np.zeros((queries, depth), np.float16)
    scale = float(np.float32(1.4426950408889634 / math.sqrt(depth)))
    s = q.astype(np.float64) @ k.astype(np.float64).T * scale
    p = 2.0 ** (s - s.max(1, keepdims=True))
    expected = (p @ v.astype(np.float64) / p.sum(1, keepdims=True)).astype(np.float16)
    close = Result(out, expected, 4e-3, 4e-3, "probabilities and results are rounded to f16")
    arguments = {"q": q, "k": k, "v": v, "out": out, "length": length, "scale": scale}
    return Call(arguments, [close], (math.ceil(queries / constants["BM"]),))


@TRITON.case("descriptor_reduce")
def descriptor_reduce(random: np.random.Generator, constants: Constants) -> Call:
    x = integers(random, (96, 32), np.int32, -1000, 1000)
    total, least = (integers(random, (32, 32), np.int32, -1000, 1000) for _ in range(2))
    tiles = x.reshape(3, 32, 32)
    results = [
        Result(total, (total + tiles.sum(0)).astype(np.int32)),
        Result(least, np.minimum(least, tiles.min(0))),
    ]
    return Call({"x": x, "total": total, "least": least}, results, (3,))


@TRITON.case("descriptor_gather")
def descriptor_gather(random: np.random.Generator, constants: Constants) -> Call:
    """Rows past the end of x read as zeros; rows past the end of y are dropped."""
    x = random.standard_normal((50, 128)).astype(np.float16)
    y = integers(random, (60, 128), np.float16)
    places = random.integers(0, 50, 32).astype(np.int32)
    places[[3, 17]] = 50, 1000
    rows = np.where((places < 50)[:, None], x[np.minimum(places, 49)], np.float16(0))
    expected = y.copy()
    expected[::2] = rows[:30]
    return Call({"x": x, "places": places, "y": y}, [Result(y, expected)], (2,))


@TRITON.case("special_functions")
def special_functions(random: np.random.Generator, constants: Constants) -> Call:
    n = 500
    x = random.uniform(-2, 2, n).astype(np.float32)
    v = x.astype(np.float64)
    erf = np.vectorize(math.erf)
    total = np.exp(v) + np.log(v + 3) - np.sin(v) * np.sqrt(v + 3) + 1 / (1 + np.exp(-v)) + erf(v)
    y = np.zeros((4, n), np.float32)
    results = [
        Result(
            y[0], (total / (1 + v * v)).astype(np.float32), 1e-5, 1e-5, "approximate functions, and sums that cancel"
        ),
        Result(y[1], from_bf16(to_bf16(v))),
        Result(y[2], decode(encode(x, E5M2), E5M2).astype(np.float32)),
        Result(y[3], decode(encode(x, E4M3), E4M3).astype(np.float32)),
    ]
    return Call({"x": x, "y": y, "n": n}, results, (math.ceil(n / constants["BLOCK"]),))
