"""The sixteen barriers of a CTA (PTX 9.7.13.1): who has arrived, and when a barrier completes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from tilec.backend.emulator.execution.lanes import Lanes
from tilec.backend.emulator.faults import FaultKind

if TYPE_CHECKING:
    from tilec.backend.emulator.execution.cta import Cta

BARRIERS = 16
Purpose = Literal["sync", "popc", "and", "or"]
"""What a barrier is used for: synchronisation (sync and arrive), or a reduction."""


class Episode:
    """One use of a barrier, from the first arrival until it completes. Threads that wait hold on to it.

    `count`: threads that take part, None for all of the CTA. A warp has arrived when all its threads that have not exited have,
    and counts as 32 threads; of all threads of the CTA, those that have exited do not take part.
    """

    def __init__(self, cta: Cta, barrier: int, count: int | None, purpose: Purpose, line: int) -> None:
        self.cta = cta
        self.barrier = barrier
        self.count = count
        self.purpose: Purpose = purpose
        self.line = line
        self.arrived = np.zeros(cta.padded, np.bool_)
        self.held = np.zeros(cta.padded, np.bool_)
        """The predicate of each thread of a reduction."""
        self._completed = False

    def arrive(self, lanes: Lanes, held: NDArray[np.bool_] | None) -> None:
        """Threads arrive, with their predicates if the barrier reduces."""
        again = self.arrived[lanes.index]
        if again.any():
            lane = int(np.argmax(again))
            lanes.fault(
                FaultKind.ILLEGAL,
                f"a thread arrives again at barrier {self.barrier} before it has completed",
                lane,
                "after bar.arrive, a warp uses the barrier again only when it knows by other means that it has completed",
            )
        self.arrived[lanes.index] = True
        if held is not None:
            self.held[lanes.index] = held
        self.cta.machine.touch()

    def completed(self) -> bool:
        """Whether all participants have arrived; the barrier is free for its next use then."""
        if not self._completed and self._due():
            self._completed = True
            self.cta.part(NamedBarriers).release(self)
        return self._completed

    def warps_arrived(self) -> NDArray[np.bool_]:
        """For each warp, whether it has arrived."""
        missing = np.asarray((self.cta.alive & ~self.arrived).reshape(-1, 32).any(axis=1))
        present = np.asarray(self.arrived.reshape(-1, 32).any(axis=1))
        return present & ~missing

    def result(self) -> int:
        """What a reduction gives: a count for popc, 0 or 1 for the others."""
        match self.purpose:
            case "popc":
                return int((self.held & self.arrived).sum())
            case "and":
                return int(self.held[self.arrived].all())
            case _:
                return int(self.held[self.arrived].any())

    def describe(self) -> str:
        if self.count is not None:
            arrived = int(self.warps_arrived().sum()) * 32
            return f"barrier {self.barrier}: {arrived} of {self.count} threads have arrived{self._which(missing=False)}"
        expected = self.cta.alive | self.arrived
        arrived = int((self.arrived & expected).sum())
        return f"barrier {self.barrier}: {arrived} of {int(expected.sum())} threads have arrived{self._which(missing=True)}"

    def _due(self) -> bool:
        if self.count is None:
            return bool((self.arrived | ~self.cta.alive).all())
        return int(self.warps_arrived().sum()) * 32 >= self.count

    def _which(self, *, missing: bool) -> str:
        """The warps that are missing; of a barrier for some of the threads, those that have arrived."""
        arrived = self.warps_arrived()
        here = self.cta.alive.reshape(-1, 32).any(axis=1)
        warps = [str(w) for w in np.flatnonzero(here & ~arrived if missing else arrived)]
        if not warps:
            return ""
        names = f"{'warp' if len(warps) == 1 else 'warps'} {', '.join(warps)}"
        if missing:
            return f", {names} {'is' if len(warps) == 1 else 'are'} missing"
        return f" ({names})"


class NamedBarriers:
    """The barriers of a CTA that are in use now."""

    def __init__(self, cta: Cta) -> None:
        self._cta = cta
        self._active: dict[int, Episode] = {}

    def at_exit(self) -> None:
        """A barrier at which threads only arrived may be left behind."""

    def episode(self, lanes: Lanes, barrier: int, count: int | None, purpose: Purpose) -> Episode:
        """The use of a barrier that is under way, or a new one. Faults for one that is for other threads or for something else."""
        found = self._active.get(barrier)
        if found is not None and found.completed():
            found = None
        if found is None:
            found = self._active[barrier] = Episode(self._cta, barrier, count, purpose, lanes.instruction.line)
        if found.purpose != purpose:
            lanes.fault(
                FaultKind.ILLEGAL,
                f"barrier {barrier} is used for {_purpose(purpose)} while line {found.line} uses it for {_purpose(found.purpose)}",
            )
        if self._threads(found.count) != self._threads(count):
            lanes.fault(
                FaultKind.ILLEGAL,
                f"barrier {barrier} is used by {self._threads(count)} threads while line {found.line} uses it by "
                f"{self._threads(found.count)}",
                hint="all that take part in a barrier give the same number of threads",
            )
        if count is None:
            found.count = None
        return found

    def room(self, barrier: int, count: int) -> int:
        """How many threads a barrier for `count` still awaits."""
        found = self._active.get(barrier)
        return count if found is None or found.completed() else count - int(found.warps_arrived().sum()) * 32

    def release(self, episode: Episode) -> None:
        """A barrier has completed."""
        if self._active.get(episode.barrier) is episode:
            del self._active[episode.barrier]
        self._cta.machine.touch()

    def _threads(self, count: int | None) -> int:
        return self._cta.padded if count is None else count


def _purpose(purpose: Purpose) -> str:
    return "synchronisation" if purpose == "sync" else f"a reduction by .{purpose}"
