"""Bit counts, bit fields and searches against loops over the bits, as the ISA text writes them."""

from __future__ import annotations

from random import Random

import pytest
from forms import Row, check, refused, rows, specials

NONE = 0xFFFFFFFF


def fields(width: int) -> list[Row]:
    """A value, a position and a length: also such as are beyond 255, of which 8 bits count for 32-bit values, and all for others."""
    rng = Random(width)
    amounts = [0, 1, 5, 31, 32, 33, 63, 64, 65, 200, 255, 256, 257, 0xFFFFFFFF]
    made = [(rng.choice(specials(width)), position, length) for position in amounts for length in amounts]
    return [*made, *((rng.getrandbits(width), rng.randrange(70), rng.randrange(70)) for _ in range(300))]


def amount(value: int, width: int) -> int:
    return value & 0xFF if width == 32 else min(value, 64)


@pytest.mark.parametrize("width", [32, 64])
def test_counts_and_reversal(width: int) -> None:
    check(f"popc.b{width} d, a;", 32, (width,), lambda a: a.bit_count())
    check(f"clz.b{width} d, a;", 32, (width,), lambda a: width - a.bit_length())
    check(f"brev.b{width} d, a;", width, (width,), lambda a: int(f"{a:0{width}b}"[::-1], 2))


@pytest.mark.parametrize("type", ["u32", "s32", "u64", "s64"])
def test_the_highest_bit_that_is_no_sign(type: str) -> None:
    width = int(type[1:])

    def find(a: int, shift: bool) -> int:
        if type[0] == "s" and a >> width - 1:
            a = ~a & ((1 << width) - 1)
        position = a.bit_length() - 1
        if position < 0:
            return NONE
        return width - 1 - position if shift else position

    check(f"bfind.{type} d, a;", 32, (width,), lambda a: find(a, False))
    check(f"bfind.shiftamt.{type} d, a;", 32, (width,), lambda a: find(a, True))


@pytest.mark.parametrize("type", ["u32", "s32", "u64", "s64"])
def test_extraction(type: str) -> None:
    msb = int(type[1:]) - 1

    def extract(a: int, b: int, c: int) -> int:
        pos, length = amount(b, msb + 1), amount(c, msb + 1)
        sign = 0 if type[0] == "u" or length == 0 else a >> min(pos + length - 1, msb) & 1
        bits = [a >> pos + i & 1 if i < length and pos + i <= msb else sign for i in range(msb + 1)]
        return sum(bit << i for i, bit in enumerate(bits))

    check(f"bfe.{type} d, a, b, c;", msb + 1, (msb + 1, 32, 32), extract, fields(msb + 1))


@pytest.mark.parametrize("width", [32, 64])
def test_insertion(width: int) -> None:
    def insert(a: int, b: int, c: int, e: int) -> int:
        pos, length = amount(c, width), amount(e, width)
        for i in range(length):
            if pos + i < width:
                b = b & ~(1 << pos + i) | (a >> i & 1) << pos + i
        return b

    rng = Random(1)
    operands = [(a, rng.getrandbits(width), b, c) for a, b, c in fields(width)]
    check(f"bfi.b{width} d, a, b, c, e;", width, (width, width, 32, 32), insert, operands)


@pytest.mark.parametrize("type", ["u32", "s32"])
@pytest.mark.parametrize("mode", ["clamp", "wrap"])
def test_extension(type: str, mode: str) -> None:
    def extend(a: int, b: int) -> int:
        if b >= 32 and mode == "clamp":
            return a
        length = b & 31
        low = a & (1 << length) - 1
        return low - (1 << length) if type == "s32" and length and low >> length - 1 else low

    check(f"szext.{mode}.{type} d, a, b;", 32, (32, 32), extend, [(a, b) for a, b, _ in fields(32)])


@pytest.mark.parametrize("mode", ["clamp", "wrap"])
def test_masks(mode: str) -> None:
    def mask(a: int, b: int) -> int:
        if mode == "wrap":
            a, b = a % 32, b % 32
        return sum(1 << i for i in range(32) if a <= i < a + b)

    check(f"bmsk.{mode}.b32 d, a, b;", 32, (32, 32), mask, [(b, c) for _, b, c in fields(32)])


def test_the_nth_set_bit() -> None:
    def find(mask: int, base: int, offset: int) -> int:
        offset = offset - 2**32 if offset >> 31 else offset
        if offset == 0:
            return base if mask >> base & 1 else NONE
        count, step = abs(offset) - 1, 1 if offset > 0 else -1
        while 0 <= base < 32:
            if mask >> base & 1:
                if count == 0:
                    return base
                count -= 1
            base += step
        return NONE

    rng = Random(0)
    offsets = [*range(-34, 35), 2**31 - 1, -(2**31) + 1]
    operands = [(mask, rng.randrange(32), rng.choice(offsets) & NONE) for (mask,) in rows(32)]
    check("fns.b32 d, a, b, c;", 32, (32,) * 3, find, operands)
    check(
        "fns.b32 d, a, b, c;", 32, (32,) * 3, lambda a, b, c: NONE, [(NONE, 32, 1), (NONE, 99, 0), (NONE, NONE, NONE)]
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("popc.b16 r1, h2;", ".b16 is no type of popc: popc.b16"),
        ("bfe.b32 r1, r2, r3, r4;", ".b32 is no type of bfe: bfe.b32"),
        ("bfi.b32 r1, r2, r3, r4;", "4 operands, not 5: bfi.b32"),
        ("szext.s32 r1, r2, r3;", "neither .clamp nor .wrap: szext.s32"),
        ("bmsk.b32 r1, r2, r3;", "neither .clamp nor .wrap: bmsk.b32"),
        ("bfind.lead.u32 r1, r2;", "the emulator does not know .lead here: bfind.lead.u32"),
        ("clz r1, r2;", "no type that the emulator knows: clz"),
    ],
)
def test_what_is_no_form_is_refused(text: str, message: str) -> None:
    assert refused(text) == message
