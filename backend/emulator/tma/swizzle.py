"""Swizzles of shared memory (PTX 5.5.7): which byte of a line of 128 a byte is moved to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Swizzle:
    """Bits of an address, from `destination` on and as many as `mask` has, are XORed with those `distance` higher.

    `span`: bytes of a row of the pattern, the most that a box may be wide; 0 where nothing is moved. `code` and `atom` are the
    values of the fields `.swizzle_mode` and `.swizzle_atomicity` of a tensor map.
    """

    name: str
    span: int
    mask: int
    destination: int
    distance: int
    code: int
    atom: int
    flips: bool = False
    """The halves of 16 bytes are exchanged on every other line of 128 bytes; on which ones is not documented."""

    def __call__(self, addresses: NDArray[np.int64], first_line: int = 0) -> NDArray[np.int64]:
        """Where bytes are held whose addresses, absolute ones of the shared window, would be `addresses`. The pattern starts at
        the line of 128 bytes `first_line`."""
        return addresses ^ ((addresses - 128 * first_line) >> self.distance & (self.mask << self.destination))

    def __str__(self) -> str:
        return self.name


SWIZZLES = (
    Swizzle("none", 0, 0, 4, 3, 0, 0),
    Swizzle("32B", 32, 1, 4, 3, 1, 0),
    Swizzle("64B", 64, 3, 4, 3, 2, 0),
    Swizzle("128B", 128, 7, 4, 3, 3, 0),
    Swizzle("128B_ATOM_32B", 128, 3, 5, 2, 3, 1),
    Swizzle("128B_ATOM_32B_FLIP_8B", 128, 3, 5, 2, 3, 2, flips=True),
    Swizzle("128B_ATOM_64B", 128, 1, 6, 1, 3, 3),
)

SWIZZLE = {s.name: s for s in SWIZZLES}
_BY_FIELDS = {(s.code, s.atom): s for s in SWIZZLES}


def swizzle_of_fields(mode: int, atomicity: int) -> Swizzle | None:
    """The swizzle of the two fields of a tensor map; None if they do not go together (PTX 5.5.7, table 14)."""
    return _BY_FIELDS.get((mode, atomicity))
