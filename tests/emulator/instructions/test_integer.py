"""Sums, minima, absolute values, differences and quotients of integers against Python's integers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from forms import check, clamp, halves, joined, refused, typed, unsigned

TYPES = ("u16", "s16", "u32", "s32", "u64", "s64")
SIGNED = ("s16", "s32", "s64")


@pytest.mark.parametrize("type", TYPES)
def test_sum_and_difference(type: str) -> None:
    bits = int(type[1:])
    check(f"add.{type} d, a, b;", bits, (bits, bits), lambda a, b: a + b)
    check(f"sub.{type} d, a, b;", bits, (bits, bits), lambda a, b: a - b)


def test_saturation_stops_at_the_limits_of_a_word() -> None:
    def limited(value: int) -> int:
        return clamp(value, -(2**31), 2**31 - 1)

    check("add.sat.s32 d, a, b;", 32, (32, 32), lambda a, b: limited(typed(a, "s32") + typed(b, "s32")))
    check("sub.sat.s32 d, a, b;", 32, (32, 32), lambda a, b: limited(typed(a, "s32") - typed(b, "s32")))


@pytest.mark.parametrize("type", TYPES)
def test_extrema(type: str) -> None:
    bits = int(type[1:])
    check(f"min.{type} d, a, b;", bits, (bits, bits), lambda a, b: min(typed(a, type), typed(b, type)))
    check(f"max.{type} d, a, b;", bits, (bits, bits), lambda a, b: max(typed(a, type), typed(b, type)))


def in_halves(operation: Callable[[int, int], int], kind: str) -> Callable[[int, int], int]:
    return lambda a, b: joined([operation(x, y) for x, y in zip(halves(a, kind), halves(b, kind), strict=True)], 16)


@pytest.mark.parametrize(("name", "choose"), [("min", min), ("max", max)])
def test_extrema_with_relu_are_not_negative(name: str, choose: Callable[[int, int], int]) -> None:
    def limited(x: int, y: int) -> int:
        return max(choose(x, y), 0)

    check(f"{name}.relu.s32 d, a, b;", 32, (32, 32), lambda a, b: limited(typed(a, "s32"), typed(b, "s32")))
    check(f"{name}.relu.s16x2 d, a, b;", 32, (32, 32), in_halves(limited, "s"))
    check(f"{name}.s16x2.relu d, a, b;", 32, (32, 32), in_halves(limited, "s"))


@pytest.mark.parametrize("kind", ["u", "s"])
def test_pairs_do_not_touch_one_another(kind: str) -> None:
    check(f"add.{kind}16x2 d, a, b;", 32, (32, 32), in_halves(lambda x, y: x + y, kind))
    check(f"min.{kind}16x2 d, a, b;", 32, (32, 32), in_halves(min, kind))
    check(f"max.{kind}16x2 d, a, b;", 32, (32, 32), in_halves(max, kind))


@pytest.mark.parametrize("type", SIGNED)
def test_sign(type: str) -> None:
    bits = int(type[1:])
    check(f"neg.{type} d, a;", bits, (bits,), lambda a: -a)
    check(f"abs.{type} d, a;", bits, (bits,), lambda a: abs(typed(a, type)))


@pytest.mark.parametrize("type", TYPES)
def test_sum_of_absolute_difference(type: str) -> None:
    bits = int(type[1:])
    check(f"sad.{type} d, a, b, c;", bits, (bits,) * 3, lambda a, b, c: c + abs(typed(a, type) - typed(b, type)))


def truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


@pytest.mark.parametrize("type", TYPES)
def test_division_rounds_towards_zero_and_by_zero_gives_ones(type: str) -> None:
    bits = int(type[1:])

    def quotient(a: int, b: int) -> int:
        return truncated(typed(a, type), typed(b, type)) if unsigned(b, bits) else -1

    def remainder(a: int, b: int) -> int:
        x, y = typed(a, type), typed(b, type)
        return x - y * truncated(x, y) if y else -1

    check(f"div.{type} d, a, b;", bits, (bits, bits), quotient)
    check(f"rem.{type} d, a, b;", bits, (bits, bits), remainder)
    check(f"div.{type} d, a, 7;", bits, (bits,), lambda a: quotient(a, 7))


def test_operands_may_be_constants_and_the_result_too() -> None:
    check("add.u32 d, a, -1;", 32, (32,), lambda a: a - 1)
    check("add.s64 d, -5, a;", 64, (64,), lambda a: a - 5)
    check("{ .reg .b32 x; mov.u32 x, 5; add.u32 x, x, x; add.u32 d, a, x; }", 32, (32,), lambda a: a + 10)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sad.u8 r1, r2, r3, r4;", ".u8 is no type of sad: sad.u8"),
        ("min.u16x2.relu r1, r2, r3;", ".relu goes with .s32 and .s16x2, not with .u16x2: min.u16x2.relu"),
        ("add.s32 r1, r2;", "2 operands, not 3: add.s32"),
        ("add.s32 5, r2, r3;", "a result that is no register: add.s32"),
        ("add.u32 p1, r2, r3;", "register p1 is .pred, not .u32: add.u32"),
        ("add.u64 r1, x1, x2;", "register r1 is .b32, narrower than .u64: add.u64"),
    ],
)
def test_what_is_no_form_is_refused(text: str, message: str) -> None:
    assert refused(text) == message
