"""Matrix products of fractions, whose sums round: within a bound, since the ISA leaves order and rounding open."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from suite.cases import Argument, Bound, Case
from suite.matrix import ELEMENT_BITS, FLOAT_SHAPES, multiply

_BOUNDS = {"f32": Bound("f32", 4, 2.0**-18), "f16": Bound("f16x2", 2, 2.0**-8)}
_EIGHT_BIT = Bound("f32", 4, 2.0**-6)
"""Products of 8-bit floats are summed with about 13 bits below the largest."""


def cases() -> list[Case]:
    built: list[Case] = []
    for kind in ("f16", "bf16", "tf32", "e4m3"):
        shapes = [s for s in FLOAT_SHAPES if s[2:4] == (kind, kind) and "m8n8" not in s[0]]
        columns = [(s[1], 2 if s[1] == "f16" else s[7]) for s in shapes]
        bounds = tuple(_bound(kind, d) for d, count in columns for _ in range(count))
        found = multiply(f"mma_rounding_{kind}", shapes, "", version="8.7", make=_fractions)
        built.append(replace(found, family="matrix_rounding", bounds=bounds))
    return built


def _bound(kind: str, d: str) -> Bound:
    if kind == "e4m3":
        return _EIGHT_BIT if d == "f32" else Bound("f16x2", 2, 2.0**-5)
    return _BOUNDS[d]


def _fractions(kind: str, count: int) -> Callable[[np.random.Generator], Argument]:
    """Numbers of magnitude 1/8 to 1 with all fraction bits in use."""

    def make(rng: np.random.Generator) -> Argument:
        size = count * 32 // ELEMENT_BITS[kind]
        if kind in ("e4m3", "e5m2"):
            low, high = (0x20, 0x38) if kind == "e4m3" else (0x30, 0x3C)
            codes = rng.integers(low, high, size) | rng.integers(0, 2, size) << 7
            return codes.astype(np.uint8).view(np.uint32)
        values = rng.uniform(0.125, 1.0, size) * rng.choice([-1.0, 1.0], size)
        if kind == "f16":
            return values.astype(np.float16).view(np.uint32)
        if kind == "bf16":
            return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).view(np.uint32)
        return values.astype(np.float32).view(np.uint32)

    return make
