"""What a timed execution of a kernel shows: spans on the lanes of its engines and threads, and what waited for what.

Times are in one unit for the whole trace: cycles of the multiprocessor, or whatever the costs are given in.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

Kind = Literal["setup", "load", "mma", "wait", "copy", "epilogue", "store", "teardown"]
"""`load`: TMA brings the tiles of one stage. `copy`: threads bring a tile. `epilogue`: threads take the accumulator through
registers to shared memory or to a tensor. `store`: TMA takes a tile to a tensor. `wait`: threads wait for a barrier or a bulk
group. `setup` and `teardown`: what a CTA does before its first step and after its last."""

TMA = "TMA"
TENSOR_CORE = "tensor core"
STORE = "TMA store"


@dataclass(frozen=True, slots=True)
class Span:
    """One piece of work, or of waiting."""

    lane: str
    """`TMA`, `tensor core`, `TMA store`, or who executes: `threads`, or the name of a role."""
    kind: Kind
    issued: float
    """When the work was queued; `start` unless its engine was busy."""
    start: float
    end: float
    """When its result is there: a load's bytes have landed and a store's tile has been read."""
    cta: int
    """Which of the CTAs that share the multiprocessor, in the order in which they start."""
    tile: int
    """Which of the CTA's output tiles, from 0."""
    k: int | None
    """Which K tile of that output tile, where it belongs to one."""
    stage: int | None
    phase: int | None
    """Parity of the barrier's round that the work completes, or that the wait is for."""
    what: str
    """``a[1] <- A[0, 64], b[1] <- B[0, 64]``"""
    why: str
    """Why it started when it did."""
    lines: tuple[int, ...]
    """Of the program."""


@dataclass(frozen=True, slots=True)
class Link:
    """A wait, and the work whose end let it pass: indices into the spans."""

    source: int
    wait: int
    signal: str
    """``full[1]``"""


@dataclass(frozen=True, slots=True)
class Kpis:
    """The figures that tell one schedule from another."""

    makespan: float
    idle: float
    """The part of the makespan in which the tensor core does not compute, 0 to 1."""
    back_to_back: bool
    """Whether every MMA begins where the one before it ends."""
    loads_in_flight: int
    """The most stages whose loads are queued and have not landed."""


@dataclass(frozen=True, slots=True)
class Trace:
    """One multiprocessor, from the start of its first CTA to the end of its last."""

    spans: tuple[Span, ...]
    """In the order of their starts, lane by lane where those are equal."""
    links: tuple[Link, ...]
    lanes: tuple[str, ...]
    """In the order in which they are drawn."""
    makespan: float

    @property
    def kpis(self) -> Kpis:
        mmas = [span for span in self.spans if span.kind == "mma"]
        busy = sum(span.end - span.start for span in mmas)
        loads = [(span.issued, span.end) for span in self.spans if span.kind == "load"]
        idle = 1 - busy / self.makespan if self.makespan else 1.0
        return Kpis(self.makespan, idle, _back_to_back(mmas), _most_at_once(loads))


def _back_to_back(mmas: Sequence[Span]) -> bool:
    """Of the MMAs in their order on the engine. Gaps below a millionth of a unit are rounding."""
    return bool(mmas) and all(after.start - before.end < 1e-6 for before, after in pairwise(mmas))


def _most_at_once(intervals: Iterable[tuple[float, float]]) -> int:
    """The most intervals that overlap; one that ends where another begins does not overlap it."""
    events = sorted((time, step) for begin, end in intervals for time, step in ((begin, 1), (end, -1)))
    most = now = 0
    for _, step in events:
        now += step
        most = max(most, now)
    return most
