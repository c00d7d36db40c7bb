"""What TMA copies, element by element, written from the rules: loops, no strides and no XOR."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

# PTX 5.5.7: a line of 128 bytes has 8 cells of 16 bytes; the number in a cell says which of the cells it would be without the swizzle.
TABLES: dict[str, list[list[int]]] = {
    "none": [[0, 1, 2, 3, 4, 5, 6, 7]],
    "32B": [[0, 1, 2, 3, 4, 5, 6, 7], [1, 0, 3, 2, 5, 4, 7, 6]],
    "64B": [[0, 1, 2, 3, 4, 5, 6, 7], [1, 0, 3, 2, 5, 4, 7, 6], [2, 3, 0, 1, 6, 7, 4, 5], [3, 2, 1, 0, 7, 6, 5, 4]],
    "128B": [
        [0, 1, 2, 3, 4, 5, 6, 7],
        [1, 0, 3, 2, 5, 4, 7, 6],
        [2, 3, 0, 1, 6, 7, 4, 5],
        [3, 2, 1, 0, 7, 6, 5, 4],
        [4, 5, 6, 7, 0, 1, 2, 3],
        [5, 4, 7, 6, 1, 0, 3, 2],
        [6, 7, 4, 5, 2, 3, 0, 1],
        [7, 6, 5, 4, 3, 2, 1, 0],
    ],
    "128B_ATOM_32B": [
        [0, 1, 2, 3, 4, 5, 6, 7],
        [2, 3, 0, 1, 6, 7, 4, 5],
        [4, 5, 6, 7, 0, 1, 2, 3],
        [6, 7, 4, 5, 2, 3, 0, 1],
    ],
    "128B_ATOM_64B": [[0, 1, 2, 3, 4, 5, 6, 7], [4, 5, 6, 7, 0, 1, 2, 3]],
}
SPANS = {"none": 0, "32B": 32, "64B": 64, "128B": 128, "128B_ATOM_32B": 128, "128B_ATOM_64B": 128}


def held_at(address: int, swizzle: str) -> int:
    """Where shared memory holds the byte that would be at `address` without the swizzle."""
    table = TABLES[swizzle]
    line, cell, byte = address // 128, address % 128 // 16, address % 16
    return line * 128 + table[line % len(table)].index(cell) * 16 + byte


def steps_of(box: tuple[int, ...], steps: tuple[int, ...] | None) -> tuple[int, ...]:
    """The element strides; the innermost one does not count."""
    return (*((1,) * len(box) if steps is None else steps)[:-1], 1)


def elements(
    box: tuple[int, ...],
    steps: tuple[int, ...] | None,
    start: tuple[int, ...],
    itemsize: int,
    swizzle: str,
    offset: int,
) -> Iterator[tuple[tuple[int, ...], int]]:
    """The index in the tensor of each element of a box, outermost first, and the address that it would have in shared memory
    without the swizzle. `start` is innermost first."""
    step = steps_of(box, steps)
    counts = [ceil(b / s) for b, s in zip(box, step, strict=True)]
    pitch = SPANS[swizzle] or counts[-1] * itemsize
    for row, outer in enumerate(product(*(range(n) for n in counts[:-1]))):
        for inner in range(counts[-1]):
            index = tuple(c + i * s for c, i, s in zip(start[::-1], (*outer, inner), step, strict=True))
            yield index, offset + row * pitch + inner * itemsize


def load(
    array: NDArray[Any],
    box: tuple[int, ...],
    start: tuple[int, ...],
    swizzle: str,
    offset: int,
    shared: NDArray[np.uint8],
    steps: tuple[int, ...] | None = None,
    fill: bytes | None = None,
) -> int:
    """Load a box into `shared` at `offset`. Returns the bytes that the barrier learns of."""
    total = 0
    for index, plain in elements(box, steps, start, array.itemsize, swizzle, offset):
        inside = all(0 <= i < n for i, n in zip(index, array.shape, strict=True))
        value = array[index].tobytes() if inside else fill or bytes(array.itemsize)
        for i, byte in enumerate(value):
            shared[held_at(plain + i, swizzle)] = byte
        total += array.itemsize
    return total


def store(
    memory: NDArray[np.uint8],
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    box: tuple[int, ...],
    start: tuple[int, ...],
    swizzle: str,
    offset: int,
    shared: NDArray[np.uint8],
    steps: tuple[int, ...] | None = None,
) -> None:
    """Store a box into the bytes of a tensor. Along the innermost dimension, 16 bytes that the tensor reaches into are written."""
    itemsize = strides[-1]
    limit = ceil(shape[-1] * itemsize / 16) * 16
    for index, plain in elements(box, steps, start, itemsize, swizzle, offset):
        inside = all(0 <= i < n for i, n in zip(index[:-1], shape[:-1], strict=True)) and index[-1] * itemsize < limit
        if inside:
            at = sum(i * s for i, s in zip(index, strides, strict=True))
            for i in range(itemsize):
                memory[at + i] = shared[held_at(plain + i, swizzle)]
