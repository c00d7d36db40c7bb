"""Sparse A (PTX 9.7.16.10.8): which of its elements are held, by metadata in tensor memory.

Four bits of metadata tell of a group of elements of a row where those that are held belong: of 4 elements two, of 2 (tf32)
one, of 4 pairs (`kind::mxf4`) two. The ISA shows the layout in figures only; it is here as CUTLASS has it (tmem_e_frg), for the
shapes that it has: M = 128 and 256, and those of `.ws`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilec.backend.emulator.tcgen05.instruction_descriptor import InstructionDescriptor
from tilec.backend.emulator.tcgen05.region import Region, bits

_MEANINGFUL = (0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b0110, 0b1110)
_MEANINGFUL_TF32 = (0b1110, 0b0100)


@dataclass(frozen=True)
class Metadata:
    """Where metadata lie: `columns` from `column` on. `interleaved`: 16 rows share 16 lanes, 8 of which hold the first half of K."""

    column: int
    columns: int
    interleaved: bool


def metadata(d: InstructionDescriptor, column: int) -> Metadata | str:
    """The layout for metadata at an address with that column, or what the emulator does not know."""
    variant = d.variant
    if not variant.weights and d.m // variant.group != 128:
        return f"the emulator does not know how sparsity metadata lie with M = {d.m}"
    if variant.kind not in ("f16", "tf32"):
        return Metadata(column, 2, interleaved=False)
    # The selector takes one of two neighbouring columns; compilers put it into the address as well.
    if d.selector > 1 or (column & 1 and not d.selector):
        return f"the emulator does not know sparsity selector {d.selector} with metadata at column {column}"
    return Metadata((column & ~1) + d.selector, 1, interleaved=True)


def metadata_region(where: Metadata, lanes: int) -> Region:
    """The cells of the metadata for the rows of D in `lanes`."""
    return Region(lanes, bits(where.column, where.columns))


def group_codes(where: Metadata, cells: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """The four bits of each group of each row, shape (rows, groups), from the cells of the rows' lanes."""
    words = cells[:, where.column : where.column + where.columns]
    places = 4 * np.arange(8, dtype=np.uint32)
    if not where.interleaved:
        return (words[:, :, None] >> places & np.uint32(15)).reshape(len(words), -1)
    # Lane 8 * half + r of 16 holds half of the groups of row r in its low 16 bits, and of row 8 + r in its high 16 bits.
    codes = (words[:, 0, None] >> places & np.uint32(15)).reshape(-1, 2, 8, 2, 4)
    return codes.transpose(0, 3, 2, 1, 4).reshape(len(words), 8)


def wrong_code(codes: NDArray[np.uint32], kind: str) -> tuple[int, int] | None:
    """The row and the code of the first metadata that have no meaning."""
    wrong = ~np.isin(codes, _MEANINGFUL_TF32 if kind == "tf32" else _MEANINGFUL)
    if not wrong.any():
        return None
    row, group = (int(x[0]) for x in np.nonzero(wrong))
    return row, int(codes[row, group])
