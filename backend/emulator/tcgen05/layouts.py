"""Where matrices lie in tensor memory, and where a warp's registers do (PTX 9.7.16.2.3, 9.7.16.10.5)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tilec.backend.emulator.tcgen05.instruction_descriptor import InstructionDescriptor
from tilec.backend.emulator.tcgen05.region import bits, half_lanes

REGISTERS_OF_ONE = {"32x32b": 1, "16x64b": 1, "16x32bx2": 1, "16x128b": 2, "16x256b": 4}
"""Registers of each thread for `.x1`, by shape (tables 49 and 50)."""
MOST_REPEATS = {"32x32b": 128, "16x64b": 128, "16x32bx2": 128, "16x128b": 64, "16x256b": 32}


@dataclass(frozen=True)
class Fragment:
    """The cells of one load or store of a warp, relative to its address: `lanes` and `columns` have shape (32 threads,
    registers). With packing (`packed`) a register holds the low halves of its cell and of the next column's."""

    lanes: NDArray[np.intp]
    columns: NDArray[np.intp]
    packed: bool
    lane_set: int
    column_set: int


@lru_cache(maxsize=256)
def fragment(shape: str, repeats: int, packed: bool, split: int = 0) -> Fragment:
    """`split` is the column at which the second half of `.16x32bx2` begins."""
    thread, register = np.arange(32)[:, None], np.arange(REGISTERS_OF_ONE[shape] * repeats)[None, :]
    width = 2 if packed else 1
    match shape:
        case "32x32b":
            lanes, columns = thread, register
        case "16x64b":
            lanes, columns = thread // 4 + 8 * (thread % 2), thread // 2 % 2 + 2 * register
        case "16x128b":
            lanes, columns = thread // 4 + 8 * (register % 2), thread % 4 + 4 * (register // 2)
        case "16x256b":
            lanes = thread // 4 + 8 * (register // 2 % 2)
            columns = register % 2 + 2 * (thread % 4) + 8 * (register // 4)
        case _:
            lanes, columns = thread % 16, register
    columns = columns * width
    if shape == "16x32bx2":
        columns = columns + split * (thread // 16)
    lanes, columns = (np.ascontiguousarray(np.broadcast_to(x, (32, register.size))) for x in (lanes, columns))
    for array in (lanes, columns):
        array.flags.writeable = False
    used = {int(c) + w for c in np.unique(columns) for w in range(width)}
    return Fragment(lanes, columns, packed, bits(0, int(lanes.max()) + 1), sum(1 << c for c in used))


@dataclass(frozen=True)
class Block:
    """A rectangle of D in one CTA of the pair: rows `rows` and columns `columns` of the matrix lie in the lanes of the set
    `lanes`, ascending, and in columns from `column` on, relative to the address of D. Rows of A in tensor memory lie in
    the same lanes, in each block that uses them."""

    cta: int
    lanes: int
    rows: slice
    columns: slice
    column: int = 0


@lru_cache(maxsize=256)
def accumulator(d: InstructionDescriptor, lane: int) -> tuple[Block, ...] | str:
    """How D lies at an address with that lane, or which lanes an address must have (layouts A to G)."""
    variant, m, n = d.variant, d.m, d.n
    rows = m // variant.group
    ctas = [(cta, slice(rows * cta, rows * (cta + 1))) for cta in range(variant.group)]
    half = rows == 64 and not variant.weights and (variant.group == 1 or variant.sparse)
    if lane not in ((0, 16) if half else (0,)):
        return "0 or 16" if half else "0"
    if half:
        return tuple(Block(cta, half_lanes(lane // 16), part, slice(0, n)) for cta, part in ctas)
    parts = 128 // rows
    width = n // parts
    return tuple(
        Block(cta, bits(rows * i, rows), part, slice(width * i, width * (i + 1)))
        for cta, part in ctas
        for i in range(parts)
    )
