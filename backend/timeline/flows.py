"""What a replay keeps of a CTA: its flows and its mbarriers."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from tilec.backend.timeline.drafts import AT_FIRST, Draft
from tilec.backend.timeline.steps import Recording, Stage, Step


@dataclass(slots=True)
class Mbarrier:
    """Rounds of one mbarrier: what has come of the current one, and when and by what those before were completed."""

    count: int
    arrived: int = 0
    owed: int = 0
    latest: float = 0.0
    source: int | None = None
    times: list[float] = field(default_factory=list[float])
    sources: list[int | None] = field(default_factory=list[int | None])
    waiting: list[Flow] = field(default_factory=list["Flow"])
    load: int | None = None
    """The span of the loads of the current round."""

    def take(self, time: float, source: int | None, arrivals: int = 0, bytes: int = 0) -> bool:
        """Arrivals, and bytes announced (positive) or there (negative). Whether that completes the round."""
        self.arrived += arrivals
        self.owed += bytes
        if time >= self.latest:
            self.latest, self.source = time, source
        if self.arrived < self.count or self.owed:
            return False
        self.times.append(self.latest)
        self.sources.append(self.source)
        self.arrived, self.latest, self.source, self.load = 0, 0.0, None, None
        return True


@dataclass(eq=False, slots=True)
class Flow:
    """Threads that go one way."""

    cta: Cta
    lane: str
    todo: Sequence[Step]
    time: float
    at: int = 0
    after: Stage | str = AT_FIRST
    """What it waited for last."""
    work: Draft | None = None
    """Work of the threads that goes on."""
    last_mma: int | None = None
    """The span of the MMA that it issued last, and when that ends."""
    mma_end: float = 0.0
    groups: deque[tuple[float, float, int]] = field(default_factory=deque[tuple[float, float, int]])
    """Of the stores that its one issuing thread has committed: when they are read, when written, and a span."""
    open_group: list[tuple[float, float, int]] = field(default_factory=list[tuple[float, float, int]])


@dataclass(eq=False, slots=True)
class Cta:
    recording: Recording
    number: int
    place: int
    """Which of the CTAs that the multiprocessor holds at a time."""
    barriers: dict[Stage, Mbarrier]
    roles: int = 0
    """That are not over."""
    filled: dict[Stage, int] = field(default_factory=dict[Stage, int])
    """The loads that a slot holds."""
