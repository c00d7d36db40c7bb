"""`bar.warp.sync` (PTX 9.7.13.2): threads of a warp wait for one another, also at different places of the program."""

from __future__ import annotations

import numpy as np

from tilec.backend.emulator.execution.cta import Cta
from tilec.backend.emulator.execution.decode import Decoder, instruction
from tilec.backend.emulator.execution.lanes import Answer, Execute, Lanes, Part, Wait
from tilec.backend.emulator.instructions.fences import publish
from tilec.backend.emulator.synchronisation.warps import by_mask, check_inside, lane_bits


class _Meeting:
    """The threads of one member mask in one warp that have arrived."""

    def __init__(self, cta: Cta, warp: int, mask: int) -> None:
        self.cta = cta
        self.warp = warp
        self.mask = mask
        self.arrived = 0
        self._complete = False

    def missing(self) -> int:
        """The mask of those that have neither arrived nor exited."""
        alive = self.cta.alive[self.warp * 32 : self.warp * 32 + 32]
        return self.mask & ~self.arrived & int(np.packbits(alive, bitorder="little").view(np.uint32)[0])

    def complete(self) -> bool:
        if not self._complete and not self.missing():
            self._complete = True
            del self.cta.part(_Meetings).active[self.warp, self.mask]
        return self._complete

    def describe(self) -> str:
        return f"the threads 0x{self.missing():08x} of its member mask 0x{self.mask:08x}"


class _Meetings:
    """What is under way in a CTA, by warp and mask."""

    def __init__(self, cta: Cta) -> None:
        self.active: dict[tuple[int, int], _Meeting] = {}

    def at_exit(self) -> None:
        """Threads that wait cannot have exited."""


@instruction("bar.warp.sync")
def warp_sync(d: Decoder) -> Execute:
    d.finish()
    d.count(1)
    read_mask = d.reader(d.operands[0], "u32")

    def execute(lanes: Lanes) -> Answer:
        publish(lanes)
        masks = np.broadcast_to(read_mask(lanes), (lanes.count,))
        check_inside(lanes, masks)
        bits = lane_bits(lanes)
        active = lanes.cta.part(_Meetings).active
        parts: list[Part] = []
        for warp, mask, positions in by_mask(lanes, masks):
            meeting = active.setdefault((warp, int(mask)), _Meeting(lanes.cta, warp, int(mask)))
            meeting.arrived |= int(np.bitwise_or.reduce(bits[positions]))
            wait = None if meeting.complete() else Wait(meeting.complete, meeting.describe)
            parts.append(Part(positions, wait))
        lanes.machine.touch()
        if all(part.wait is None for part in parts):
            return None
        return parts[0].wait if len(parts) == 1 else parts

    return execute
