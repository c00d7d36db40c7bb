"""What a CTA holds while it runs, and how data moves between tensors and tiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

import numpy as np

from tilec.backend.reference.numerics import Array, Numerics
from tilec.dialects.tile import ViewType


@dataclass
class View:
    """A tensor argument: the caller's array, with whatever strides it has."""

    name: str
    type: ViewType
    array: Array


@dataclass
class Tile:
    """A shared tile or an accumulator, by its logical indices: a layout does not change what a program means."""

    values: Array


Region = tuple[slice, ...]
"""Part of a tensor or a tile."""


def inside(offsets: Sequence[int], shape: Sequence[int], extents: Sequence[int]) -> tuple[Region, Region]:
    """The part of a tile at `offsets` that lies inside a tensor: as slices of the tensor, and of the tile."""
    starts = [min(max(o, 0), e) for o, e in zip(offsets, extents, strict=True)]
    ends = [max(min(o + s, e), b) for o, s, e, b in zip(offsets, shape, extents, starts, strict=True)]
    tensor = tuple(slice(b, e) for b, e in zip(starts, ends, strict=True))
    tile = tuple(slice(b - o, e - o) for b, e, o in zip(starts, ends, offsets, strict=True))
    return tensor, tile


def load(view: View, offsets: Sequence[int], tile: Array) -> Region:
    """Fill a tile from a tensor, with zeros outside of it. The part of the tensor that was read."""
    tensor_part, tile_part = inside(offsets, tile.shape, view.array.shape)
    part = view.array[tensor_part]
    if part.shape != tile.shape:
        tile[...] = 0
    tile[tile_part] = part
    return tensor_part


def store(view: View, offsets: Sequence[int], values: Array, numerics: Numerics) -> Region:
    """Put a tile into a tensor, and nothing outside of it. The part of the tensor that was written."""
    tensor_part, tile_part = inside(offsets, values.shape, view.array.shape)
    view.array[tensor_part] = numerics.round(values[tile_part], view.type.dtype)
    return tensor_part


def size_of(region: Region) -> int:
    """Elements of a part of a tensor."""
    size = 1
    for part in region:
        size *= part.stop - part.start
    return size


def multiply(accumulator: Array, a: Array, b: Array, *, accumulate: bool) -> None:
    """accumulator (+)= a * b^T. Products are exact, and one MMA sums them in float64 and rounds once; hardware rounds
    more often."""
    total = _product(a.astype(np.float64), b.astype(np.float64))
    if accumulate:
        total += accumulator
    accumulator[...] = total  # rounds: the array has the accumulator's dtype


def _product(a: Array, b: Array) -> Array:
    """a * b^T by a few rows at a time: BLAS starts threads for larger products, which costs more than a whole tile."""
    few = gcd(a.shape[0], 8)
    return (a.reshape(-1, few, a.shape[1]) @ b.T).reshape(a.shape[0], b.shape[0])
