"""Shared-memory matrix descriptors and where the K steps of a tile begin (PTX ISA 9.7.15.5.1, 9.7.16.4)."""

from __future__ import annotations

from dataclasses import dataclass

from tilec.dialects.tile import SmemType

_HOPPER_SWIZZLE = {16: 0, 128: 1, 64: 2, 32: 3}
_BLACKWELL_SWIZZLE = {16: 0, 128: 2, 64: 4, 32: 6}
_ROWS = 8
"""Rows of one core matrix: the period of every pattern."""


def _encoded(bytes: int) -> int:
    return (bytes & 0x3FFFF) >> 4


@dataclass(frozen=True)
class Operand:
    """An MMA operand in shared memory: dimension 0 is M or N, dimension 1 is K."""

    type: SmemType

    @property
    def mn_major(self) -> bool:
        """Whether M or N is the fast dimension ("transposed" in instruction fields)."""
        return self.type.order[0] == 0

    @property
    def k_steps(self) -> int:
        return self.type.shape[1] // self.type.dtype.mma_k

    def offset(self, mn: int, k: int) -> int:
        """Byte offset of element (mn, k) before the swizzle, both multiples of 8: what the start address advances by."""
        fast, slow = (mn, k) if self.mn_major else (k, mn)
        return self.type.layout.linear(fast, slow)

    def step(self, index: int) -> int:
        """Byte offset of K step `index`."""
        return self.offset(0, index * self.type.dtype.mma_k)

    @property
    def _leading(self) -> int:
        layout = self.type.layout
        if layout.swizzle == 16:
            # No swizzle: 8x16-byte core matrices. K-major: the next 16 bytes of K; MN-major: the next 8 k.
            return _ROWS * 16 if self.mn_major else layout.block_bytes
        # Swizzled: MN-major steps from one W-byte atom along M or N to the next; K-major ignores it.
        return layout.block_bytes if self.mn_major else 16

    @property
    def _stride(self) -> int:
        layout = self.type.layout
        if layout.swizzle == 16 and self.mn_major:
            return layout.block_bytes
        return _ROWS * layout.swizzle

    def _fields(self) -> int:
        return _encoded(self._leading) << 16 | _encoded(self._stride) << 32

    @property
    def wgmma(self) -> int:
        """The 64-bit descriptor without its start address, for wgmma."""
        return self._fields() | _HOPPER_SWIZZLE[self.type.swizzle] << 62

    @property
    def tcgen05(self) -> int:
        """The 64-bit descriptor without its start address, for tcgen05: bit 46 is set."""
        return self._fields() | 1 << 46 | _BLACKWELL_SWIZZLE[self.type.swizzle] << 61


_OPERAND_TYPE = {"f16": 0, "bf16": 1}


def instruction_descriptor(m: int, n: int, a: Operand, b: Operand) -> int:
    """The 32-bit descriptor of tcgen05.mma kind::f16 with an f32 accumulator (PTX ISA 9.7.16.4.2)."""
    f32_accumulator = 1 << 4
    return (
        f32_accumulator
        | _OPERAND_TYPE[a.type.dtype.name] << 7
        | _OPERAND_TYPE[b.type.dtype.name] << 10
        | int(a.mn_major) << 15
        | int(b.mn_major) << 16
        | (n >> 3) << 17
        | (m >> 4) << 24
    )
