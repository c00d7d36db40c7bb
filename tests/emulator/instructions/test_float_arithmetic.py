"""Sums, products, quotients and roots against exact rational arithmetic, rounded once."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from float_reference import (
    BF16,
    F16,
    F32,
    F64,
    MODES,
    Layout,
    Number,
    add,
    decode,
    divide,
    encode,
    flushed,
    multiply,
    negated,
    number,
    power,
    rectified,
    root,
    rows,
    saturated,
)
from forms import Row, check, refused

LAYOUTS = {"f32": F32, "f64": F64, "f16": F16, "bf16": BF16}
SIGNS = {type: 1 << layout.width - 1 for type, layout in LAYOUTS.items()}
Exact = Callable[..., Number]

EXACT: dict[str, tuple[int, Exact]] = {
    "add": (2, lambda a, b, mode: add(a, b, mode)),
    "sub": (2, lambda a, b, mode: add(a, negated(b), mode)),
    "mul": (2, lambda a, b, mode: multiply(a, b)),
    "fma": (3, lambda a, b, c, mode: add(multiply(a, b), c, mode)),
    "mad": (3, lambda a, b, c, mode: add(multiply(a, b), c, mode)),
    "div": (2, lambda a, b, mode: divide(a, b)),
    "rcp": (1, lambda a, mode: divide(number(1), a)),
    "sqrt": (1, lambda a, mode: root(a)),
}


def numbers_only(layout: Layout, model: Callable[..., int], given: list[Row]) -> list[Row]:
    """The rows whose result is a number: the NaN of a double is the machine's own."""
    return [row for row in given if not decode(layout, model(*row)).is_nan]


def compare(opcode: str, type: str, *, count: int = 200) -> None:
    """An instruction as its opcode says, against the exact operation."""
    name, *modifiers = opcode.split(".")
    operands, exact = EXACT[name]
    layout = LAYOUTS[type]
    mode = next((m for m in modifiers if m in MODES), "rn")

    def model(*codes: int) -> int:
        return expected(layout, exact, modifiers, mode, codes)

    text = f"{opcode}.{type} d, {', '.join('abce'[:operands])};"
    given = rows(layout, operands, count)
    if type == "f64":
        given = numbers_only(layout, model, given)
    check(text, layout.width, (layout.width,) * operands, model, given)


def expected(layout: Layout, exact: Exact, modifiers: list[str], mode: str, codes: tuple[int, ...]) -> int:
    flush = "ftz" in modifiers
    found = exact(*(decode(layout, flushed(layout, code) if flush else code) for code in codes), mode)
    for modifier, limit in (("sat", saturated), ("relu", rectified)):
        if modifier in modifiers:
            found = limit(found)
    code = encode(layout, found, mode)
    return flushed(layout, code) if flush else code


ENDS = ("", *(f".{m}" for m in MODES))


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("name", ["add", "sub", "mul"])
def test_single(name: str, end: str) -> None:
    for rest in ("", ".ftz", ".sat", ".ftz.sat"):
        compare(name + end + rest, "f32")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["fma", "mad"])
def test_single_fused(name: str, mode: str) -> None:
    for rest in ("", ".ftz", ".sat", ".ftz.sat"):
        compare(f"{name}.{mode}{rest}", "f32")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["div", "rcp", "sqrt"])
def test_single_quotients(name: str, mode: str) -> None:
    for rest in ("", ".ftz"):
        compare(f"{name}.{mode}{rest}", "f32")


@pytest.mark.parametrize("name", ["add", "sub", "mul"])
@pytest.mark.parametrize("type", ["f16", "bf16"])
def test_half(name: str, type: str) -> None:
    for rest in ("", ".rn", *((".ftz", ".sat", ".rn.ftz.sat") if type == "f16" else ())):
        compare(name + rest, type, count=500)


@pytest.mark.parametrize("type", ["f16", "bf16"])
def test_half_fused(type: str) -> None:
    for rest in ("", ".relu", *((".ftz", ".sat", ".ftz.sat", ".ftz.relu") if type == "f16" else ())):
        compare(f"fma.rn{rest}", type, count=500)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("name", ["add", "sub", "mul"])
def test_double(name: str, end: str) -> None:
    compare(name + end, "f64")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["fma", "mad", "div", "rcp", "sqrt"])
def test_double_fused_and_quotients(name: str, mode: str) -> None:
    compare(f"{name}.{mode}", "f64")


def test_nan_of_doubles() -> None:
    """As an H200 gives them: that of an operand, made quiet; an invalid operation gives one of its own."""
    a, b, c = 0x7FF8000000000000, 0xFFF8123456789ABC, 0x7FF0123456789ABC
    one, zero, infinity, quiet = 0x3FF0000000000000, 0, 0x7FF0000000000000, 1 << 51
    for name in ("add", "sub", "mul", "add.rz", "mul.rp"):
        pairs = [(a, b), (b, a), (a, c), (b, c), (one, b), (one, c), (zero, a)]
        check(f"{name}.f64 d, a, b;", 64, (64, 64), lambda x, y: y | quiet, pairs)
        check(f"{name}.f64 d, a, b;", 64, (64, 64), lambda x, y: x | quiet, [(b, one), (c, zero), (a, infinity)])
    check("div.rn.f64 d, a, b;", 64, (64, 64), lambda x, y: x | quiet, [(a, b), (b, c), (c, one)])
    for mode in ("rn", "rm"):
        given = [
            (a, b, one, b),
            (b, a, c, a),
            (zero, infinity, b, b),
            (zero, b, c, b),
            (one, one, c, c),
            (c, one, one, c),
        ]
        text = f"fma.{mode}.f64 d, a, b, c;"
        check(
            text,
            64,
            (64,) * 3,
            lambda x, y, z: y | quiet if y in (a, b) else (z if z in (b, c) else x) | quiet,
            [row[:3] for row in given],
        )
    invalid = 0xFFF8000000000000
    check("sub.f64 d, a, b;", 64, (64, 64), lambda x, y: invalid, [(infinity, infinity)])
    check("mul.f64 d, a, b;", 64, (64, 64), lambda x, y: invalid, [(infinity, zero)])
    check("div.rz.f64 d, a, b;", 64, (64, 64), lambda x, y: invalid, [(zero, zero), (infinity, infinity)])
    check("sqrt.rn.f64 d, a;", 64, (64,), lambda x: invalid, [(0xBFF0000000000000,)])
    check("fma.rz.f64 d, a, b, c;", 64, (64,) * 3, lambda x, y, z: invalid, [(zero, infinity, one)])


def near_ties(layout: Layout) -> list[Row]:
    """Products that end halfway between two numbers of the format, and summands far below that decide which one is nearer."""
    one, half = layout.bias << layout.fraction, 1 << layout.fraction - 1
    sign = 1 << layout.width - 1
    # (1 + 2^-k) * (1 + 2^-(f + 1 - k)): its last bit is half a unit in the last place of the product.
    pairs = [(one + (1 << layout.fraction - k), one + (1 << k - 1)) for k in range(1, layout.fraction + 1)]
    pairs += [(one + half, one + 1), (one + 1, one + 1), (one, one)]
    tiny = [
        1,
        one >> 1,
        *(max(one - (far << layout.fraction), 2) for far in (layout.fraction + 3, 2 * layout.fraction)),
    ]
    return [(a | s, b, c | t) for a, b in pairs for s in (0, sign) for c in (0, *tiny) for t in (0, sign)]


@pytest.mark.parametrize("type", ["f32", "f64", "f16", "bf16"])
def test_ties_of_subnormal_results(type: str) -> None:
    """A product just below or above half of the smallest number, added to an odd and an even subnormal number."""
    layout = LAYOUTS[type]
    half = -layout.bias - layout.fraction
    step = power(-layout.fraction)
    factors = [(1 + step, 1 - step), (1 + step, 1 + step), (1 - step, 1 - step), (number(1).value, number(1).value)]
    given: list[Row] = []
    for first, second in factors:
        a, b = (
            encode(layout, number(first * power(half // 2))),
            encode(layout, number(second * power(half - half // 2))),
        )
        top = 1 << layout.fraction - 1
        given += [(a, b | s, c | t) for c in (top, top + 1, 1, 2) for s in (0, SIGNS[type]) for t in (0, SIGNS[type])]

    def model(*codes: int) -> int:
        return expected(layout, EXACT["fma"][1], [], "rn", codes)

    check(f"fma.rn.{type} d, a, b, c;", layout.width, (layout.width,) * 3, model, given)


@pytest.mark.parametrize("type", ["f32", "f64", "f16", "bf16"])
def test_what_lies_far_below_a_tie_decides_it(type: str) -> None:
    layout = LAYOUTS[type]
    given = near_ties(layout)
    for mode in MODES if type in ("f32", "f64") else ("rn",):

        def model(*codes: int, mode: str = mode) -> int:
            return expected(layout, EXACT["fma"][1], [], mode, codes)

        for start in range(0, len(given), 512):
            text = f"fma.{mode}.{type} d, a, b, c;"
            check(text, layout.width, (layout.width,) * 3, model, given[start : start + 512])


@pytest.mark.parametrize(
    ("opcode", "type"),
    [
        ("add.rz.ftz", "f32"), ("sub", "f32"), ("mul.rp", "f32"), ("fma.rm.ftz", "f32"),
        ("add.sat", "f16"), ("sub.ftz", "f16"), ("mul.rn", "f16"), ("fma.rn.relu", "f16"),
        ("add", "bf16"), ("sub.rn", "bf16"), ("mul", "bf16"), ("fma.rn.relu", "bf16"),
    ],
)  # fmt: skip
def test_packed(opcode: str, type: str) -> None:
    """Each half is by itself."""
    name, *modifiers = opcode.split(".")
    operands, exact = EXACT[name]
    layout, mode = LAYOUTS[type], next((m for m in modifiers if m in MODES), "rn")
    low, high = rows(layout, operands, 200), rows(layout, operands, 200, seed=1)
    width, mask = layout.width, (1 << layout.width) - 1
    packed = [tuple(x | y << width for x, y in zip(a, b, strict=True)) for a, b in zip(low, high, strict=True)]

    def model(*codes: int) -> int:
        halves = [tuple(code >> shift & mask for code in codes) for shift in (0, width)]
        below, above = (expected(layout, exact, modifiers, mode, half) for half in halves)
        return below | above << width

    check(f"{opcode}.{type}x2 d, {', '.join('abc'[:operands])};", 2 * width, (2 * width,) * operands, model, packed)


@pytest.mark.parametrize("narrow", ["f16", "bf16"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("saturate", [False, True])
def test_mixed(narrow: str, mode: str, saturate: bool) -> None:
    layout, sat = LAYOUTS[narrow], ".sat" if saturate else ""
    factors = rows(layout, 2, 200)
    given = [(a, b, c) for (a, b), (c,) in zip(factors, rows(F32, 1, 200), strict=True)]

    def finished(found: Number) -> int:
        return encode(F32, saturated(found) if saturate else found, mode)

    def summed(a: int, c: int) -> int:
        return finished(add(decode(layout, a), decode(F32, c), mode))

    def difference(a: int, c: int) -> int:
        return finished(add(decode(layout, a), negated(decode(F32, c)), mode))

    def fused(a: int, b: int, c: int) -> int:
        return finished(add(multiply(decode(layout, a), decode(layout, b)), decode(F32, c), mode))

    pairs = [(a, c) for a, _, c in given]
    width = layout.width
    check(f"add.{mode}{sat}.f32.{narrow} d, a, b;", 32, (width, 32), summed, pairs)
    check(f"sub.{mode}.f32.{narrow}{sat} d, a, b;", 32, (width, 32), difference, pairs)
    check(f"fma.{mode}{sat}.f32.{narrow} d, a, b, c;", 32, (width, width, 32), fused, given)


def test_fma_is_zero_where_an_operand_lies_outside_of_a_tensor() -> None:
    outside = 0x7FF7

    def model(a: int, b: int, c: int) -> int:
        return 0 if outside in (a, b, c) else expected(F16, EXACT["fma"][1], ["relu"], "rn", (a, b, c))

    given = [(outside, 0x3C00, 0x3C00), (0x3C00, outside, 0), (0x3C00, 0x3C00, outside), *rows(F16, 3, 200)]
    check("fma.rn.oob.relu.f16 d, a, b, c;", 16, (16, 16, 16), model, given)


def test_approximate_quotients_of_singles() -> None:
    """The nearest quotient, but a divisor beyond 2**126 has the reciprocal zero (PTX 9.7.3.8)."""

    def full(a: int, b: int) -> int:
        return encode(F32, divide(decode(F32, a), decode(F32, b)))

    def quick(a: int, b: int) -> int:
        divisor = decode(F32, b)
        if divisor.is_nan or divisor.is_infinite or divisor.value**2 <= 2**252:
            return full(a, b)
        return encode(F32, multiply(decode(F32, a), Number(divisor.negative, number(0).magnitude)))

    given = rows(F32, 2, 400)
    check("div.full.f32 d, a, b;", 32, (32, 32), full, given)
    check("div.approx.f32 d, a, b;", 32, (32, 32), quick, given)
    ones = rows(F32, 1, 200)
    check("rcp.approx.f32 d, a;", 32, (32,), lambda a: full(0x3F800000, a), ones)
    check("sqrt.approx.f32 d, a;", 32, (32,), lambda a: encode(F32, root(decode(F32, a))), ones)


def test_constants_are_operands() -> None:
    check("fma.rn.f32 d, a, 0f40000000, 0fBF800000;", 32, (32,), lambda a: 0x3F800000, [(0x3F800000,)])
    check("add.f16x2 d, a, 0x3C000000;", 32, (32,), lambda a: 0x40003C00, [(0x3C003C00,)])
    check("fma.rn.bf16x2 d, a, 0x3F803F80, 0x80008000;", 32, (32,), lambda a: a, [(0x3F80C000,), (0x00010080,)])
    check(
        "fma.rn.f64 d, 0d4000000000000000, 0d4000000000000000, a;",
        64,
        (64,),
        lambda a: 0x4014000000000000,
        [(0x3FF0000000000000,)],
    )
    check("add.f64 d, a, 0d3FF0000000000000;", 64, (64,), lambda a: 0x4000000000000000, [(0x3FF0000000000000,)])


def test_refusals() -> None:
    assert "no rounding is named" in refused("fma.f32 f0, f1, f2, f3;")
    assert ".bf16 is rounded to nearest, not by .rz" in refused("add.rz.bf16 h0, h1, h2;")
    assert "not with .bf16" in refused("add.ftz.bf16 h0, h1, h2;")
    assert "not with .bf16" in refused("fma.rn.sat.bf16 h0, h1, h2, h3;")
    assert "does not know .relu" in refused("add.relu.f16 h0, h1, h2;")
    assert "does not know .f32" in refused("mul.f32.f16 f0, h1, f2;")
