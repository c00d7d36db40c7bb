"""Which writes a proxy fence covers: those of the fencing threads, and those that were released before."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tilec.backend.emulator.memory.unfenced import Unfenced, writers_of


def array(values: list[int]) -> NDArray[np.int64]:
    return np.array(values, np.int64)


def test_writers_of_a_cluster_are_told_apart() -> None:
    lanes: Any = SimpleNamespace(threads=np.array([0, 5, 1023]), cta=SimpleNamespace(rank=3))
    assert writers_of(cast(Any, lanes)).tolist() == [6144, 6149, 7167]


STEP = st.tuples(
    st.sampled_from(["write", "publish", "fence"]),
    st.lists(st.integers(0, 5), min_size=1, max_size=4, unique=True),
    st.integers(0, 7),
)


@given(st.lists(STEP, max_size=40))
def test_against_one_set_of_writers_for_each_byte(steps: list[tuple[str, list[int], int]]) -> None:
    """The model: each byte has the set of threads that wrote it since it was last covered, None for writes that were released."""
    log = Unfenced()
    model: dict[int, set[int | None]] = {}
    for kind, threads, place in steps:
        if kind == "write":
            offsets = [(place + t) * 4 for t in threads]
            log.add(array(threads), array(offsets), 4)
            for thread, offset in zip(threads, offsets, strict=True):
                for byte in range(offset, offset + 4):
                    model.setdefault(byte, set()).add(thread)
        elif kind == "publish":
            log.publish(array(threads))
            for writers in model.values():
                if writers & set(threads):
                    writers -= set(threads)
                    writers.add(None)
        else:
            covered, still = log.fence(array(threads))
            reached = {b for b, writers in model.items() if writers & {None, *threads}}
            assert set(covered.tolist()) == reached
            for writers in model.values():
                writers -= {None, *threads}
            model = {b: writers for b, writers in model.items() if writers}
            assert set(still.tolist()) == set(model)


def test_a_kernel_without_fences_does_not_grow() -> None:
    log = Unfenced()
    for at in range(5000):
        log.add(array([0, 1]), array([0, 4]), 4)
        if at % 3 == 0:
            log.publish(array([0, 1]))
    covered, still = log.fence(array([7]))
    assert set(covered.tolist()) == set(range(8))
    assert len(covered) <= 8 * 1100
    assert set(still.tolist()) <= set(range(8))
