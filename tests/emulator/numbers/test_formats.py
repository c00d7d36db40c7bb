"""Codes of the narrow floating formats: every code decoded, and values encoded to the nearest of all codes."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilec.backend.emulator.numbers.float_codes import ENCODED, brain, encode, encode_scale, half, largest
from tilec.backend.emulator.numbers.narrow_floats import FORMATS, decode
from tilec.backend.emulator.numbers.rounding import Mode

LARGEST = {"e4m3": 448.0, "e5m2": 57344.0, "e2m3": 7.5, "e3m2": 28.0, "e2m1": 6.0, "ue4m3": 448.0}
SMALLEST = {"e4m3": 2.0**-9, "e5m2": 2.0**-16, "e2m3": 2.0**-3, "e3m2": 2.0**-4, "e2m1": 0.5, "ue4m3": 2.0**-9}
SIGNED = ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1")
MODES: tuple[Mode, ...] = ("rn", "rna", "rz", "rm", "rp")


def bits(name: str) -> int:
    return 1 + sum(int(digit) for digit in name if digit.isdigit())


def table(name: str) -> list[float]:
    """The values of the codes without a sign, in ascending order, by the definition of binary floating point."""
    exponent, fraction = int(name[1]), int(name[3])
    bias = (1 << exponent - 1) - 1
    values: list[float] = []
    for code in range(1 << exponent + fraction):
        e, f = code >> fraction, code & ((1 << fraction) - 1)
        values.append(math.ldexp(f if e == 0 else f + (1 << fraction), max(e, 1) - bias - fraction))
    finite = values.index(LARGEST[name]) + 1
    return values[:finite]


def test_formats_have_the_limits_of_the_isa() -> None:
    for name, greatest in LARGEST.items():
        codes = np.arange(1 << bits(name) - 1)
        values = decode(name, codes)
        assert np.nanmax(values[np.isfinite(values)]) == greatest
        assert values[1] == SMALLEST[name]
        assert values[largest(FORMATS[name])] == greatest


@pytest.mark.parametrize("name", SIGNED)
def test_codes_are_in_the_order_of_their_values(name: str) -> None:
    positive = table(name)
    top = 1 << bits(name) - 1
    found = decode(name, np.arange(2 * top, dtype=np.uint8))
    assert found[: len(positive)].tolist() == positive
    negative = found[top : top + len(positive)]
    assert negative.tolist() == [-v for v in positive]
    assert np.signbit(negative[0])
    beyond = found[len(positive) : top]
    expected = {"e4m3": [math.nan], "e5m2": [math.inf, *[math.nan] * 3]}.get(name, [])
    assert np.array_equal(beyond, expected, equal_nan=True)


def test_scale_factors_are_powers_of_two() -> None:
    found = decode("ue8m0", np.arange(256, dtype=np.uint8))
    assert found[:255].tolist() == [2.0 ** (code - 127) for code in range(255)]
    assert math.isnan(found[255])
    values = np.array([2.0**-127, 1.0, 1.5, 2.0**127, 1.5 * 2.0**127, np.inf, np.nan, 0.0, 2.0**-140, -3.0])
    assert encode_scale(values, "rz", saturate=True).tolist() == [0, 127, 127, 254, 254, 254, 255, 0, 0, 128]
    assert encode_scale(values, "rp", saturate=False).tolist() == [0, 127, 128, 254, 255, 255, 255, 0, 0, 129]


def nearest(name: str, value: float, mode: Mode) -> int:
    """The code that rounding chooses, by comparing the value with its neighbours among all codes; saturating."""
    values = table(name)
    magnitude, negative = abs(value), math.copysign(1.0, value) < 0
    sign = (1 << bits(name) - 1) if negative else 0
    if magnitude >= values[-1]:
        return sign | len(values) - 1
    below = max(code for code, v in enumerate(values) if v <= magnitude)
    low, high = magnitude - values[below], values[below + 1] - magnitude
    if mode == "rn":
        up = high < low or (high == low and below % 2 == 1)
    elif mode == "rna":
        up = high <= low
    else:
        up = low > 0 and mode == ("rm" if negative else "rp")
    return sign | below + up


@pytest.mark.parametrize("name", SIGNED)
@pytest.mark.parametrize("mode", MODES)
def test_every_code_and_what_lies_around_the_middles(name: str, mode: Mode) -> None:
    values = table(name)
    middles = [(a + b) / 2 for a, b in pairwise(values)]
    probes = [*values, *middles, values[-1] * 1.01, values[-1] * 4, math.inf]
    probes += [math.nextafter(m, towards) for m in middles for towards in (0.0, math.inf)]
    probes = [s * p for p in probes for s in (1.0, -1.0)]
    found = encode(name, np.array(probes), mode, saturate=True)
    assert found.tolist() == [nearest(name, p, mode) for p in probes]


@pytest.mark.parametrize("name", SIGNED)
@given(value=st.floats(allow_nan=False, width=32))
def test_any_single(name: str, value: float) -> None:
    for mode in MODES:
        assert encode(name, np.array([value]), mode, saturate=True)[0] == nearest(name, value, mode)


def test_overflow_without_saturation() -> None:
    big = np.array([1e6, -1e6, np.inf, -np.inf, 61439.0, 61440.0])
    assert encode("e5m2", big, "rn").tolist() == [0x7C, 0xFC, 0x7C, 0xFC, 0x7B, 0x7C]
    assert encode("e5m2", big, "rz").tolist() == [0x7B, 0xFB, 0x7C, 0xFC, 0x7B, 0x7B]
    assert encode("e5m2", big, "rp").tolist() == [0x7C, 0xFB, 0x7C, 0xFC, 0x7C, 0x7C]
    assert encode("e5m2", big, "rm").tolist() == [0x7B, 0xFC, 0x7C, 0xFC, 0x7B, 0x7B]
    assert encode("e5m2", big, "rn", saturate=True).tolist() == [0x7B, 0xFB, 0x7B, 0xFB, 0x7B, 0x7B]


def test_nan_is_all_ones_or_the_largest_number() -> None:
    nan = np.array([np.nan, -np.nan])
    expected = {"e4m3": 0x7F, "e5m2": 0x7F, "e2m3": 0x1F, "e3m2": 0x1F, "e2m1": 7, "f16": 0x7FFF, "bf16": 0x7FFF}
    for name, code in expected.items():
        assert encode(name, nan, "rn", saturate=True).tolist() == [code, code]


def test_every_half_is_encoded_as_itself() -> None:
    codes = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)
    with np.errstate(invalid="ignore"):
        halves = codes.view(np.float16).astype(np.float64)
        brains = (codes.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    for name, values in (("f16", halves), ("bf16", brains)):
        number = ~np.isnan(values)
        for mode in MODES:
            assert np.array_equal(encode(name, values, mode)[number], codes[number])
        quick: Callable[..., np.ndarray] = brain if name == "bf16" else half
        assert np.array_equal(np.asarray(quick(values)).view(np.uint16)[number], codes[number])
        assert (np.asarray(quick(values)).view(np.uint16)[~number] == 0x7FFF).all()


@given(st.lists(st.floats(allow_nan=False), min_size=1, max_size=20), st.sampled_from(["f16", "bf16"]))
def test_the_quick_encoders_round_as_the_general_one(values: list[float], name: str) -> None:
    doubles = np.array(values)
    with np.errstate(all="ignore"):
        quick = np.asarray(brain(doubles) if name == "bf16" else half(doubles)).view(np.uint16)
    assert np.array_equal(quick, encode(name, doubles, "rn"))


def test_tf32_drops_the_last_13_bits_of_a_single() -> None:
    assert set(ENCODED) == {"tf32", "f32", "f16", "bf16", *SIGNED}
    singles = np.array([1.0, 1 + 2.0**-10, 1 + 2.0**-11, 1 + 3 * 2.0**-11, 2.0**-126])
    assert (encode("tf32", singles, "rn") << 13).tolist() == [
        0x3F800000,
        0x3F802000,
        0x3F800000,
        0x3F804000,
        0x00800000,
    ]
    assert (encode("tf32", singles, "rna") << 13).tolist() == [
        0x3F800000,
        0x3F802000,
        0x3F802000,
        0x3F804000,
        0x00800000,
    ]
