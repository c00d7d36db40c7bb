"""Python's garbage collector while a kernel is compiled.

A compilation makes a hundred thousand objects that live as long as it does. Each time their number has grown by a quarter the
collector looks at all of them, and at all that the process has besides (torch alone is half a million), and finds nothing: a
fifth of the time to the first result.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Generator
from contextlib import contextmanager

_SELDOM = (200_000, 50, 1000)
"""Thresholds of `gc.set_threshold`: new objects before a look at those, and what of it goes on to older ones. Rubbish in cycles
stays bounded, at some 20 to 40 MB, however long a compilation takes."""
_MOST_UNSEEN = 400_000
"""Objects of several compilations that the collector has not seen; then it looks at all there are. Those of ten kernels."""
_lock = threading.RLock()
_inside = 0
_before = gc.get_threshold()
_portions_before = 0
_unseen = 0


@contextmanager
def seldom_collecting() -> Generator[None]:
    """Let the collector look seldom while the enclosed code runs; of several at a time the last one puts it back."""
    global _inside, _before, _portions_before
    with _lock:
        if _inside == 0:
            _before = gc.get_threshold()
            _portions_before = gc.get_count()[1]
            # A threshold of 0 is how some turn it off.
            if _before[0]:
                gc.set_threshold(*(max(pair) for pair in zip(_before, _SELDOM, strict=True)))
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                _call_old()
                gc.set_threshold(*_before)


def _call_old() -> None:
    """Put all objects among the old ones, where a full collection finds what of it is rubbish.

    Without that the first new object after a compilation would wait until the collector has seen all that were made in it. No
    full collection comes of itself for objects that became old in this way.
    """
    global _unseen
    new, portions, _ = gc.get_count()
    _unseen += new + max(0, portions - _portions_before) * gc.get_threshold()[0]
    if _unseen >= _MOST_UNSEEN and gc.isenabled():
        gc.collect()
        _unseen = 0
    elif not gc.get_freeze_count():  # what others have frozen stays so
        gc.freeze()
        gc.unfreeze()


def _alone() -> None:
    """In a forked process no other thread is inside."""
    global _lock, _inside
    _lock = threading.RLock()
    if _inside:
        _inside = 0
        gc.set_threshold(*_before)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_alone)
