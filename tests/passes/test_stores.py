"""The staging slots of an epilogue, whatever the numbers of chunks and slots, tile after tile."""

from __future__ import annotations

import pytest

from tilec.passes.stores import groups_since


@pytest.mark.parametrize("slots", [1, 2, 3, 4])
@pytest.mark.parametrize("chunks", range(1, 10))
def test_waits_are_exact(chunks: int, slots: int) -> None:
    """The wait before a slot is written completes its last store, and no later one."""
    if slots > chunks:
        slots = chunks
    committed: list[int] = []  # the slot that each group has read, oldest first
    for tile in range(3):
        for chunk in range(chunks):
            slot = chunk % slots
            pending = groups_since(chunk, chunks, slots)
            if tile or chunk >= slots:
                last = max(group for group, used in enumerate(committed) if used == slot)
                assert pending == len(committed) - 1 - last
            committed.append(slot)
