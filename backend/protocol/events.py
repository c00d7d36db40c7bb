"""The events of a kernel: one bit for each access and wait that may still matter, and masks of those that matter together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from xdsl.ir import SSAValue

from tilec.backend.protocol.state import ISSUER, OTHERS


class Slot(NamedTuple):
    """Bits of the events of one shared tile."""

    name: str
    writes: tuple[int, int]
    """By threads: the issuer, the others."""
    load: int
    """By a TMA load."""
    reads: tuple[int, int]
    mma: int
    """Read by an MMA."""
    store: int
    """Read by a TMA store."""

    @property
    def by_threads(self) -> int:
        return self.writes[ISSUER] | self.writes[OTHERS] | self.reads[ISSUER] | self.reads[OTHERS]

    @property
    def by_engines(self) -> int:
        return self.load | self.mma | self.store

    @property
    def written(self) -> int:
        return self.writes[ISSUER] | self.writes[OTHERS] | self.load

    @property
    def all(self) -> int:
        return self.by_threads | self.by_engines


class Memory(NamedTuple):
    """Bits of the events of one accumulator."""

    name: str
    mma: int
    reads: tuple[int, int]


class Signal(NamedTuple):
    """Bits of the events of one barrier slot, and where its clocks lie in `State.known`."""

    name: str
    arrivals: int
    """That complete a round."""
    initialised: int
    waits: tuple[int, int]
    over: int
    """The completion of its last round; the bit above is that of the round before."""
    pending: int
    complete: int
    by_commit: bool
    """Whether commits arrive on it: a wait on it brings the threads of the CTA together."""


@dataclass
class Events:
    """All of a kernel's; made once, before it runs."""

    names: list[str] = field(default_factory=list[str])
    slots: list[Slot] = field(default_factory=list[Slot])
    memories: list[Memory] = field(default_factory=list[Memory])
    signals: list[Signal] = field(default_factory=list[Signal])
    first: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    """By allocation or initialisation, the number of its first slot, memory or signal."""
    tensor_core: int = 0
    """All events of MMAs."""
    waits: int = 0
    rounds: int = 0
    """Completions."""
    accumulator_reads: tuple[int, int] = (0, 0)
    thread_accesses: tuple[int, int] = (0, 0)
    engine_reads: int = 0
    """Reads of shared tiles by MMAs and TMA stores."""
    thread_reads: int = 0

    def _event(self, name: str) -> int:
        self.names.append(name)
        return 1 << (len(self.names) - 1)

    @property
    def width(self) -> int:
        """Bits of one field of what an observer knows."""
        return len(self.names)

    def everywhere(self, events: int) -> int:
        """The bits in all three fields."""
        return events | events << self.width | events << 2 * self.width

    def describe(self, events: int) -> str:
        """The first of some events, in words."""
        return next((name for place, name in enumerate(self.names) if events >> place & 1), "an earlier access")

    def add_slots(self, value: SSAValue, names: Sequence[str]) -> None:
        self.first[value] = len(self.slots)
        for name in names:
            slot = Slot(
                name,
                (self._event(f"the write of {name} by threads"), self._event(f"the write of {name} by threads")),
                self._event(f"the TMA load of {name}"),
                (self._event(f"the read of {name} by threads"), self._event(f"the read of {name} by threads")),
                self._event(f"the MMA that reads {name}"),
                self._event(f"the TMA store that reads {name}"),
            )
            self.slots.append(slot)
            self.tensor_core |= slot.mma
            self.engine_reads |= slot.mma | slot.store
            self.thread_reads |= slot.reads[ISSUER] | slot.reads[OTHERS]
            self._add_thread_accesses(slot.writes, slot.reads)

    def add_accumulator(self, value: SSAValue, name: str) -> None:
        self.first[value] = len(self.memories)
        memory = Memory(
            name,
            self._event(f"the MMA that writes {name}"),
            (self._event(f"the read of {name}"), self._event(f"the read of {name}")),
        )
        self.memories.append(memory)
        self.tensor_core |= memory.mma
        self.accumulator_reads = (
            self.accumulator_reads[0] | memory.reads[0],
            self.accumulator_reads[1] | memory.reads[1],
        )

    def add_signals(self, value: SSAValue, names: Sequence[str], count: int, by_commit: bool) -> None:
        self.first[value] = len(self.signals)
        initialised = self._event(f"the initialisation of {names[0].partition('[')[0]}")
        for name in names:
            waits = self._event(f"a wait on {name}"), self._event(f"a wait on {name}")
            over, _ = self._event(f"a round of {name}"), self._event(f"the round before of {name}")
            at = 2 + 2 * len(self.signals)
            self.signals.append(Signal(name, count, initialised, waits, over, at, at + 1, by_commit))
            self.waits |= waits[0] | waits[1]
            self.rounds |= over | over << 1

    def _add_thread_accesses(self, *pairs: tuple[int, int]) -> None:
        issuer, others = self.thread_accesses
        for pair in pairs:
            issuer, others = issuer | pair[ISSUER], others | pair[OTHERS]
        self.thread_accesses = issuer, others
