"""Finds out that a machine only repeats itself: threads run, but the same states come again and again.

A group that spins in a loop of its own is found by `group.LoopWatch`. This is for what that cannot see: loops in which threads
part and meet again, or that write what was there already, such as a lock that nobody releases. From time to time, and ever
more rarely, a probe lets groups go on in a fixed order, each to the end of an iteration: a state that comes again then will
come for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING
from zlib import crc32

if TYPE_CHECKING:
    from tilec.backend.emulator.execution.cta import Cluster
    from tilec.backend.emulator.execution.group import Group
    from tilec.backend.emulator.memory.address_space import GlobalMemory

_FIRST_PROBE = 64
_FIRST_PROBE_IN_LOCK_STEP = 4
"""Choices of the scheduler before the first probe. In lock step, one is for thousands of instructions, and a probe changes
nothing; in the other orders it does away with chance for a while."""
_RAREST = 8192
"""Choices between two probes at most."""
_ROUNDS = 100
"""Times that one probe looks at the state, for each group: it finds what repeats itself within so many iterations."""
_PATIENCE = 4
"""Times that a repetition must be found, while waits that may end without success do so in between."""

Kept = dict[int, tuple[int, int]]
"""For each cluster, by number, how often it had changed, and a digest of what it was then."""
State = tuple[tuple[int, int], tuple[int, ...]]
"""The group whose turn was last, and a digest of each cluster."""


class Livelock:
    """Watches the choices of the scheduler of one machine. `probing`: a probe is being made."""

    def __init__(self, *, lock_step: bool) -> None:
        self._places: Kept = {}
        self._digests: Kept = {}
        self._first = _FIRST_PROBE_IN_LOCK_STEP if lock_step else _FIRST_PROBE
        self.reset()

    def reset(self) -> None:
        """Something has happened that does not happen for ever: asynchronous work has gone on."""
        self._found = 0
        self._choices = 0
        self._probe_at = self._first
        self._places.clear()
        self._digests.clear()
        self._stop()

    @property
    def hopeless(self) -> bool:
        """Whether repetitions have been found so often that it is a deadlock."""
        return self._found >= _PATIENCE

    def count(self, groups: Sequence[Group]) -> None:
        """Called before each choice; begins a probe when one is due, and ends one that has found nothing."""
        self._choices += 1
        if self.probing and self._looks > _ROUNDS * self._groups:
            self._stop()
        elif not self.probing and self._choices >= self._probe_at:
            self._probe_at = self._choices + min(self._choices, _RAREST)
            self.probing, self._groups = True, len(groups)

    def next_in_turn(self, groups: Sequence[Group]) -> Group:
        """Whose turn it is in a probe of groups that the order of the run would choose at random."""
        following = [g for g in groups if _place(g) > self._last]
        return min(following or groups, key=_place)

    def takes_turn(self, group: Group) -> None:
        """Called at each choice of a probe. A state is the same only after a turn of the same group: while several spin, it is
        not their turns that would change it."""
        self._last = _place(group)

    def repeats(self, clusters: Sequence[Cluster], memory: GlobalMemory) -> bool:
        """Called before each choice of a probe: whether the state is one that came before in it, twice. The
        places are compared first, as they cost less than the values."""
        self._looks += 1
        places = self._last, tuple([_kept(self._places, cluster, _states) for cluster in clusters])
        if places not in self._visited:
            self._visited.add(places)
            return False
        state = self._last, tuple([_kept(self._digests, cluster, digest) for cluster in clusters])
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
        self._looks = 0
        self._groups = 0
        self._last = -1, -1
        self._visited: set[State] = set()
        self._seen: dict[State, int | None] = {}


def _place(group: Group) -> tuple[int, int]:
    return group.cta.number, int(group.threads[0])


def _kept(kept: Kept, cluster: Cluster, make: Callable[[Cluster], int]) -> int:
    """What `make` gives for a cluster, anew only if the cluster has changed."""
    known = kept.get(cluster.number)
    if known is None or known[0] != cluster.changes:
        known = kept[cluster.number] = cluster.changes, make(cluster)
    return known[1]


def digest(cluster: Cluster) -> int:
    """A digest of where all threads of a cluster stand and will return to, of their registers, also the saved ones, and of the
    memory of its CTAs. Two that are equal may, very rarely, be of different states."""
    return hash((_states(cluster), _checksum_of(cluster)))


def _states(cluster: Cluster) -> int:
    """A digest of where all groups of a cluster stand and will return to, and of whether they are parked there."""
    return hash(
        tuple(
            (
                cta.rank,
                group.pc,
                tuple(frame.return_to for frame in group.frames()),
                len(group.threads),
                group.wait is not None,
            )
            for cta in cluster.ctas
            for group in cta.groups
        )
    )


def _checksum_of(cluster: Cluster) -> int:
    """A checksum of all threads of a cluster and of its memory."""
    total = 0
    for cta in cluster.ctas:
        for group in cta.groups:
            total = crc32(group.threads.tobytes(), total)
            for frame in group.frames():
                for _, row in frame.saved:
                    total = crc32(row[group.index].tobytes(), total)
        for register in cta.registers:
            total = crc32(register.tobytes(), total)
        for segment in (cta.shared, cta.local, cta.frames):
            total = crc32(segment.data.data, total)
    return total


def _checksum(memory: GlobalMemory) -> int:
    """A checksum of global memory."""
    total = 0
    for segment in memory:
        total = crc32(segment.data.data, total)
    return total
