"""Segments, windows of the address space, and the resolution of addresses."""

from __future__ import annotations

import numpy as np
import pytest

from tilec.backend.emulator.memory.address_space import FIRST_GLOBAL_WINDOW, WIDEST, GlobalMemory, Segment


def test_each_array_has_windows_of_its_own() -> None:
    memory = GlobalMemory()
    first, second = memory.allocate("first", 100), memory.allocate("second", 0)
    assert first.address >> 32 == FIRST_GLOBAL_WINDOW
    assert second.address >> 32 > first.address >> 32
    assert memory.window(first.address >> 32) is first
    assert [s.name for s in memory] == ["first", "second"]


@pytest.mark.parametrize(
    ("address", "size", "expected"),
    [(0, 100, 0), (96, 4, 96), (97, 4, None), (-1, 1, None), (100, 1, None), (100, 0, 100)],
)
def test_find(address: int, size: int, expected: int | None) -> None:
    memory = GlobalMemory()
    segment = memory.allocate("array", 100)
    found = memory.find(segment.address + address, size)
    assert found == (None if expected is None else (segment, expected))


def test_constant_memory_is_read_only() -> None:
    memory = GlobalMemory()
    assert not memory.allocate("c", 4, constant=True).writable
    assert memory.allocate("g", 4).writable
    assert not memory.allocate("frozen", 4, writable=False).writable


@pytest.mark.parametrize("size", [0, 1, 31, 32, 33])
def test_segments_are_padded_to_whole_accesses(size: int) -> None:
    segment = Segment("s", size)
    assert segment.size == size
    assert len(segment.data) % WIDEST == 0 and 0 <= len(segment.data) - size < WIDEST


def test_views_and_rows_are_of_the_same_bytes() -> None:
    segment = Segment("s", 64)
    segment.view(np.dtype(np.uint32))[:] = np.arange(16)
    rows = segment.rows(np.dtype(np.uint32), 4)
    assert rows.tolist() == np.arange(16).reshape(4, 4).tolist()
    rows[2, 1] = 99
    assert segment.view(np.dtype(np.uint32))[9] == 99
    assert segment.rows(np.dtype(np.uint32), 4) is rows
