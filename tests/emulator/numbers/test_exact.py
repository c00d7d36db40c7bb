"""Double precision in every direction: the result and its neighbour enclose the exact value."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilec.backend.emulator.numbers import exact
from tilec.backend.emulator.numbers.rounding import Mode, fused_single

finite = st.floats(allow_nan=False, allow_infinity=False)
near_one = st.builds(
    lambda m, e, s: math.ldexp(s * (2**52 + m), e - 52),
    st.integers(0, 2**52 - 1),
    st.integers(-60, 60),
    st.sampled_from([1, -1]),
)
doubles = st.one_of(finite, near_one, st.sampled_from([0.0, -0.0, 5e-324, -5e-324, 2.0**-1022, 1.7976931348623157e308]))
singles = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False, width=32),
    st.builds(
        lambda m, e: float(np.float32(math.ldexp(m, e))), st.integers(-(2**24) + 1, 2**24 - 1), st.integers(-149, 100)
    ),
)
MODES: tuple[Mode, ...] = ("rn", "rz", "rm", "rp")
directions = st.sampled_from(MODES)


def arrays(*values: float) -> list[np.ndarray]:
    return [np.array([v]) for v in values]


def assert_rounded(found: float, value: Fraction, mode: str, dtype: type[np.floating] = np.float64) -> None:
    """`found` is `value` rounded, by its neighbours: nothing of the format lies between them in the wrong direction."""
    largest = Fraction(float(np.finfo(dtype).max))
    if math.isinf(found):
        # Beyond half a unit above the largest number, or pushed there.
        half_unit = (largest - Fraction(float(np.nextafter(np.finfo(dtype).max, dtype(0))))) / 2
        assert abs(value) >= largest + half_unit if mode == "rn" else abs(value) > largest
        assert mode == "rn" or mode == ("rp" if found > 0 else "rm")
        assert (found > 0) == (value > 0)
        return
    at = Fraction(found)
    with np.errstate(over="ignore"):
        below, above = (float(np.nextafter(dtype(found), dtype(to))) for to in (-np.inf, np.inf))
    if mode == "rz":
        mode = "rm" if value > 0 else "rp"
    if mode == "rm":
        assert at <= value and (math.isinf(above) or value < Fraction(above))
    elif mode == "rp":
        assert at >= value and (math.isinf(below) or value > Fraction(below))
    else:
        for neighbour in (below, above):
            if not math.isinf(neighbour):
                near, far = abs(value - at), abs(value - Fraction(neighbour))
                odd = int(abs(at) / Fraction(float(np.finfo(dtype).smallest_subnormal))) % 2
                assert near < far or (
                    near == far and not (odd and abs(at) < Fraction(float(np.finfo(dtype).smallest_normal)))
                )


@given(doubles, doubles, doubles, directions)
def test_fma(a: float, b: float, c: float, mode: Mode) -> None:
    value = Fraction(a) * Fraction(b) + Fraction(c)
    with np.errstate(all="ignore"):
        found = float(exact.fma(*arrays(a, b, c), mode)[0])
    if value:
        assert_rounded(found, value, mode)
        assert math.copysign(1.0, found) == (1.0 if value > 0 else -1.0)
    else:
        assert found == 0


@given(near_one, near_one, near_one)
def test_fma_to_nearest_is_the_quotient_of_integers_that_python_rounds(a: float, b: float, c: float) -> None:
    """Also where the product and the summand nearly cancel."""
    for summand in (c, -a * b, math.nextafter(-a * b, math.inf)):
        value = Fraction(a) * Fraction(b) + Fraction(summand)
        assert float(exact.fma(*arrays(a, b, summand), "rn")[0]) == float(value)


@given(doubles, doubles, directions)
def test_sum_and_product(a: float, b: float, mode: Mode) -> None:
    with np.errstate(all="ignore"):
        total, product = (float(f(*arrays(a, b), mode)[0]) for f in (exact.add, exact.multiply))
    for found, value in ((total, Fraction(a) + Fraction(b)), (product, Fraction(a) * Fraction(b))):
        if value:
            assert_rounded(found, value, mode)
        else:
            assert found == 0
    if Fraction(a) * Fraction(b) == 0:
        assert math.copysign(1.0, product) == math.copysign(1.0, a) * math.copysign(1.0, b)


@given(doubles, doubles.filter(lambda b: b != 0), directions)
def test_quotient(a: float, b: float, mode: Mode) -> None:
    with np.errstate(all="ignore"):
        found = float(exact.divide(*arrays(a, b), mode)[0])
    if a:
        assert_rounded(found, Fraction(a) / Fraction(b), mode)
    else:
        assert found == 0 and math.copysign(1.0, found) == math.copysign(1.0, a) * math.copysign(1.0, b)


@given(doubles.map(abs).filter(lambda a: a > 0), directions)
def test_root(a: float, mode: Mode) -> None:
    found = float(exact.root(*arrays(a), mode)[0])
    below, above = (Fraction(math.nextafter(found, to)) for to in (0.0, math.inf))
    at, value = Fraction(found), Fraction(a)
    if mode == "rn":
        assert ((below + at) / 2) ** 2 <= value <= ((at + above) / 2) ** 2
    elif mode == "rp":
        assert below**2 < value <= at**2
    else:
        assert at**2 <= value < above**2


@given(singles, singles, singles, directions)
def test_fused_single(a: float, b: float, c: float, mode: Mode) -> None:
    value = Fraction(a) * Fraction(b) + Fraction(c)
    with np.errstate(all="ignore"):
        found = float(fused_single(*(v.astype(np.float32) for v in arrays(a, b, c)), mode)[0])
    if value:
        assert_rounded(found, value, mode, np.float32)
    else:
        assert found == 0


def test_fma_of_lanes_of_all_kinds_at_once() -> None:
    """Some go the quick way, some are exact anyway, some need integers."""
    kinds = [0.0, -0.0, 1.5, -3e200, 1e308, 5e-324, 2.0**-1000, math.inf, math.nan]
    rows = np.array([(a, b, c) for a in kinds for b in kinds for c in kinds])
    with np.errstate(all="ignore"):
        found = exact.fma(*rows.T, "rn")
        single = np.array([float(exact.fma(*arrays(*row), "rn")[0]) for row in rows.tolist()])
    assert np.array_equal(found.view(np.uint64)[~np.isnan(found)], single.view(np.uint64)[~np.isnan(found)])
    for (a, b, c), value in zip(rows.tolist(), found.tolist(), strict=True):
        if all(map(math.isfinite, (a, b, c))):
            sum_ = Fraction(a) * Fraction(b) + Fraction(c)
            if sum_:
                assert_rounded(value, sum_, "rn")
        elif math.isfinite(a) and math.isfinite(b):
            assert value == c or math.isnan(c)
        else:
            product = a * b
            assert value == product + c or (math.isnan(product + c) and math.isnan(value))


def test_zeros_have_the_sign_of_the_direction() -> None:
    one = np.array([1.0])
    for mode in MODES:
        assert np.signbit(exact.add(one, -one, mode))[0] == (mode == "rm")
        assert np.signbit(exact.fma(one, one, -one, mode))[0] == (mode == "rm")
        assert np.signbit(exact.add(-0 * one, -0.0 * one, mode)) == (mode == "rm")


@pytest.mark.parametrize("mode", MODES)
def test_special_operands(mode: Mode) -> None:
    infinity, nan, one, big = np.array([np.inf]), np.array([np.nan]), np.array([1.0]), np.array([1e300])
    with np.errstate(all="ignore"):
        assert np.isnan(exact.fma(infinity, 0 * one, one, mode))[0]
        assert np.isnan(exact.add(infinity, -infinity, mode))[0]
        assert np.isnan(exact.multiply(nan, one, mode))[0]
        assert exact.fma(big, big, -infinity, mode)[0] == -np.inf
        assert exact.divide(one, 0 * one, mode)[0] == np.inf
        assert exact.divide(one, infinity, mode)[0] == 0
        assert np.isnan(exact.root(-one, mode))[0]
        assert exact.root(infinity, mode)[0] == np.inf
