"""Functions that take turns: one runs at a time, until it waits for something that another one will do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import copy_context
from random import Random
from threading import Semaphore, Thread

import numpy as np


class _Stopped(BaseException):
    """Ends a function that waits, when the others have failed or wait as well."""


class _Turn:
    """One function, in a thread of its own, which runs only while it has been told to go."""

    def __init__(self, body: Callable[[], None], work: Callable[[_Turn], None]):
        self.body = body
        self.go = Semaphore(0)
        self.until: Callable[[], bool] | None = None
        """What it waits for; None before it has begun."""
        self.waits = True
        """Whether its thread waits for `go`."""
        self.over = False
        context = copy_context()
        self.thread = Thread(target=lambda: context.run(work, self), daemon=True)

    @property
    def is_ready(self) -> bool:
        return not self.over and (self.until is None or self.until())


class Coroutines:
    """Runs functions by turns, each until it waits. Deterministic: round robin, or shuffled by a random number generator."""

    def __init__(self, bodies: Sequence[Callable[[], None]], random: Random | None):
        self._turns = [_Turn(body, self._work) for body in bodies]
        self._random = random
        self._back = Semaphore(0)
        self._current = self._turns[-1]
        self._stopped = False
        self._error: BaseException | None = None

    def run(self) -> bool:
        """Run all to their end. The result says whether they have come to it, or wait for ever; what one raises is raised."""
        for turn in self._turns:
            turn.thread.start()
        try:
            while ready := [turn for turn in self._in_order() if turn.is_ready]:
                self._current = ready[0] if self._random is None else self._random.choice(ready)
                self._current.waits = False
                self._current.go.release()
                self._back.acquire()
                if self._error is not None:
                    raise self._error
            return all(turn.over for turn in self._turns)
        finally:
            self._stop()

    def wait(self, until: Callable[[], bool]) -> None:
        """Called by the one that runs: let the others go on until this holds, at least for a moment."""
        turn = self._current
        turn.until = until
        turn.waits = True
        self._back.release()
        turn.go.acquire()
        if self._stopped:
            raise _Stopped

    def gives_way(self) -> bool:
        """Whether the one that runs lets others go first though it need not."""
        return self._random is not None and self._random.random() < 0.5

    def _in_order(self) -> list[_Turn]:
        """All, the one that ran last at the end."""
        after = self._turns.index(self._current) + 1
        return self._turns[after:] + self._turns[:after]

    def _work(self, turn: _Turn) -> None:
        turn.go.acquire()
        try:
            if not self._stopped:
                with np.errstate(all="ignore"):  # NumPy keeps this by thread
                    turn.body()
        except _Stopped:
            pass
        except BaseException as error:
            self._error = error
        turn.over = True
        self._back.release()

    def _stop(self) -> None:
        """End the threads. One that an interrupt has caught at work ends at its next wait."""
        self._stopped = True
        waiting = [turn for turn in self._turns if turn.waits and not turn.over]
        for turn in self._turns:
            turn.go.release()
        for turn in waiting:
            turn.thread.join()
