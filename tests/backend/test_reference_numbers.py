"""Rounding, and the numbers that MMAs and register tiles give."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from gemm_text import gemm
from hypothesis import given, settings
from hypothesis import strategies as st

from tilec.backend.reference import Array, round_bf16, run, run_float64
from tilec.source import parse_text


def bf16_neighbours(value: np.float32) -> tuple[float, float]:
    """The bf16 numbers around a finite value: its upper 16 bits, and one step away from zero."""
    bits = int(value.view(np.uint32)) & 0xFFFF0000
    low, high = (np.array([b], np.uint32).view(np.float32)[0] for b in (bits, bits + 0x10000))
    return float(low), float(high)


def float_of(high: int, low: int) -> float:
    """The f32 number of these 16-bit halves."""
    return float(np.array(high << 16 | low, np.uint32).view(np.float32)[()])


# Halfway between two bf16 numbers, beside that, and anywhere.
low_halves = st.sampled_from([0x8000, 0x7FFF, 0x8001, 0, 1, 0xFFFF]) | st.integers(0, 0xFFFF)
f32_numbers = st.builds(float_of, st.integers(0, 0xFFFF), low_halves)


@settings(max_examples=500)
@given(f32_numbers.filter(np.isfinite))
def test_bf16_is_the_nearest_and_of_two_the_even(value: float) -> None:
    exact = Fraction(value)
    rounded = float(round_bf16(np.array(value))[()])
    low, high = bf16_neighbours(np.float32(value))
    if np.isinf(high):  # the last binade: half a step beyond the largest number is infinity
        limit = Fraction(2) ** 128 - Fraction(2) ** 119
        assert rounded == (low if abs(exact) < limit else high)
        return
    to_low, to_high = abs(exact - Fraction(low)), abs(exact - Fraction(high))
    even = low if not int(np.float32(low).view(np.uint32)) & 0x10000 else high
    assert rounded == (low if to_low < to_high else high if to_high < to_low else even)
    assert np.signbit(rounded) == np.signbit(value)


def test_bf16_keeps_what_it_can_say() -> None:
    numbers = (np.arange(1 << 16, dtype=np.uint32) << 16).view(np.float32)
    kept = round_bf16(numbers)
    finite = ~np.isnan(numbers)
    assert np.array_equal(kept[finite].view(np.uint32), numbers[finite].view(np.uint32))
    assert np.isnan(kept[~finite]).all()


def test_bf16_of_any_nan_is_a_nan() -> None:
    nans = np.array([0x7F800001, 0x7FFFFFFF, 0xFF800001, 0xFFFFFFFF, 0x7FC00000], np.uint32).view(np.float32)
    assert np.isnan(round_bf16(nans)).all()


def test_bf16_of_strided_and_empty_arrays() -> None:
    numbers = np.arange(24, dtype=np.float32).reshape(4, 6) * 1.001
    assert np.array_equal(round_bf16(numbers.T[::2]), round_bf16(numbers).T[::2])
    assert round_bf16(np.zeros((0, 3), np.float32)).shape == (0, 3)
    assert round_bf16(np.array(1.0)).shape == ()


def operands(rng: np.random.Generator, dtype: str, m: int, n: int, k: int) -> tuple[Array, Array]:
    a, b = rng.standard_normal((m, k), np.float32), rng.standard_normal((n, k), np.float32)
    return (round_bf16(a), round_bf16(b)) if dtype == "bf16" else (a.astype(np.float16), b.astype(np.float16))


@pytest.mark.parametrize("input", ["f16", "bf16"])
@pytest.mark.parametrize(("output", "tolerance"), [("f32", 1e-6), ("f16", 1e-3), ("bf16", 8e-3)])
@pytest.mark.parametrize("shape", [(64, 64, 32), (128, 192, 96), (70, 30, 33), (1, 1, 1), (3, 200, 8)])
def test_gemm_is_the_product(input: str, output: str, tolerance: float, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    a, b = operands(np.random.default_rng(0), input, m, n, k)
    d = np.full((m, n), np.nan, np.float16 if output == "f16" else np.float32)
    run(parse_text(gemm(64, 64, 32, dtype=input, out=output)), [a, b, d])
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    assert np.linalg.norm(d - exact) <= tolerance * np.linalg.norm(exact)
    if output == "bf16":
        assert np.array_equal(d, round_bf16(d))


@pytest.mark.parametrize("shape", [(0, 64, 32), (64, 0, 32), (64, 64, 0), (0, 0, 0)])
def test_empty_tensors(shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    d = np.full((m, n), np.nan, np.float32)
    run(parse_text(gemm(64, 64, 32, out="f32")), [np.zeros((m, k), np.float16), np.zeros((n, k), np.float16), d])
    assert np.array_equal(d, np.zeros((m, n)))


def test_integers_are_exact() -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-8, 9, (100, 500)).astype(np.float16) for _ in range(2))
    d = np.zeros((100, 100), np.float32)
    run(parse_text(gemm(64, 64, 32, out="f32")), [a, b, d])
    assert np.array_equal(d, a.astype(np.int64) @ b.astype(np.int64).T)


def test_an_mma_rounds_to_f32_once() -> None:
    # 1 + 2^-24 + 2^-24: each step alone is lost in f32, together they are not.
    a, b = np.zeros((1, 16), np.float16), np.zeros((1, 16), np.float16)
    a[0, :3], b[0, :3] = [1, 2**-12, 2**-12], [1, 2**-12, 2**-12]
    d = np.zeros((1, 1), np.float32)
    run(parse_text(gemm(64, 64, 16, out="f32")), [a, b, d])
    assert d[0, 0] == np.float32(1 + 2**-23)


def test_the_accumulator_is_f32_between_mmas() -> None:
    a, b = np.zeros((1, 48), np.float16), np.ones((1, 48), np.float16)
    a[0, 0], a[0, 16], a[0, 32] = 1, 2**-24, 2**-24
    d = np.zeros((1, 1), np.float32)
    run(parse_text(gemm(64, 64, 16, out="f32")), [a, b, d])
    assert d[0, 0] == 1
    exact = np.zeros((1, 1))
    run_float64(parse_text(gemm(64, 64, 16, out="f32")), [a.astype(np.float64), b.astype(np.float64), exact])
    assert exact[0, 0] == 1 + 2**-23


def test_float64_rounds_nothing() -> None:
    rng = np.random.default_rng(2)
    a, b, d = rng.standard_normal((70, 90)), rng.standard_normal((40, 90)), np.zeros((70, 40))
    run_float64(parse_text(gemm(64, 64, 32, dtype="bf16")), [a, b, d])
    assert np.allclose(d, a @ b.T, rtol=1e-14, atol=1e-14)


def test_overflow_and_nan_reach_the_output_quietly() -> None:
    a, b = np.full((3, 16), 60000, np.float16), np.ones((1, 16), np.float16)
    a[1, 0], a[2, 0] = np.nan, -np.inf
    d = np.zeros((3, 1), np.float16)
    with np.errstate(all="raise"):
        run(parse_text(gemm(64, 64, 32)), [a, b, d])
    assert d[0, 0] == np.inf and np.isnan(d[1, 0]) and d[2, 0] == -np.inf


REGISTERS = """
tile.kernel @f(%x: !tile.view<8x{dtype}>, %y: !tile.view<8x{dtype}>, %d: !tile.view<8x{dtype}>) {{
  %zero = arith.constant 0 : index
  %sx = tile.alloc : !tile.smem<8x{dtype}>
  %sy = tile.alloc : !tile.smem<8x{dtype}>
  tile.copy %x[%zero] to %sx
  tile.copy %y[%zero] to %sy
  %a = tile.load %sx : !tile.reg<8x{dtype}>
  %b = tile.load %sy : !tile.reg<8x{dtype}>
  %c = {op}
  tile.copy %c to %d[%zero]
}}
"""
BINARY = {"add": np.add, "sub": np.subtract, "mul": np.multiply}


@pytest.mark.parametrize("op", BINARY)
@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32"])
def test_register_tiles_compute_in_their_dtype(op: str, dtype: str) -> None:
    rng = np.random.default_rng(3)
    x, y = rng.standard_normal((2, 8), np.float32)
    if dtype == "bf16":
        x, y = round_bf16(x), round_bf16(y)
    elif dtype == "f16":
        x, y = x.astype(np.float16), y.astype(np.float16)
    d = np.zeros_like(x)
    run(parse_text(REGISTERS.format(dtype=dtype, op=f"tile.{op} %a, %b")), [x, y, d])
    exact = BINARY[op](x.astype(np.float64), y.astype(np.float64))
    expected = round_bf16(exact) if dtype == "bf16" else exact.astype(d.dtype)
    assert np.array_equal(d, expected)


def test_the_larger_element_and_a_nan_gives_the_other_one() -> None:
    x = np.array([1, -2, np.nan, 4, -np.inf, np.inf, np.nan, 0], np.float32)
    y = np.array([0, -1, 3, np.nan, 5, 6, np.nan, 0], np.float32)
    d = np.zeros_like(x)
    run(parse_text(REGISTERS.format(dtype="f32", op="tile.max %a, %b")), [x, y, d])
    assert np.array_equal(d, np.array([1, -1, 3, 4, 5, np.inf, np.nan, 0], np.float32), equal_nan=True)


def test_splat_cast_and_broadcast() -> None:
    text = """
    tile.kernel @f(%row: !tile.view<4xf32>, %d: !tile.view<3x4xf16>, %e: !tile.view<2xbf16>) {
      %zero = arith.constant 0 : index
      %s = tile.alloc : !tile.smem<4xf32>
      tile.copy %row[%zero] to %s
      %r = tile.load %s : !tile.reg<4xf32>
      %h = tile.cast %r : !tile.reg<4xf16>
      %m = tile.broadcast %h : !tile.reg<3x4xf16>
      tile.copy %m to %d[%zero, %zero]
      %t = tile.splat 0.1 : !tile.reg<2xbf16>
      tile.copy %t to %e[%zero]
    }
    """
    row = np.array([1.0005, 2049.0, 2051.0, 1e9], np.float32)  # 2049 and 2051 lie between two f16 numbers
    d, e = np.zeros((3, 4), np.float16), np.zeros(2, np.float32)
    run(parse_text(text), [row, d, e])
    assert np.array_equal(d, np.array([[1.0009765625, 2048, 2052, np.inf]] * 3, np.float16))
    assert np.array_equal(e, np.array([0.10009765625] * 2, np.float32))
