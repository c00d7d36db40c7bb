"""Sparse A of `mma.sp` and `wgmma.mma_async.sp` (PTX 9.7.14.6.1, 9.7.14.6.2, 9.7.15.6.2): half of its elements are held, and metadata
say which.

Four bits of metadata, here a code, tell where in a group of neighbours of a row those that are held belong: two of 4 elements, one of
2 (tf32), two of 4 pairs (s4, u4). The ISA shows in figures only which bits of which lane are of which group; what is here agrees with
an H200.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilec.backend.emulator.execution.decode import Decoder, Reader
from tilec.backend.emulator.execution.lanes import Lanes
from tilec.backend.emulator.faults import FaultKind
from tilec.backend.emulator.matrices.values import expanded
from tilec.backend.emulator.ptx.syntax import Integer, Operand

_ORDERED = (0b0100, 0b1000, 0b1001, 0b1100, 0b1101, 0b1110)
_DISTINCT = tuple(low | high << 2 for low in range(4) for high in range(4) if low != high)
_ONE_OF_TWO = (0b0100, 0b1110)
_NIBBLES = 4 * np.arange(8, dtype=np.uint32)


@dataclass(frozen=True)
class Sparsity:
    """How A of one shape is sparse: elements of `bits` bits, `k` of a row of which half are held. `ordered`: both places of a code must
    ascend."""

    bits: int
    k: int
    ordered: bool

    @property
    def group(self) -> int:
        """Elements that a code is about."""
        return {32: 2, 4: 8}.get(self.bits, 4)

    @property
    def groups(self) -> int:
        """Codes of a row."""
        return self.k // self.group

    @property
    def selectors(self) -> int:
        """How many selectors there are: one of four lanes, or two of them, or all give metadata."""
        return 16 // self.groups

    @property
    def meaningful(self) -> tuple[int, ...]:
        """The codes that mean something."""
        if self.bits == 32:
            return _ONE_OF_TWO
        return _ORDERED if self.ordered else _DISTINCT

    def codes(self, lanes: Lanes, metadata: Reader, selector: int) -> NDArray[np.uint32]:
        """The code of each group of each row of 16, shape (warps, 16, groups), from a register of each lane. `selector` says which of
        four lanes give metadata. Faults for codes without a meaning: they are undefined (PTX 9.7.14.6.1)."""
        words = np.broadcast_to(metadata(lanes), (lanes.count,)).reshape(-1, 8, 4)
        given = 4 // self.selectors
        # Of the lanes that belong to rows r and r + 8: (warps, r, lane, nibble).
        nibbles = words[:, :, given * selector : given * (selector + 1), None] >> _NIBBLES & np.uint32(15)
        if self.bits > 8:
            # A lane has four groups of row r, and behind them those of row r + 8.
            codes = nibbles.reshape(-1, 8, given, 2, 4).transpose(0, 3, 1, 2, 4)
        else:
            # Lanes have eight groups of row r and of row r + 8 in turn.
            codes = nibbles.reshape(-1, 8, given // 2, 2, 8).transpose(0, 3, 1, 2, 4)
        found = codes.reshape(-1, 16, self.groups)
        self._check(found, lanes)
        return found

    def _check(self, codes: NDArray[np.uint32], lanes: Lanes) -> None:
        wrong = ~np.isin(codes, self.meaningful)
        if wrong.any():
            warp, row, group = (int(x[0]) for x in np.nonzero(wrong))
            lanes.fault(
                FaultKind.DESCRIPTOR,
                f"sparsity metadata 0b{int(codes[warp, row, group]):04b} for columns {group * self.group} to "
                f"{(group + 1) * self.group - 1} of row {row} of the warp's 16 mean nothing",
                32 * warp,
                f"there are {', '.join(f'0b{code:04b}' for code in self.meaningful)}",
            )

    def dense(self, held: NDArray[np.float64], codes: NDArray[np.uint32]) -> NDArray[np.float64]:
        """A (..., k) from the half of its elements that is held, (..., k / 2), and the codes of its groups, (..., groups)."""
        return expanded(held, codes, one_of_two=self.bits == 32)


def take_selector(d: Decoder, operand: Operand, sparsity: Sparsity) -> int:
    """The sparsity selector, a constant; refuses those that the shape does not have."""
    if not isinstance(operand, Integer) or not 0 <= operand.value < sparsity.selectors:
        d.unsupported(f"a sparsity selector that is no constant from 0 to {sparsity.selectors - 1}")
    return operand.value
