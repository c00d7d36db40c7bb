"""Logic, shifts and byte permutation against Python's integers."""

from __future__ import annotations

from random import Random

import pytest
from forms import Row, bytes_of, check, joined, refused, rows, run, specials, typed

WIDTHS = (16, 32, 64)


@pytest.mark.parametrize("width", WIDTHS)
def test_logic_of_bits(width: int) -> None:
    check(f"and.b{width} d, a, b;", width, (width, width), lambda a, b: a & b)
    check(f"or.b{width} d, a, b;", width, (width, width), lambda a, b: a | b)
    check(f"xor.b{width} d, a, b;", width, (width, width), lambda a, b: a ^ b)
    check(f"not.b{width} d, a;", width, (width,), lambda a: ~a)
    check(f"cnot.b{width} d, a;", width, (width,), lambda a: int(a == 0))
    check(f"and.b{width} d, a, 0x7FF0;", width, (width,), lambda a: a & 0x7FF0)


def test_logic_of_predicates() -> None:
    pairs: list[Row] = [(0, 0), (0, 1), (1, 0), (1, 1)]
    check("and.pred d, a, b;", 1, (1, 1), lambda a, b: a & b, pairs)
    check("or.pred d, a, b;", 1, (1, 1), lambda a, b: a | b, pairs)
    check("xor.pred d, a, b;", 1, (1, 1), lambda a, b: a ^ b, pairs)
    check("not.pred d, a;", 1, (1,), lambda a: 1 - a, [(0,), (1,)])
    check("and.pred d, a, !b;", 1, (1, 1), lambda a, b: a & 1 - b, pairs)


def table(lut: int, a: int, b: int, c: int) -> int:
    """Each bit by the row of the truth table that the bits of the operands name."""
    return sum((lut >> ((a >> i & 1) * 4 + (b >> i & 1) * 2 + (c >> i & 1)) & 1) << i for i in range(32))


def test_every_function_of_three_bits() -> None:
    # These words go through all eight combinations; their table is the result itself, in the ISA's words.
    operands = [(0xF0F0F0F0, 0xCCCCCCCC, 0xAAAAAAAA)]
    for lut in range(256):
        assert run(f"lop3.b32 d, a, b, c, {lut};", 32, (32,) * 3, operands) == [lut * 0x01010101]
    for lut in (0x00, 0x80, 0x96, 0x1A, 0xE8, 0xCA, 0x3F, 0xFF):
        check(f"lop3.b32 d, a, b, c, {lut};", 32, (32,) * 3, lambda a, b, c, lut=lut: table(lut, a, b, c))
    check("lop3.b32 d, a, 0xFF00FF00, 0, 0x6A;", 32, (32,), lambda a: table(0x6A, a, 0xFF00FF00, 0))


@pytest.mark.parametrize("lut", [0x80, 0x96, 0xC0])
def test_whether_a_function_of_three_bits_is_zero_joined_with_a_predicate(lut: int) -> None:
    operands = [(*row, flag) for row in rows(32, 32, 32, count=80) for flag in (0, 1)]
    for operation in ("or", "and"):

        def joins(a: int, b: int, c: int, e: int, or_: bool = operation == "or") -> int:
            any_bit = int(table(lut, a, b, c) != 0)
            return any_bit | e if or_ else any_bit & e

        check(f"lop3.{operation}.b32 _|d, a, b, c, {lut}, e;", 1, (32, 32, 32, 1), joins, operands)
        text = f"{{ .reg .pred p; lop3.{operation}.b32 d|p, a, b, c, {lut}, !e; }}"
        check(text, 32, (32, 32, 32, 1), lambda a, b, c, e: table(lut, a, b, c), operands)
    # The predicate may be both operand and result.
    text = f"lop3.and.b32 _|e, a, b, c, {lut}, e; mov.pred d, e;"
    check(text, 1, (32, 32, 32, 1), lambda a, b, c, e: int(table(lut, a, b, c) != 0) & e, operands)


def shifted(width: int) -> list[Row]:
    amounts = [*range(70), 128, 0x100, 0x80000000, 0xFFFFFFFF]
    rng = Random(width)
    return [(value, amount) for amount in amounts for value in (rng.choice(specials(width)), rng.getrandbits(width))]


@pytest.mark.parametrize("width", WIDTHS)
def test_shifts_beyond_the_width_leave_nothing_but_the_sign(width: int) -> None:
    operands = shifted(width)
    check(f"shl.b{width} d, a, b;", width, (width, 32), lambda a, n: a << min(n, width), operands)
    for type in ("b", "u"):
        check(f"shr.{type}{width} d, a, b;", width, (width, 32), lambda a, n: a >> min(n, width), operands)
    check(f"shr.s{width} d, a, b;", width, (width, 32), lambda a, n: typed(a, f"s{width}") >> min(n, width), operands)
    check(f"shl.b{width} d, a, 3;", width, (width,), lambda a: a << 3)


@pytest.mark.parametrize("mode", ["clamp", "wrap"])
def test_funnel_shifts(mode: str) -> None:
    rng = Random(3)
    operands = [(value, rng.getrandbits(32), amount) for value, amount in shifted(32)]

    def amount(c: int) -> int:
        return min(c, 32) if mode == "clamp" else c & 31

    def left(a: int, b: int, c: int) -> int:
        return (b << 32 | a) << amount(c) >> 32

    check(f"shf.l.{mode}.b32 d, a, b, c;", 32, (32,) * 3, left, operands)
    check(f"shf.r.{mode}.b32 d, a, b, c;", 32, (32,) * 3, lambda a, b, c: (b << 32 | a) >> amount(c), operands)


def test_permutation() -> None:
    def permute(a: int, b: int, c: int) -> int:
        source = bytes_of(a) + bytes_of(b)
        picked = [(source[c >> 4 * i & 7], c >> 4 * i & 8) for i in range(4)]
        return joined([(0xFF if byte & 0x80 else 0) if sign else byte for byte, sign in picked], 8)

    check("prmt.b32 d, a, b, c;", 32, (32,) * 3, permute)
    check("prmt.b32 d, a, b, 0x9D40;", 32, (32,) * 2, lambda a, b: permute(a, b, 0x9D40))
    check("prmt.b32 d, 0x80818283, 0x01020304, c;", 32, (32,) * 3, lambda a, b, c: permute(0x80818283, 0x01020304, c))


MODES = {
    "f4e": ["3210", "4321", "5432", "6543"],
    "b4e": ["5670", "6701", "7012", "0123"],
    "rc8": ["0000", "1111", "2222", "3333"],
    "ecl": ["3210", "3211", "3222", "3333"],
    "ecr": ["0000", "1110", "2210", "3210"],
    "rc16": ["1010", "3232", "1010", "3232"],
}
"""The table of the ISA text: for selectors 0 to 3, the sources of bytes 3, 2, 1, 0."""


@pytest.mark.parametrize("mode", MODES)
def test_permutation_by_mode(mode: str) -> None:
    def permute(a: int, b: int, c: int) -> int:
        source = bytes_of(a) + bytes_of(b)
        return joined([source[int(digit)] for digit in reversed(MODES[mode][c & 3])], 8)

    check(f"prmt.b32.{mode} d, a, b, c;", 32, (32,) * 3, permute)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("and.u32 r1, r2, r3;", ".u32 is no type of and: and.u32"),
        ("shl.u32 r1, r2, r3;", ".u32 is no type of shl: shl.u32"),
        ("shf.l.b32 r1, r2, r3, r4;", "a funnel shift without a direction or a mode: shf.l.b32"),
        ("lop3.b32 r1, r2, r3, r4, 256;", "a truth table that is no constant from 0 to 255: lop3.b32"),
        ("lop3.b32 r1, r2, r3, r4, r5;", "a truth table that is no constant from 0 to 255: lop3.b32"),
        ("lop3.or.b32 r1, r2, r3, r4, 1, p1;", ".or without a predicate as the second result: lop3.or.b32"),
        ("prmt.b32.f8e r1, r2, r3, r4;", "the emulator does not know .f8e here: prmt.b32.f8e"),
        ("xor.pred p1, p2, r3;", "register r3 is .b32, not .pred: xor.pred"),
        ("not.b32.sat r1, r2;", "the emulator does not know .sat here: not.b32.sat"),
    ],
)
def test_what_is_no_form_is_refused(text: str, message: str) -> None:
    assert refused(text) == message
