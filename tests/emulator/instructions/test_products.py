"""Products, products with sums, and dot products of integers against Python's integers."""

from __future__ import annotations

import pytest
from forms import bytes_of, check, clamp, halves, refused, signed, typed

TYPES = ("u16", "s16", "u32", "s32", "u64", "s64")
NARROW = ("u16", "s16", "u32", "s32")


@pytest.mark.parametrize("type", TYPES)
def test_halves_of_products(type: str) -> None:
    bits = int(type[1:])

    def high(a: int, b: int) -> int:
        return typed(a, type) * typed(b, type) >> bits

    check(f"mul.lo.{type} d, a, b;", bits, (bits, bits), lambda a, b: a * b)
    check(f"mul.hi.{type} d, a, b;", bits, (bits, bits), high)
    check(f"mad.lo.{type} d, a, b, c;", bits, (bits,) * 3, lambda a, b, c: a * b + c)
    check(f"mad.hi.{type} d, a, b, c;", bits, (bits,) * 3, lambda a, b, c: high(a, b) + c)


@pytest.mark.parametrize("type", NARROW)
def test_wide_products(type: str) -> None:
    bits = int(type[1:])
    check(f"mul.wide.{type} d, a, b;", 2 * bits, (bits, bits), lambda a, b: typed(a, type) * typed(b, type))
    check(
        f"mad.wide.{type} d, a, b, c;",
        2 * bits,
        (bits, bits, 2 * bits),
        lambda a, b, c: typed(a, type) * typed(b, type) + c,
    )
    check(f"mul.wide.{type} d, a, 4;", 2 * bits, (bits,), lambda a: typed(a, type) * 4)


def test_saturation_of_a_high_half_with_a_sum() -> None:
    def limited(a: int, b: int, c: int) -> int:
        return clamp((typed(a, "s32") * typed(b, "s32") >> 32) + typed(c, "s32"), -(2**31), 2**31 - 1)

    check("mad.hi.sat.s32 d, a, b, c;", 32, (32,) * 3, limited)


@pytest.mark.parametrize("type", ["u32", "s32"])
def test_24_bit_products(type: str) -> None:
    narrow = f"{type[0]}24"

    def product(a: int, b: int) -> int:
        return typed(a, narrow) * typed(b, narrow)

    check(f"mul24.lo.{type} d, a, b;", 32, (32, 32), product)
    check(f"mul24.hi.{type} d, a, b;", 32, (32, 32), lambda a, b: product(a, b) >> 16)
    check(f"mad24.lo.{type} d, a, b, c;", 32, (32,) * 3, lambda a, b, c: product(a, b) + c)
    check(f"mad24.hi.{type} d, a, b, c;", 32, (32,) * 3, lambda a, b, c: (product(a, b) >> 16) + c)
    if type == "s32":

        def limited(a: int, b: int, c: int) -> int:
            return clamp((product(a, b) >> 16) + signed(c, 32), -(2**31), 2**31 - 1)

        check("mad24.hi.sat.s32 d, a, b, c;", 32, (32,) * 3, limited)


@pytest.mark.parametrize("a_type", ["u32", "s32"])
@pytest.mark.parametrize("b_type", ["u32", "s32"])
def test_dot_products(a_type: str, b_type: str) -> None:
    x, y = a_type[0], b_type[0]

    def four(a: int, b: int, c: int) -> int:
        return c + sum(p * q for p, q in zip(bytes_of(a, x), bytes_of(b, y), strict=True))

    def two(a: int, b: int, c: int, first: int) -> int:
        return c + sum(p * q for p, q in zip(halves(a, x), bytes_of(b, y)[first : first + 2], strict=True))

    check(f"dp4a.{a_type}.{b_type} d, a, b, c;", 32, (32,) * 3, four)
    check(f"dp2a.lo.{a_type}.{b_type} d, a, b, c;", 32, (32,) * 3, lambda a, b, c: two(a, b, c, 0))
    check(f"dp2a.hi.{a_type}.{b_type} d, a, b, c;", 32, (32,) * 3, lambda a, b, c: two(a, b, c, 2))
    check(f"dp4a.{a_type}.{b_type} d, a, 0x80FF0102, 7;", 32, (32,), lambda a: four(a, 0x80FF0102, 7))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mul.wide.u64 x1, x2, x3;", "a product of 128 bits: .wide is for 16-bit and 32-bit types: mul.wide.u64"),
        ("mad.wide.s64 x1, x2, x3, x1;", "a product of 128 bits: .wide is for 16-bit and 32-bit types: mad.wide.s64"),
        ("mul24.u32 r1, r2, r3;", "a 24-bit product without .lo or .hi: mul24.u32"),
        ("mad24.hi.sat.u32 r1, r2, r3, r4;", ".sat is for mad24.hi.s32: mad24.hi.sat.u32"),
        ("mul24.lo.u64 x1, x2, x3;", ".u64 is no type of mul24: mul24.lo.u64"),
        ("dp2a.u32.u32 r1, r2, r3, r4;", "a dot product of two without .lo or .hi: dp2a.u32.u32"),
        ("dp4a.lo.u32.u32 r1, r2, r3, r4;", "the emulator does not know .lo here: dp4a.lo.u32.u32"),
    ],
)
def test_what_is_no_form_is_refused(text: str, message: str) -> None:
    assert refused(text) == message
