"""Element types of tiles: one row a type."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type
from xdsl.ir import Attribute, TypeAttribute


@dataclass(frozen=True)
class DType:
    """`bytes` is the size of one element; `mma_k` the elements of K that one MMA instruction takes (32 bytes)."""

    name: str
    bytes: int
    type: TypeAttribute
    mma_operand: bool

    @property
    def mma_k(self) -> int:
        return 32 // self.bytes


F16 = DType("f16", 2, Float16Type(), mma_operand=True)
BF16 = DType("bf16", 2, BFloat16Type(), mma_operand=True)
F32 = DType("f32", 4, Float32Type(), mma_operand=False)

DTYPES: dict[str, DType] = {d.name: d for d in (F16, BF16, F32)}
_BY_TYPE: dict[Attribute, DType] = {d.type: d for d in DTYPES.values()}


def dtype_of(element: Attribute) -> DType:
    """The row of an element type. Raises KeyError for a type that no tile can have (types verify this first)."""
    return _BY_TYPE[element]
