"""Video instructions against the ISA text's semantics in Python's integers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest
from forms import check, clamp, refused, rows, signed, typed, unsigned

TYPES = [("s32", "s32", "s32"), ("u32", "u32", "u32"), ("s32", "u32", "s32"), ("u32", "s32", "u32")]
PRIMARY: dict[str, Callable[[int, int], int]] = {
    "vadd": lambda a, b: a + b,
    "vsub": lambda a, b: a - b,
    "vabsdiff": lambda a, b: abs(a - b),
    "vmin": min,
    "vmax": max,
    "vavrg": lambda a, b: (a + b + 1 if a + b >= 0 else a + b) >> 1,
}
SECOND: dict[str, Callable[[int, int], int]] = {"add": lambda a, b: a + b, "min": min, "max": max}
COMPARE: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
ROWS = rows(32, 32, 32, count=60)[::2]


def width_of(selector: str) -> int:
    return {"": 32, "b": 8, "h": 16}[selector[:1]]


def part(value: int, selector: str, type: str) -> int:
    width = width_of(selector)
    return typed(value >> width * int(selector[1:] or 0), f"{type[0]}{width}")


def saturated(value: int, type: str, width: int) -> int:
    if type == "s32":
        return clamp(value, -(1 << width - 1), (1 << width - 1) - 1)
    return clamp(value, 0, (1 << width) - 1)


def merged(value: int, selector: str, c: int) -> int:
    width = width_of(selector)
    first = width * int(selector[1:] or 0)
    mask = ((1 << width) - 1) << first
    return value << first & mask | c & ~mask


@pytest.mark.parametrize("name", ["vadd", "vsub", "vabsdiff", "vmin", "vmax"])
@pytest.mark.parametrize("types", TYPES)
def test_scalar_arithmetic(name: str, types: tuple[str, str, str]) -> None:
    result, a_type, b_type = types
    opcode, operate = f"{name}.{'.'.join(types)}", PRIMARY[name]

    def first(a: int, b: int, asel: str = "", bsel: str = "") -> int:
        return operate(part(a, asel, a_type), part(b, bsel, b_type))

    widths = (32,) * 3
    check(f"{opcode} d, a, b;", 32, widths, lambda a, b, c: first(a, b), ROWS)
    check(f"{opcode} d, a.b1, b.h1;", 32, widths, lambda a, b, c: first(a, b, "b1", "h1"), ROWS)
    check(f"{opcode}.sat d, a, b;", 32, widths, lambda a, b, c: saturated(first(a, b), result, 32), ROWS)
    for second, combine in SECOND.items():
        check(
            f"{opcode}.{second} d, a.h0, b.b3, c;",
            32,
            widths,
            lambda a, b, c, combine=combine: combine(first(a, b, "h0", "b3"), typed(c, result)),
            ROWS,
        )
    for selector in ("b0", "b1", "b2", "b3", "h0", "h1"):
        text = f"{{ .reg .b32 x; {opcode} x.{selector}, a, b.b0, c; mov.b32 d, x; }}"
        check(text, 32, widths, lambda a, b, c, s=selector: merged(first(a, b, "", "b0"), s, c), ROWS)
        text = f"{{ .reg .b32 x; {opcode}.sat x.{selector}, a, b.b0, c; mov.b32 d, x; }}"
        check(
            text,
            32,
            widths,
            lambda a, b, c, s=selector: merged(saturated(first(a, b, "", "b0"), result, width_of(s)), s, c),
            ROWS,
        )


@pytest.mark.parametrize(("name", "mode"), list(product(("vshl", "vshr"), ("clamp", "wrap"))))
@pytest.mark.parametrize("type", ["u32", "s32"])
def test_shifts(name: str, mode: str, type: str) -> None:
    def shift(a: int, b: int) -> int:
        amount = min(b, 32) if mode == "clamp" else b & 31
        value = typed(a, type)
        return value << amount if name == "vshl" else value >> amount

    operands = [(a, b % 70 if b < 2**31 else b, c) for a, b, c in ROWS]
    opcode = f"{name}.{type}.{type}.u32"
    check(f"{opcode}.{mode} d, a, b;", 32, (32,) * 3, lambda a, b, c: shift(a, b), operands)
    # What is limited has 34 bits.
    limited = f"{opcode}.sat.{mode} d, a, b;"
    check(limited, 32, (32,) * 3, lambda a, b, c: saturated(signed(shift(a, b), 34), type, 32), operands)


@pytest.mark.parametrize("types", [("s32", "s32"), ("u32", "u32"), ("s32", "u32"), ("u32", "s32")])
def test_multiply_add_of_parts(types: tuple[str, str]) -> None:
    opcode = f"vmad.s32.{types[0]}.{types[1]}"
    is_signed = "s32" in types

    def factors(a: int, b: int) -> int:
        return part(a, "h0", types[0]) * part(b, "b1", types[1])

    def limited(value: int, as_signed: bool) -> int:
        return saturated(value, "s32" if as_signed else "u32", 32)

    operands = [(a, b, c if is_signed else c & 0x7FFFFFFF) for a, b, c in ROWS]
    widths = (32,) * 3
    check(f"{opcode} d, a.h0, b.b1, c;", 32, widths, lambda a, b, c: factors(a, b) + c, operands)
    for scale, by in (("shr7", 7), ("shr15", 15)):
        check(
            f"{opcode}.sat.{scale} d, a.h0, b.b1, c;",
            32,
            widths,
            lambda a, b, c, by=by: limited(factors(a, b) + signed(c, 32) >> by, is_signed),
            operands,
        )
    check(
        f"{opcode}.sat d, -a.h0, b.b1, c;",
        32,
        widths,
        lambda a, b, c: limited(-factors(a, b) + signed(c, 32), True),
        operands,
    )
    check(
        f"{opcode}.sat d, a.h0, b.b1, -c;",
        32,
        widths,
        lambda a, b, c: limited(factors(a, b) - signed(c, 32), True),
        operands,
    )
    check(f"{opcode} d, -a.h0, -b.b1, c;", 32, widths, lambda a, b, c: factors(a, b) + c, operands)
    check(
        f"{opcode}.po.shr7 d, a.h0, b.b1, c;",
        32,
        widths,
        lambda a, b, c: factors(a, b) + signed(c, 32) + 1 >> 7,
        operands,
    )


def test_multiply_add_of_words() -> None:
    check("vmad.u32.u32.u32 d, a, b, c;", 32, (32,) * 3, lambda a, b, c: a * b + c)
    check(
        "vmad.s32.s32.s32.sat.shr15 d, a, b, c;",
        32,
        (32,) * 3,
        lambda a, b, c: saturated(signed(a, 32) * signed(b, 32) + signed(c, 32) >> 15, "s32", 32),
    )


@pytest.mark.parametrize("types", [("s32", "s32"), ("u32", "u32"), ("s32", "u32")])
def test_scalar_comparison(types: tuple[str, str]) -> None:
    for name, holds in COMPARE.items():
        opcode = f"vset.{types[0]}.{types[1]}.{name}"
        widths = (32,) * 3

        def found(a: int, b: int, holds: Callable[[int, int], bool] = holds) -> int:
            return int(holds(part(a, "h1", types[0]), part(b, "h0", types[1])))

        check(f"{opcode} d, a.h1, b.h0;", 32, widths, lambda a, b, c, f=found: f(a, b), ROWS)
        check(f"{opcode}.add d, a.h1, b.h0, c;", 32, widths, lambda a, b, c, f=found: f(a, b) + c, ROWS)
        text = f"{{ .reg .b32 x; {opcode} x.b2, a.h1, b.h0, c; mov.b32 d, x; }}"
        check(text, 32, widths, lambda a, b, c, f=found: merged(f(a, b), "b2", c), ROWS)


def picked(a: int, b: int, digits: str, type: str) -> list[int]:
    """The elements that a selector names, the first lowest; its digits are written from the highest down."""
    width = 32 // len(digits)
    return [typed((b << 32 | a) >> width * int(digit), f"{type[0]}{width}") for digit in reversed(digits)]


def simd(values: list[int], mask: str, c: int, *, accumulate: bool, limit: str | None) -> int:
    width = 32 // len(values)
    named = [str(i) in (mask or "3210") for i in range(len(values))]
    if limit is not None:
        values = [saturated(value, limit, width) for value in values]
    if accumulate:
        return c + sum(value for value, use in zip(values, named, strict=True) if use)
    total = 0
    for i, use in enumerate(named):
        total |= unsigned(values[i] if use else c >> i * width, width) << i * width
    return total


SHAPES: list[tuple[int, str, str, str]] = [(2, "h", "10", "32"), (4, "b", "3210", "7654")]


@pytest.mark.parametrize("name", PRIMARY)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("types", TYPES)
def test_simd_arithmetic(name: str, shape: tuple[int, str, str, str], types: tuple[str, str, str]) -> None:
    count, letter, first, second = shape
    result, a_type, b_type = types
    opcode, operate = f"{name}{count}.{'.'.join(types)}", PRIMARY[name]

    def values(a: int, b: int, asel: str = first, bsel: str = second) -> list[int]:
        return [operate(x, y) for x, y in zip(picked(a, b, asel, a_type), picked(a, b, bsel, b_type), strict=True)]

    widths, masks = (32,) * 3, {2: ["0", "1", "10"], 4: ["0", "20", "310", "3210"]}[count]
    check(
        f"{opcode} d, a, b, c;", 32, widths,
        lambda a, b, c: simd(values(a, b), "", c, accumulate=False, limit=None), ROWS,
    )  # fmt: skip
    asel, bsel = ("03", "21") if count == 2 else ("7250", "0123")
    for mask in masks:
        for suffix, limit, add in (("", None, False), (".sat", result, False), (".add", None, True)):
            text = f"{{ .reg .b32 x; {opcode}{suffix} x.{letter}{mask}, a.{letter}{asel}, b.{letter}{bsel}, c; mov.b32 d, x; }}"
            check(
                text, 32, widths,
                lambda a, b, c, mask=mask, limit=limit, add=add: simd(
                    values(a, b, asel, bsel), mask, c, accumulate=add, limit=limit),
                ROWS,
            )  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("types", [("s32", "s32"), ("u32", "u32"), ("s32", "u32")])
def test_simd_comparison(shape: tuple[int, str, str, str], types: tuple[str, str]) -> None:
    count, letter, first, second = shape
    for name, holds in COMPARE.items():

        def values(a: int, b: int, holds: Callable[[int, int], bool] = holds) -> list[int]:
            pairs = zip(picked(a, b, first, types[0]), picked(a, b, second, types[1]), strict=True)
            return [int(holds(x, y)) for x, y in pairs]

        opcode = f"vset{count}.{types[0]}.{types[1]}.{name}"
        for suffix, add in (("", False), (".add", True)):
            text = f"{{ .reg .b32 x; {opcode}{suffix} x.{letter}1, a, b, c; mov.b32 d, x; }}"
            check(
                text,
                32,
                (32,) * 3,
                lambda a, b, c, v=values, add=add: simd(v(a, b), "1", c, accumulate=add, limit=None),
                ROWS,
            )


def test_constants_and_a_third_operand_that_is_not_used() -> None:
    check("vadd.u32.u32.u32 d, 5, a;", 32, (32,), lambda a: a + 5)
    check("vadd.u32.u32.u32 d, a, b, c;", 32, (32,) * 3, lambda a, b, c: a + b)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("vadd.u32.u32 r1, r2, r3;", "vadd without 3 types .u32 or .s32: vadd.u32.u32"),
        ("vadd.u32.u32.u16 r1, r2, r3;", "vadd without 3 types .u32 or .s32: vadd.u32.u32.u16"),
        ("vadd.u32.u32.u32 r1, r2.b10, r3;", ".b10 selects no byte and no half: vadd.u32.u32.u32"),
        ("vadd.u32.u32.u32.add r1.b0, r2, r3, r4;", "a second operation and a part of the destination exclude each other: vadd.u32.u32.u32.add"),
        ("vadd.u32.u32.u32 r1, -r2, r3;", "vadd takes no negated operands: vadd.u32.u32.u32"),
        ("vshl.u32.u32.u32 r1, r2, r3;", "a video shift needs a .u32 amount and .clamp or .wrap: vshl.u32.u32.u32"),
        ("vmad.s32.s32.s32.po r1, -r2, r3, r4;", "vmad negates either the product or the third operand, and neither with .po: vmad.s32.s32.s32.po"),
        ("vset.u32.u32 r1, r2, r3;", "a comparison without an operator: vset.u32.u32"),
        ("vadd2.u32.u32.u32 r1.h01, r2, r3, r4;", ".h01 is no mask of 2 elements: vadd2.u32.u32.u32"),
        ("vadd2.u32.u32.u32 r1, r2.h40, r3, r4;", ".h40 does not select 2 of the 4 elements: vadd2.u32.u32.u32"),
        ("vadd4.u32.u32.u32.sat.add r1, r2, r3, r4;", ".sat and .add exclude each other: vadd4.u32.u32.u32.sat.add"),
        ("vadd4.u32.u32.u32 r1, r2, r3;", "3 operands, not 4: vadd4.u32.u32.u32"),
    ],
)  # fmt: skip
def test_what_is_no_form_is_refused(text: str, message: str) -> None:
    assert refused(text) == message
