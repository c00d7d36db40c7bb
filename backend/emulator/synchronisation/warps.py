"""What instructions on the threads of a warp share: bit masks by lane, and the groups that a member mask makes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tilec.backend.emulator.execution.lanes import Lanes
from tilec.backend.emulator.faults import FaultKind
from tilec.backend.emulator.numbers.types import Values


def ballot(lanes: Lanes, held: Values | bool) -> NDArray[np.uint32]:
    """For each lane, the mask of those lanes of its warp that execute this and for which `held`, of bool, holds."""
    bits = np.zeros(lanes.cta.padded, np.bool_)
    bits[lanes.index] = held
    words = np.packbits(bits.reshape(-1, 32), axis=1, bitorder="little").view(np.uint32)[:, 0]
    return words[lanes.threads >> 5]


def lane_bits(lanes: Lanes) -> NDArray[np.uint32]:
    """For each lane, its own bit in a mask."""
    return np.uint32(1) << (lanes.threads & 31).astype(np.uint32)


def check_inside(lanes: Lanes, masks: NDArray[np.uint32]) -> None:
    """Faults for a thread that its own member mask does not name."""
    outside = (masks & lane_bits(lanes)) == 0
    if outside.any():
        lane = int(np.argmax(outside))
        lanes.fault(
            FaultKind.DIVERGENT,
            f"lane {int(lanes.threads[lane]) & 31} executes this, but is not in its member mask 0x{int(masks[lane]):08x}",
            lane,
            "every thread that executes it is named in the mask",
        )


def members(lanes: Lanes, masks: Values) -> NDArray[np.uint32]:
    """For each lane, the mask of the threads that take part with it: those of its member mask that have not exited.

    Faults for a thread that its own mask does not name, and for threads of one mask that give another (undefined in each of the
    instructions with a member mask).
    """
    if masks.ndim == 0 and int(masks) == 0xFFFFFFFF:
        return ballot(lanes, True)
    masks = np.broadcast_to(masks, (lanes.count,))
    bits = lane_bits(lanes)
    check_inside(lanes, masks)
    group = ballot(lanes, True) & masks
    if (masks == masks[0]).all():
        return group
    for warp, mask, positions in by_mask(lanes, masks):
        inside = (lanes.threads >> 5 == warp) & ((bits & mask) != 0) & (masks != mask)
        if inside.any():
            lane = int(np.argmax(inside))
            lanes.fault(
                FaultKind.DIVERGENT,
                f"lanes {int(lanes.threads[positions[0]]) & 31} and {int(lanes.threads[lane]) & 31} of warp {warp} execute this "
                f"together with different member masks, 0x{int(mask):08x} and 0x{int(masks[lane]):08x}",
                lane,
            )
    return group


def groups(lanes: Lanes, group: NDArray[np.uint32]) -> Iterator[tuple[np.uint32, NDArray[np.intp]]]:
    """The groups that `members` made: the mask of each, and the positions of its lanes in ascending order."""
    return ((mask, positions) for _, mask, positions in by_mask(lanes, group))


def by_mask(lanes: Lanes, masks: NDArray[np.uint32]) -> Iterator[tuple[int, np.uint32, NDArray[np.intp]]]:
    """The lanes of each warp and mask: the warp, the mask, and the positions of the lanes in ascending order."""
    keys = (lanes.threads.astype(np.uint64) >> np.uint64(5) << np.uint64(32)) | masks.astype(np.uint64)
    for key in np.unique(keys):
        yield int(key) >> 32, np.uint32(int(key) & 0xFFFFFFFF), np.flatnonzero(keys == key)
