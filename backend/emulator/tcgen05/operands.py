"""Elements of A and B as numbers, from the bytes of shared or tensor memory (PTX 9.7.16.10.4)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilec.backend.emulator.matrices.layout import Major, gather
from tilec.backend.emulator.matrices.values import BITS, RAW, values
from tilec.backend.emulator.numbers.narrow_floats import decode

_NARROW = ("e2m3", "e3m2", "e2m1")


def bits_of(type: str, *, packed: bool) -> int:
    """Bits that an element takes in shared memory; narrow ones, unless `packed`, take a byte each, padding included."""
    return BITS.get(type, 4 if packed else 8)


def from_shared(
    data: NDArray[np.uint8], chunks: NDArray[np.intp], major: Major, type: str, *, packed: bool
) -> NDArray[np.float64]:
    """A matrix of shared memory as (mn, k). `packed`: e2m1 lies two to a byte, without padding (`kind::mxf4`)."""
    if type not in _NARROW:
        return values(type, gather(data, chunks, major, RAW[type]))
    rows = gather(data, chunks, "K", np.dtype(np.uint8))
    if packed:
        return decode(type, nibbles(rows))
    sixteens = rows.reshape(-1, 16)
    codes = nibbles(sixteens[:, :8]) if type == "e2m1" else sixes(sixteens[:, :12])
    return decode(type, codes).reshape(len(rows), -1)


def from_tensor_memory(cells: NDArray[np.uint32], type: str, *, packed: bool) -> NDArray[np.float64]:
    """Rows of A in tensor memory, (lanes, columns), as (m, k): elements side by side, narrow ones in bytes of their own."""
    words = np.ascontiguousarray(cells)
    if packed:
        return decode(type, nibbles(words.view(np.uint8)))
    if type not in _NARROW:
        return values(type, words.view(RAW[type]))
    # e2m1 lies in the middle of its byte (9.7.14.5.2, of mma, says it in words).
    codes = words.view(np.uint8)
    return decode(type, codes >> np.uint8(2) if type == "e2m1" else codes)


def nibbles(rows: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Two 4-bit codes of each byte, the lower first: (rows, bytes) to (rows, 2 * bytes)."""
    return np.stack([rows & np.uint8(15), rows >> np.uint8(4)], axis=-1).reshape(len(rows), -1)


def sixes(rows: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """6-bit codes, side by side from the lowest bit on: (rows, bytes) to (rows, bytes * 4 / 3)."""
    triples = rows.reshape(len(rows), -1, 3).astype(np.uint32)
    words = triples[..., 0] | triples[..., 1] << np.uint32(8) | triples[..., 2] << np.uint32(16)
    codes = words[..., None] >> np.array([0, 6, 12, 18], np.uint32) & np.uint32(63)
    return codes.reshape(len(rows), -1).astype(np.uint8)
