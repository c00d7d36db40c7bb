"""In which order threads and engines go on. Every order is one that hardware may take; a right program is right in all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING, Protocol

from tilec.backend.emulator.execution.engines import AsyncWork
from tilec.backend.emulator.execution.group import Group

if TYPE_CHECKING:
    from tilec.backend.emulator.execution.cta import Cta

Choice = tuple[Group, int] | AsyncWork
"""A group and how many instructions it may execute, or work of an engine."""


class Order(Protocol):
    """`across_warps`: threads of several warps at one place are one group. `resident`: how many clusters are started at a time
    while those that run can go on. `gives_up`: a `try_wait` may fail although its time is not over."""

    across_warps: bool
    resident: int

    def choose(self, runnable: Sequence[Group], works: Sequence[AsyncWork]) -> Choice:
        """One of the groups and works, of which there is at least one."""
        ...

    def start_next(self, waiting: int) -> int:
        """Which of the clusters that have not started is next."""
        ...

    def gives_up(self, group: Group) -> bool:
        """Whether the `try_wait` of a group ends without success now."""
        ...

    def pieces(self, units: int) -> list[int]:
        """The pieces, at least one, in which an engine reports that `units` units of data have come."""
        ...


class Fifo:
    """Threads in lock step as far as they go, CTAs one after another, engines at once and in the order of issue."""

    across_warps = True
    resident = 1

    def __init__(self, seed: int) -> None:
        """There is one such order: the seed does not matter."""

    def choose(self, runnable: Sequence[Group], works: Sequence[AsyncWork]) -> Choice:
        if works:
            return works[0]
        group = min(runnable, key=lambda g: (g.turns, g.cta.number, *g.order))
        return group, 4096

    def start_next(self, waiting: int) -> int:
        return 0

    def gives_up(self, group: Group) -> bool:
        return False

    def pieces(self, units: int) -> list[int]:
        return [units]


class RandomOrder:
    """Warps, CTAs and engines interleaved at random, a few instructions at a time."""

    across_warps = False
    resident = 3

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def choose(self, runnable: Sequence[Group], works: Sequence[AsyncWork]) -> Choice:
        at = self._random.randrange(len(runnable) + len(works))
        if at >= len(runnable):
            return works[at - len(runnable)]
        return runnable[at], self._random.choice((1, 4, 16, 64, 256))

    def start_next(self, waiting: int) -> int:
        return self._random.randrange(waiting)

    def gives_up(self, group: Group) -> bool:
        return self._random.random() < 0.1

    def pieces(self, units: int) -> list[int]:
        return _random_pieces(self._random, units)


class Adversarial:
    """What a program that works by luck does not survive: engines finish only when no thread can go on, the latest work first;
    one warp runs as far as it gets, the last warp of the last CTA first, or with an odd seed the first of the first; with seeds 2, 3, 6, 7
    and so on, one that would have been first goes on as soon as it can. A `try_wait` fails, and waits only when it is tried again:
    without a loop around it, it does not wait."""

    across_warps = False
    resident = 2

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._pick: Callable[..., Group] = min if seed % 2 else max
        self._stays = not seed & 2
        self._last: Group | None = None
        self._gave_up: set[tuple[int, int, int]] = set()

    def choose(self, runnable: Sequence[Group], works: Sequence[AsyncWork]) -> Choice:
        if not runnable:
            return works[-1] if self._random.random() < 0.8 else self._random.choice(works)
        fresh = min(g.turns for g in runnable)
        candidates = [g for g in runnable if g.turns == fresh]
        if not self._stays or self._last not in candidates:
            self._last = self._pick(candidates, key=_lateness)
        assert self._last is not None
        return self._last, 1024

    def start_next(self, waiting: int) -> int:
        return 0 if self._pick is min else waiting - 1

    def gives_up(self, group: Group) -> bool:
        where = group.cta.number, int(group.threads[0]), group.pc
        if where not in self._gave_up:
            self._gave_up.add(where)
            return True
        if self._random.random() < 0.25:
            return True
        self._gave_up.remove(where)
        return False

    def pieces(self, units: int) -> list[int]:
        return _random_pieces(self._random, units)


def _random_pieces(random: Random, units: int) -> list[int]:
    found: list[int] = []
    while (left := units - sum(found)) > 0:
        found.append(min(left, random.choice((1, 2, 4, 8))))
    return found or [0]


def _lateness(group: Group) -> tuple[int, int, int]:
    cta: Cta = group.cta
    return cta.number, int(group.threads[0]) >> 5, group.pc


ORDERS = {"fifo": Fifo, "random": RandomOrder, "adversarial": Adversarial}
