"""What the threads of a CTA do, as far as it takes time: the operations of one execution, in order, without any data.

A `Step` belongs to a flow: all threads of the CTA, or those of one role. Control flow and arithmetic are gone; what is left
waits, is issued to an engine, or keeps the threads busy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from xdsl.ir import Operation


class Stage(NamedTuple):
    """Of an array of mbarriers, or of a ring of shared tiles; a tile alone is stage 0 of itself."""

    name: str
    number: int

    def __str__(self) -> str:
        return f"{self.name}[{self.number}]"


@dataclass(frozen=True, slots=True)
class Step:
    """`tile` counts the CTA's output tiles, `iteration` is that of the innermost loop around the operation."""

    op: Operation
    lines: tuple[int, ...]
    """Of the program: one, or none where the operation has no location."""
    tile: int
    iteration: int | None


@dataclass(frozen=True, slots=True)
class Expect(Step):
    """Announce bytes to the barrier, and arrive."""

    barrier: Stage
    bytes: int


@dataclass(frozen=True, slots=True)
class Arrive(Step):
    barrier: Stage


@dataclass(frozen=True, slots=True)
class Load(Step):
    """TMA brings a whole box, which completes as many bytes on the barrier."""

    barrier: Stage
    slot: Stage
    bytes: int
    place: str
    """``A[128, 64]``"""
    within: tuple[int, ...]
    """Of the box, the elements inside the tensor, along each dimension."""


@dataclass(frozen=True, slots=True)
class Mma(Step):
    macs: int
    useful: int
    """Of the multiply-adds those whose K lies inside the tensors."""
    reads: tuple[Stage, ...]


@dataclass(frozen=True, slots=True)
class Commit(Step):
    barrier: Stage


@dataclass(frozen=True, slots=True)
class Wait(Step):
    barrier: Stage
    parity: int


@dataclass(frozen=True, slots=True)
class Sync(Step):
    """All threads of the flow meet."""


@dataclass(frozen=True, slots=True)
class Work(Step):
    """Threads move `bytes`: from the accumulator, to or from shared memory, to or from a tensor; or compute that many."""

    kind: Literal["accumulator", "shared", "compute", "gather", "scatter"]
    bytes: int
    what: str
    within: tuple[int, ...] = ()
    """Of a tile that is gathered, as of a `Load`."""


@dataclass(frozen=True, slots=True)
class Store(Step):
    """TMA takes a shared tile to a tensor."""

    slot: Stage
    bytes: int
    place: str


@dataclass(frozen=True, slots=True)
class CommitGroup(Step):
    pass


@dataclass(frozen=True, slots=True)
class WaitGroup(Step):
    pending: int
    read: bool


@dataclass(frozen=True, slots=True)
class Iterate(Step):
    """An iteration of a loop in which tiles are loaded or multiplied."""


@dataclass(frozen=True, slots=True)
class Schedule(Step):
    """Find an output tile."""


@dataclass(frozen=True, slots=True)
class Fork(Step):
    """The flows of the roles start; this one goes on when all of them are over."""


@dataclass(frozen=True, slots=True)
class Recording:
    """One CTA. The first flow is that of all threads, the others are roles."""

    flows: tuple[tuple[Step, ...], ...]
    names: tuple[str, ...]
    """Of the flows: ``threads``, and the roles' names."""
    counts: dict[Stage, int]
    """Arrivals that complete a round."""
    tiles: int
