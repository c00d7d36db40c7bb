"""`shfl.sync` (PTX 9.7.9.6): lanes of a warp read one another's registers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilec.backend.emulator.execution.decode import Decoder, Together, instruction
from tilec.backend.emulator.execution.lanes import Lanes
from tilec.backend.emulator.numbers.types import Values
from tilec.backend.emulator.ptx.syntax import Pair
from tilec.backend.emulator.synchronisation.warps import members

_LANE = 31


@instruction("shfl.sync")
def shuffle(d: Decoder) -> Together:
    """A lane that reads from a lane that does not take part gets what a register holds that nobody has written."""
    mode = d.take("up", "down", "bfly", "idx")
    if mode is None or d.take_type() != "b32":
        d.unsupported("shfl.sync is .up, .down, .bfly or .idx, and .b32")
    d.finish()
    d.count(5)
    result, value, source, clamp, mask = d.operands
    write_range = None
    if isinstance(result, Pair):
        result, write_range = result.first, d.writer(result.second, "pred")
    write = d.writer(result, "b32")
    read_value, read_source, read_clamp = d.reader(value, "b32"), d.reader(source, "u32"), d.reader(clamp, "u32")
    read_mask = d.reader(mask, "u32")

    def execute(lanes: Lanes) -> None:
        group = members(lanes, read_mask(lanes))
        lane = lanes.threads & _LANE
        source, inside = _source(mode, lane, _signed(read_source(lanes)), _signed(read_clamp(lanes)))
        values = np.full(lanes.cta.padded, lanes.machine.garbage() & 0xFFFFFFFF, np.uint32)
        values[lanes.index] = read_value(lanes)
        found = values[(lanes.threads & ~_LANE) | source]
        taking_part = (group >> source.astype(np.uint32) & 1) != 0
        found[~taking_part] = lanes.machine.garbage() & 0xFFFFFFFF
        write(lanes, found)
        if write_range is not None:
            write_range(lanes, inside)

    return Together(execute, "mask", read_mask)


def _signed(values: Values) -> NDArray[np.int64]:
    return values.astype(np.int64)


def _source(
    mode: str, lane: NDArray[np.int64], source: NDArray[np.int64], clamp: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The lane that each lane reads, and whether what it asked for is in its segment: the formulas of 9.7.9.6."""
    segment = clamp >> 8 & _LANE
    least = lane & segment
    most = least | clamp & _LANE & ~segment
    asked = source & _LANE
    match mode:
        case "up":
            j = lane - asked
            inside = j >= most
        case "down":
            j = lane + asked
            inside = j <= most
        case "bfly":
            j = lane ^ asked
            inside = j <= most
        case _:
            j = least | asked & ~segment
            inside = j <= most
    return np.where(inside, j, lane) & _LANE, inside
