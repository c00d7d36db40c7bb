"""A bar on stderr for work that takes more than a moment, and only where somebody watches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

DELAY = 1.0
"""Seconds of silence."""


@contextmanager
def progress(what: str) -> Generator[Callable[[int, int], None] | None]:
    """The function to call with (done, total) as the work goes on; None where stderr is no terminal."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    bar = _Bar(what)
    try:
        yield bar.update
    finally:
        bar.stop()


class _Bar:
    def __init__(self, what: str) -> None:
        self._what = what
        self._due = monotonic() + DELAY
        self._shown: tuple[Progress, TaskID] | None = None

    def update(self, done: int, total: int) -> None:
        if self._shown is None:
            if monotonic() < self._due:
                return
            self._shown = self._show(total)
        bar, task = self._shown
        bar.update(task, completed=done, total=total)

    def stop(self) -> None:
        if self._shown is not None:
            self._shown[0].stop()

    def _show(self, total: int) -> tuple[Progress, TaskID]:
        from rich.console import Console
        from rich.progress import Progress

        # Gone when the work is: what stays is the result.
        bar = Progress(console=Console(stderr=True), transient=True)
        task = bar.add_task(self._what, total=total)
        bar.start()
        return bar, task
