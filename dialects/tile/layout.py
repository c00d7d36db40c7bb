"""The one layout of shared tiles: blocks of W-byte rows, swizzled in 16-byte units.

TMA boxes, wgmma and tcgen05 descriptors, thread copies and register stores all address a tile through these formulas
(PTX ISA 5.5.7 swizzling modes; 9.7.15.5.1 and 9.7.16.4 matrix descriptors).
"""

from __future__ import annotations

from dataclasses import dataclass

SWIZZLES = (128, 64, 32, 16)
"""Row widths W in bytes, widest first; 16 is the un-swizzled mode."""

MAX_BOX = 256
"""Elements per dimension of one TMA box (cuTensorMapEncodeTiled)."""

TMA_SMEM_ALIGNMENT = 128
"""Bytes that divide the shared address of a TMA box."""


def widest_swizzle(fast_bytes: int) -> int | None:
    """The widest mode whose rows tile `fast_bytes` exactly, or None when not even 16-byte rows do."""
    return next((w for w in SWIZZLES if fast_bytes % w == 0), None)


@dataclass(frozen=True)
class SmemLayout:
    """Tile of `slow` x `fast` elements of `element_bytes`, stored in blocks of `slow` rows of `swizzle` bytes."""

    fast: int
    slow: int
    element_bytes: int
    swizzle: int

    @property
    def size(self) -> int:
        """Bytes of the tile."""
        return self.fast * self.slow * self.element_bytes

    @property
    def alignment(self) -> int:
        """Bytes after which the swizzle pattern repeats (128 at least: what TMA needs of an address)."""
        return max(128, 8 * self.swizzle)

    @property
    def slot_size(self) -> int:
        """Bytes between the slots of a ring: the tile padded to its alignment."""
        return -(-self.size // self.alignment) * self.alignment

    @property
    def blocks(self) -> int:
        return self.fast * self.element_bytes // self.swizzle

    @property
    def block_elements(self) -> int:
        """Fast elements of one block row: the inner extent of its TMA box."""
        return self.swizzle // self.element_bytes

    @property
    def block_bytes(self) -> int:
        return self.slow * self.swizzle

    @property
    def box(self) -> tuple[int, int]:
        """Extents (fast, slow) in elements of the TMA boxes that fill the tile; they divide it exactly."""
        if self.slow == 1 and self.swizzle == 16:
            return _box_extent(self.fast, self.element_bytes, 16 // self.element_bytes), 1
        return self.block_elements, _box_extent(self.slow, self.swizzle, 1)

    def boxes(self) -> list[tuple[int, int, int]]:
        """The TMA boxes as (fast offset, slow offset, byte offset in the tile), offsets in elements."""
        fast, slow = self.box
        return [(f, s, self.linear(f, s)) for f in range(0, self.fast, fast) for s in range(0, self.slow, slow)]

    @property
    def tma_problem(self) -> str | None:
        """Why no TMA copy fills the tile, or None when one does."""
        misplaced = next((offset for _, _, offset in self.boxes() if offset % TMA_SMEM_ALIGNMENT), None)
        if misplaced is None:
            return None
        return (
            f"a box of {self.box[1]} x {self.box[0]} elements would lie {misplaced} bytes into the tile: "
            f"boxes lie at multiples of {TMA_SMEM_ALIGNMENT} bytes"
        )

    def linear(self, fast: int, slow: int) -> int:
        """Byte offset of an element before the swizzle."""
        f = fast * self.element_bytes
        return (f // self.swizzle) * self.block_bytes + slow * self.swizzle + f % self.swizzle

    def offset(self, fast: int, slow: int) -> int:
        """Byte offset of an element in the tile as stored."""
        return swizzled(self.linear(fast, slow), self.swizzle)


def _box_extent(extent: int, bytes: int, unit: int) -> int:
    """The largest multiple of `unit`, of `bytes` each, that divides `extent` and fits a box; first of those that follow
    each other at legal addresses."""
    fitting = [d for d in range(min(extent, MAX_BOX), 0, -1) if extent % d == 0 and d % unit == 0]
    aligned = (d for d in fitting if d == extent or d * bytes % TMA_SMEM_ALIGNMENT == 0)
    return next(aligned, fitting[0])


def swizzled(address: int, swizzle: int) -> int:
    """Physical byte address of a linear one: bits 4-6 ^= bits 7-9, as many as the mode has."""
    return address ^ ((address >> 3) & (swizzle - 16))
