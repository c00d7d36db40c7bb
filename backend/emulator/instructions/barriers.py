"""`bar` and `barrier` (PTX 9.7.13.1): the named barriers of a CTA."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray

from tilec.backend.emulator.execution.decode import Decoder, Reader, Together, instruction
from tilec.backend.emulator.execution.lanes import Answer, Execute, Lanes, Part, Wait
from tilec.backend.emulator.faults import FaultKind
from tilec.backend.emulator.instructions.fences import publish
from tilec.backend.emulator.ptx.syntax import Operand
from tilec.backend.emulator.synchronisation.named_barriers import BARRIERS, Episode, NamedBarriers, Purpose

Mode = Literal["sync", "arrive", "red"]
_Arrival = tuple[int, int | None, NDArray[np.intp]]


@instruction("bar", "barrier")
def barrier(d: Decoder) -> Execute | Together:
    """``sync``, ``arrive`` and ``red``. `bar` is `barrier.aligned`: whole warps execute it together."""
    d.take("cta")
    mode = cast(Mode | None, d.take("sync", "arrive", "red"))
    if mode is None:
        d.unsupported()
    aligned = d.instruction.parts[0] == "bar" or d.take("aligned") is not None
    purpose: Purpose = "sync"
    if mode == "red":
        purpose = _reduction(d)
    d.finish()
    operands = list(d.operands)
    result = operands.pop(0) if mode == "red" and operands else None
    predicate = operands.pop() if mode == "red" and operands else None
    if len(operands) != 2 and (mode == "arrive" or len(operands) != 1):
        d.unsupported("not the operands that this instruction has")
    execute = _Barrier(d, mode, purpose, operands, result, predicate, aligned=aligned)
    return Together(execute, "warp") if aligned else execute


def _reduction(d: Decoder) -> Purpose:
    operation = cast(Purpose | None, d.take("popc", "and", "or"))
    if operation is None or d.take_type() != ("u32" if operation == "popc" else "pred"):
        d.unsupported("a reduction is .popc.u32, .and.pred or .or.pred")
    return operation


class _Barrier:
    """Executes one instruction."""

    def __init__(
        self,
        d: Decoder,
        mode: Mode,
        purpose: Purpose,
        operands: list[Operand],
        result: Operand | None,
        predicate: Operand | None,
        *,
        aligned: bool,
    ) -> None:
        self.mode = mode
        self.purpose: Purpose = purpose
        self.aligned = aligned
        self.read_barrier = d.reader(operands[0], "u32")
        self.read_count: Reader | None = d.reader(operands[1], "u32") if len(operands) == 2 else None
        self.read_predicate = None if predicate is None else d.reader(predicate, "pred")
        self.write = None if result is None else d.writer(result, "u32" if purpose == "popc" else "pred")

    def __call__(self, lanes: Lanes) -> Answer:
        publish(lanes)
        parts: list[Part] = []
        waits = False
        for barrier, count, positions in self._arrivals(lanes):
            part = lanes if len(positions) == lanes.count else lanes.only(positions)
            wait = self._arrive(part, barrier, count)
            waits |= wait is not None
            parts.append(Part(positions, wait))
        if not waits:
            return None
        return parts[0].wait if len(parts) == 1 else parts

    def _arrivals(self, lanes: Lanes) -> Iterator[_Arrival]:
        """What lanes name: barriers, numbers of threads, and the positions of the lanes. More warps than still belong to a
        barrier arrive one after another: the last of them at its next use."""
        barriers = lanes.cta.part(NamedBarriers)
        for barrier, count, positions in self._uses(lanes):
            warps = lanes.threads[positions] >> 5
            several = np.unique(warps)
            if count is None or len(several) * 32 <= barriers.room(barrier, count):
                yield barrier, count, positions
            else:
                yield from ((barrier, count, positions[warps == warp]) for warp in several)

    def _uses(self, lanes: Lanes) -> Iterator[_Arrival]:
        """The barriers that lanes name, with their numbers of threads; None for all."""
        barriers = np.broadcast_to(self.read_barrier(lanes), (lanes.count,)).astype(np.int64)
        zero = np.zeros(lanes.count, np.int64)
        counts = (
            zero
            if self.read_count is None
            else np.broadcast_to(self.read_count(lanes), (lanes.count,)).astype(np.int64)
        )
        self._check(lanes, barriers, counts)
        keys = barriers << 32 | counts
        for key in np.unique(keys):
            positions = np.flatnonzero(keys == key)
            count = int(counts[positions[0]])
            yield int(barriers[positions[0]]), count or None, positions
            if len(positions) == lanes.count:
                return

    def _check(self, lanes: Lanes, barriers: np.ndarray, counts: np.ndarray) -> None:
        if (barriers >= BARRIERS).any():
            lane = int(np.argmax(barriers >= BARRIERS))
            lanes.fault(
                FaultKind.ILLEGAL, f"barrier {int(barriers[lane])}; a CTA has the barriers 0 to {BARRIERS - 1}", lane
            )
        if (counts % 32 != 0).any():
            lane = int(np.argmax(counts % 32 != 0))
            lanes.fault(
                FaultKind.ILLEGAL,
                f"barrier {int(barriers[lane])} for {int(counts[lane])} threads, which is not a multiple of 32",
                lane,
                "barriers count whole warps",
            )
        if self.mode == "arrive" and (counts == 0).any():
            lane = int(np.argmax(counts == 0))
            lanes.fault(FaultKind.ILLEGAL, f"an arrival at barrier {int(barriers[lane])} for 0 threads", lane)

    def _arrive(self, lanes: Lanes, barrier: int, count: int | None) -> Wait | None:
        cta = lanes.cta
        episode = cta.part(NamedBarriers).episode(lanes, barrier, count, self.purpose)
        held = None if self.read_predicate is None else np.broadcast_to(self.read_predicate(lanes), (lanes.count,))
        episode.arrive(lanes, held)
        if episode.completed():
            self._finish(lanes, episode)
            return None
        if self.mode == "arrive":
            return None if self.aligned else _wait_for_warps(lanes, episode)
        return Wait(episode.completed, episode.describe, lambda: self._finish(lanes, episode))

    def _finish(self, lanes: Lanes, episode: Episode) -> None:
        if self.write is not None:
            result = episode.result()
            self.write(lanes, np.array(result, np.uint32) if self.purpose == "popc" else np.array(bool(result)))


def _wait_for_warps(lanes: Lanes, episode: Episode) -> Wait | None:
    """An arrival outside of `.aligned` waits for the rest of its warp."""
    warps = lanes.warps

    def ready() -> bool:
        return bool(episode.completed() or episode.warps_arrived()[warps].all())

    return None if ready() else Wait(ready, lambda: f"the rest of the warp to arrive at barrier {episode.barrier}")
