"""Signs, minima, maxima and tests of floating types, by their bits."""

from __future__ import annotations

import pytest
from float_reference import BF16, F16, F32, F64, Layout, decode, flushed, rows
from forms import check, refused

LAYOUTS = {"f32": F32, "f64": F64, "f16": F16, "bf16": BF16}


def is_nan(layout: Layout, code: int) -> bool:
    return decode(layout, code).is_nan


def rank(layout: Layout, code: int) -> int:
    """Codes of numbers in the order of their values, -0 below +0."""
    sign = code >> layout.width - 1
    magnitude = code & layout.nan
    return -magnitude - 1 if sign else magnitude


def chosen(layout: Layout, name: str, modifiers: list[str], *codes: int) -> int:
    if "ftz" in modifiers:
        codes = tuple(flushed(layout, code) for code in codes)
    top = 1 << layout.width - 1
    signs = sum(code >> layout.width - 1 for code in codes) % 2
    if "abs" in modifiers:
        codes = tuple(code & ~top for code in codes)
    numbers = [code for code in codes if not is_nan(layout, code)]
    if not numbers or ("NaN" in modifiers and len(numbers) < len(codes)):
        return layout.nan
    found = (min if name == "min" else max)(numbers, key=lambda code: rank(layout, code))
    return (found & ~top) | signs * top if "xorsign" in modifiers else found


@pytest.mark.parametrize("name", ["min", "max"])
@pytest.mark.parametrize("type", ["f32", "f16", "bf16"])
def test_extrema(name: str, type: str) -> None:
    layout = LAYOUTS[type]
    for ftz in ("", ".ftz") if type != "bf16" else ("",):
        for nan in ("", ".NaN"):
            for sign in ("", ".xorsign.abs"):
                opcode = f"{name}{ftz}{nan}{sign}"
                modifiers = opcode.split(".")

                def model(a: int, b: int, modifiers: list[str] = modifiers) -> int:
                    return chosen(layout, name, modifiers, a, b)

                check(f"{opcode}.{type} d, a, b;", layout.width, (layout.width,) * 2, model, rows(layout, 2, 400))


@pytest.mark.parametrize("name", ["min", "max"])
def test_extrema_of_three(name: str) -> None:
    for end in ("", ".ftz", ".NaN", ".abs", ".ftz.NaN.abs"):
        modifiers = end.split(".")

        def model(a: int, b: int, c: int, modifiers: list[str] = modifiers) -> int:
            return chosen(F32, name, modifiers, a, b, c)

        check(f"{name}{end}.f32 d, a, b, c;", 32, (32, 32, 32), model, rows(F32, 3, 400))


@pytest.mark.parametrize("name", ["min", "max"])
def test_extrema_of_doubles(name: str) -> None:
    given = [row for row in rows(F64, 2, 500) if not all(is_nan(F64, code) for code in row)]
    check(f"{name}.f64 d, a, b;", 64, (64, 64), lambda a, b: chosen(F64, name, [], a, b), given)


@pytest.mark.parametrize("type", ["f16", "bf16"])
def test_extrema_in_pairs(type: str) -> None:
    layout = LAYOUTS[type]
    given = [
        (a | c << 16, b | d << 16) for (a, b), (c, d) in zip(rows(layout, 2, 400), rows(layout, 2, 400, 1), strict=True)
    ]

    def model(a: int, b: int) -> int:
        low, high = (chosen(layout, "max", ["NaN"], a >> s & 0xFFFF, b >> s & 0xFFFF) for s in (0, 16))
        return low | high << 16

    check(f"max.NaN.{type}x2 d, a, b;", 32, (32, 32), model, given)


@pytest.mark.parametrize("type", ["f32", "f64", "f16", "bf16"])
def test_signs(type: str) -> None:
    layout = LAYOUTS[type]
    top = 1 << layout.width - 1
    given = [(code,) for (code,) in rows(layout, 1, 300) if not is_nan(layout, code)]
    for ftz in ("", ".ftz") if type in ("f32", "f16") else ("",):

        def before(code: int, ftz: str = ftz) -> int:
            return flushed(layout, code) if ftz else code

        check(f"abs{ftz}.{type} d, a;", layout.width, (layout.width,), lambda a, f=before: f(a) & ~top, given)
        check(f"neg{ftz}.{type} d, a;", layout.width, (layout.width,), lambda a, f=before: f(a) ^ top, given)


def test_signs_of_nan() -> None:
    """As an H200 gives them: the canonical NaN, but a double stays as it is, made quiet."""
    for name in ("abs", "neg"):
        check(f"{name}.f32 d, a;", 32, (32,), lambda a: 0x7FFFFFFF, [(0x7FC00000,), (0xFFC12345,), (0x7F812345,)])
        check(f"{name}.f16 d, a;", 16, (16,), lambda a: 0x7FFF, [(0x7E00,), (0xFE12,), (0x7D01,)])
        check(f"{name}.bf16 d, a;", 16, (16,), lambda a: 0x7FFF, [(0x7FC0,), (0xFFC5,), (0x7F81,)])
        doubles = [(0x7FF8000000000000,), (0xFFF8123456789ABC,), (0x7FF0123456789ABC,), (0xFFF0000000000001,)]
        check(f"{name}.f64 d, a;", 64, (64,), lambda a: a | 1 << 51, doubles)


def test_two_nan_of_doubles_give_the_second() -> None:
    given = [(0x7FF8000000000000, 0xFFF8123456789ABC), (0xFFF8123456789ABC, 0x7FF0123456789ABC)]
    for name in ("min", "max"):
        check(f"{name}.f64 d, a, b;", 64, (64, 64), lambda a, b: b | 1 << 51, given)


def test_signs_in_pairs() -> None:
    check("neg.f16x2 d, a;", 32, (32,), lambda a: a ^ 0x80008000, [(0x3C00BC00,), (0x00008000,), (0x7C000001,)])
    check("abs.bf16x2 d, a;", 32, (32,), lambda a: a & 0x7FFF7FFF, [(0xBF803F80,), (0x80008001,)])


@pytest.mark.parametrize("type", ["f32", "f64"])
def test_copysign_takes_the_sign_of_the_first(type: str) -> None:
    layout = LAYOUTS[type]
    top = 1 << layout.width - 1
    model = lambda a, b: (a & top) | (b & ~top)  # noqa: E731
    check(f"copysign.{type} d, a, b;", layout.width, (layout.width,) * 2, model, rows(layout, 2, 400))


@pytest.mark.parametrize("type", ["f32", "f64"])
def test_properties(type: str) -> None:
    layout = LAYOUTS[type]

    def properties(code: int) -> dict[str, bool]:
        n = decode(layout, code)
        exponent = code >> layout.fraction & ((1 << layout.exponent) - 1)
        zero = n.magnitude == 0
        finite = not n.is_nan and not n.is_infinite
        return {
            "finite": finite,
            "infinite": n.is_infinite,
            "number": not n.is_nan,
            "notanumber": n.is_nan,
            "normal": finite and (exponent > 0 or zero),
            "subnormal": finite and exponent == 0 and not zero,
        }

    for name in properties(0):
        model = lambda a, name=name: int(properties(a)[name])  # noqa: E731
        check(f"testp.{name}.{type} d, a;", 1, (layout.width,), model, rows(layout, 1, 300))


def test_refusals() -> None:
    assert ".xorsign goes with .abs" in refused("min.xorsign.f32 f0, f1, f2;")
    assert "three operands of .f16" in refused("min.f16 h0, h1, h2, h3;")
    assert "does not know .NaN" in refused("min.NaN.f64 x0, x1, x2;")
    assert "a test without a name" in refused("testp.f32 p0, f1;")
