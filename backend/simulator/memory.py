"""Storage of a CTA with its last accesses, which every conflicting one must come after."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Literal

from xdsl.ir import Operation

from tilec.backend.reference.numerics import Array
from tilec.backend.simulator.barriers import Slot
from tilec.backend.simulator.history import History, new_history
from tilec.dialects.tile.sync import MAX_PENDING

AccessKind = Literal["threads", "load", "mma", "store"]
"""Who: threads, a TMA load, an MMA, a TMA store."""


@dataclass(frozen=True, slots=True)
class Access:
    """One access. `time`: of threads the CTA's counter, of a load its round + 1, of an MMA its number, of a TMA store its
    group; all count from 1, and are numbered through the CTA."""

    kind: AccessKind
    time: int
    op: Operation
    at: int
    """The CTA's counter."""
    component: int = -1
    """Of an engine's access, the place in `Clock.g` of what says that it is done."""
    agents: tuple[int, ...] = ()
    slot: Slot | None = None
    writes: bool = False


@dataclass(eq=False)
class SharedTile:
    """A tile in shared memory, by its logical indices: a layout does not change what a program means."""

    name: str
    values: Array
    alloc: Operation
    write: Access | None = None
    reads: dict[tuple[int, tuple[int, ...]], Access] = field(default_factory=dict[tuple[int, tuple[int, ...]], Access])
    """Since the last write, by who."""
    history: History = field(default_factory=new_history)

    def was_written(self, access: Access) -> None:
        self.write = access
        self.reads.clear()

    def was_read(self, access: Access) -> None:
        self.reads[access.component, access.agents] = access


class Ring(list[SharedTile]):
    """The shared tiles of the stages."""


@dataclass(slots=True)
class Columns:
    """Neighbouring columns of an accumulator that have the same past."""

    start: int
    end: int
    mma: Access | None = None
    turn: int = -1
    """The output tile in which an MMA has overwritten them."""
    reads: dict[tuple[int, ...], Access] = field(default_factory=dict[tuple[int, ...], Access])
    """Since that MMA, by who."""

    def split(self, at: int) -> tuple[Columns, Columns]:
        return (
            Columns(self.start, at, self.mma, self.turn, self.reads),
            Columns(at, self.end, self.mma, self.turn, dict(self.reads)),
        )


@dataclass(eq=False)
class TensorMemory:
    """What one `tile.alloc` of an accumulator takes."""

    name: str
    alloc: Operation
    columns: list[Columns]
    freed: Operation | None = None
    history: History = field(default_factory=new_history)

    def range(self, start: int, end: int) -> list[Columns]:
        """The pieces that make up these columns."""
        for at in (start, end):
            for i, piece in enumerate(self.columns):
                if piece.start < at < piece.end:
                    self.columns[i : i + 1] = piece.split(at)
                    break
        return [piece for piece in self.columns if start <= piece.start and piece.end <= end]


@dataclass(eq=False)
class Accumulator:
    """An accumulator or a slice of one: `values` of a slice is a NumPy view of the whole."""

    memory: TensorMemory
    values: Array
    start: int

    @property
    def name(self) -> str:
        return self.memory.name

    @property
    def columns(self) -> list[Columns]:
        return self.memory.range(self.start, self.start + self.values.shape[1])


@dataclass(eq=False)
class Loading:
    """A register tile that `tmem.wait_ld` has not completed."""

    values: Array
    op: Operation
    time: int


@dataclass
class BulkGroups:
    """TMA stores of one issuing thread. Their groups count from 1 through the whole CTA, in the order of the first store."""

    committed: deque[int] = field(default_factory=lambda: deque(maxlen=2 * MAX_PENDING))
    """The newest groups; a wait speaks of `MAX_PENDING` at most."""
    open: int = 0
    """The group of the stores since the last commit; 0 if there are none."""
    last: tuple[int, Operation] | None = None
    """The last store, and its group."""

    def after(self, group: int) -> int:
        """Groups that were committed after this one."""
        return sum(other > group for other in self.committed)

    def done(self, pending: int) -> int:
        """The newest group that is complete when so many may be pending; 0 if there is none."""
        return self.committed[-1 - pending] if pending < len(self.committed) else 0
