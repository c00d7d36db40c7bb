"""Types of the elements of a tensor map (CUtensorMapDataType; PTX 9.7.9.28, table 33)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, eq=False)
class ElementType:
    """`bits` of an element in global memory; `shared_bits` in shared memory, padding included. `operand_type`: the PTX type as
    which reductions see it, None if they do not exist for it."""

    name: str
    bits: int
    shared_bits: int
    operand_type: str | None = None

    @property
    def packed(self) -> bool:
        """Whether elements are narrower than a byte."""
        return self.bits < 8

    @property
    def padded(self) -> bool:
        """Whether shared memory has gaps between 16 elements and the next 16."""
        return self.bits != self.shared_bits

    @property
    def floating(self) -> bool:
        """Whether elements outside of the tensor can be NaN."""
        return self.operand_type is not None and self.operand_type[0] in "fb"

    def __str__(self) -> str:
        return self.name


ELEMENT_TYPES = (
    ElementType("u8", 8, 8, "u8"),
    ElementType("u16", 16, 16, "u16"),
    ElementType("u32", 32, 32, "u32"),
    ElementType("s32", 32, 32, "s32"),
    ElementType("u64", 64, 64, "u64"),
    ElementType("s64", 64, 64, "s64"),
    ElementType("f16", 16, 16, "f16"),
    ElementType("f32", 32, 32, "f32"),
    ElementType("f32_ftz", 32, 32, "f32"),
    ElementType("f64", 64, 64, "f64"),
    ElementType("bf16", 16, 16, "bf16"),
    ElementType("tf32", 32, 32, "f32"),
    ElementType("tf32_ftz", 32, 32, "f32"),
    ElementType("16u4_align8b", 4, 4),
    ElementType("16u4_align16b", 4, 8),
    ElementType("16u6_align16b", 6, 8),
)
"""In the order of the codes of `tensormap.replace` (not of the driver's enumeration)."""

ELEMENT_TYPE = {t.name: t for t in ELEMENT_TYPES}
