"""Where a bulk copy into shared memory goes, and which mbarriers learn of it (PTX 9.7.9.25.4.1, 9.7.9.27.1.2)."""

from __future__ import annotations

from dataclasses import dataclass

from tilec.backend.emulator.execution.decode import Reader
from tilec.backend.emulator.execution.lanes import Lanes
from tilec.backend.emulator.faults import FaultKind
from tilec.backend.emulator.tma.maps import each
from tilec.backend.emulator.tma.transfer import Target, cta_of, own_offset, split_address


@dataclass(frozen=True)
class TargetReader:
    """The operands that name the destination. `mask`: of `.multicast::cluster`; `pair`: `.cta_group::2`, with which the mbarrier
    may lie in the other CTA of the pair."""

    destination: Reader
    barrier: Reader
    mask: Reader | None
    space: str
    pair: bool


def read_targets(lanes: Lanes, reader: TargetReader) -> list[tuple[int, list[Target]]]:
    """For each lane, the offset of the destination and the CTAs that it names."""
    destinations, barriers = each(reader.destination(lanes), lanes), each(reader.barrier(lanes), lanes)
    masks = [None] * lanes.count if reader.mask is None else each(reader.mask(lanes), lanes)
    return [
        _targets(lanes, lane, reader, destination, barrier, mask)
        for lane, (destination, barrier, mask) in enumerate(zip(destinations, barriers, masks, strict=True))
    ]


def _targets(
    lanes: Lanes, lane: int, reader: TargetReader, destination: int, barrier: int, mask: int | None
) -> tuple[int, list[Target]]:
    rank, offset = split_address(destination)
    if reader.space == "shared::cta":
        own_offset(lanes, lane, destination, "the destination")
    signalled, at = split_address(barrier)
    if signalled != rank and not (reader.pair and signalled >> 1 == rank >> 1):
        where = "in the CTA of the destination or its peer" if reader.pair else "in the CTA of the destination"
        lanes.fault(
            FaultKind.MBARRIER,
            f"the mbarrier 0x{barrier:x} is in the CTA of rank {signalled}, the destination 0x{destination:x} in that of rank {rank}; "
            f"it must be {where}",
            lane,
        )
    if mask is None:
        return offset, [Target(cta_of(lanes, lane, rank), cta_of(lanes, lane, signalled), at)]
    ranks = [r for r in range(16) if mask >> r & 1]
    if not ranks:
        lanes.fault(FaultKind.ILLEGAL, "the mask of a multicast copy names no CTA", lane)
    return offset, [
        Target(cta_of(lanes, lane, r), cta_of(lanes, lane, r & ~1 | signalled & 1 if reader.pair else r), at)
        for r in ranks
    ]
