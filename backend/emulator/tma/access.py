"""One access through a tensor map: the boxes that it reads or writes, and its rows in shared memory (PTX 5.5.2 to 5.5.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tilec.backend.emulator.faults import FaultKind
from tilec.backend.emulator.tma.box import Box, box_of, misaligned_start
from tilec.backend.emulator.tma.descriptor import Descriptor
from tilec.backend.emulator.tma.im2col import columns, outside_bounding_box
from tilec.backend.emulator.tma.packed import pack_rows, unpack_rows

_OUTSIDE = 0x7FF7
"""What an H200 fills each 16 bits outside of a tensor with, if they are to be NaN."""


@dataclass(frozen=True)
class TensorAccess:
    """`rows` rows of `global_row` bytes of a tensor, made up of `boxes`; in shared memory a row has `row_bytes` bytes."""

    descriptor: Descriptor
    start: tuple[int, ...]
    rows: int
    global_row: int
    boxes: tuple[Box, ...]

    def __str__(self) -> str:
        return f"the box at ({', '.join(map(str, self.start))})"

    @property
    def row_bytes(self) -> int:
        type = self.descriptor.type
        return self.global_row * type.shared_bits // type.bits

    @property
    def transferred(self) -> int:
        """Bytes that the copy reports: all of the box, also where the tensor ends before, but no gaps between elements."""
        return self.rows * self.global_row

    def filled(self) -> NDArray[np.uint8]:
        """What the rows hold where there is no tensor, shape (rows, global_row)."""
        if not self.descriptor.fill:
            return np.zeros((self.rows, self.global_row), np.uint8)
        return np.full((self.rows, self.global_row // 2), _OUTSIDE, np.uint16).view(np.uint8)

    def within(self, data: NDArray[np.uint8], box: Box) -> NDArray[np.uint8]:
        """The part of a box that exists, of the access's rows, as a view."""
        return data[box.row : box.row + box.rows].reshape(box.counts)[box.part]

    def existing(self) -> NDArray[np.bool_]:
        """Which bytes of the rows are of elements that exist, shape (rows, global_row)."""
        found = np.zeros((self.rows, self.global_row), np.bool_)
        for box in self.boxes:
            found[box.row : box.row + box.rows].reshape(box.counts)[box.part] = True
        return found

    def unpacked(self, data: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Rows of global memory as a load puts them into shared memory."""
        return unpack_rows(data, self.descriptor.type) if self.descriptor.type.padded else data

    def packed(self, units: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Units of shared memory as a store puts them into global memory, shape (rows, global_row)."""
        if self.descriptor.type.padded:
            units = pack_rows(units, self.descriptor.type)
        return units.reshape(self.rows, self.global_row)


@dataclass(frozen=True)
class Refusal:
    """Why an access is none: a map that does not go with the instruction, or coordinates that are not allowed."""

    kind: FaultKind
    why: str


def access_of(
    d: Descriptor, mode: str, rank: int, start: tuple[int, ...], offsets: Sequence[int], *, stored: bool
) -> TensorAccess | Refusal:
    """The access that an instruction of `rank` asks for, at the coordinates `start`, innermost first; or what is wrong with it.

    `mode` is the load or store mode, `offsets` the im2col offsets along W, H and D.
    """
    if (mismatch := _mismatch(d, mode, rank, stored=stored)) is not None:
        return Refusal(FaultKind.DESCRIPTOR, mismatch)
    if (misplaced := _misplaced(d, start, offsets, stored=stored)) is not None:
        return Refusal(FaultKind.ILLEGAL, misplaced)
    match mode:
        case "tile::gather4" | "tile::scatter4":
            boxes = tuple(
                replace(box_of(d, (start[0], row), stored=stored), row=at) for at, row in enumerate(start[1:])
            )
        case "im2col" | "im2col_no_offs":
            assert d.im2col is not None
            boxes = tuple(columns(d, start, offsets, stored=stored))
            return TensorAccess(d, start, d.im2col.pixels, d.bytes_of(d.im2col.channels), boxes)
        case _:
            boxes = (box_of(d, start, stored=stored),)
    return TensorAccess(d, start, sum(box.rows for box in boxes), boxes[0].row_bytes, boxes)


def _misplaced(d: Descriptor, start: tuple[int, ...], offsets: Sequence[int], *, stored: bool) -> str | None:
    """What is wrong with the coordinates."""
    if stored and min(start) < 0:
        return f"coordinates ({', '.join(map(str, start))}): those of a store are 0 or more"
    return misaligned_start(d, start[0]) or (outside_bounding_box(d, start, offsets) if d.im2col else None)


def _mismatch(d: Descriptor, mode: str, rank: int, *, stored: bool) -> str | None:
    """Why the map cannot be used by the instruction."""
    if d.rank != rank:
        return f"the tensor map has rank {d.rank}, the instruction .{rank}d"
    if (d.im2col is not None) != mode.startswith("im2col"):
        return f"the tensor map is {'an im2col' if d.im2col else 'a tiled'} one, and the instruction's mode is .{mode}"
    if mode in ("tile::gather4", "tile::scatter4") and d.box[1] != 1:
        return f"the tensor map's box has {d.box[1]} rows; .{mode} takes boxes of 1"
    if stored and d.type.name == "16u4_align16b":
        return f"there is no store of elements of {d.type}"
    if not stored and d.type.padded and d.swizzle.name == "128B_ATOM_64B":
        return f"there is no load of elements of {d.type} with swizzle {d.swizzle}"
    if stored and d.im2col is not None and (min(d.im2col.lower) < 0 or max(d.im2col.upper) > 0):
        return "the corners of the tensor map reach out of the tensor, and a store must stay inside"
    return None
