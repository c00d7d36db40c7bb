"""Approximate functions: within the errors that the ISA states, with its results for special values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from forms import refused, run
from numpy.typing import NDArray

INF, NAN, TINY = math.inf, math.nan, 2.0**-130

SPECIAL: dict[str, list[tuple[float, float]]] = {
    "rcp.approx.f32": [(-INF, -0.0), (-0.0, -INF), (0.0, INF), (INF, 0.0), (NAN, NAN)],
    "sqrt.approx.f32": [(-INF, NAN), (-2.0, NAN), (-0.0, -0.0), (0.0, 0.0), (INF, INF), (NAN, NAN), (4.0, 2.0)],
    "rsqrt.approx.f32": [(-INF, NAN), (-2.0, NAN), (-0.0, -INF), (0.0, INF), (INF, 0.0), (NAN, NAN), (0.25, 2.0)],
    "rsqrt.approx.ftz.f32": [(-TINY, -INF), (TINY, INF)],
    "sin.approx.f32": [(-INF, NAN), (-0.0, -0.0), (0.0, 0.0), (INF, NAN), (NAN, NAN)],
    "sin.approx.ftz.f32": [(-TINY, -0.0), (TINY, 0.0)],
    "cos.approx.f32": [(-INF, NAN), (-0.0, 1.0), (0.0, 1.0), (INF, NAN), (NAN, NAN)],
    "lg2.approx.f32": [(-INF, NAN), (-2.0, NAN), (-0.0, -INF), (0.0, -INF), (INF, INF), (NAN, NAN), (TINY, -130.0)],
    "lg2.approx.ftz.f32": [(-TINY, -INF), (TINY, -INF)],
    "ex2.approx.f32": [(-INF, 0.0), (-0.0, 1.0), (0.0, 1.0), (INF, INF), (NAN, NAN), (3.0, 8.0), (-130.0, TINY)],
    "ex2.approx.ftz.f32": [(-130.0, 0.0), (-TINY, 1.0)],
    "tanh.approx.f32": [(-INF, -1.0), (-0.0, -0.0), (0.0, 0.0), (INF, 1.0), (NAN, NAN), (TINY, TINY)],
}


def singles(opcode: str, values: Sequence[float]) -> NDArray[np.float32]:
    given = np.array(values, np.float32)
    found = run(f"{opcode} d, a;", 32, (32,), [(int(bits),) for bits in given.view(np.uint32)])
    return np.array(found, np.uint32).view(np.float32)


@pytest.mark.parametrize("opcode", SPECIAL)
def test_special_values(opcode: str) -> None:
    found = singles(opcode, [x for x, _ in SPECIAL[opcode]])
    expected = np.array([y for _, y in SPECIAL[opcode]], np.float32)
    expected = np.where(np.isnan(expected), np.uint32(0x7FFFFFFF), expected.view(np.uint32))
    assert found.view(np.uint32).tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("opcode", "function", "low", "high", "relative", "absolute"),
    [
        ("rcp.approx.f32", lambda x: 1 / x, 1e-30, 1e30, 2.0**-23, 0),
        ("sqrt.approx.f32", math.sqrt, 0, 1e30, 2.0**-23, 0),
        ("rsqrt.approx.f32", lambda x: 1 / math.sqrt(x), 1e-30, 1e30, 2.0**-22.9, 0),
        ("sin.approx.f32", math.sin, -2 * math.pi, 2 * math.pi, 0, 2.0**-20.5),
        ("cos.approx.ftz.f32", math.cos, -2 * math.pi, 2 * math.pi, 0, 2.0**-20.5),
        ("lg2.approx.f32", math.log2, 0.5, 2, 0, 2.0**-22),
        ("lg2.approx.f32", math.log2, 2, 1e30, 2.0**-22, 0),
        ("ex2.approx.f32", lambda x: 2.0**x, -120, 120, 2.0**-22, 0),
        ("tanh.approx.f32", math.tanh, -10, 10, 2.0**-11, 0),
    ],
)
def test_singles(
    opcode: str, function: Callable[[float], float], low: float, high: float, relative: float, absolute: float
) -> None:
    values = np.linspace(low, high, 300)[1:].astype(np.float32)
    expected = np.array([function(float(x)) for x in values])
    found = singles(opcode, values.tolist())
    assert (np.abs(found - expected) <= relative * np.abs(expected) + absolute).all()


def halves(opcode: str, codes: list[int]) -> list[int]:
    return run(f"{opcode} d, a;", 16, (16,), [(code,) for code in codes])


def brain(value: float) -> int:
    return int(np.float32(value).view(np.uint32)) >> 16


@pytest.mark.parametrize(
    ("opcode", "function", "error"),
    [("ex2.approx.f16", lambda x: 2.0**x, 2.0**-9.9), ("tanh.approx.f16", math.tanh, 2.0**-10.987)],
)
def test_halves(opcode: str, function: Callable[[float], float], error: float) -> None:
    values = np.linspace(-8, 8, 200).astype(np.float16)
    found = np.array(halves(opcode, values.view(np.uint16).tolist()), np.uint16).view(np.float16)
    expected = np.array([function(float(x)) for x in values])
    scale = np.abs(expected) if opcode.startswith("ex2") else 1.0
    assert (np.abs(found - expected) <= error * scale).all()


def test_special_values_of_halves() -> None:
    special = [0xFC00, 0x8000, 0, 0x7C00, 0x7E01]
    assert halves("ex2.approx.f16", special) == [0, 0x3C00, 0x3C00, 0x7C00, 0x7FFF]
    assert halves("tanh.approx.f16", special) == [0xBC00, 0x8000, 0, 0x3C00, 0x7FFF]
    special = [brain(-INF), 0x8001, 0x8000, 0, 1, brain(INF), 0x7FC1, brain(-130.0), brain(-3.0)]
    found = [0, 0x3F80, 0x3F80, 0x3F80, 0x3F80, 0x7F80, 0x7FFF, 0, brain(0.125)]
    assert halves("ex2.approx.ftz.bf16", special) == found
    assert halves("tanh.approx.bf16", [brain(-INF), 0x8001, brain(20.0)]) == [brain(-1.0), 0x8001, brain(1.0)]


def test_pairs_of_halves() -> None:
    assert run("ex2.approx.f16x2 d, a;", 32, (32,), [(0x40003C00,)]) == [0x44004000]
    assert run("tanh.approx.f16x2 d, a;", 32, (32,), [(0x7C00FC00,)]) == [0x3C00BC00]
    assert run("ex2.approx.ftz.bf16x2 d, a;", 32, (32,), [(brain(2.0) << 16 | 1,)]) == [brain(4.0) << 16 | brain(1.0)]
    assert run("tanh.approx.bf16x2 d, a;", 32, (32,), [(brain(INF) << 16,)]) == [brain(1.0) << 16]


def doubles(opcode: str, values: Sequence[float]) -> NDArray[np.float64]:
    given = np.array(values, np.float64)
    found = run(f"{opcode} d, a;", 64, (64,), [(int(bits),) for bits in given.view(np.uint64)])
    return np.array(found, np.uint64).view(np.float64)


@pytest.mark.parametrize(("name", "power"), [("rcp", -1.0), ("rsqrt", -0.5)])
def test_doubles_by_their_upper_half(name: str, power: float) -> None:
    subnormal = 2.0**-1030
    table = [
        (-INF, -0.0 if name == "rcp" else NAN),
        (-subnormal, -INF),
        (-0.0, -INF),
        (0.0, INF),
        (subnormal, INF),
        (INF, 0.0),
        (NAN, NAN),
    ]
    found = doubles(f"{name}.approx.ftz.f64", [x for x, _ in table])
    expected = [0x7FFFFFFF00000000 if math.isnan(y) else int(np.float64(y).view(np.uint64)) for _, y in table]
    assert found.view(np.uint64).tolist() == expected
    values = np.geomspace(1e-200, 1e200, 200)
    found = doubles(f"{name}.approx.ftz.f64", values.tolist())
    assert (found.view(np.uint64) & np.uint64(0xFFFFFFFF) == 0).all()
    # What is left of 52 fraction bits are 20, in the operand and in the result.
    assert (np.abs(found * values**-power - 1) < 2.0**-19).all()


def test_inverse_root_of_doubles() -> None:
    values = np.geomspace(1e-300, 1e300, 200)
    found = doubles("rsqrt.approx.f64", values.tolist())
    assert (np.abs(found * found * values - 1) < 2.0**-50).all()
    assert doubles("rsqrt.approx.f64", [-0.0, 0.0, INF]).tolist() == [-INF, INF, 0.0]


def test_refusals() -> None:
    assert "names .approx" in refused("sin.f32 f0, f1;")
    assert "is .ftz" in refused("ex2.approx.bf16 h0, h1;")
    assert "does not know .ftz" in refused("tanh.approx.ftz.f32 f0, f1;")
    assert "no type of lg2" in refused("lg2.approx.f16 h0, h1;")
