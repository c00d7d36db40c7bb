"""What ran: instructions by kind, bytes by TMA, MMAs, waits and bank conflicts."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tilec.backend.emulator.execution.lanes import Lanes

_PATTERNS = 4096
"""Patterns of accesses whose conflicts are remembered."""


@dataclass
class Statistics:
    """Counts of one launch.

    `instructions`: instructions executed by a warp, by opcode without its modifiers; `waits`: times that threads were parked, by
    opcode; `tma_load_bytes` and `tma_store_bytes`: bytes moved by TMA to and from shared memory, those outside a tensor
    included; `mmas`: matrix instructions, by opcode; `bank_conflicts`: extra cycles of shared memory accesses, beyond one for
    each 128 bytes (loads and stores of threads only).
    """

    instructions: Counter[str] = field(default_factory=Counter[str])
    waits: Counter[str] = field(default_factory=Counter[str])
    tma_load_bytes: int = 0
    tma_store_bytes: int = 0
    mmas: Counter[str] = field(default_factory=Counter[str])
    bank_conflicts: int = 0
    ctas: int = 0
    printed: list[str] = field(default_factory=list[str])
    _patterns: dict[tuple[int, bytes, int | bytes], int] = field(
        default_factory=dict[tuple[int, bytes, int | bytes], int], repr=False
    )

    def note_shared_access(self, lanes: Lanes, offsets: NDArray[np.int64], width: int) -> None:
        """Count the bank conflicts of one access of `width` bytes a lane: 32 banks of 4 bytes, served 128 bytes at a time. One
        offset stands for all lanes."""
        if len(offsets) <= 1:
            return
        pattern = offsets - (int(offsets[0]) & ~127)
        index = lanes.index
        key = width, pattern.tobytes(), index.start & 31 if isinstance(index, slice) else index.tobytes()
        found = self._patterns.get(key)
        if found is None:
            if len(self._patterns) >= _PATTERNS:
                self._patterns.clear()
            warps = lanes.threads >> 5
            found = self._patterns[key] = sum(self._conflicts_of(pattern[warps == w], width) for w in np.unique(warps))
        self.bank_conflicts += found

    @staticmethod
    def _conflicts_of(pattern: NDArray[np.int64], width: int) -> int:
        """Extra cycles of one warp."""
        found = 0
        lanes_at_once = 32 if width <= 4 else 128 // width
        for first in range(0, len(pattern), lanes_at_once):
            part = pattern[first : first + lanes_at_once, None] + np.arange(0, max(width, 4), 4)
            words = np.unique(part // 4)
            found += int(np.bincount(words % 32).max()) - 1
        return found
