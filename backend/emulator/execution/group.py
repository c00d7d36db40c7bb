"""Threads of a CTA that stand at the same instruction, and go on together until a branch parts them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tilec.backend.emulator.execution.lanes import Index, Wait

if TYPE_CHECKING:
    from tilec.backend.emulator.execution.cta import Cta
    from tilec.backend.emulator.execution.program import Placed


@dataclass(frozen=True, eq=False)
class Frame:
    """A call of `callee` that has not returned, and where to go on. Threads that have made the same calls share a frame. Where the
    callee was active already, `saved` has a row of each of its registers for the values that the threads had in them."""

    caller: Frame | None
    depth: int
    return_to: int
    callee: Placed
    recursive: bool
    saved: tuple[tuple[int, NDArray[Any]], ...] = ()


def as_index(threads: NDArray[np.intp]) -> Index:
    """Threads, ascending, as the cheapest index: a slice where they are neighbours."""
    first, last = int(threads[0]), int(threads[-1])
    return slice(first, last + 1) if last - first + 1 == len(threads) else threads


class Group:
    """Threads at one place. `wait` is what they are parked on; `gathering`, that they wait for others of their warp."""

    __slots__ = (
        "asked",
        "cta",
        "frame",
        "gathering",
        "index",
        "loops",
        "pc",
        "spinning",
        "threads",
        "turns",
        "wait",
    )

    def __init__(self, cta: Cta, threads: NDArray[np.intp], pc: int, frame: Frame | None) -> None:
        self.cta = cta
        self.threads = threads
        self.index: Index = as_index(threads)
        self.pc = pc
        self.frame = frame
        self.wait: Wait | None = None
        self.gathering = False
        self.asked = -1
        """The machine's epoch when `wait.ready` was asked last."""
        self.spinning: int | None = None
        """The epoch in which the group was found to repeat itself: until something changes it can do nothing else."""
        self.loops = LoopWatch()
        self.turns = 0
        """Times that the group used up its budget while others could have gone on."""

    def frames(self) -> Iterator[Frame]:
        """The calls that have not returned, the innermost first."""
        frame = self.frame
        while frame is not None:
            yield frame
            frame = frame.caller

    @property
    def depth(self) -> int:
        return 0 if self.frame is None else self.frame.depth

    @property
    def order(self) -> tuple[int, int]:
        """Groups are run in this order, so that they meet again behind a branch: inner calls first, then by place."""
        return -self.depth, self.pc


class LoopWatch:
    """Finds out when a loop only repeats itself: the same registers at the same branch, and nothing else has changed."""

    __slots__ = ("_count", "_digest", "_epoch", "_frame", "_pc", "_target")

    def __init__(self) -> None:
        self._pc = -1
        self._target = 0
        self._epoch: int = -1
        self._frame: Frame | None = None
        self._count: int = 0
        self._digest: int | None = None

    @property
    def places(self) -> range:
        """The instructions of the loop that was closed last."""
        return range(self._target, self._pc + 1)

    def repeats(self, group: Group, target: int, epoch: int) -> bool:
        """Called at each backward branch, where the group stands, to `target`."""
        pc, self._target = group.pc, target
        # One call after another may run the same loop with the same registers: they differ in where they return to.
        if pc != self._pc or epoch != self._epoch or group.frame is not self._frame:
            self._pc, self._epoch, self._count, self._digest = pc, epoch, 0, None
            self._frame = group.frame
            return False
        self._count += 1
        if self._count < 8 or self._count % 16 > 1:
            return False
        digest = hash(tuple(r[group.index].tobytes() for r in group.cta.registers))
        if self._count % 16 == 0:
            self._digest = digest
            return False
        return digest == self._digest
