"""The arithmetic of atomic operations at its edges."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilec.backend.emulator.numbers import combine

BITS16 = st.integers(0, 0xFFFF)


def value_of(bits: int, type: str) -> float:
    if type == "f16":
        return float(np.array(bits, np.uint16).view(np.float16))
    return float(np.array(bits << 16, np.uint32).view(np.float32))


def nearest(exact: Fraction, type: str) -> set[int]:
    """The codes of finite numbers that are nearest to an exact value, by looking at all of them."""
    largest = {"f16": 0x7BFF, "bf16": 0x7F7F}[type]
    low, high = 0, largest
    size = abs(exact)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if Fraction(value_of(middle, type)) <= size else (low, middle)
    distances = {code: abs(Fraction(value_of(code, type)) - size) for code in (low, high)}
    best = [code for code, distance in distances.items() if distance == min(distances.values())]
    code = best[0] if len(best) == 1 else next(c for c in best if c % 2 == 0)
    return {code | (0x8000 if exact < 0 else 0)} if exact else {0, 0x8000}


def apply(op: str, type: str, a: int, b: int) -> int:
    operation = combine.find(op, type)
    assert operation is not None
    dtype = combine.ELEMENTS[type].dtype
    old, new = (np.array([[v]], np.uint16).view(dtype) for v in (a, b))
    return int(operation(old, new).view(np.uint16)[0, 0])


@pytest.mark.parametrize("type", ["f16", "bf16"])
@given(a=BITS16, b=BITS16)
def test_half_precision_sums_are_the_nearest_numbers(type: str, a: int, b: int) -> None:
    x, y = value_of(a, type), value_of(b, type)
    found = apply("add", type, a, b)
    if np.isnan(x + y):
        assert found == 0x7FFF
    elif np.isinf(x) or np.isinf(y):
        assert value_of(found, type) == x + y
    else:
        exact = Fraction(x) + Fraction(y)
        top = Fraction(value_of({"f16": 0x7BFF, "bf16": 0x7F7F}[type], type))
        if abs(exact) <= top:
            assert found in nearest(exact, type)
        else:
            assert abs(value_of(found, type)) >= float(top)


@pytest.mark.parametrize("type", ["f16", "bf16"])
@given(a=BITS16, b=BITS16)
def test_half_precision_extrema(type: str, a: int, b: int) -> None:
    x, y = value_of(a, type), value_of(b, type)
    for op, choose in (("min", min), ("max", max)):
        found = apply(op, type, a, b)
        if np.isnan(x) and np.isnan(y):
            assert found == 0x7FFF
        elif np.isnan(x) or np.isnan(y):
            assert found == (b if np.isnan(x) else a)
        elif x == y == 0:
            assert found == choose((a, b), key=lambda code: -(code >> 15))
        else:
            assert value_of(found, type) == choose(x, y)


def test_sums_of_single_precision_give_the_canonical_nan() -> None:
    operation = combine.find("add", "f32")
    assert operation is not None
    with np.errstate(invalid="ignore"):
        result = operation(np.array([[np.inf]], np.float32), np.array([[-np.inf]], np.float32))
    assert result.view(np.uint32).tolist() == [[0x7FFFFFFF]]


@pytest.mark.parametrize(
    ("op", "type"), [("inc", "u64"), ("min", "f32"), ("and", "u16"), ("add", "b32"), ("cas", "b32")]
)
def test_what_does_not_exist(op: str, type: str) -> None:
    assert combine.find(op, type) is None


@pytest.mark.parametrize(
    ("type", "in_global", "operands", "result"),
    [
        ("f32", True, (0x00000100, 0x00000100), 0x00000000),
        ("f32", False, (0x00000100, 0x00000100), 0x00000200),
        ("f32", True, (0x80000100, 0x80000000), 0x80000000),
        ("f32", False, (0x80000100, 0x80000000), 0x80000100),
        ("f32", True, (0x00800001, 0x80800000), 0x00000000),
        ("f32", False, (0x00800001, 0x80800000), 0x00000001),
        ("f32", True, (0x7FA00001, 0x3F800000), 0x7FFFFFFF),
        ("f32", False, (0xFFC12345, 0x3F800000), 0x7FFFFFFF),
        ("f32", True, (0x7F7FFFFF, 0x7F7FFFFF), 0x7F800000),
        ("f64", True, (0x7FF0 << 48, 0xFFF0 << 48), 0xFFF8 << 48),
        ("f64", True, (1, 1), 2),
        ("f64", True, (0x7FF4000000000001, 0x3FF0 << 48), 0x7FF4000000000001),
    ],
)
def test_sums_as_an_h200_makes_them(type: str, in_global: bool, operands: tuple[int, int], result: int) -> None:
    operation = combine.find("add", type, in_global=in_global)
    assert operation is not None
    dtype = combine.ELEMENTS[type].dtype
    old, value = (np.array([[v]], f"u{dtype.itemsize}").view(dtype) for v in operands)
    with np.errstate(all="ignore"):
        found = operation(old, value)
    assert int(found.view(f"u{dtype.itemsize}")[0, 0]) == result


@pytest.mark.parametrize(
    ("op", "a", "b", "result"),
    [
        ("add", 0x7E01, 0x3C00, 0x7FFF),
        ("add", 0x7C00, 0xFC00, 0x7FFF),
        ("add", 0x0001, 0x0001, 0x0002),
        ("add", 0x7BFF, 0x7BFF, 0x7C00),
        ("min", 0x7E01, 0x3C00, 0x3C00),
        ("min", 0x7E01, 0xFE55, 0x7FFF),
        ("min", 0x0000, 0x8000, 0x8000),
        ("max", 0x3C00, 0xFE55, 0x3C00),
        ("max", 0x8000, 0x0000, 0x0000),
        ("max", 0x0000, 0x8000, 0x0000),
    ],
)
def test_half_precision_as_an_h200_makes_it(op: str, a: int, b: int, result: int) -> None:
    with np.errstate(all="ignore"):
        assert apply(op, "f16", a, b) == result
