"""What a CTA holds while it runs: views, shared tiles, accumulators, and barriers that keep count.

Asynchronous operations take effect at issue, but are remembered as `InFlight` until something that completes them has
been waited for. Using what is in flight is an error, though the numbers are there already.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.ir import Operation

from tilec.backend.reference.numerics import Array
from tilec.diagnostics import fail
from tilec.dialects.tile import ViewType


@dataclass
class View:
    """A tensor argument: the caller's array, with whatever strides it has."""

    name: str
    type: ViewType
    array: Array


@dataclass(eq=False)
class InFlight:
    """An asynchronous operation that nobody has seen complete yet."""

    op: Operation
    what: str
    landed: bool = False


@dataclass
class SharedTile:
    """A tile in shared memory, by its logical indices: a layout does not change what a program means."""

    name: str
    values: Array
    load: InFlight | None = None
    readers: list[InFlight] = field(default_factory=list[InFlight])

    def check_read(self, op: Operation) -> None:
        if self.load is not None and not self.load.landed:
            fail(op, f"{self.name} is read before {self.load.what} was waited for")

    def check_write(self, op: Operation) -> None:
        for flight in (*([self.load] if self.load else []), *self.readers):
            if not flight.landed:
                fail(op, f"{self.name} is overwritten before {flight.what} was waited for")
        self.readers.clear()


class Ring(list[SharedTile]):
    """The shared tiles of the stages."""


@dataclass
class TensorCore:
    """Accumulator memory of one `tile.alloc`: the MMAs that write it, and whether it was given back."""

    writers: list[InFlight] = field(default_factory=list[InFlight])
    freed: bool = False


@dataclass
class Accumulator:
    """An accumulator or a slice of one: `values` of a slice is a NumPy view of the whole."""

    name: str
    values: Array
    memory: TensorCore

    def check_use(self, op: Operation) -> None:
        if self.memory.freed:
            fail(op, f"{self.name} was freed")

    def check_read(self, op: Operation) -> None:
        self.check_use(op)
        for flight in self.memory.writers:
            if not flight.landed:
                fail(op, f"{self.name} is read before {flight.what} was waited for")
        self.memory.writers.clear()


@dataclass
class Mbarrier:
    """One mbarrier object. Rounds count from 0; one is complete when its arrivals are in and its bytes written."""

    name: str
    count: int
    rounds: int = 0
    arrivals: int = 0
    announced: int = 0
    written: int = 0
    riding: list[InFlight] = field(default_factory=list[InFlight])
    """What the current round completes."""
    arrived: list[InFlight] = field(default_factory=list[InFlight])
    """What earlier rounds have completed, not waited for yet."""

    @property
    def round(self) -> str:
        return f"round {self.rounds} of {self.name} (parity {self.rounds & 1})"

    def arrive(self, op: Operation, *, announce: int = 0) -> None:
        if self.arrivals == self.count:
            fail(op, f"an arrival too many: {self.round} has all {self.count}, and {self._bytes()}")
        self.arrivals += 1
        self.announced += announce
        self._advance(op)

    def write(self, op: Operation, size: int) -> None:
        """Bytes of a copy are there."""
        self.written += size
        self._advance(op)

    def wait(self, op: Operation, parity: int) -> None:
        """Block until the round of that parity is complete. Before round 0, parity 1 reads as complete."""
        if self.rounds & 1 == parity:
            fail(
                op,
                f"this wait never ends: {self.name} is asked for parity {parity} and has completed {self.rounds} "
                f"rounds; {self.round} has {self.arrivals} of {self.count} arrivals, and {self._bytes()}",
            )
        for flight in self.arrived:
            flight.landed = True
        self.arrived.clear()

    def _bytes(self) -> str:
        return f"{self.written} of {self.announced} announced bytes"

    def _advance(self, op: Operation) -> None:
        if self.arrivals < self.count:
            return
        if self.written > self.announced:
            fail(op, f"the byte budget does not match: {self.round} has got {self._bytes()}")
        if self.written == self.announced:
            self.arrived += self.riding
            self.riding.clear()
            self.rounds += 1
            self.arrivals = self.announced = self.written = 0


class Barriers(list[Mbarrier]):
    """The mbarriers of the stages."""


@dataclass
class BulkGroups:
    """TMA stores of the issuing thread: those of the open group, and the committed groups, oldest first."""

    open: list[InFlight] = field(default_factory=list[InFlight])
    committed: list[list[InFlight]] = field(default_factory=list[list[InFlight]])

    def commit(self) -> None:
        self.committed.append(self.open)
        self.open = []

    def wait(self, pending: int) -> None:
        while len(self.committed) > pending:
            for store in self.committed.pop(0):
                store.landed = True
