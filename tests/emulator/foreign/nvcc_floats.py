"""Cases of nvcc's floating-point kernels: exact arithmetic in every rounding, conversions, mathematical functions, norms."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from .cases import Array, Launch, Nvcc, Result, i32
from .formats import E2M1, E2M3, E3M2, E4M3, E5M2, decode, directed, encode, from_bf16, to_bf16

NVCC = Nvcc()
N = 150
GRID, BLOCK = (2, 1, 1), (96, 1, 1)


def f16_toward_zero(values: Array) -> Array:
    """float32 to float16, toward zero; finite values stay finite."""
    near = values.astype(np.float16)
    past = np.abs(near.astype(np.float64)) > np.abs(values.astype(np.float64))
    return np.where(past, np.nextafter(near, np.float16(0)), near).astype(np.float16)


@NVCC.case("halves")
def half2_math(random: np.random.Generator) -> Launch:
    x, y = ((random.standard_normal((N, 2)) * 10).astype(np.float16) for _ in range(2))
    x[:6, 0], y[:6, 1] = [0.0, -0.0, np.inf, np.nan, 2.0**-24, 65504.0], [1.0, 0.0, 2.0, np.nan, 0.5, -65504.0]
    x[10:14, 0] = x[10:14, 1]
    w, z = x.astype(np.float64), y.astype(np.float64)

    def half(values: Array) -> Array:
        return values.astype(np.float16)

    def ordered(pick: Callable[[Array, Array], Array], nan_wins: bool) -> Array:
        out = pick(x, y)
        return out if nan_wins else np.where(np.isnan(x), y, np.where(np.isnan(y), x, out)).astype(np.float16)

    with np.errstate(all="ignore"):
        fma_relu = half(w * z + z)
        narrow = np.where(np.isnan(x[:, 0]), 0, np.clip(np.trunc(w[:, 0]), -(2.0**31), 2.0**31) + 0.0)
        whole = np.clip(np.trunc(np.nan_to_num(w[:, 1])), -(2.0**31), 2.0**31 - 1).astype(np.int64) & 0xFFFF
        rows = [
            half(w + z),
            half(w - z),
            half(w * z),
            half(w * z + w),
            np.where(
                np.isnan(w + z), np.float16(0), np.clip(half(w + z), np.float16(0), np.float16(1)) + np.float16(0)
            ),
            np.where(np.isnan(fma_relu), fma_relu, np.where(fma_relu > 0, fma_relu, np.float16(0))),
            -x,
            np.abs(x),
            ordered(np.minimum, False),
            ordered(np.maximum, False),
            ordered(np.maximum, True),
            half(x > y),
            half(x <= y),
            x[:, ::-1],
            half(np.stack([x[:, 0].astype(np.float32) * np.float32(3), y[:, 1].astype(np.float32) / np.float32(3)], 1)),
            np.stack([half(narrow), f16_toward_zero(x[:, 1].astype(np.float32) * np.float32(1.0001))], 1),
            np.stack([np.floor(x[:, 0]), np.rint(x[:, 1])], 1),
            np.stack([np.where(x[:, 0] == x[:, 1], y[:, 0], y[:, 1]), whole.astype(np.uint16).view(np.float16)], 1),
        ]
    expected = np.stack([row.astype(np.float16) for row in rows])
    out = np.zeros_like(expected)
    return Launch([x, y, out, i32(N)], [Result(out, expected)], GRID, BLOCK)


@NVCC.case("halves")
def bfloat_math(random: np.random.Generator) -> Launch:
    x, y = (to_bf16(random.standard_normal((N, 2)) * 10) for _ in range(2))
    x[:3, 0], y[:3, 1] = to_bf16(np.array([0.0, -0.0, np.inf])), to_bf16(np.array([1.0, 0.0, 2.0]))
    w, z = from_bf16(x).astype(np.float64), from_bf16(y).astype(np.float64)
    third = w[:, 0].astype(np.float32) / np.float32(3)
    with np.errstate(invalid="ignore"):
        relu = w * z + z
        rows = [
            to_bf16(w + z),
            to_bf16(w - z),
            to_bf16(w * z),
            to_bf16(w * z + w),
            to_bf16(np.where(relu > 0, relu, 0)),
            to_bf16(-w),
            to_bf16(np.abs(w)),
            to_bf16(np.minimum(w, z)),
            to_bf16(np.maximum(w, z)),
            to_bf16((w < z).astype(np.float64)),
            to_bf16(np.stack([third, z[:, 1].astype(np.float32) * np.float32(1.01)], 1)),
            np.stack([to_bf16(third, True), to_bf16(np.arange(N) * 37 + 1000.0)], 1),
        ]
    out = np.zeros((12, N, 2), np.uint16)
    return Launch([x, y, out, i32(N)], [Result(out, np.stack(rows))], GRID, BLOCK)


def spread(random: np.random.Generator, count: int, low: float, high: float) -> Array:
    """Floats of both signs with magnitudes of many sizes, 2**low to 2**high."""
    signs = np.where(random.integers(0, 2, count), 1, -1)
    return (signs * 2.0 ** random.uniform(low, high, count)).astype(np.float32)


@NVCC.case("halves")
def fp8_convert(random: np.random.Generator) -> Launch:
    n = 128
    x = np.stack([spread(random, n, -19, 10), spread(random, n, -19, 17)], 1)
    x[:6, 0], x[:6, 1] = [0.0, 448.0, 464.0, 480.0, 17.0, -19.0], [-0.0, 57344.0, 1e9, -np.inf, 2.0**-10, 2.0**-17]
    codes = np.arange(256, dtype=np.uint8).reshape(n, 2)
    with np.errstate(over="ignore"):
        halved = x[:, 0].astype(np.float16)
    e4m3, e5m2, single = np.zeros((n, 2), np.uint8), np.zeros((n, 2), np.uint8), np.zeros(n, np.uint8)
    back4, back5 = np.zeros((n, 2), np.float16), np.zeros((n, 2), np.float16)
    results = [
        Result(e4m3, encode(x, E4M3)),
        Result(e5m2, encode(x, E5M2)),
        Result(back4, decode(codes, E4M3).astype(np.float16)),
        Result(back5, decode(codes, E5M2).astype(np.float16)),
        Result(single, encode(halved, E4M3)),
    ]
    return Launch([x, e4m3, e5m2, codes, back4, back5, single, i32(n)], results, GRID, BLOCK)


@NVCC.case("narrow", ("sm_100a",))
def narrow_convert(random: np.random.Generator) -> Launch:
    n = 128
    x = np.stack([spread(random, n, -7, 6), spread(random, n, -7, 3)], 1)
    x[:4, 0], x[:4, 1] = [0.0, 5.0, 2.5, 0.25], [-0.0, 2.0**-4, 0.75, 7.25]
    codes = np.arange(256, dtype=np.uint8).reshape(n, 2)
    nibbles = np.stack([codes[:, 0] & 15, codes[:, 0] >> 4], 1)
    e2m1, e2m3, e3m2, e8m0 = np.zeros(n, np.uint8), *(np.zeros((n, 2), np.uint8) for _ in range(3))
    back = [np.zeros((n, 2), np.float16) for _ in range(3)]
    pairs = encode(x, E2M1)
    exponents = np.zeros((n, 2), np.uint8)
    for at in np.ndindex(n, 2):
        if x[at]:
            mantissa, exponent = math.frexp(abs(float(x[at])))
            exponents[at] = exponent + 127 - (mantissa == 0.5)  # the next power of two up
    results = [
        Result(e2m1, pairs[:, 0] | pairs[:, 1] << 4),
        Result(e2m3, encode(x, E2M3)),
        Result(e3m2, encode(x, E3M2)),
        Result(e8m0, exponents),
        Result(back[0], decode(nibbles, E2M1).astype(np.float16)),
        *(
            Result(array, decode(codes & 63, form).astype(np.float16))
            for array, form in zip(back[1:], (E2M3, E3M2), strict=True)
        ),
    ]
    return Launch([x, e2m1, e2m3, e3m2, e8m0, codes, *back, i32(n)], results, GRID, BLOCK)


@NVCC.case("narrow", ("sm_100a",))
def packed_floats(random: np.random.Generator) -> Launch:
    x, y = (random.standard_normal((N, 2)).astype(np.float32) for _ in range(2))
    out, expected = np.zeros((3, N, 2), np.float32), np.zeros((3, N, 2), np.float32)
    for at in np.ndindex(N, 2):
        a, b = Fraction(float(x[at])), Fraction(float(y[at]))
        for row, (exact, mode) in enumerate(((a + b, "n"), (a * b, "z"), (a * b + a, "n"))):
            expected[row][at] = directed(exact, np.float32, mode)
    return Launch([x, y, out, i32(N)], [Result(out, expected)], GRID, BLOCK)


@NVCC.case("halves")
def double_math(random: np.random.Generator) -> Launch:
    x, y = (random.standard_normal(N) * 10.0 ** random.integers(-3, 4, N) for _ in range(2))
    out = np.zeros((12, N))
    rows = np.zeros((12, N))
    for i in range(N):
        a, b = Fraction(x[i]), Fraction(y[i])
        tiny = Fraction(1e-17)
        rows[1, i], rows[2, i] = directed(a * b, np.float64, "z"), float(a * b - a)
        rows[5, i], rows[6, i] = directed(a + tiny, np.float64, "d"), directed(a / b, np.float64, "u")
    rows[0], rows[3], rows[4], rows[7] = x + y, x / y, np.sqrt(np.abs(x)), np.minimum(x, y)
    rows[8:] = np.floor(x), np.rint(y), x.astype(np.float32), np.trunc(x * 1000)
    rows[11] += 0.0
    return Launch([x, y, out, i32(N)], [Result(out, rows)], GRID, BLOCK)


def half_away(x: Array) -> Array:
    return np.copysign(np.floor(np.abs(x.astype(np.float64)) + 0.5), x)


@NVCC.case("math")
def exact_floats(random: np.random.Generator) -> Launch:
    x, y = ((random.standard_normal(N) * 10).astype(np.float32) for _ in range(2))
    x[:8], y[:8] = [0.5, -0.5, 1.5, 2.5, -2.5, 0.25, 0.0, -3.0], [3.0, 0.5, -1.5, 2.5, 1e-3, 0.25, 7.0, 1.0]
    rows = np.zeros((24, N), np.float32)
    for i in range(N):
        a, b = Fraction(float(x[i])), Fraction(float(y[i]))
        exact = ((0, a + b, "z"), (1, a + b, "u"), (2, a * b, "d"), (3, a * b + a, "z"))
        for row, value, mode in exact:
            rows[row, i] = directed(value, np.float32, mode)
        if a == 0:
            rows[2:4, i] = [x[i] * y[i], 0.0]
    one = np.float32(1)
    rows[4:8] = x / y, one / y, np.sqrt(np.abs(x)), x
    rows[8:15] = np.minimum(x, y), np.maximum(x, -y), np.floor(x), np.ceil(x), np.trunc(x), np.rint(x), half_away(x)
    rows[15:17] = np.copysign(x, y), np.clip(x, 0, 1)
    rows[17:20] = np.trunc(x) + np.float32(0), np.trunc(np.abs(y)), np.fmod(x, y)
    rows[20:22] = x * 8, np.signbit(y)
    rows[22:24] = np.where(x > y, x, np.where(x == y, 0, y)), np.where(x > y, x - y, 0)
    out = np.zeros_like(rows)
    approximate = Result(out[7], rows[7], rtol=2.0**-22, why="div.approx may be off by 2 ulp")
    results = [Result(out[:7], rows[:7]), approximate, Result(out[8:], rows[8:])]
    return Launch([x, y, out, i32(N)], results, GRID, BLOCK)


def arguments(random: np.random.Generator, dtype: type[np.float32] | type[np.float64]) -> tuple[Array, Array]:
    """x of [-3, 3] away from the poles of tan, y of [0.3, 8]."""
    x = random.uniform(-3, 3, 4 * N)
    x = x[np.abs(np.cos(x)) > 0.05][:N]
    return x.astype(dtype), random.uniform(0.3, 8, N).astype(dtype)


def function_rows(x32: Array, y32: Array) -> Array:
    """The rows of functions, in float64."""
    x, y = x32.astype(np.float64), y32.astype(np.float64)
    large = (x32 * np.float32(100000)).astype(np.float64)
    one_by_one = np.vectorize
    return np.stack(
        [
            np.exp(x),
            np.sin(x),
            np.cos(x),
            np.tan(x),
            1 / np.sqrt(y),
            np.log(y),
            one_by_one(math.erf)(x),
            y**x,
            np.tanh(x),
            np.exp2(x),
            np.log2(y),
            np.arctan2(x, y),
            np.cbrt(x),
            np.hypot(x, y),
            one_by_one(math.lgamma)(y),
            np.expm1(x),
            np.log1p(y),
            np.sin(large),
            y / (x * x + 1),
            np.sqrt(y),
        ]
    )


@NVCC.case("math")
def functions(random: np.random.Generator) -> Launch:
    x, y = arguments(random, np.float32)
    out = np.zeros((20, N), np.float32)
    close = Result(
        out, function_rows(x, y).astype(np.float32), 2e-6, 1e-6, "CUDA states up to 8 ulp for these functions"
    )
    return Launch([x, y, out, i32(N)], [close], GRID, BLOCK)


@NVCC.case("math", ("sm_90a.fast",), entry="functions")
def functions_fast_math(random: np.random.Generator) -> Launch:
    x, y = arguments(random, np.float32)
    out = np.zeros((20, N), np.float32)
    expected = function_rows(x, y).astype(np.float32)
    why = (
        "sin.approx and its like have absolute errors near 1e-6; sines of huge arguments mean nothing and are left out"
    )
    near = [Result(out[part], expected[part], 1e-4, 1e-5, why) for part in (slice(0, 17), slice(18, 20))]
    return Launch([x, y, out, i32(N)], near, GRID, BLOCK)


@NVCC.case("math", ("sm_90a", "sm_90a.fast", "sm_100a"))
def fast_functions(random: np.random.Generator) -> Launch:
    x32, y32 = arguments(random, np.float32)
    x, y = x32.astype(np.float64), y32.astype(np.float64)
    rows = [np.exp(x), np.sin(x), np.cos(x), np.log(y), y**x, x / y, np.log2(y), 10**x]
    rows += [np.tanh(x), np.exp2(x), 1 / np.sqrt(y), 1 / y, np.sqrt(y)]
    expected = np.stack(rows).astype(np.float32)
    out = np.zeros_like(expected)
    results = [
        Result(out[:8], expected[:8], 2e-5, 2e-6, "approximations, with absolute errors where the result is near zero"),
        Result(out[8], expected[8], 2.0**-10, 0, "tanh.approx has a relative error of 2**-11"),
        Result(out[9:], expected[9:], 5e-7, 0, "2 ulp and less by the PTX manual"),
    ]
    return Launch([x32, y32, out, i32(N)], results, GRID, BLOCK)


@NVCC.case("math")
def double_functions(random: np.random.Generator) -> Launch:
    x, y = arguments(random, np.float64)
    out = np.zeros((6, N))
    expected = np.stack([np.exp(x), np.log(y), np.sin(x), y**x, 1 / np.sqrt(y), np.tanh(x)])
    return Launch([x, y, out, i32(N)], [Result(out, expected, 1e-14, 1e-15, "CUDA states up to 2 ulp")], GRID, BLOCK)


def softmax_of(rows: int, cols: int, random: np.random.Generator) -> Launch:
    x = (random.standard_normal((rows, cols)) * 3).astype(np.float32)
    y = np.zeros_like(x)
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    expected = (e / e.sum(1, keepdims=True)).astype(np.float32)
    close = Result(y, expected, 1e-5, 0, "float32 sums and expf")
    return Launch([x, y, i32(cols)], [close], (rows, 1, 1), (128, 1, 1))


@NVCC.case("normalise")
def softmax(random: np.random.Generator) -> Launch:
    return softmax_of(3, 301, random)


@NVCC.case("normalise", ("sm_90a.debug",), entry="softmax")
def softmax_debug(random: np.random.Generator) -> Launch:
    return softmax_of(1, 137, random)


def layer_norm_of(rows: int, cols: int, random: np.random.Generator) -> Launch:
    x = (random.standard_normal((rows, cols)) * 2 + 5).astype(np.float32)
    gain, bias = random.standard_normal((2, cols)).astype(np.float32)
    y = np.zeros_like(x)
    wide = x.astype(np.float64)
    scaled = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    close = Result(
        y, (scaled * gain + bias).astype(np.float32), 1e-5, 1e-5, "float32 sums, and a difference from the mean"
    )
    return Launch([x, gain, bias, y, i32(cols), np.float32(1e-5)], [close], (rows, 1, 1), (128, 1, 1))


@NVCC.case("normalise")
def layer_norm(random: np.random.Generator) -> Launch:
    return layer_norm_of(3, 301, random)


@NVCC.case("normalise", ("sm_90a.debug",), entry="layer_norm")
def layer_norm_debug(random: np.random.Generator) -> Launch:
    return layer_norm_of(1, 137, random)
