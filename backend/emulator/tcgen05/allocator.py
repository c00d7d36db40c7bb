"""Allocation of tensor memory by a CTA, or by the two CTAs of a pair together (PTX 9.7.16.5, 9.7.16.7)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tilec.backend.emulator.faults import FaultKind, Place, fail
from tilec.backend.emulator.tcgen05.tensor_memory import TensorMemory

if TYPE_CHECKING:
    from tilec.backend.emulator.execution.cta import Cluster, Cta


@dataclass(eq=False)
class Request:
    """A warp of `cta` asks for `count` columns, or gives back those at `first`. `finish` takes the first column once it is done."""

    cta: Cta
    count: int
    place: Place
    finish: Callable[[int], None] = field(default=lambda first: None)
    first: int = 0
    done: bool = False


class Allocator:
    """What the warps of a cluster have asked for, in order, by the rank of their CTA."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        ranks = range(len(cluster.ctas))
        self._allocations: list[list[Request]] = [[] for _ in ranks]
        self._deallocations: list[list[Request]] = [[] for _ in ranks]
        self._relinquished: dict[int, Place] = {}
        self._smallest: dict[int, int] = {}

    def relinquish(self, cta: Cta, place: Place) -> None:
        """The CTA gives up its right to allocate."""
        self._relinquished.setdefault(cta.rank, place)

    def allocate(self, request: Request, group: int) -> None:
        """Serve the request now if there is room, or later."""
        rank = request.cta.rank
        given_up = self._relinquished.get(rank)
        if given_up is not None:
            fail(
                FaultKind.TENSOR_MEMORY,
                f"tcgen05.alloc after tcgen05.relinquish_alloc_permit of line {given_up.instruction.line}",
                request.place,
            )
        if request.count > self._smallest.get(rank, request.count):
            fail(
                FaultKind.TENSOR_MEMORY,
                f"{request.count} columns of tensor memory are allocated after {self._smallest[rank]}; a CTA must not allocate more than "
                "the time before",
                request.place,
            )
        self._smallest[rank] = request.count
        self._allocations[rank].append(request)
        self._serve(rank, group)

    def deallocate(self, request: Request, group: int) -> None:
        """Free the columns, of a pair once both CTAs have asked."""
        rank = request.cta.rank
        request.cta.part(TensorMemory).check_allocation(request.first, request.count, request.place)
        self._deallocations[rank].append(request)
        heads = self._heads(self._deallocations, rank, group)
        if heads is None:
            return
        _check_same(heads, "tcgen05.dealloc")
        for head in heads:
            head.cta.part(TensorMemory).deallocate(head.first)
            self._finish(self._deallocations, head, head.first)
        self._serve(rank, group)

    def _serve(self, rank: int, group: int) -> None:
        """Allocate for requests in order, as long as all CTAs of the group ask and have room."""
        while (heads := self._heads(self._allocations, rank, group)) is not None:
            _check_same(heads, "tcgen05.alloc")
            memories = [head.cta.part(TensorMemory) for head in heads]
            first = memories[0].find_columns(heads[0].count, memories[-1].allocated)
            if first is None:
                return
            for head, memory in zip(heads, memories, strict=True):
                memory.allocate(first, head.count, head.place)
                self._finish(self._allocations, head, first)

    def _finish(self, queues: list[list[Request]], head: Request, first: int) -> None:
        queues[head.cta.rank].pop(0)
        head.done = True
        head.finish(first)
        self._cluster.machine.touch()

    @staticmethod
    def _heads(queues: list[list[Request]], rank: int, group: int) -> list[Request] | None:
        """The oldest request of each CTA of the group; None until there is one of each."""
        ranks = (rank,) if group == 1 else (rank & ~1, rank | 1)
        if any(not queues[r] for r in ranks):
            return None
        return [queues[r][0] for r in ranks]


def _check_same(heads: list[Request], what: str) -> None:
    first, last = heads[0], heads[-1]
    if (first.count, first.first) != (last.count, last.first):
        fail(
            FaultKind.TENSOR_MEMORY,
            f"{what} of a pair of CTAs differs between them: {first.count} columns in the one, {last.count} in the other",
            last.place,
        )
