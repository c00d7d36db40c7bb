"""One abstract state of a CTA, and what it knows: which accesses are ordered before which agent's next operation.

Happens-before is kept as sets. Each access that may still matter is an *event* with a bit of its own: the last write of a
slot by TMA, the last read of a slot by an MMA, the last wait of an agent on a barrier, and so on. An observer (an agent, or a
round of a barrier) knows a set of events, as one integer of three fields: events that ordinary accesses come after
(generic), events that the async proxy sees, and reads of accumulators that a tcgen05 fence has published.
"""

from __future__ import annotations

from typing import NamedTuple

from tilec.backend.protocol.values import Coordinate, Difference, Interval, Linear, Past, Value

ISSUER, OTHERS = 0, 1
"""The thread that executes `tile.single_thread`, and the rest of its CTA."""


class Barrier(NamedTuple):
    """One slot of an mbarrier in its current round."""

    parity: int = 0
    """Of the number of rounds that it has completed."""
    arrivals: int = 0
    announced: int = 0
    issued: int = 0
    """Bytes that the round expects, and bytes of the copies that signal it."""
    riding: int = 0
    """Events that the round completes: writes of TMA loads (bits of the generic field)."""
    carries: bool = False
    """Whether the round completes anything: loads or MMAs."""
    unobserved: bool = False
    """Whether the round before completed something, and nobody has waited for it."""


class Accumulator(NamedTuple):
    status: str = "none"
    """"none", "allocated" (nothing written yet), "written" or "freed"."""
    tile: Linear | int | None = None
    """The turn whose MMA overwrote it last."""


class Region(NamedTuple):
    """Part of a view that a store writes or a load reads, until everybody knows that it has."""

    kind: str
    """"open" (a TMA store that no group holds yet), "tma" (one of a bulk group), "issuer" (a TMA store that only the issuer has waited for), "threads" store, or "load"."""
    view: int
    start: tuple[Value, ...]
    shape: tuple[int, ...]
    event: int = 0
    """Of a load: the bit of the write that ends it."""


def aged(region: Region, counter: int) -> Region:
    """The region after the counter has gone on: what lies behind it is not told apart any more."""
    start = tuple(_aged(place, extent, counter) for place, extent in zip(region.start, region.shape, strict=True))
    return region if start == region.start else region._replace(start=start)


def _aged(place: Value, extent: int, counter: int) -> Value:
    match place:
        case Linear(base, offset, 1) if base == counter and offset + extent <= 0:
            return Past(counter)
        case Coordinate(turn=Linear(base, offset, _)) if base == counter and offset < 0:
            return place._replace(turn=Past(counter))
        case _:
            return place


class State:
    """Mutable; `clone` before a choice."""

    __slots__ = (
        "accumulators",
        "barriers",
        "bounds",
        "counters",
        "covered",
        "differences",
        "environment",
        "groups",
        "known",
        "later_commits",
        "moduli",
        "open",
        "path",
        "pc",
        "pending_loads",
        "present",
        "regions",
        "snapshots",
        "stored",
    )

    pc: int
    environment: list[Value]
    counters: list[Interval | None]
    """By counter, the values that it may have; None outside its loop."""
    moduli: list[int]
    """By counter, its residue modulo the program's modulus for it."""
    bounds: list[Interval]
    differences: dict[tuple[int, int, int], Difference]
    """By (bound, counter, scale)."""
    known: list[int]
    """Of the two agents, then of each barrier slot: the round that is pending, and the last that is complete."""
    snapshots: list[int]
    """What each agent knew at its last `fence after_thread_sync`: what its tensor-core operations come after."""
    present: int
    """Events that have happened (bits of the generic field)."""
    barriers: list[Barrier]
    accumulators: list[Accumulator]
    later_commits: list[int]
    """By barrier slot, the commits that came after its last one, as far as waits ask."""
    pending_loads: tuple[int, ...]
    """Register tiles that `tmem.wait_ld` has to complete."""
    open: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...]
    """Read events of the TMA stores of the open bulk group, and of the committed groups, oldest first."""
    regions: frozenset[Region]
    stored: Linear | int | Past
    """The last turn whose tile was stored; -1 before the first."""
    covered: frozenset[tuple[tuple[int, ...], tuple[int, ...]]]
    """Parts of that tile that have been stored: offsets and extents."""
    path: dict[int, int]
    """By counter, its value along the path that first led here, and by bound (as ~bound) one that this path takes."""

    def clone(self) -> State:
        other = State.__new__(State)
        other.pc = self.pc
        other.environment = self.environment.copy()
        other.counters = self.counters.copy()
        other.moduli = self.moduli.copy()
        other.bounds = self.bounds.copy()
        other.differences = self.differences.copy()
        other.known = self.known.copy()
        other.snapshots = self.snapshots.copy()
        other.present = self.present
        other.barriers = self.barriers.copy()
        other.accumulators = self.accumulators.copy()
        other.later_commits = self.later_commits
        other.pending_loads = self.pending_loads
        other.open = self.open
        other.groups = self.groups
        other.regions = self.regions
        other.stored = self.stored
        other.covered = self.covered
        other.path = self.path.copy()
        return other

    def forget(self, events: int, everywhere: int) -> None:
        """Events that a later one stands for: `events` in the generic field, `everywhere` in all three."""
        if self.present & events:
            self.present &= ~events
            keep = ~everywhere
            self.known = [known & keep for known in self.known]
            self.snapshots = [known & keep for known in self.snapshots]

    def age(self, event: int) -> None:
        """A new round of a barrier is over: what was known of its last round is known of the one before it."""
        older = event << 1
        keep = ~(event | older)
        self.present = self.present & keep | (self.present & event) << 1
        self.known = [known & keep | (known & event) << 1 for known in self.known]
