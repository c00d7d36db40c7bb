"""The threads that execute one instruction together, and what an instruction can answer with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

import numpy as np
from numpy.typing import NDArray

from tilec.backend.emulator.faults import FaultKind, Place, fail

if TYPE_CHECKING:
    from tilec.backend.emulator.execution.cta import Cta
    from tilec.backend.emulator.execution.machine import Machine
    from tilec.backend.emulator.ptx.syntax import Instruction

Index = slice | NDArray[np.intp]
"""Threads of a CTA: positions in its per-thread arrays, ascending. A slice where they are neighbours."""


class Lanes:
    """Threads of one CTA that execute `instruction` now: those of the group for which the guard holds.

    They may belong to several warps. `index` selects their rows in every per-thread array of the CTA.
    """

    __slots__ = ("_threads", "count", "cta", "index", "instruction")

    def __init__(self, cta: Cta, index: Index, count: int, instruction: Instruction) -> None:
        self.cta = cta
        self.index = index
        self.count = count
        self.instruction = instruction
        self._threads: NDArray[np.intp] | None = None

    @property
    def machine(self) -> Machine:
        return self.cta.machine

    @property
    def threads(self) -> NDArray[np.intp]:
        """Linear thread numbers in the CTA, shape (lanes,)."""
        if self._threads is None:
            self._threads = self.cta.everyone[self.index]
        return self._threads

    @property
    def warps(self) -> NDArray[np.intp]:
        """The warps that these threads are of, ascending, each once."""
        return np.unique(self.threads >> 5)

    def whole_warps(self) -> bool:
        """Whether the threads are all 32 of each of their warps."""
        return self.count % 32 == 0 and len(self.warps) * 32 == self.count

    def only(self, positions: NDArray[np.intp]) -> Lanes:
        """Those of the threads that are at these positions."""
        return Lanes(self.cta, self.threads[positions], len(positions), self.instruction)

    def place(self, lane: int | None = None) -> Place:
        """Where this happens; `lane` is a position in `threads`, not a thread number. None where no one thread is meant."""
        thread = None if lane is None else self.cta.thread_index(int(self.threads[lane]))
        machine = self.machine
        return Place(machine.file, machine.kernel, self.cta.index, thread, self.instruction)

    def fault(self, kind: FaultKind, message: str, lane: int | None = 0, hint: str | None = None) -> NoReturn:
        fail(kind, message, self.place(lane), hint)


@dataclass(slots=True)
class Wait:
    """What an instruction answers that cannot go on yet: its threads are parked at it.

    Once `ready` holds, `then` is run (it writes results) and the threads go on *behind* the instruction; it is not executed
    again. `describe` says what is waited for, and `hint` what may help, for the report of a deadlock. With `may_give_up` the hardware may end the wait
    without success at any time (`try_wait`): then `then` is run although `ready` does not hold. `ready` is asked again
    whenever `Machine.touch` has been called since.
    """

    ready: Callable[[], bool]
    describe: Callable[[], str]
    then: Callable[[], None] | None = None
    may_give_up: bool = False
    hint: Callable[[], str | None] = lambda: None


@dataclass(slots=True)
class Part:
    """Of lanes that wait for different things: `lanes` (positions in `Lanes.threads`) wait for `wait`, or go on if it is None."""

    lanes: NDArray[np.intp]
    wait: Wait | None


Answer = Wait | list[Part] | None
Execute = Callable[[Lanes], Answer]
"""Executes an instruction for some threads. None: they go on behind it."""
