"""Scale factors in tensor memory (PTX 9.7.16.10.7): one word for each row of a matrix, up to four factors along K in its bytes.

Row r of up to 32 lies in lane r, the next 32 rows in the next column, and so on; all of that is repeated in each of the four
partitions of 32 lanes. With 64 rows of D to a CTA of a pair, the upper two partitions hold the second half of the columns of B.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilec.backend.emulator.numbers.narrow_floats import decode
from tilec.backend.emulator.tcgen05.region import Region, bits


def regions(column: int, rows: int) -> list[Region]:
    """The cells that `rows` scale vectors take, from `column` on."""
    found: list[Region] = []
    full, rest = divmod(rows, 32)
    if full:
        found.append(Region(bits(0, 128), bits(column, full)))
    if rest:
        found.append(Region(sum(bits(32 * p, rest) for p in range(4)), bits(column + full, 1)))
    return found


def words(cells: NDArray[np.uint32], column: int, rows: int) -> NDArray[np.uint32]:
    """The words of `rows` rows as each partition holds them: shape (4, rows)."""
    columns = -(-rows // 32)
    held = cells[:, column : column + columns].reshape(4, 32, columns)
    return held.transpose(0, 2, 1).reshape(4, -1)[:, :rows]


def factors(words: NDArray[np.uint32], type: str, first: int, count: int) -> NDArray[np.float64]:
    """The factors of each row, shape (rows, count): bytes of its word from `first` on."""
    held = np.ascontiguousarray(words).view(np.uint8).reshape(-1, 4)[:, first : first + count]
    return decode(type, held)


def scaled(matrix: NDArray[np.float64], by: NDArray[np.float64]) -> NDArray[np.float64]:
    """A matrix (rows, k) with each of the `by.shape[1]` equal parts of a row multiplied by its factor."""
    rows, k = matrix.shape
    parts = by.shape[1]
    return (matrix.reshape(rows, parts, k // parts) * by[:, :, None]).reshape(rows, k)
