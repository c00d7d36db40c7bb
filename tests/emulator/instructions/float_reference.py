"""Floating point by the book: exact rational arithmetic, and one rounding to a format given by its numbers of bits."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import isqrt
from random import Random

MODES = ("rn", "rz", "rm", "rp")


@dataclass(frozen=True)
class Layout:
    """A binary format: one sign bit, exponent and fraction bits. `top`: what the highest codes are: "ieee", infinities and NaN;
    "nan", the last code alone is NaN; "number", nothing special."""

    exponent: int
    fraction: int
    top: str = "ieee"

    @property
    def width(self) -> int:
        return 1 + self.exponent + self.fraction

    @property
    def bias(self) -> int:
        return (1 << self.exponent - 1) - 1

    @property
    def nan(self) -> int:
        """The canonical NaN: all ones after the sign. Formats without NaN have the largest number there."""
        return (1 << self.width - 1) - 1

    @property
    def infinity(self) -> int:
        return ((1 << self.exponent) - 1) << self.fraction

    @cached_property
    def largest(self) -> int:
        return {"ieee": self.infinity - 1, "nan": self.nan - 1, "number": self.nan}[self.top]


F16, BF16, TF32, F32, F64 = Layout(5, 10), Layout(8, 7), Layout(8, 10), Layout(8, 23), Layout(11, 52)
E4M3, E5M2 = Layout(4, 3, "nan"), Layout(5, 2)
E2M3, E3M2, E2M1 = (Layout(*bits, "number") for bits in ((2, 3), (3, 2), (2, 1)))


@dataclass(frozen=True)
class Number:
    """`magnitude` is None for NaN and "inf" for infinity. Zero has a sign."""

    negative: bool
    magnitude: Fraction | str | None

    @property
    def is_nan(self) -> bool:
        return self.magnitude is None

    @property
    def is_infinite(self) -> bool:
        return self.magnitude == "inf"

    @property
    def value(self) -> Fraction:
        assert isinstance(self.magnitude, Fraction)
        return -self.magnitude if self.negative else self.magnitude


NAN = Number(False, None)


def infinity(negative: bool) -> Number:
    return Number(negative, "inf")


def number(value: Fraction | int) -> Number:
    return Number(value < 0, abs(Fraction(value)))


def power(exponent: int) -> Fraction:
    return Fraction(2) ** exponent


def decode(layout: Layout, code: int) -> Number:
    negative = bool(code >> layout.width - 1 & 1)
    magnitude = code & ((1 << layout.width - 1) - 1)
    if magnitude > layout.largest:
        return infinity(negative) if layout.top == "ieee" and magnitude == layout.infinity else NAN
    exponent, fraction = magnitude >> layout.fraction, magnitude & ((1 << layout.fraction) - 1)
    if exponent == 0:
        return Number(negative, fraction * power(1 - layout.bias - layout.fraction))
    return Number(negative, (fraction + (1 << layout.fraction)) * power(exponent - layout.bias - layout.fraction))


def encode(layout: Layout, n: Number, mode: str = "rn", *, saturate: bool = False) -> int:
    """The code of `n` rounded: rn, to nearest with ties to even; rna, ties away from zero; rz, rm, rp."""
    if n.is_nan:
        return layout.nan
    sign = n.negative << layout.width - 1
    beyond = layout.largest if saturate else layout.infinity
    if n.is_infinite:
        return sign | beyond
    assert isinstance(n.magnitude, Fraction)
    magnitude = n.magnitude
    if magnitude == 0:
        return sign
    exponent = max(floor_log2(magnitude), 1 - layout.bias)
    units = magnitude / power(exponent - layout.fraction)
    whole = units.numerator // units.denominator
    rest = units - whole
    outward = mode == ("rm" if n.negative else "rp")
    if rest and (
        (mode == "rn" and (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2)))
        or (mode == "rna" and rest >= Fraction(1, 2))
        or outward
    ):
        whole += 1
    code = ((exponent - 1 + layout.bias) << layout.fraction) + whole
    if code > layout.largest:
        code = beyond if mode in ("rn", "rna") or outward else layout.largest
    return sign | code


def floor_log2(magnitude: Fraction) -> int:
    found = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    return found if magnitude >= power(found) else found - 1


def negated(n: Number) -> Number:
    return Number(not n.negative, n.magnitude)


def add(a: Number, b: Number, mode: str) -> Number:
    """The exact sum; `mode` decides the sign of a zero (IEEE 754, 6.3)."""
    if a.is_nan or b.is_nan or (a.is_infinite and b.is_infinite and a.negative != b.negative):
        return NAN
    if a.is_infinite or b.is_infinite:
        return a if a.is_infinite else b
    total = a.value + b.value
    if total:
        return number(total)
    return Number(a.negative if a.negative == b.negative else mode == "rm", Fraction(0))


def multiply(a: Number, b: Number) -> Number:
    negative = a.negative != b.negative
    if a.is_nan or b.is_nan:
        return NAN
    if a.is_infinite or b.is_infinite:
        other = b if a.is_infinite else a
        return NAN if other.magnitude == 0 else infinity(negative)
    return Number(negative, abs(a.value * b.value))


def divide(a: Number, b: Number) -> Number:
    negative = a.negative != b.negative
    if a.is_nan or b.is_nan or (a.is_infinite and b.is_infinite) or (a.magnitude == 0 and b.magnitude == 0):
        return NAN
    if a.is_infinite or b.magnitude == 0:
        return infinity(negative)
    return Number(negative, Fraction(0) if b.is_infinite else abs(a.value / b.value))


def root(a: Number) -> Number:
    """The square root cut off behind some hundreds of bits; if that is not exact, with one more bit behind them all."""
    if a.is_nan or (a.negative and a.magnitude != 0):
        return NAN
    if a.is_infinite or a.magnitude == 0:
        return a
    places = 1300
    scaled = a.value * power(2 * places)
    assert scaled.denominator == 1
    found = isqrt(scaled.numerator)
    return number((found + (Fraction(1, 2) if found * found != scaled else 0)) * power(-places))


def saturated(n: Number) -> Number:
    """Limited to 0 .. 1, NaN becomes +0."""
    if n.is_nan or n.negative:
        return number(0)
    return number(1) if n.is_infinite or n.value > 1 else n


def rectified(n: Number) -> Number:
    return number(0) if n.negative and not n.is_nan else n


def flushed(layout: Layout, code: int) -> int:
    """A subnormal code becomes the zero of its sign."""
    sign = code >> layout.width - 1 << layout.width - 1
    return sign if (code ^ sign) >> layout.fraction == 0 else code


def specials(layout: Layout) -> list[int]:
    """Codes at which something changes: zeros, ones, infinities, NaN, subnormal and largest numbers."""
    one, top = layout.bias << layout.fraction, 1 << layout.width - 1
    smallest = 1 << layout.fraction
    found = [
        0,
        one,
        layout.infinity,
        layout.nan,
        layout.infinity | 1,
        1,
        smallest - 1,
        smallest,
        layout.largest,
        one + 1,
    ]
    return [code | sign for code in found for sign in (0, top)]


def rows(layout: Layout, operands: int, count: int, seed: int = 0) -> list[tuple[int, ...]]:
    """Rows of codes: pairs of special ones, then random ones, most of them with exponents near that of 1."""
    rng = Random(f"{layout}{operands}{seed}")
    known = specials(layout)

    def anything() -> int:
        kind = rng.random()
        if kind < 0.1:
            return rng.choice(known)
        if kind < 0.3:
            return rng.getrandbits(layout.width)
        exponent = layout.bias + rng.randint(-3, 3)
        fraction = rng.choice((rng.getrandbits(layout.fraction), 0, 1, (1 << layout.fraction) - 1))
        return rng.getrandbits(1) << layout.width - 1 | exponent << layout.fraction | fraction

    if operands == 1:
        made = [(a,) for a in known]
    else:
        made = [(a, b, *(anything() for _ in range(operands - 2))) for a in known for b in known]
    rng.shuffle(made)
    made = made[: count // 2]
    return [*made, *(tuple(anything() for _ in range(operands)) for _ in range(count - len(made)))]
