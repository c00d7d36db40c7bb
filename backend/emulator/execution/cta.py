"""CTAs and clusters: the threads, their registers, and the memories that belong to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from tilec.backend.emulator.execution.group import Frame
from tilec.backend.emulator.faults import FaultKind
from tilec.backend.emulator.memory.address_space import Segment
from tilec.backend.emulator.memory.shared import SharedMemory
from tilec.backend.emulator.numbers.types import bytes_of

if TYPE_CHECKING:
    from tilec.backend.emulator.execution.group import Group
    from tilec.backend.emulator.execution.lanes import Lanes
    from tilec.backend.emulator.execution.machine import Machine
    from tilec.backend.emulator.execution.program import Placed
    from tilec.backend.emulator.execution.steps import Step

Index3 = tuple[int, int, int]


class CtaPart(Protocol):
    """State that a family of instructions keeps for a CTA: made at its first use."""

    def __init__(self, cta: Cta) -> None: ...

    def at_exit(self) -> None:
        """Called when all threads of the CTA have exited: faults for what must not be left behind."""
        ...


class RegisterWatch(Protocol):
    """What knows of registers that asynchronous work has not written, or read, yet."""

    def check(self, lanes: Lanes, step: Step) -> None:
        """Called before each instruction executes."""
        ...


P = TypeVar("P", bound=CtaPart)


class Cta:
    """One CTA. Per-thread arrays have `padded` entries, a multiple of 32; those from `threads` on never run.

    `number` is linear in the grid, `index` its (x, y, z), `rank` its place in its cluster. `registers[slot]` is an array of
    unsigned integers (bool for predicates, (padded, 2) of uint64 for b128), by the program's numbering.
    """

    def __init__(self, machine: Machine, cluster: Cluster, rank: int, number: int) -> None:
        self.machine = machine
        self.cluster = cluster
        self.rank = rank
        self.number = number
        self.index = _unlinear(number, machine.grid)
        self.index_in_cluster = _unlinear(rank, machine.cluster)
        block = machine.block
        self.threads = block[0] * block[1] * block[2]
        self.padded = -(-self.threads // 32) * 32
        self.everyone: NDArray[np.intp] = np.arange(self.padded)
        self.tid = (
            self.everyone % block[0],
            self.everyone // block[0] % block[1],
            self.everyone // (block[0] * block[1]),
        )
        self.alive = self.everyone < self.threads
        program = machine.program
        self.shared = SharedMemory(
            machine.shared_bytes, rank, track_proxies=program.uses_async_proxy, hint=machine.shared_hint
        )
        self.activation = np.zeros(self.padded, np.int64)
        """How many functions each thread has entered while they were active already: their variables have other addresses."""
        self._activations = 1
        self.local = Segment("local memory", program.local_stride * self.padded)
        self.frames = Segment("the parameters of calls", program.frame_stride * self.padded)
        self.registers = _registers(program.registers, self.padded, machine.garbage())
        self.groups: list[Group] = []
        self.runnable: list[Group] | None = None
        """Which of them could go on when they were asked last."""
        self.asked: tuple[int, int] = (-1, -1)
        """The changes of the cluster, and the machine's epoch, then."""
        self.registers_in_flight: RegisterWatch | None = None
        """Set while asynchronous work owns registers of threads."""
        self._frames: dict[tuple[Frame | None, int, int], Frame] = {}
        self._parts: dict[type, Any] = {}

    def thread_index(self, thread: int) -> Index3:
        """(x, y, z) of a linear thread number."""
        return int(self.tid[0][thread]), int(self.tid[1][thread]), int(self.tid[2][thread])

    def part(self, kind: type[P]) -> P:
        """The state of one family of instructions."""
        found = self._parts.get(kind)
        if found is None:
            found = self._parts[kind] = kind(self)
        return found

    def frame(self, caller: Frame | None, return_to: int, callee: Placed, recursive: bool) -> Frame:
        """The frame of a call; the same for all threads that make it after the same calls."""
        key = caller, return_to, callee.start
        found = self._frames.get(key)
        if found is None:
            first = callee.first_register
            slots = range(first, first + len(callee.function.registers)) if recursive else ()
            saved = tuple((slot, np.empty_like(self.registers[slot])) for slot in slots)
            depth = 1 if caller is None else caller.depth + 1
            found = self._frames[key] = Frame(caller, depth, return_to, callee, recursive, saved)
        return found

    def activate(self, threads: NDArray[np.intp], change: int) -> None:
        """Enter (1) or leave (-1) a function that is active already; memory grows with the depth."""
        self.activation[threads] += change
        if int(self.activation.max()) < self._activations:
            return
        self._activations *= 2
        self.local, self.frames = self._grown(self.local), self._grown(self.frames)

    def _grown(self, segment: Segment) -> Segment:
        grown = Segment(segment.name, segment.size * 2)
        if segment.size:
            rows = segment.data.reshape(self.padded, -1)
            grown.data.reshape(self.padded, -1)[:, : rows.shape[1]] = rows
        return grown

    @property
    def exited(self) -> bool:
        return not self.alive.any()

    def finish(self) -> None:
        """Faults for what a CTA must not leave behind: parts decide of their own, asynchronous work on its shared memory here."""
        for part in self._parts.values():
            part.at_exit()
        if (work := self.shared.busy()) is not None:
            work.fault(
                FaultKind.LEFT_BEHIND,
                f"CTA {self.index} has exited, but {work.name} still uses its shared memory",
                "wait for its completion before the last thread exits",
            )


def _registers(types: list[str], padded: int, garbage: int) -> list[NDArray[Any]]:
    """Registers start with a pattern that no program can take for a value of its own."""
    widths = [0 if t == "pred" else bytes_of(t) for t in types]
    banks: dict[int, NDArray[Any]] = {}
    for width in set(widths):
        rows = widths.count(width)
        if width == 0:
            banks[width] = np.full((rows, padded), garbage & 1, np.bool_)
        elif width == 16:
            banks[width] = np.full((rows, padded, 2), garbage, np.uint64)
        else:
            banks[width] = np.full((rows, padded), garbage & ((1 << 8 * width) - 1), f"u{width}")
    rows_left = {width: iter(bank) for width, bank in banks.items()}
    return [next(rows_left[width]) for width in widths]


def _unlinear(number: int, extents: Index3) -> Index3:
    return number % extents[0], number // extents[0] % extents[1], number // (extents[0] * extents[1])


class Cluster:
    """CTAs that run at the same time and reach one another's shared memory. A launch without clusters has clusters of one."""

    def __init__(self, machine: Machine, number: int) -> None:
        self.machine = machine
        self.number = number
        self.index = _unlinear(number, machine.clusters)
        self.changes = 0
        """Grows whenever threads of the cluster go on, meet or are woken."""
        size = machine.cluster
        self.ctas: list[Cta] = []
        for rank in range(size[0] * size[1] * size[2]):
            inner = _unlinear(rank, size)
            x, y, z = (c * s + i for c, s, i in zip(self.index, size, inner, strict=True))
            self.ctas.append(Cta(machine, self, rank, x + machine.grid[0] * (y + machine.grid[1] * z)))
        self._parts: dict[type, Any] = {}

    def part(self, kind: type[Any]) -> Any:
        """State of one family of instructions for the whole cluster; made with the cluster at its first use."""
        found = self._parts.get(kind)
        if found is None:
            found = self._parts[kind] = kind(self)
        return found

    def shared_of(self, lanes: Lanes, rank: int) -> SharedMemory:
        """Shared memory of the CTA of `rank`. Faults if there is none, or if it has exited."""
        if rank >= len(self.ctas):
            lanes.fault(
                FaultKind.OUT_OF_BOUNDS,
                f"a shared address of the CTA of rank {rank}, but the cluster has {len(self.ctas)}",
            )
        cta = self.ctas[rank]
        if cta is not lanes.cta and cta.exited:
            lanes.fault(
                FaultKind.OUT_OF_BOUNDS,
                f"shared memory of the CTA of rank {rank}, which has exited",
                hint="end with barrier.cluster, so that no CTA exits before its peers are done with it",
            )
        return cta.shared
