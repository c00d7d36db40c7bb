"""A box of a tensor in global memory: which of its elements exist, and where they are (PTX 5.5.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from tilec.backend.emulator.tma.descriptor import Descriptor

STORE_UNIT = 16
"""Stores are clipped along the innermost dimension in units of so many bytes."""


@dataclass(frozen=True)
class Box:
    """A box as bytes in global memory. Extents and strides go from the outermost dimension to the innermost.

    `counts`: what the box has of each dimension, the innermost in bytes. `first` and `last` bound the part that exists, counted
    within the box, `last` exclusive. `address` is that of the first byte of this part; `strides` are bytes from one to the next.
    """

    counts: tuple[int, ...]
    first: tuple[int, ...]
    last: tuple[int, ...]
    address: int
    strides: tuple[int, ...]
    row: int = 0
    """Which row of the access the first row of the box is."""

    @property
    def row_bytes(self) -> int:
        return self.counts[-1]

    @property
    def rows(self) -> int:
        return prod(self.counts[:-1])

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the part that exists."""
        return tuple(max(0, b - a) for a, b in zip(self.first, self.last, strict=True))

    @property
    def empty(self) -> bool:
        return 0 in self.shape

    @property
    def size(self) -> int:
        """Bytes from the first that exists to the last, 0 if none does."""
        if self.empty:
            return 0
        return 1 + sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True))

    @property
    def overlaps(self) -> bool:
        """Whether some of its bytes are the same in memory."""
        reach = 0
        for count, stride in sorted(zip(self.shape, self.strides, strict=True), key=lambda d: d[1]):
            if count > 1 and stride <= reach:
                return True
            reach += (count - 1) * stride
        return False

    @property
    def part(self) -> tuple[slice, ...]:
        """The part that exists, as an index of an array of shape `counts`."""
        return tuple(slice(a, b) for a, b in zip(self.first, self.last, strict=True))

    def view(self, data: NDArray[Any], offset: int) -> NDArray[Any]:
        """The part that exists, of an array with an entry for each byte of a segment, in which its first byte is at `offset`."""
        return as_strided(data[offset:], self.shape, self.strides)


def box_of(d: Descriptor, start: Sequence[int], *, stored: bool = False) -> Box:
    """The box at the coordinates `start`, innermost first, of a load or a store."""
    counts, first, last = [d.bytes_of(d.box[0])], [0], [0]
    origin = d.bytes_of(start[0])
    end = d.bytes_of(d.dims[0]) - origin
    if stored:
        end = -(-end // STORE_UNIT) * STORE_UNIT
    first[0], last[0] = max(0, -origin), min(counts[0], end)
    strides = [1]
    address = d.address + origin + first[0]
    for i in range(1, d.rank):
        step = d.element_strides[i]
        count = -(-d.box[i] // step)
        low = max(0, -(start[i] // step))
        counts.append(count)
        first.append(low)
        last.append(min(count, -(-(d.dims[i] - start[i]) // step)))
        strides.append(step * d.stride(i))
        address += (start[i] + low * step) * d.stride(i)
    return Box(tuple(counts[::-1]), tuple(first[::-1]), tuple(last[::-1]), address, tuple(strides[::-1]))


def misaligned_start(d: Descriptor, column: int) -> str | None:
    """What is wrong with a start coordinate along the innermost dimension; None if nothing is."""
    if d.type.padded and column % 128:
        return f"coordinate {column} along the innermost dimension: of {d.type} it is a multiple of 128"
    if column * d.type.bits % 128:
        return (
            f"coordinate {column} along the innermost dimension is byte {column * d.type.bits / 8:g} of a row of {d.type}: "
            "it must be a multiple of 16 bytes"
        )
    return None
