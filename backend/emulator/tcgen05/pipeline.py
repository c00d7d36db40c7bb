"""What threads have issued to the tensor core and not seen completed: products and copies, in order (PTX 9.7.16.6)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilec.backend.emulator.execution.engines import AsyncWork
from tilec.backend.emulator.tcgen05.tensor_memory import Access, TensorMemory

if TYPE_CHECKING:
    from tilec.backend.emulator.execution.cta import Cta
    from tilec.backend.emulator.execution.lanes import Lanes
    from tilec.backend.emulator.memory.shared import SharedMemory


@dataclass(eq=False)
class Operation:
    """A product or a copy. Until a commit that covers it completes, nobody can know that it has: shared memory that it reads may not be
    written, and `accesses` are under way."""

    work: AsyncWork
    reads: tuple[SharedMemory, ...]
    accesses: tuple[tuple[TensorMemory, Access], ...]


class Pipeline:
    """State of one CTA: for each thread, what it issued that no commit has been seen to cover."""

    def __init__(self, cta: Cta) -> None:
        self.cta = cta
        self.issued: dict[int, list[Operation]] = {}
        self._commits: dict[int, tuple[list[Operation], list[AsyncWork]]] = {}
        """Of each thread what its last commits cover, and those that have not been signalled."""

    def at_exit(self) -> None:
        """What is left still uses shared memory, which says so."""

    def add(self, thread: int, operation: Operation) -> None:
        self.issued.setdefault(thread, []).append(operation)

    def outstanding(self, thread: int) -> list[Operation]:
        return list(self.issued.get(thread, ()))

    def signals_of(self, thread: int, covered: list[Operation]) -> list[AsyncWork]:
        """Commits of the thread that cover just that and have not been signalled, for one more: all are signalled at once. Compilers
        count on it when they wait for one of them and then end the life of the mbarriers of all."""
        last = self._commits.get(thread)
        if last is None or last[0] != covered:
            last = self._commits[thread] = covered, []
        return last[1]

    def complete(self, thread: int, operations: list[Operation]) -> None:
        """A commit of the thread has covered the operations, and a thread has waited for its signal."""
        done = set(map(id, operations))
        left = self.issued.get(thread, [])
        finished = [o for o in left if id(o) in done]
        self.issued[thread] = [o for o in left if id(o) not in done]
        ended: dict[int, tuple[TensorMemory, set[Access]]] = {}
        for operation in finished:
            for shared in operation.reads:
                shared.end_read(operation.work)
            for memory, access in operation.accesses:
                ended.setdefault(id(memory), (memory, set()))[1].add(access)
        for memory, accesses in ended.values():
            memory.end(accesses)


def pair_of(lanes: Lanes, group: int) -> list[Cta]:
    """The CTAs that work together, of a pair the one of even rank first; faults if the peer is not there (9.7.16.5)."""
    cta = lanes.cta
    if group == 1:
        return [cta]
    cta.cluster.shared_of(lanes, cta.rank ^ 1)
    return [cta.cluster.ctas[cta.rank & ~1], cta.cluster.ctas[cta.rank | 1]]


def queue_of(cta: Cta, group: int) -> Hashable:
    """The queue of the tensor core that works for a CTA, or for its pair."""
    return "tcgen05", cta.cluster.number, cta.rank if group == 1 else cta.rank & ~1


def once(action: Callable[[], None]) -> Generator[None]:
    """Steps of a work that does one thing."""
    action()
    return
    yield
