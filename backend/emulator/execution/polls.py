"""What threads polled last without success: in a deadlock, a loop that polls can say so what it waits for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tilec.backend.emulator.execution.cta import Cta
    from tilec.backend.emulator.execution.lanes import Lanes, Wait
    from tilec.backend.emulator.ptx.syntax import Instruction


class Poll(NamedTuple):
    """An instruction that answered that something has not happened, what that is, and what may help."""

    instruction: Instruction
    describe: Callable[[], str]
    hint: Callable[[], str | None]


class Polls:
    """The polls of a CTA, by the first of the threads that made them together."""

    def __init__(self, cta: Cta) -> None:
        self._last: dict[int, Poll] = {}

    def at_exit(self) -> None:
        """Nothing is left behind."""

    def failed(self, lanes: Lanes, wait: Wait) -> None:
        """Threads have found that a wait of theirs has not ended."""
        self._last[int(lanes.threads[0])] = Poll(lanes.instruction, wait.describe, wait.hint)

    def of(self, threads: NDArray[np.intp]) -> list[Poll]:
        """The polls that some of these threads made."""
        return [poll for first, poll in self._last.items() if first in threads]
