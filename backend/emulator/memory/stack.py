"""The stack on which `alloca` allocates local memory (PTX 9.7.17), one for each thread of a CTA. It grows down."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilec.backend.emulator.execution.cta import Cta
from tilec.backend.emulator.memory.address_space import STACK_TOP, Segment

_DEEPEST = 512 << 10
"""Bytes of local memory that a thread can have."""
_FIRST_DEPTH = 1024


class Stack:
    """The stacks of a CTA. `pointers` are addresses in the local window, the first one `STACK_TOP`."""

    def __init__(self, cta: Cta) -> None:
        self.pointers = np.full(cta.padded, STACK_TOP, np.int64)
        self.depth = _FIRST_DEPTH
        self._padded = cta.padded
        self.segment = Segment("the stack", self.depth * cta.padded)

    def at_exit(self) -> None:
        """What is on a stack ends with its thread."""

    def allocate(self, threads: NDArray[np.intp], sizes: NDArray[np.int64], alignment: int) -> NDArray[np.int64]:
        """New pointers of threads; the deepest may be deeper than a stack can be, which `fits` says."""
        return (self.pointers[threads] - sizes) // alignment * alignment

    @staticmethod
    def fits(pointers: NDArray[np.int64]) -> NDArray[np.bool_]:
        return (pointers >= STACK_TOP - _DEEPEST) & (pointers <= STACK_TOP)

    def set(self, threads: NDArray[np.intp], pointers: NDArray[np.int64]) -> None:
        """Move the pointers of threads, to where they fit; the memory grows as it must."""
        self.pointers[threads] = pointers
        lowest = int(pointers.min())
        while STACK_TOP - lowest > self.depth:
            self._grow()

    def _grow(self) -> None:
        grown = Segment(self.segment.name, self.segment.size * 2)
        grown.data.reshape(self._padded, -1)[:, self.depth :] = self.segment.data.reshape(self._padded, -1)
        self.depth *= 2
        self.segment = grown
