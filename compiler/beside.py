"""Two things at a time: what leaves Python alone, such as LLVM and ptxas, beside what is Python."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import TypeVar

_T = TypeVar("_T")


def beside(work: Callable[[], _T], meanwhile: Callable[[], None]) -> _T:
    """What `work` gives, run in a thread of its own while the caller's does `meanwhile`.

    Returns when both are done. An error of `meanwhile` goes before one of `work`.
    """
    results: list[_T] = []
    errors: list[BaseException] = []
    context = copy_context()  # where remarks go

    def run() -> None:
        try:
            results.append(context.run(work))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="tilec")
    thread.start()
    try:
        meanwhile()
    finally:
        _finish(thread)
    if errors:
        raise errors[0]
    return results[0]


def _finish(thread: threading.Thread) -> None:
    """Wait for the end, whatever comes in between: what the thread uses is free for others only then."""
    try:
        thread.join()
    except BaseException:  # Ctrl-C
        thread.join()
        raise
