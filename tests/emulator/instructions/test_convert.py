"""Conversions between scalar types against exact rational arithmetic."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import pytest
from float_reference import (
    BF16,
    F16,
    F32,
    F64,
    MODES,
    TF32,
    Layout,
    Number,
    decode,
    encode,
    flushed,
    number,
    rectified,
    rows,
    saturated,
)
from forms import Row, check, clamp, refused, specials, typed

INTEGERS = tuple(f"{kind}{bits}" for bits in (8, 16, 32, 64) for kind in "us")
FLOATS = {"f16": F16, "bf16": BF16, "f32": F32, "f64": F64}
INTEGRAL = {"rni": "rn", "rzi": "rz", "rmi": "rm", "rpi": "rp"}


def limits(type: str) -> tuple[int, int]:
    bits = int(type[1:])
    return (0, (1 << bits) - 1) if type[0] == "u" else (-(1 << bits - 1), (1 << bits - 1) - 1)


def integer_rows(bits: int) -> list[Row]:
    """Integers of all lengths; among them those with more bits than a float has, which lie at or near its ties."""
    rng = Random(bits)
    made = [*specials(bits), *(rng.getrandbits(rng.randint(1, bits)) for _ in range(150))]
    for digits in (8, 11, 24, 53):
        for length in range(digits + 1, bits + 1, 5):
            tie = (1 << length - 1) + (1 << length - 1 - digits)
            made += [tie, tie - 1, tie + 1, tie + (1 << length - digits)]
    return [(value & ((1 << bits) - 1),) for value in dict.fromkeys(made)][:512]


def whole(n: Number, mode: str) -> int:
    """A finite number rounded to an integer."""
    below = n.value.numerator // n.value.denominator
    rest = n.value - below
    if mode == "rn":
        return below + (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and below % 2 == 1))
    return below + (rest > 0 and (mode == "rp" or (mode == "rz" and n.negative)))


def register(bits: int) -> int:
    return max(bits, 16)


@pytest.mark.parametrize("source", INTEGERS)
def test_between_integers(source: str) -> None:
    bits = int(source[1:])
    given = integer_rows(bits)
    for target in INTEGERS:
        low, high = limits(target)
        width = int(target[1:])
        if width >= 16:
            check(f"cvt.{target}.{source} d, a;", width, (register(bits),), lambda a: typed(a, source), given)
        else:

            def extended(a: int, target: str = target) -> int:
                return typed(typed(a, source), target)

            check(f"cvt.{target}.{source} d, a;", 16, (register(bits),), extended, given)
        if limits(source)[0] < low or limits(source)[1] > high:

            def limited(a: int, low: int = low, high: int = high) -> int:
                return clamp(typed(a, source), low, high)

            check(f"cvt.sat.{target}.{source} d, a;", register(width), (register(bits),), limited, given)


@pytest.mark.parametrize("target", FLOATS)
@pytest.mark.parametrize("source", INTEGERS)
def test_integers_to_floats(target: str, source: str) -> None:
    layout, bits = FLOATS[target], int(source[1:])
    for mode in MODES:

        def model(a: int, mode: str = mode) -> int:
            return encode(layout, number(typed(a, source)), mode)

        check(f"cvt.{mode}.{target}.{source} d, a;", layout.width, (register(bits),), model, integer_rows(bits))
    if target != "bf16":
        text = f"cvt.rz.sat.{target}.{source} d, a;"
        model = lambda a: encode(layout, saturated(number(typed(a, source))))  # noqa: E731
        check(text, layout.width, (register(bits),), model, integer_rows(bits))


def near_integers(layout: Layout, target: str) -> list[Row]:
    """Numbers at the limits of an integer type, and at and near halves."""
    made: list[int] = []
    for value in (*limits(target), 0, 1, 2, 3, 7, 100):
        for rest in (0, Fraction(1, 2), Fraction(-1, 2), Fraction(1, 4), Fraction(-3, 4)):
            for sign in (1, -1):
                code = encode(layout, number(sign * (value + rest)), "rz")
                made += [code, code + 1, max(code - 1, 0)]
    rng = Random(target)
    top = layout.bias + int(target[1:]) + 1
    made += [
        rng.getrandbits(1) << layout.width - 1
        | min(rng.randint(layout.bias - 2, top), 2 * layout.bias) << layout.fraction
        | rng.getrandbits(layout.fraction)
        for _ in range(100)
    ]
    return [*((code,) for code in dict.fromkeys(made)), *rows(layout, 1, 60)]


@pytest.mark.parametrize("target", INTEGERS)
@pytest.mark.parametrize("source", FLOATS)
def test_floats_to_integers(target: str, source: str) -> None:
    layout, bits = FLOATS[source], int(target[1:])
    low, high = limits(target)

    def converted(a: int, mode: str) -> int:
        n = decode(layout, a)
        if n.is_nan:
            return 1 << bits - 1 if source == "f64" or bits == 64 else 0
        if n.is_infinite:
            return low if n.negative else high
        return clamp(whole(n, mode), low, high)

    for name, mode in INTEGRAL.items():

        def model(a: int, mode: str = mode) -> int:
            found = typed(converted(a, mode), target)
            return found & ((1 << register(bits)) - 1)

        given = near_integers(layout, target)
        check(f"cvt.{name}.{target}.{source} d, a;", register(bits), (layout.width,), model, given)
        if source == "f32":
            tiny = [(code,) for code in (1, 0x80000001, 0x7FFFFF, 0x807FFFFF, 0x800000, 0x3F000001)]
            flushing = lambda a, mode=mode: typed(converted(flushed(F32, a), mode), target)  # noqa: E731
            check(f"cvt.{name}.ftz.{target}.f32 d, a;", register(bits), (32,), flushing, tiny)


def float_rows(source: str, target: str) -> list[Row]:
    """All codes of a half type; of a wider one, numbers at and around those of the target and the middles between them."""
    layout, narrow = FLOATS[source], FLOATS[target]
    rng = Random(source + target)
    made = [code for (code,) in rows(layout, 1, 150)]
    for _ in range(80):
        code = rng.choice((rng.getrandbits(narrow.width), rng.getrandbits(narrow.fraction)))
        near = decode(narrow, code)
        if near.is_nan or near.is_infinite:
            continue
        back = encode(layout, near, "rz")
        shift = layout.fraction - narrow.fraction
        half = back | (1 << shift - 1 if shift > 0 else 0)
        made += [back, half, half + 1, max(half - 1, 0)]
    return [(code,) for code in dict.fromkeys(made)][:512]


def nan(source: str, target: str, code: int) -> int:
    """What a NaN becomes, as an H200 does it: the canonical one, but from and to doubles it keeps its sign and its highest bits and
    is made quiet, and bf16 to f32 is a shift."""
    wide, layout = FLOATS[source], FLOATS[target]
    if (source, target) == ("bf16", "f32"):
        return code << 16
    if "f64" not in (source, target):
        return layout.nan
    shift = layout.fraction - wide.fraction
    fraction = code & ((1 << wide.fraction) - 1)
    fraction = fraction << shift if shift > 0 else fraction >> -shift
    return code >> wide.width - 1 << layout.width - 1 | layout.infinity | fraction | 1 << layout.fraction - 1


@pytest.mark.parametrize("target", FLOATS)
@pytest.mark.parametrize("source", FLOATS)
def test_between_floats(source: str, target: str) -> None:
    wide, layout = FLOATS[source], FLOATS[target]
    narrows = layout.fraction < wide.fraction or layout.exponent < wide.exponent
    # Without a rounding this is a move: what becomes of a NaN is open.
    given = [row for row in float_rows(source, target) if source != target or not decode(wide, row[0]).is_nan]
    for mode in MODES if narrows else ("",):
        rounding = f".{mode}" if mode else ""

        def model(a: int, mode: str = mode) -> int:
            n = decode(wide, a)
            return nan(source, target, a) if n.is_nan else encode(layout, n, mode)

        check(f"cvt{rounding}.{target}.{source} d, a;", layout.width, (wide.width,), model, given)
    if target != "bf16":
        rounding = ".rn" if narrows else ""
        model = lambda a: encode(layout, saturated(decode(wide, a)))  # noqa: E731
        check(f"cvt{rounding}.sat.{target}.{source} d, a;", layout.width, (wide.width,), model, given)
    if "f32" in (source, target):

        def flushing(a: int) -> int:
            n = decode(wide, flushed(F32, a) if source == "f32" else a)
            if n.is_nan and "f64" in (source, target):
                return nan(source, target, 0x7FFFFFFF if source == "f32" else a)
            code = encode(layout, n, "rn")
            return flushed(F32, code) if target == "f32" else code

        rounding = ".rn" if narrows else ""
        check(f"cvt{rounding}.ftz.{target}.{source} d, a;", layout.width, (wide.width,), flushing, given)


@pytest.mark.parametrize("type", FLOATS)
def test_to_integral_values(type: str) -> None:
    layout = FLOATS[type]
    given = [row for row in near_integers(layout, "s32") if not decode(layout, row[0]).is_nan]
    for name, mode in INTEGRAL.items():

        def model(a: int, mode: str = mode) -> int:
            n = decode(layout, a)
            if n.is_infinite:
                return a
            return encode(layout, Number(n.negative, abs(Fraction(whole(n, mode)))))

        check(f"cvt.{name}.{type}.{type} d, a;", layout.width, (layout.width,), model, given)


def test_nan_of_doubles_stays_when_rounded_to_integral_values() -> None:
    for name in INTEGRAL:
        text = f"cvt.{name}.f64.f64 d, a;"
        check(
            text,
            64,
            (64,),
            lambda a: a | 1 << 51,
            [(0x7FF8000000000000,), (0xFFF8123456789ABC,), (0x7FF0123456789ABC,)],
        )
        check(f"cvt.{name}.f32.f32 d, a;", 32, (32,), lambda a: 0x7FFFFFFF, [(0x7FC00000,), (0xFFC12345,)])


@pytest.mark.parametrize("target", ["f16", "bf16"])
def test_relu_and_satfinite(target: str) -> None:
    layout = FLOATS[target]
    for mode in ("rn", "rz"):
        for end in (".relu", ".satfinite", ".relu.satfinite"):

            def model(a: int, mode: str = mode, end: str = end) -> int:
                n = decode(F32, a)
                return encode(layout, rectified(n) if "relu" in end else n, mode, saturate="satfinite" in end)

            check(f"cvt.{mode}{end}.{target}.f32 d, a;", 16, (32,), model, float_rows("f32", target))


@pytest.mark.parametrize("end", ["rna", "rna.satfinite", "rn", "rz", "rn.relu", "rz.relu", "rn.satfinite.relu"])
def test_tf32_is_the_upper_19_bits(end: str) -> None:
    def model(a: int) -> int:
        n = decode(F32, a)
        if n.is_nan and "rna" in end:
            return a & 0xFFFFE000
        code = encode(TF32, rectified(n) if "relu" in end else n, end.split(".")[0], saturate="satfinite" in end)
        return code << 13

    rng = Random(end)
    given = [code for (code,) in rows(F32, 1, 200)]
    given += [rng.getrandbits(19) << 13 | low for low in (0x1000, 0xFFF, 0x1001, 0) for _ in range(40)]
    check(f"cvt.{end}.tf32.f32 d, a;", 32, (32,), model, [(code,) for code in given])


def test_what_becomes_f16_is_not_flushed_before() -> None:
    """The ISA says that .ftz flushes the operand; an H200 does not, which rounding outward shows."""
    check("cvt.rp.ftz.f16.f32 d, a;", 16, (32,), lambda a: a, [(1,), (0,)])
    check("cvt.rm.ftz.f16.f32 d, a;", 16, (32,), lambda a: 0x8001, [(0x807FFFFF,)])
    check("cvt.rp.ftz.bf16.f32 d, a;", 16, (32,), lambda a: 0, [(1,)])


def test_modifiers_may_follow_the_types() -> None:
    one = [(0x40000000,)]
    check("cvt.rn.f16.f32.sat d, a;", 16, (32,), lambda a: 0x3C00, one)
    check("cvt.f64.bf16.rp d, a;", 64, (16,), lambda a: 0x3FF0000000000000, [(0x3F80,)])


def test_refusals() -> None:
    assert "names its rounding" in refused("cvt.s32.f32 r0, f1;")
    assert "names its rounding" in refused("cvt.f32.s32 f0, r1;")
    assert "names its rounding" in refused("cvt.f16.f32 h0, f1;")
    assert "of the same type" in refused("cvt.rni.f32.f16 f0, h1;")
    assert "does not know .relu" in refused("cvt.rm.relu.f16.f32 h0, f1;")
    assert "nothing for .sat to limit" in refused("cvt.sat.u32.u16 r0, h1;")
    assert "not with .bf16" in refused("cvt.rn.sat.bf16.f32 h0, f1;")
    assert "has two types" in refused("cvt.rn.f32 f0, f1;")
