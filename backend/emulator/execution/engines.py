"""Work that goes on beside the threads: TMA, tensor cores, and other asynchronous copies.

An instruction submits an `AsyncWork`; the scheduler advances it, in an order of its choosing, one `yield` at a time. Works of
one queue are advanced in their order, the next only after the one before has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable
from typing import TYPE_CHECKING, NoReturn

from tilec.backend.emulator.faults import FaultKind, Place, fail

if TYPE_CHECKING:
    from tilec.backend.emulator.execution.cta import Cta
    from tilec.backend.emulator.synchronisation.mbarrier import MBarrier


class AsyncWork:
    """One asynchronous operation.

    `steps` yields between the steps that others may see apart (for a TMA store: shared memory has been read; global memory has
    been written). `place` is the issuing instruction, for faults that show later. `queue` names the engine that keeps order,
    None for work that may end in any order. `cta` issued it.
    """

    __slots__ = ("barriers", "cta", "done", "name", "on_done", "place", "queue", "steps")

    def __init__(
        self,
        name: str,
        cta: Cta,
        place: Place,
        steps: Generator[None],
        queue: Hashable | None = None,
        on_done: Callable[[], None] | None = None,
    ) -> None:
        self.name = name
        self.cta = cta
        self.place = place
        self.steps = steps
        self.queue = queue
        self.on_done = on_done
        self.done = False
        self.barriers: list[MBarrier] = []
        """Those on which it tells that it is done."""

    def advance(self) -> None:
        """Run the next step; `done` after the last."""
        try:
            next(self.steps)
        except StopIteration:
            self.done = True
            if self.on_done is not None:
                self.on_done()

    def fault(self, kind: FaultKind, message: str, hint: str | None = None) -> NoReturn:
        fail(kind, message, self.place, hint)


class Engines:
    """All asynchronous work of a launch that has not ended."""

    def __init__(self) -> None:
        self._free: list[AsyncWork] = []
        self._queues: dict[Hashable, list[AsyncWork]] = {}

    def __len__(self) -> int:
        return len(self._free) + sum(len(q) for q in self._queues.values())

    def submit(self, work: AsyncWork) -> None:
        if work.queue is None:
            self._free.append(work)
        else:
            self._queues.setdefault(work.queue, []).append(work)

    def heads(self) -> list[AsyncWork]:
        """What can be advanced now: unordered work, oldest first, then the head of each queue."""
        return [*self._free, *(q[0] for q in self._queues.values())]

    def advance(self, work: AsyncWork) -> None:
        work.advance()
        if not work.done:
            return
        if work.queue is None:
            self._free.remove(work)
            return
        queue = self._queues[work.queue]
        queue.pop(0)
        if not queue:
            del self._queues[work.queue]

    def of(self, cta: Cta) -> list[AsyncWork]:
        """What a CTA has issued and has not ended."""
        return [w for w in (*self._free, *(w for q in self._queues.values() for w in q)) if w.cta is cta]
