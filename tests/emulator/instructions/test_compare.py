"""setp, set, selp and slct against Python's comparisons, NaNs and subnormal numbers among the operands."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from random import Random

import pytest
from forms import Row, check, refused, rows, typed

SIGNED: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
UNSIGNED = {**SIGNED, "lo": SIGNED["lt"], "ls": SIGNED["le"], "hi": SIGNED["gt"], "hs": SIGNED["ge"]}
BOOLEAN: dict[str, Callable[[int, int], int]] = {
    "and": lambda t, c: t & c,
    "or": lambda t, c: t | c,
    "xor": lambda t, c: t ^ c,
}


def compares(name: str, a: float, b: float) -> bool:
    """Table 23 to 25 of the ISA."""
    unordered = math.isnan(a) or math.isnan(b)
    if name in ("num", "nan"):
        return unordered == (name == "nan")
    if name in SIGNED:
        return not unordered and SIGNED[name](a, b)  # type: ignore[arg-type]
    return unordered or SIGNED[name[:2]](a, b)  # type: ignore[arg-type]


FLOATS = [*SIGNED, "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"]
PATTERNS = {
    "f16": [0x0000, 0x8000, 0x0001, 0x83FF, 0x0400, 0x3C00, 0xBC00, 0x7BFF, 0x7C00, 0xFC00, 0x7E00, 0xFD01],
    "bf16": [0x0000, 0x8000, 0x0001, 0x807F, 0x0080, 0x3F80, 0xBF80, 0x7F7F, 0x7F80, 0xFF80, 0x7FC0, 0xFF81],
    "f32": [0, 1 << 31, 1, 0x807FFFFF, 0x00800000, 0x3F800000, 0xBF800000, 0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFF800001],
    "f64": [0, 1 << 63, 1, 0x800FFFFFFFFFFFFF, 1 << 52, 0x3FF0 << 48, 0xBFF0 << 48, 0x7FEFFFFFFFFFFFFF, 0x7FF0 << 48, 0xFFF0 << 48, 0x7FF8 << 48, 0xFFF0000000000001],
}  # fmt: skip
"""Zeros, subnormal numbers, the least normal one, ones, the greatest, infinities, NaNs."""


def value(bits: int, type: str) -> float:
    match type:
        case "bf16":
            return struct.unpack("<f", struct.pack("<I", bits << 16))[0]
        case "f16":
            return struct.unpack("<e", struct.pack("<H", bits))[0]
        case "f32":
            return struct.unpack("<f", struct.pack("<I", bits))[0]
        case _:
            return struct.unpack("<d", struct.pack("<Q", bits))[0]


def flushed(x: float, type: str) -> float:
    least = {"f16": 2.0**-14, "f32": 2.0**-126}[type]
    return 0.0 if abs(x) < least else x


def pairs(type: str) -> list[Row]:
    """All pairs of patterns, and random bits, a third of them twice the same."""
    rng, bits = Random(type), int(type.lstrip("bf"))
    made: list[Row] = [(a, b) for a in PATTERNS[type] for b in PATTERNS[type]]
    for _ in range(100):
        a = rng.getrandbits(bits)
        made.append((a, a if rng.random() < 0.3 else rng.getrandbits(bits)))
    return made


@pytest.mark.parametrize("width", [16, 32, 64])
def test_integers(width: int) -> None:
    kinds = [(f"s{width}", SIGNED), (f"u{width}", UNSIGNED), (f"b{width}", {n: SIGNED[n] for n in ("eq", "ne")})]
    for type, operators in kinds:
        as_type = type.replace("b", "u")
        for name, operator in operators.items():

            def holds(a: int, b: int, as_type: str = as_type, operator: Callable[[int, int], bool] = operator) -> int:
                return int(operator(typed(a, as_type), typed(b, as_type)))

            check(f"setp.{name}.{type} d, a, b;", 1, (width, width), holds)
            check(f"set.{name}.u32.{type} d, a, b;", 32, (width, width), lambda a, b, h=holds: -h(a, b))
            check(f"set.{name}.f32.{type} d, a, b;", 32, (width, width), lambda a, b, h=holds: 0x3F800000 * h(a, b))


@pytest.mark.parametrize("type", ["f16", "bf16", "f32", "f64"])
def test_floating_numbers(type: str) -> None:
    width = int(type.lstrip("bf"))
    one = {"f16": 0x3C00, "bf16": 0x3F80}
    for name in FLOATS:

        def holds(a: int, b: int, name: str = name) -> int:
            return int(compares(name, value(a, type), value(b, type)))

        check(f"setp.{name}.{type} d, a, b;", 1, (width, width), holds, pairs(type))
        check(f"set.{name}.s32.{type} d, a, b;", 32, (width, width), lambda a, b, h=holds: -h(a, b), pairs(type))
        if type in one:
            check(f"set.{name}.u16.{type} d, a, b;", 16, (width, width), lambda a, b, h=holds: -h(a, b), pairs(type))
            text = f"set.{name}.{type}.{type} d, a, b;"
            check(text, 16, (width, width), lambda a, b, h=holds: one[type] * h(a, b), pairs(type))
        if type in ("f16", "f32"):

            def holds_flushed(a: int, b: int, name: str = name) -> int:
                return int(compares(name, flushed(value(a, type), type), flushed(value(b, type), type)))

            check(f"setp.{name}.ftz.{type} d, a, b;", 1, (width, width), holds_flushed, pairs(type))


@pytest.mark.parametrize("type", ["f16", "bf16"])
def test_halves_give_two_results(type: str) -> None:
    rng = Random(type)
    operands: list[Row] = []
    for a, b in pairs(type):
        x, y = rng.choice(pairs(type))
        operands.append((a | x << 16, b | y << 16, rng.randrange(2)))
    one = {"f16": 0x3C00, "bf16": 0x3F80}[type]
    for name in FLOATS:

        def holds(a: int, b: int, name: str = name) -> tuple[int, int]:
            low, high = ((value(a >> s & 0xFFFF, type), value(b >> s & 0xFFFF, type)) for s in (0, 16))
            return int(compares(name, *low)), int(compares(name, *high))

        text = f"{{ .reg .pred x, y; .reg .b32 z; setp.{name}.{type}x2 x|y, a, b; selp.b32 d, 1, 0, x; selp.b32 z, 2, 0, y; or.b32 d, d, z; }}"
        check(text, 32, (32, 32), lambda a, b, h=holds: h(a, b)[0] + 2 * h(a, b)[1], [row[:2] for row in operands])
        low = [row[:2] for row in operands]
        check(f"setp.{name}.{type}x2 d, a, b;", 1, (32, 32), lambda a, b, h=holds: h(a, b)[0], low)
        text = f"set.{name}.xor.{type}x2.{type}x2 d, a, b, c;"

        def ones(a: int, b: int, c: int, h: Callable[[int, int], tuple[int, int]] = holds) -> int:
            low, high = h(a, b)
            return (low ^ c) * one + (high ^ c) * one * 65536

        check(text, 32, (32, 32, 1), ones, operands)
        text = f"set.{name}.u32.{type}x2 d, a, b;"
        check(
            text,
            32,
            (32, 32),
            lambda a, b, h=holds: h(a, b)[0] * 0xFFFF + h(a, b)[1] * 0xFFFF0000,
            [r[:2] for r in operands],
        )


@pytest.mark.parametrize("operation", BOOLEAN)
def test_a_comparison_joined_with_a_predicate(operation: str) -> None:
    join = BOOLEAN[operation]
    operands = [(a, b, flag) for a, b in rows(32, 32, count=60) for flag in (0, 1)]

    def both(a: int, b: int, c: int) -> int:
        holds = int(typed(a, "s32") < typed(b, "s32"))
        return join(holds, c) + 2 * join(1 - holds, c)

    text = (
        "{{ .reg .pred x, y; .reg .b32 z; setp.lt.{0}.s32 {1}, a, b, {2}; "
        "selp.b32 d, 1, 0, {3}; selp.b32 z, 2, 0, {4}; or.b32 d, d, z; }}"
    )
    check(text.format(operation, "x|y", "c", "x", "y"), 32, (32, 32, 1), both, operands)
    check(text.format(operation, "x|y", "!c", "x", "y"), 32, (32, 32, 1), lambda a, b, c: both(a, b, 1 - c), operands)
    # The predicate may be one of the results, and a result may be left out.
    check(text.format(operation, "c|y", "c", "c", "y"), 32, (32, 32, 1), both, operands)
    check(f"setp.lt.{operation}.s32 d|_, a, b, c;", 1, (32, 32, 1), lambda a, b, c: both(a, b, c) & 1, operands)
    check(f"setp.lt.{operation}.s32 _|d, a, b, c;", 1, (32, 32, 1), lambda a, b, c: both(a, b, c) >> 1, operands)
    check(f"set.lt.{operation}.u32.s32 d, a, b, c;", 32, (32, 32, 1), lambda a, b, c: -(both(a, b, c) & 1), operands)


@pytest.mark.parametrize("width", [16, 32, 64])
def test_selection_by_a_predicate(width: int) -> None:
    operands = [(a, b, flag) for a, b in rows(width, width, count=40) for flag in (0, 1)]
    kinds = ("b", "u", "s") if width == 16 else ("b", "u", "s", "f")
    for kind in kinds:
        check(f"selp.{kind}{width} d, a, b, c;", width, (width, width, 1), lambda a, b, c: a if c else b, operands)
        text = f"selp.{kind}{width} d, a, b, !c;"
        check(text, width, (width, width, 1), lambda a, b, c: b if c else a, operands)


@pytest.mark.parametrize("width", [16, 32, 64])
def test_selection_by_a_sign(width: int) -> None:
    rng = Random(width)
    patterns = [*PATTERNS["f32"], 0x80000001, 0x80000000, 0x7FFFFFFF]
    operands = [(rng.getrandbits(width), rng.getrandbits(width), c) for c in patterns for _ in range(4)]
    kinds = ("b", "u", "s") if width == 16 else ("b", "u", "s", "f")
    for kind in kinds:
        widths, type = (width, width, 32), f"{kind}{width}"
        check(f"slct.{type}.s32 d, a, b, c;", width, widths, lambda a, b, c: b if c >> 31 else a, operands)
        text = f"slct.{type}.f32 d, a, b, c;"
        check(text, width, widths, lambda a, b, c: a if value(c, "f32") >= 0 else b, operands)
        text = f"slct.ftz.{type}.f32 d, a, b, c;"
        check(text, width, widths, lambda a, b, c: a if flushed(value(c, "f32"), "f32") >= 0 else b, operands)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("setp.lt.b32 p1, r1, r2;", ".lt does not compare .b32: setp.lt.b32"),
        ("setp.lo.s32 p1, r1, r2;", ".lo does not compare .s32: setp.lo.s32"),
        ("setp.ltu.u32 p1, r1, r2;", ".ltu does not compare .u32: setp.ltu.u32"),
        ("setp.hi.f32 p1, f1, f2;", ".hi compares unsigned integers, not .f32: setp.hi.f32"),
        ("setp.eq.ftz.f64 p1, x1, x2;", ".ftz goes with .f32, .f16 and .f16x2, not with .f64: setp.eq.ftz.f64"),
        ("setp.s32 p1, r1, r2;", "a comparison without an operator: setp.s32"),
        ("setp.eq.and.s32 p1, r1, r2;", "3 operands, not 4: setp.eq.and.s32"),
        ("setp.eq.bf16 p1|p2, h1, h2;", "a comparison of .bf16 has one result: setp.eq.bf16"),
        ("setp.eq.u8 p1, r1, r2;", ".u8 is no type of setp: setp.eq.u8"),
        ("set.eq.s32 r1, r2, r3;", "a comparison of .s32 that has no result type, or not one of .u32, .s32, .f32, .f16, .bf16: set.eq.s32"),
        ("set.eq.u16.f32 h1, f2, f3;", "a comparison of .f32 that has no result type, or not one of .u32, .s32, .f32, .f16, .bf16: set.eq.u16.f32"),
        ("selp.f16 h1, h2, h3, p1;", ".f16 is no type of selp: selp.f16"),
        ("selp.b32 r1, r2, r3, r4;", "register r4 is .b32, not .pred: selp.b32"),
        ("slct.ftz.b32.s32 r1, r2, r3, r4;", "the emulator does not know .ftz here: slct.ftz.b32.s32"),
        ("slct.b32 r1, r2, r3, r4;", ".b32 is no type of slct: slct.b32"),
    ],
)  # fmt: skip
def test_what_is_no_form_is_refused(text: str, message: str) -> None:
    assert refused(text) == message
