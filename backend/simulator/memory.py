"""Storage of a CTA with its last accesses, which every conflicting one must come after."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from xdsl.ir import Operation

from tilec.backend.reference.numerics import Array
from tilec.backend.simulator.barriers import Slot
from tilec.backend.simulator.history import History, new_history

AccessKind = Literal["threads", "load", "mma", "store"]
"""Who: threads, a TMA load, an MMA, a TMA store."""


@dataclass(frozen=True, slots=True)
class Access:
    """One access. `time`: of threads the CTA's counter, of a load its round + 1, of an MMA its number, of a TMA store its
    group; all count from 1."""

    kind: AccessKind
    time: int
    op: Operation
    at: int
    """The CTA's counter."""
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
    reads: dict[tuple[AccessKind, tuple[int, ...]], Access] = field(
        default_factory=dict[tuple[AccessKind, tuple[int, ...]], Access]
    )
    """Since the last write, by who."""
    history: History = field(default_factory=new_history)

    def was_written(self, access: Access) -> None:
        self.write = access
        self.reads.clear()

    def was_read(self, access: Access) -> None:
        self.reads[access.kind, access.agents] = access


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
    read: Access | None = None

    def split(self, at: int) -> tuple[Columns, Columns]:
        return (
            Columns(self.start, at, self.mma, self.turn, self.read),
            Columns(at, self.end, self.mma, self.turn, self.read),
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
    """TMA stores of the issuing thread. Groups count from 1."""

    committed: int = 0
    last: tuple[int, Operation] | None = None
    """The last store, and its group."""
