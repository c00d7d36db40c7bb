"""Expressions of register tiles have the values that NumPy gives them."""

from __future__ import annotations

import itertools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import python_language
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from written_kernels import function_in

from tilec.backend import reference
from tilec.frontend.function import Function
from tilec.frontend.lowering import lower

ROWS, COLUMNS = 4, 8
_KERNEL = """
from tilec import tile


def kernel(X: tile.View[4, 8], Y: tile.View[8], D: tile.View[4, 8]):
    a = tile.smem(X.shape, X.dtype)
    b = tile.smem(Y.shape, Y.dtype)
    tile.copy(X[0, 0], a)
    tile.copy(Y[0], b)
    x, y = tile.load(a), tile.load(b)
    tile.copy({expression}, D[0, 0])
"""
_numbers = itertools.count()

# Halves that stay small are exact in every order of f32 operations.
_leaves = st.sampled_from(["x", "y", "2", "-1.5", "0.5"])
_expressions = st.recursive(
    _leaves,
    lambda inner: st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from("+-*"), inner),
        st.builds("tile.max({}, x - {})".format, inner, inner),
        st.builds("(-{})".format, inner),
    ),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(expression=_expressions.map("x * 1.0 + {}".format), seed=st.integers(0, 1000))
def test_the_value_of_an_expression(expression: str, seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    x: Any = rng.integers(-8, 8, (ROWS, COLUMNS)).astype(np.float32) / 2
    y: Any = rng.integers(-8, 8, COLUMNS).astype(np.float32) / 2
    function = function_in(tmp_path / f"kernel{next(_numbers)}.py", _KERNEL.format(expression=expression))
    d = np.full((ROWS, COLUMNS), np.nan, np.float32)
    reference.run(lower(Function.read(function), ("f32", "f32", "f32"), {}).module, [x, y, d])
    expected = eval(expression, {"x": x, "y": y, "tile": SimpleNamespace(max=np.fmax)})
    np.testing.assert_array_equal(d, np.broadcast_to(expected, d.shape))


def test_negation_keeps_the_sign_of_zero(tmp_path: Path) -> None:
    function = function_in(tmp_path / "kernel.py", _KERNEL.format(expression="-x"))
    d = np.ones((ROWS, COLUMNS), np.float32)
    x = np.zeros((ROWS, COLUMNS), np.float32)
    reference.run(
        lower(Function.read(function), ("f32", "f32", "f32"), {}).module, [x, np.zeros(COLUMNS, np.float32), d]
    )
    assert np.signbit(d).all()


def _splatted(number: float, dtype: str) -> np.float32:
    """What a splat of a number in a type holds, in f32."""
    d = np.zeros((ROWS, COLUMNS), np.float32)
    constants = {"number": number, "dtype": dtype}
    reference.run(lower(Function.read(python_language.splats), ("f32",), constants).module, [d])
    assert (d == d[0, 0]).all() or np.isnan(d).all()
    return d[0, 0]


_halves = st.builds(
    lambda bits, side: float(np.uint16(bits).view(np.float16)) + side,
    st.integers(0, (1 << 16) - 1),
    st.floats(-1e-6, 1e-6),
)
"""Numbers near those of f16."""
_between = st.builds(
    lambda bits, side: sum(map(float, np.arange(bits, bits + 2, dtype=np.uint16).view(np.float16))) / 2 + side,
    st.integers(0, 0x7BFE),
    st.sampled_from([-(2.0**-40), -(2.0**-52), 0.0, 2.0**-52, 2.0**-40]),
)
"""Numbers near those halfway between two of f16, closer than f32 tells."""


@settings(max_examples=200, deadline=None)
@given(number=_halves | _between | st.floats(-1e38, 1e38), sign=st.sampled_from([1.0, -1.0]))
def test_a_number_is_rounded_to_its_type_once(number: float, sign: float) -> None:
    with np.errstate(over="ignore"):
        expected = np.float16(sign * number)
    np.testing.assert_array_equal(_splatted(sign * number, "f16"), np.float32(expected))


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (1 + 2.0**-8, 1.0),
        (1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-7),
        (1 + 3 * 2.0**-8 - 2.0**-40, 1 + 2.0**-7),
        (1 + 3 * 2.0**-8, 1 + 2.0**-6),
        (-1 - 2.0**-8 - 2.0**-40, -1 - 2.0**-7),
    ],
)
def test_a_number_is_rounded_to_bf16_once(number: float, expected: float) -> None:
    assert _splatted(number, "bf16") == expected
