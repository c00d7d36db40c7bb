"""Writes of threads through the generic proxy that no proxy fence has followed yet (PTX 8.3, 9.7.13.4).

A thread's proxy fence covers its own writes, and those of other threads that have reached it: here, all that their writers
have released.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tilec.backend.emulator.execution.lanes import Lanes
    from tilec.backend.emulator.memory.address_space import GlobalSegment

_THREADS = 2048
_WRITERS = 16 * _THREADS
_COMPACT_AT = 1024

_NONE = np.empty(0, np.int64)


def writers_of(lanes: Lanes) -> NDArray[np.int64]:
    """The numbers by which the memory of a cluster knows threads: rank of the CTA * 2048 + thread."""
    return lanes.threads + lanes.cta.rank * _THREADS


class Unfenced:
    """The writes to one memory: `width` bytes at each of some offsets."""

    def __init__(self) -> None:
        self._private: list[tuple[NDArray[np.int64], NDArray[np.int64], int]] = []
        self._published: list[tuple[NDArray[np.int64], int]] = []

    def add(self, writers: NDArray[np.int64], offsets: NDArray[np.int64], width: int) -> None:
        """Threads write, each at one offset."""
        self._private.append((writers, offsets, width))
        if len(self._private) > _COMPACT_AT:
            self._private = _compact(self._private)

    def publish(self, writers: NDArray[np.int64]) -> None:
        """Threads release what they have written."""
        if not self._private:
            return
        released = _flags(writers)
        left: list[tuple[NDArray[np.int64], NDArray[np.int64], int]] = []
        for entry in self._private:
            threads, offsets, width = entry
            covered = released[threads]
            if covered.all():
                self._published.append((offsets, width))
            elif covered.any():
                self._published.append((offsets[covered], width))
                left.append((threads[~covered], offsets[~covered], width))
            else:
                left.append(entry)
        self._private = left
        if len(self._published) > _COMPACT_AT:
            widths = sorted({width for _, width in self._published})
            self._published = [
                (np.unique(np.concatenate([o for o, w in self._published if w == width])), width) for width in widths
            ]

    def fence(self, writers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """A proxy fence of threads. Returns the bytes that it covers, and those that others have written and not released."""
        if not self._private and not self._published:
            return _NONE, _NONE
        self.publish(writers)
        covered = _bytes(self._published)
        self._published = []
        return covered, _bytes([(offsets, width) for _, offsets, width in self._private])


class UnfencedGlobal:
    """The writes of all threads to global memory. Each segment says of its bytes whether they are `unfenced`."""

    def __init__(self) -> None:
        self._logs: dict[int, dict[GlobalSegment, Unfenced]] = {}
        """By the number of the CTA, which may have exited."""

    def add(self, lanes: Lanes, segment: GlobalSegment, offsets: NDArray[np.int64], width: int) -> None:
        """Lanes write, each at one offset."""
        if segment.unfenced is None:
            segment.unfenced = np.zeros(len(segment.data), np.bool_)
        segment.unfenced.reshape(-1, width)[offsets // width] = True
        logs = self._logs.setdefault(lanes.cta.number, {})
        logs.setdefault(segment, Unfenced()).add(lanes.threads, offsets, width)

    def publish(self, lanes: Lanes) -> None:
        """Threads release what they have written."""
        for log in self._logs.get(lanes.cta.number, {}).values():
            log.publish(lanes.threads)

    def fence(self, lanes: Lanes) -> None:
        """A proxy fence of threads, for their own writes and those of all threads that were released."""
        for number, logs in list(self._logs.items()):
            for segment, log in list(logs.items()):
                covered, still = log.fence(lanes.threads if number == lanes.cta.number else _NONE)
                assert segment.unfenced is not None
                segment.unfenced[covered] = False
                segment.unfenced[still] = True
                if not len(still):
                    del logs[segment]
            if not logs:
                del self._logs[number]


def _bytes(writes: list[tuple[NDArray[np.int64], int]]) -> NDArray[np.int64]:
    return np.concatenate([_NONE, *((offsets[:, None] + np.arange(width)).ravel() for offsets, width in writes)])


def _flags(writers: NDArray[np.int64]) -> NDArray[np.bool_]:
    flags = np.zeros(_WRITERS, np.bool_)
    flags[writers] = True
    return flags


def _compact(
    writes: list[tuple[NDArray[np.int64], NDArray[np.int64], int]],
) -> list[tuple[NDArray[np.int64], NDArray[np.int64], int]]:
    """Keep the last writer of each place, so that a kernel without fences does not grow."""
    merged: list[tuple[NDArray[np.int64], NDArray[np.int64], int]] = []
    for width in sorted({entry[2] for entry in writes}):
        threads = np.concatenate([e[0] for e in writes if e[2] == width])[::-1]
        offsets = np.concatenate([e[1] for e in writes if e[2] == width])[::-1]
        places, last = np.unique(offsets, return_index=True)
        merged.append((threads[last], places, width))
    return merged
