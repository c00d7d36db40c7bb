"""Dot products of packed integers with accumulation (PTX 9.7.1.23, 9.7.1.24)."""

from __future__ import annotations

import numpy as np

from tilec.backend.emulator.execution.decode import Decoder, instruction
from tilec.backend.emulator.execution.lanes import Execute
from tilec.backend.emulator.instructions.typed import elementwise, parts_of, take_type
from tilec.backend.emulator.numbers.types import Values


def _dot(a: Values, b: Values, c: Values) -> Values:
    """The sum of the products of elements, shape (lanes or 1, elements), and of `c`, modulo 2^32."""
    products = a.astype(np.int64) * b.astype(np.int64)
    return (products.sum(axis=1) + c).astype(np.uint32)


@instruction("dp4a")
def dp4a(d: Decoder) -> Execute:
    b_type, a_type = take_type(d, ("u32", "s32")), take_type(d, ("u32", "s32"))
    a_byte, b_byte = np.dtype(f"{_kind(a_type)}1"), np.dtype(f"{_kind(b_type)}1")
    return elementwise(d, lambda a, b, c: _dot(parts_of(a, a_byte), parts_of(b, b_byte), c), "b32", "b32", "b32", "b32")


@instruction("dp2a")
def dp2a(d: Decoder) -> Execute:
    """The halves of the first operand with the lower or upper two bytes of the second."""
    b_type, a_type, mode = take_type(d, ("u32", "s32")), take_type(d, ("u32", "s32")), d.take("lo", "hi")
    if mode is None:
        d.unsupported("a dot product of two without .lo or .hi")
    half, byte = np.dtype(f"{_kind(a_type)}2"), np.dtype(f"{_kind(b_type)}1")
    chosen = slice(0, 2) if mode == "lo" else slice(2, 4)
    return elementwise(
        d, lambda a, b, c: _dot(parts_of(a, half), parts_of(b, byte)[:, chosen], c), "b32", "b32", "b32", "b32"
    )


def _kind(type: str) -> str:
    """NumPy's letter for signed or unsigned integers."""
    return "i" if type == "s32" else "u"
