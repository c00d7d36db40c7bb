"""What each thread of a CTA has copied by `cp.async` and not waited for yet (PTX 9.7.9.25.3).

The copies are asynchronous work, which ends at some time; what they wrote becomes visible to a thread only when it waits for the
group, or when an mbarrier tells it so. Until then the bytes count as in flight.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tilec.backend.emulator.execution.cta import Cta
from tilec.backend.emulator.execution.engines import AsyncWork

_OPEN = -1
"""The group of copies that their thread has not committed."""


class Copy:
    """One `cp.async` of some threads: thread ``threads[i]`` writes the ``places[i]``-th unit of `unit` bytes in shared memory."""

    def __init__(self, work: AsyncWork, threads: NDArray[np.intp], places: NDArray[np.int64], unit: int) -> None:
        self.work = work
        self.threads = threads
        self.places = places
        self.unit = unit
        self.groups = np.full(len(threads), _OPEN, np.int64)
        self.visible = np.zeros(len(threads), np.bool_)
        self.followers: list[Callable[[], None]] = []
        """Called when the work ends."""


class AsyncCopies:
    """The copies of a CTA that some thread has not waited for."""

    def __init__(self, cta: Cta) -> None:
        self._cta = cta
        self._copies: list[Copy] = []
        self._committed = np.zeros(cta.padded, np.int64)

    def at_exit(self) -> None:
        """A thread may exit without waiting for its copies: nothing can see them any more."""
        for copy in list(self._copies):
            self._show(copy, ~copy.visible)

    def add(self, copy: Copy) -> None:
        self._copies.append(copy)

    def ended(self, copy: Copy) -> None:
        """The work of a copy has ended."""
        for follower in copy.followers:
            follower()

    def commit(self, threads: NDArray[np.intp]) -> None:
        """Threads end a group with what they have not committed, which may be nothing."""
        mine = self._flags(threads)
        for copy in self._copies:
            now = mine[copy.threads] & (copy.groups == _OPEN)
            copy.groups[now] = self._committed[copy.threads[now]]
        self._committed[threads] += 1

    def awaited(self, threads: NDArray[np.intp], pending: int) -> list[tuple[Copy, NDArray[np.bool_]]]:
        """What must end before at most `pending` groups of each thread are under way: copies, and which of their parts."""
        mine = self._flags(threads)
        found: list[tuple[Copy, NDArray[np.bool_]]] = []
        for copy in self._copies:
            groups = copy.groups
            part = (
                mine[copy.threads]
                & ~copy.visible
                & (groups != _OPEN)
                & (groups < self._committed[copy.threads] - pending)
            )
            if part.any():
                found.append((copy, part))
        return found

    def all_of(self, threads: NDArray[np.intp]) -> list[tuple[Copy, NDArray[np.bool_]]]:
        """All that threads have copied and not seen."""
        mine = self._flags(threads)
        found = [(copy, mine[copy.threads] & ~copy.visible) for copy in self._copies]
        return [(copy, part) for copy, part in found if part.any()]

    def show(self, parts: list[tuple[Copy, NDArray[np.bool_]]]) -> None:
        """What copies have written is visible to their threads from now on."""
        for copy, part in parts:
            self._show(copy, part & ~copy.visible)

    def _show(self, copy: Copy, part: NDArray[np.bool_]) -> None:
        if not part.any():
            return
        copy.visible |= part
        last = bool(copy.visible.all())
        if last:
            self._copies.remove(copy)
        self._cta.shared.complete_copies(copy.work, copy.places[part], copy.unit, last=last)

    def _flags(self, threads: NDArray[np.intp]) -> NDArray[np.bool_]:
        flags = np.zeros(self._cta.padded, np.bool_)
        flags[threads] = True
        return flags
