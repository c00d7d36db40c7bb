"""The garbage collector looks seldom during a compilation, and as before after it."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Generator

import pytest

from tilec.collector import seldom_collecting


@pytest.fixture(autouse=True)
def thresholds() -> Generator[None]:
    """Ordinary ones, whatever tests before have set."""
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


class _Cycle:
    def __init__(self) -> None:
        self.me = self


def test_it_is_put_back() -> None:
    with seldom_collecting():
        assert gc.get_threshold() == (200_000, 50, 1000)
        with seldom_collecting():
            assert gc.get_threshold() == (200_000, 50, 1000)
        assert gc.get_threshold() == (200_000, 50, 1000)
    assert gc.get_threshold() == (700, 10, 10)


def test_it_is_put_back_after_an_error() -> None:
    with pytest.raises(ValueError, match="slip"), seldom_collecting():
        raise ValueError("slip")
    assert gc.get_threshold() == (700, 10, 10)


def test_the_last_of_several_threads_puts_it_back() -> None:
    entered, leave = threading.Event(), threading.Event()

    def other() -> None:
        with seldom_collecting():
            entered.set()
            leave.wait(10)

    with seldom_collecting():
        thread = threading.Thread(target=other)
        thread.start()
        assert entered.wait(10)
    assert gc.get_threshold() == (200_000, 50, 1000)
    leave.set()
    thread.join()
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.parametrize("own", [(0, 10, 10), (300_000, 60, 2000)])
def test_who_collects_less_still_does(own: tuple[int, int, int]) -> None:
    gc.set_threshold(*own)
    with seldom_collecting():
        assert gc.get_threshold() == own
    assert gc.get_threshold() == own


def test_no_collection_waits_for_the_end() -> None:
    """Objects that a compilation leaves behind are not looked at again at once."""
    gc.collect()
    with seldom_collecting():
        kept = [[i] for i in range(50_000)]
    young, _, _ = gc.get_count()
    assert young < 700
    assert len(kept) == 50_000


def test_what_was_before_does_not_count() -> None:
    """Portions that the collector has seen before a compilation are small ones, and no reason to look at all there is."""
    gc.collect()
    kept = [[i] for i in range(3_000)]
    assert gc.get_count()[1] > 1
    with seldom_collecting():
        found: list[str] = []
        gc.callbacks.append(lambda phase, info: found.append(phase) if info["generation"] == 2 else None)
    gc.callbacks.pop()
    assert found == []
    assert len(kept) == 3_000


def test_rubbish_is_found_later() -> None:
    with seldom_collecting():
        gone = weakref.ref(_Cycle())
    gc.collect()
    assert gone() is None


def test_rubbish_of_many_compilations_is_found_at_the_end_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    gc.collect()
    with seldom_collecting():
        gone = weakref.ref(_Cycle())
        kept = [[i] for i in range(2000)]
    assert gone() is not None
    monkeypatch.setattr("tilec.collector._MOST_UNSEEN", 1000)
    with seldom_collecting():
        pass
    assert gone() is None
    assert len(kept) == 2000


def test_what_others_have_frozen_stays_frozen() -> None:
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        with seldom_collecting():
            pass
        assert gc.get_freeze_count() == frozen
    finally:
        gc.unfreeze()
