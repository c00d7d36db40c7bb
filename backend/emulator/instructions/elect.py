"""`elect.sync` (PTX 9.7.13.14)."""

from __future__ import annotations

import numpy as np

from tilec.backend.emulator.execution.decode import Decoder, Together, instruction
from tilec.backend.emulator.execution.lanes import Lanes
from tilec.backend.emulator.ptx.syntax import Pair
from tilec.backend.emulator.synchronisation.warps import members


@instruction("elect.sync")
def elect(d: Decoder) -> Together:
    """The lowest lane of the mask that has not exited is the leader."""
    d.finish()
    d.count(2)
    results = d.operands[0]
    if not isinstance(results, Pair):
        d.unsupported("the result is a register and a predicate, d|p")
    write_lane, write_leader = d.writer(results.first, "u32"), d.writer(results.second, "pred")
    read_mask = d.reader(d.operands[1], "u32")

    def execute(lanes: Lanes) -> None:
        group = members(lanes, read_mask(lanes))
        lowest = group & (~group + np.uint32(1))
        leader = np.bitwise_count(lowest - np.uint32(1)).astype(np.uint32)
        write_lane(lanes, leader)
        write_leader(lanes, leader == (lanes.threads & 31))

    return Together(execute, "mask", read_mask)
