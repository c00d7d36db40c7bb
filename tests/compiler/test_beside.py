"""Work in a thread beside the caller's own."""

from __future__ import annotations

import threading
from contextvars import ContextVar

import pytest

from tilec.beside import beside

_word: ContextVar[str] = ContextVar("_word", default="outside")


def _fail(message: str) -> None:
    raise ValueError(message)


def test_both_are_done_at_the_same_time() -> None:
    mine, theirs = threading.Event(), threading.Event()

    def work() -> str:
        theirs.set()
        assert mine.wait(10)
        return threading.current_thread().name

    def meanwhile() -> None:
        assert theirs.wait(10)
        mine.set()

    assert beside(work, meanwhile) == "tilec"


def test_the_work_sees_the_context_of_its_caller() -> None:
    token = _word.set("inside")
    try:
        assert beside(_word.get, lambda: None) == "inside"
    finally:
        _word.reset(token)


def test_an_error_of_the_work_comes_after_the_rest_is_done() -> None:
    done: list[str] = []
    with pytest.raises(ValueError, match="work"):
        beside(lambda: _fail("work"), lambda: done.append("rest"))
    assert done == ["rest"]


def test_an_error_of_the_caller_goes_first_and_the_work_is_over_then() -> None:
    over = threading.Event()

    def work() -> None:
        over.set()
        raise ValueError("work")

    with pytest.raises(ValueError, match="rest"):
        beside(work, lambda: _fail("rest"))
    assert over.is_set()
    assert not [thread for thread in threading.enumerate() if thread.name == "tilec"]
