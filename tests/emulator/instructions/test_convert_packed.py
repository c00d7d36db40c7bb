"""Conversions to and from packed and narrow floating formats, against exact rational arithmetic."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import pytest
from float_reference import (
    BF16,
    E2M1,
    E2M3,
    E3M2,
    E4M3,
    E5M2,
    F16,
    F32,
    Layout,
    Number,
    decode,
    encode,
    floor_log2,
    number,
    power,
    rectified,
    rows,
)
from forms import Row, check, clamp, joined, refused, typed

HALVES = {"f16": F16, "bf16": BF16}
NARROW = {"e4m3": E4M3, "e5m2": E5M2, "e2m3": E2M3, "e3m2": E3M2, "e2m1": E2M1}


def near(layout: Layout, seed: int = 0, count: int = 400) -> list[int]:
    """Singles at and around the numbers of a narrow format and the middles between them, and special ones."""
    rng = Random(f"{layout}{seed}")
    made: list[int] = []
    shift = 23 - layout.fraction
    for _ in range(count // 2):
        n = decode(layout, rng.getrandbits(layout.width))
        if not n.is_nan and not n.is_infinite:
            code = encode(F32, n)
            made += [
                code + rng.choice((0, 1, 1 << shift - 1, (1 << shift - 1) - 1, (1 << shift - 1) + 1, (1 << shift) - 1))
            ]
    made += [code for (code,) in rows(F32, 1, count, seed)]
    return [code & 0xFFFFFFFF for code in made[:count]]


def pairs(layout: Layout) -> list[Row]:
    return list(zip(near(layout), near(layout, 1), strict=True))


def code_of(layout: Layout, n: Number, mode: str = "rn", *, relu: bool = False, finite: bool = True) -> int:
    return encode(layout, rectified(n) if relu else n, mode, saturate=finite)


def place(name: str) -> int:
    """Bits that a number of the format takes among others."""
    return {"e2m1": 4, "f16": 16, "bf16": 16}.get(name, 8)


@pytest.mark.parametrize("name", HALVES)
@pytest.mark.parametrize("end", ["rn", "rz", "rn.relu", "rz.satfinite", "rn.relu.satfinite"])
def test_singles_to_pairs_of_halves(name: str, end: str) -> None:
    layout = HALVES[name]

    def half(a: int) -> int:
        return code_of(layout, decode(F32, a), end[:2], relu="relu" in end, finite="satfinite" in end)

    check(f"cvt.{end}.{name}x2.f32 d, a, b;", 32, (32, 32), lambda a, b: joined([half(b), half(a)], 16), pairs(layout))


@pytest.mark.parametrize("name", NARROW)
@pytest.mark.parametrize("relu", ["", ".relu"])
def test_singles_to_narrow(name: str, relu: str) -> None:
    layout, bits = NARROW[name], place(name)

    def model(a: int, b: int) -> int:
        return joined([code_of(layout, decode(F32, n), relu=bool(relu)) for n in (b, a)], bits)

    text = f"cvt.rn.satfinite{relu}.{name}x2.f32"
    if bits == 4:
        text = f"{{ .reg .b8 q; {text} q, a, b; cvt.u16.u8 d, q; }}"
    else:
        text += " d, a, b;"
    check(text, 16, (32, 32), model, pairs(layout))


@pytest.mark.parametrize("name", NARROW)
@pytest.mark.parametrize("half", HALVES)
def test_halves_to_narrow(name: str, half: str) -> None:
    layout, wide, bits = NARROW[name], HALVES[half], place(name)

    def model(a: int) -> int:
        return joined([code_of(layout, decode(wide, a >> s & 0xFFFF), relu=True) for s in (0, 16)], bits)

    text = f"cvt.rn.satfinite.relu.{name}x2.{half}x2"
    if bits == 4:
        text = f"{{ .reg .b8 q; {text} q, a; cvt.u16.u8 d, q; }}"
    else:
        text += " d, a;"
    codes = [encode(wide, decode(F32, code), "rz") for code in near(layout)]
    check(text, 16, (32,), model, [(a | b << 16,) for a, b in zip(codes, reversed(codes), strict=True)])


@pytest.mark.parametrize("name", NARROW)
def test_narrow_to_halves(name: str) -> None:
    """All codes of the format."""
    layout, bits = NARROW[name], place(name)
    mask = (1 << layout.width) - 1

    def model(a: int) -> int:
        return joined([encode(F16, decode(layout, a >> s & mask)) for s in (0, bits)], 16)

    given = [(code | (code * 5 + 3 & mask) << bits,) for code in range(1 << layout.width)]
    text = f"cvt.rn.f16x2.{name}x2 d, a;"
    if bits == 4:
        text = f"{{ .reg .b8 q; cvt.u8.u16 q, a; cvt.rn.f16x2.{name}x2 d, q; }}"
    check(text, 32, (16,), model, given)
    relu = text.replace(".rn.", ".rn.relu.")
    rectifying = lambda a: joined(  # noqa: E731
        [encode(F16, rectified(decode(layout, a >> s & mask))) for s in (0, bits)], 16
    )
    check(relu, 32, (16,), rectifying, given)


def scale_of(n: Number, mode: str, finite: bool) -> int:
    """ue8m0: the exponent of the magnitude, with a bias of 127."""
    if n.is_nan:
        return 255
    if n.is_infinite:
        return 254 if finite else 255
    assert isinstance(n.magnitude, Fraction)
    if n.magnitude == 0:
        return 0
    exponent = floor_log2(n.magnitude)
    exponent += mode == "rp" and n.magnitude > power(exponent)
    code = max(exponent + 127, 0)
    return code if code <= 254 else 254 if finite else 255


@pytest.mark.parametrize("mode", ["rz", "rp"])
@pytest.mark.parametrize("finite", ["", ".satfinite"])
def test_scale_factors(mode: str, finite: str) -> None:
    given = [*pairs(BF16), *((1 << at, (1 << at) + 1) for at in range(32))]

    def model(a: int, b: int) -> int:
        return joined([scale_of(decode(F32, n), mode, bool(finite)) for n in (b, a)], 8)

    check(f"cvt.{mode}{finite}.ue8m0x2.f32 d, a, b;", 16, (32, 32), model, given)
    halves = [(a >> 16 | b & 0xFFFF0000,) for a, b in given]

    def packed(a: int) -> int:
        return joined([scale_of(decode(BF16, a >> s & 0xFFFF), mode, bool(finite)) for s in (0, 16)], 8)

    check(f"cvt.{mode}{finite}.ue8m0x2.bf16x2 d, a;", 16, (32,), packed, halves)


def test_scale_factors_to_halves() -> None:
    def half(code: int) -> int:
        return BF16.nan if code == 255 else encode(BF16, number(power(code - 127)))

    given = [(code | (255 - code) << 8,) for code in range(256)]
    check("cvt.rn.bf16x2.ue8m0x2 d, a;", 32, (16,), lambda a: joined([half(a & 255), half(a >> 8)], 16), given)


def cut_off(layout: Layout, code: int, random: int, bits: int) -> int:
    """Stochastic rounding as the ISA says it, on the bits of a normal single that becomes a normal number of the format."""
    sign, magnitude = code >> 31, code & 0x7FFFFFFF
    discarded = 23 - layout.fraction
    magnitude += random << discarded - bits
    return sign << layout.width - 1 | (magnitude >> discarded) - ((127 - layout.bias) << layout.fraction)


@pytest.mark.parametrize("name", HALVES)
def test_stochastic_halves(name: str) -> None:
    layout, bits = HALVES[name], 13 if name == "f16" else 16
    rng = Random(name)

    def single() -> int:
        return rng.getrandbits(1) << 31 | rng.randint(120, 134) << 23 | rng.getrandbits(23)

    def model(a: int, b: int, c: int) -> int:
        mask = (1 << bits) - 1
        return joined([cut_off(layout, b, c & mask, bits), cut_off(layout, a, c >> 16 & mask, bits)], 16)

    given = [(single(), single(), rng.getrandbits(32)) for _ in range(400)]
    check(f"cvt.rs.{name}x2.f32 d, a, b, c;", 32, (32, 32, 32), model, given)
    # No bits are cut off: no random number changes that. All are: the largest random number carries if any is set.
    exact = [(0x3F800000, 0x40000000, 0xFFFFFFFF)]
    check(
        f"cvt.rs.{name}x2.f32 d, a, b, c;",
        32,
        (32,) * 3,
        lambda *_: joined([encode(layout, number(2)), encode(layout, number(1))], 16),
        exact,
    )


@pytest.mark.parametrize("name", ["e4m3", "e5m2", "e2m3", "e3m2"])
def test_stochastic_quadruples(name: str) -> None:
    layout = NARROW[name]
    rng = Random(name)

    def single() -> int:
        # From 1 to below 4: normal in all of these formats, also when rounded up.
        return rng.getrandbits(1) << 31 | rng.randint(127, 128) << 23 | rng.getrandbits(23)

    def model(a: int, b: int, c: int) -> int:
        lower, upper = c & 0xFFFF, c >> 16
        parts = [(a ^ 0x80000000, lower), (b, lower), (b ^ 0x80000000, upper), (a, upper)]
        return joined([cut_off(layout, code, random, 16) for code, random in parts], 8)

    given = [(single(), single(), rng.getrandbits(32)) for _ in range(400)]
    text = f".reg .f32 m, n; neg.f32 m, a; neg.f32 n, b; cvt.rs.satfinite.{name}x4.f32 d, {{a, n, b, m}}, c;"
    check(text, 32, (32, 32, 32), model, given)


def test_fixed_point() -> None:
    """s2f6 is an 8-bit integer in units of 1/64."""

    def fixed(n: Number, scale: int) -> int:
        if n.is_nan or n.is_infinite:
            return 127 if n.is_nan or not n.negative else -128
        units = n.value / power(scale - 127) * 64
        below = units.numerator // units.denominator
        rest = units - below
        below += rest > Fraction(1, 2) or (rest == Fraction(1, 2) and below % 2 == 1)
        return clamp(below, -128, 127)

    given = pairs(F16)
    check(
        "cvt.rn.satfinite.s2f6x2.f32 d, a, b;", 16, (32, 32),
        lambda a, b: joined([fixed(decode(F32, b), 127), fixed(decode(F32, a), 127)], 8), given,
    )  # fmt: skip
    scaled = [(a, b, 0x7F80 + index % 7 * 0x0100 + index % 5) for index, (a, b) in enumerate(given)]
    check(
        "cvt.rn.satfinite.relu.scaled::n2::ue8m0.s2f6x2.f32 d, a, b, c;", 16, (32, 32, 16),
        lambda a, b, c: joined(
            [fixed(rectified(decode(F32, b)), c & 255), fixed(rectified(decode(F32, a)), c >> 8)], 8
        ),
        scaled,
    )  # fmt: skip
    codes = [(code | (255 - code) << 8, 0x7E84) for code in range(256)]

    def half(code: int, scale: int) -> int:
        return encode(BF16, number(Fraction(typed(code, "s8"), 64) * power(scale - 127)))

    check(
        "cvt.rn.scaled::n2::ue8m0.bf16x2.s2f6x2 d, a, b;", 32, (16, 16),
        lambda a, c: joined([half(a & 255, c & 255), half(a >> 8, c >> 8)], 16), codes,
    )  # fmt: skip


@pytest.mark.parametrize("type", ["u16", "s16", "u8", "s8", "u4", "s4", "u2", "s2"])
def test_packing_of_integers(type: str) -> None:
    bits = int(type[1:])
    low, high = (0, (1 << bits) - 1) if type[0] == "u" else (-(1 << bits - 1), (1 << bits - 1) - 1)

    def model(a: int, b: int, c: int = 0) -> int:
        limited = [clamp(typed(x, "s32"), low, high) for x in (b, a)]
        return joined(limited, bits) | c << 2 * bits

    rng = Random(type)
    given = [tuple(typed(rng.getrandbits(32) >> rng.randint(0, 30), "u32") for _ in range(3)) for _ in range(300)]
    given += [(low & 0xFFFFFFFF, high, 5), (low - 1 & 0xFFFFFFFF, high + 1, 7), (0x80000000, 0x7FFFFFFF, 0xFFFFFFFF)]
    if bits == 16:
        check(f"cvt.pack.sat.{type}.s32 d, a, b;", 32, (32, 32), model, [row[:2] for row in given])
    else:
        check(f"cvt.pack.sat.{type}.s32.b32 d, a, b, c;", 32, (32, 32, 32), model, given)


def test_refusals() -> None:
    assert "names .satfinite" in refused("cvt.rn.e4m3x2.f32 h0, f1, f2;")
    assert "names .rz or .rp" in refused("cvt.rn.ue8m0x2.f32 h0, f1, f2;")
    assert "not specified in words" in refused("cvt.rs.satfinite.e2m1x4.f32 h0, {f0, f1, f2, f3}, r0;")
    assert "no conversion from .e4m3x2" in refused("cvt.rn.bf16x2.e4m3x2 r0, h1;")
    assert "a third operand" in refused("cvt.pack.sat.s8.s32 r0, r1, r2;")
