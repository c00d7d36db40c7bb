"""Finds out that a machine only repeats itself: threads run, but the same states come again and again.

A group that spins in a loop of its own is found by `group.LoopWatch`. This is for what that cannot see: loops in which threads
part and meet again, or that write what was there already, such as a lock that nobody releases. From time to time, and ever
more rarely, all groups are made to go on in turn, one iteration of a loop each: a state that comes again then will come for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from zlib import crc32

if TYPE_CHECKING:
    from tilec.backend.emulator.cta import Cta
    from tilec.backend.emulator.group import Group
    from tilec.backend.emulator.memory import GlobalMemory

_FIRST_PROBE = 32
_RAREST = 8192
"""Choices of the scheduler before the first probe, and between two of them at most."""
_ROUNDS = 12
"""Rounds of one probe: it finds what repeats itself within so many iterations."""
_PATIENCE = 4
"""Times that a repetition must be found, while waits that may end without success do so in between."""

State = tuple[tuple[int, int, int], ...]


class Livelock:
    """Watches the choices of the scheduler of one machine. `probing`: groups go on as `choose` says."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Something has happened that does not happen for ever: asynchronous work has gone on."""
        self._found = 0
        self._choices = 0
        self._probe_at = _FIRST_PROBE
        self._stop()

    @property
    def hopeless(self) -> bool:
        """Whether repetitions have been found so often that it is a deadlock."""
        return self._found >= _PATIENCE

    def choose(self, groups: Sequence[Group]) -> Group | None:
        """Which group goes on, for one iteration, if a probe is being made; None if the order of the run is to choose."""
        self._choices += 1
        if not self.probing and self._choices >= self._probe_at:
            self._probe_at = self._choices + min(self._choices, _RAREST)
            self.probing = True
        if not self.probing:
            return None
        following = [g for g in groups if _place(g) > self._last]
        self.round_begins = not following
        chosen = min(following or groups, key=_place)
        self._last = _place(chosen)
        return chosen

    def repeats(self, ctas: Sequence[Cta], memory: GlobalMemory) -> bool:
        """Called at the beginning of each round of a probe: whether the state is one that came before in it."""
        self._rounds += 1
        if self._rounds > _ROUNDS:
            self._stop()
            return False
        state = _state(ctas), _threads(ctas)
        if state not in self._seen:
            self._seen[state] = None
            return False
        known, now = self._seen[state], _checksum(memory)
        self._seen[state] = now
        if known != now:
            return False
        self._found += 1
        self._stop()
        return True

    def _stop(self) -> None:
        self.probing = False
        self.round_begins = False
        self._rounds = 0
        self._last = -1, -1
        self._seen: dict[tuple[State, int], int | None] = {}


def _place(group: Group) -> tuple[int, int]:
    return group.cta.number, int(group.threads[0])


def _state(ctas: Sequence[Cta]) -> State:
    """Where all groups stand."""
    return tuple((cta.number, group.pc, len(group.threads)) for cta in ctas for group in cta.groups)


def _threads(ctas: Sequence[Cta]) -> int:
    """A checksum of the threads of all groups, of their registers, and of the memory of their CTAs."""
    total = 0
    for cta in ctas:
        for group in cta.groups:
            total = crc32(group.threads.tobytes(), total)
        for register in cta.registers:
            total = crc32(register.tobytes(), total)
        for segment in (cta.shared, cta.local, cta.frames):
            total = crc32(segment.data, total)
    return total


def _checksum(memory: GlobalMemory) -> int:
    """A checksum of global memory."""
    total = 0
    for segment in memory:
        total = crc32(segment.data, total)
    return total
