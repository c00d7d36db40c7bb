"""Bulk copies of bytes side by side: `cp.async.bulk` and `cp.reduce.async.bulk` (PTX 9.7.9.25.4)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilec.backend.emulator.execution.decode import Decoder, Reader, instruction
from tilec.backend.emulator.execution.engines import AsyncWork
from tilec.backend.emulator.execution.lanes import Execute, Lanes
from tilec.backend.emulator.faults import FaultKind
from tilec.backend.emulator.instructions.bulk_groups import BulkGroups
from tilec.backend.emulator.tma.maps import each
from tilec.backend.emulator.tma.placement import UNIT, Placement, place
from tilec.backend.emulator.tma.reductions import OPERATIONS, TO_GLOBAL, TO_SHARED, Reduction, reduction
from tilec.backend.emulator.tma.swizzle import SWIZZLE
from tilec.backend.emulator.tma.targets import TargetReader, read_targets
from tilec.backend.emulator.tma.transfer import (
    Deliver,
    Fetch,
    aligned,
    own_offset,
    segment_at,
    submit_copy,
    submit_load,
    submit_reduction,
    submit_store,
)

_SPACES = ("shared::cluster", "shared::cta", "global")


@dataclass(frozen=True)
class _Run:
    """What one lane copies: `size` bytes from `source` to `destination`."""

    destination: int
    source: int
    size: int


@instruction("cp.async.bulk")
def bulk_copy(d: Decoder) -> Execute:
    match d.take(*_SPACES), d.take(*_SPACES):
        case ("shared::cluster" | "shared::cta" as space, "global"):
            return _from_global(d, space)
        case ("shared::cluster", "shared::cta"):
            return _to_cluster(d, None)
        case ("global", "shared::cta"):
            return _to_global(d, None)
        case _:
            d.unsupported("a direction that the emulator does not know")


@instruction("cp.reduce.async.bulk")
def bulk_reduce(d: Decoder) -> Execute:
    destination, source = d.take(*_SPACES), d.take(*_SPACES)
    if source != "shared::cta" or destination not in ("shared::cluster", "global"):
        d.unsupported("a direction that the emulator does not know")
    operation = d.take(*OPERATIONS)
    types = TO_GLOBAL if destination == "global" else TO_SHARED
    type = d.take_type()
    if operation is None or _as_in_table(operation, type) not in types[operation]:
        d.unsupported("a reduction that does not exist for this type")
    if (d.take("noftz") is not None) != (operation == "add" and type in ("f16", "bf16")):
        d.unsupported(".noftz goes with .add of .f16 and .bf16, and is required there")
    found = reduction(operation, type)
    return _to_global(d, found) if destination == "global" else _to_cluster(d, found)


def _as_in_table(operation: str, type: str) -> str:
    """Bitwise operations do not look at the sign."""
    return f"b{type[1:]}" if operation in ("and", "or", "xor") and type[0] in "us" else type


def _take_hint(d: Decoder) -> bool:
    return d.take("L2::cache_hint") is not None


def _read_runs(d: Decoder, destination: Reader, source: Reader) -> Callable[[Lanes], list[_Run]]:
    """Reads addresses and size of each lane; faults unless all are multiples of 16."""
    size = d.reader(d.operands[2], "u32")

    def read(lanes: Lanes) -> list[_Run]:
        values = (each(destination(lanes), lanes), each(source(lanes), lanes), each(size(lanes), lanes))
        runs = [_Run(*v) for v in zip(*values, strict=True)]
        for lane, run in enumerate(runs):
            aligned(lanes, lane, "the destination", run.destination, UNIT)
            aligned(lanes, lane, "the source", run.source, UNIT)
            if run.size % UNIT:
                lanes.fault(FaultKind.ILLEGAL, f"the size of {run.size} bytes is not a multiple of {UNIT}", lane)
        return runs

    return read


def _units(offset: int, size: int) -> Placement:
    return place(offset, 1, size, SWIZZLE["none"])


def _from_global(d: Decoder, space: str) -> Execute:
    if d.take("mbarrier::complete_tx::bytes") is None:
        d.unsupported("a copy into shared memory completes on an mbarrier")
    multicast = d.take("multicast::cluster") is not None
    if multicast and space == "shared::cta":
        d.unsupported(".multicast::cluster goes with .shared::cluster")
    hint = _take_hint(d)
    d.finish()
    d.count(4 + multicast + hint)
    destination = d.shared_address(d.operands[0], space)
    runs = _read_runs(d, destination, d.address(d.operands[1]))
    mask = d.reader(d.operands[4], "u16") if multicast else None
    if hint:
        d.reader(d.operands[-1], "b64")
    targets = TargetReader(destination, d.shared_address(d.operands[3], space), mask, space, pair=False)

    def execute(lanes: Lanes) -> None:
        for lane, (run, (offset, found)) in enumerate(zip(runs(lanes), read_targets(lanes, targets), strict=True)):
            submit_load(lanes, lane, "the bulk copy", _fetch(run), _units(offset, run.size), found, run.size)

    return execute


def _fetch(run: _Run) -> Fetch:
    def fetch(work: AsyncWork) -> NDArray[np.uint8]:
        segment, at = segment_at(work, run.source, run.size, "reads", "global memory")
        segment.check_async_read(work, lambda data: data[at : at + run.size])
        return segment.data[at : at + run.size]

    return fetch


def _to_cluster(d: Decoder, reduce: Reduction | None) -> Execute:
    if d.take("mbarrier::complete_tx::bytes") is None:
        d.unsupported("a copy into shared memory completes on an mbarrier")
    d.finish()
    d.count(4)
    destination = d.shared_address(d.operands[0], "shared::cluster")
    source = d.shared_address(d.operands[1], "shared::cta")
    runs = _read_runs(d, destination, source)
    targets = TargetReader(
        destination, d.shared_address(d.operands[3], "shared::cluster"), None, "shared::cluster", pair=False
    )

    def execute(lanes: Lanes) -> None:
        for lane, (run, (offset, (target,))) in enumerate(zip(runs(lanes), read_targets(lanes, targets), strict=True)):
            own = _units(own_offset(lanes, lane, run.source, "the source"), run.size)
            if reduce is None:
                submit_copy(lanes, lane, own, _units(offset, run.size), target, run.size)
            else:
                submit_reduction(lanes, lane, own, _units(offset, run.size), target, run.size, reduce)

    return execute


def _to_global(d: Decoder, reduce: Reduction | None) -> Execute:
    if d.take("bulk_group") is None:
        d.unsupported("a copy into global memory completes by .bulk_group")
    hint = _take_hint(d)
    masked = reduce is None and d.take("cp_mask") is not None
    d.finish()
    d.count(3 + hint + masked)
    source = d.shared_address(d.operands[1], "shared::cta")
    runs = _read_runs(d, d.address(d.operands[0]), source)
    mask = d.reader(d.operands[-1], "u16") if masked else None
    if hint:
        d.reader(d.operands[3], "b64")

    def execute(lanes: Lanes) -> None:
        masks = [0xFFFF] * lanes.count if mask is None else each(mask(lanes), lanes)
        groups = lanes.cta.part(BulkGroups)
        for lane, run in enumerate(runs(lanes)):
            units = _units(own_offset(lanes, lane, run.source, "the source"), run.size)
            name = "the bulk copy" if reduce is None else "the bulk reduction"
            issued = submit_store(lanes, lane, name, _deliver(run, masks[lane], reduce), units, run.size)
            groups.add(int(lanes.threads[lane]), issued)

    return execute


def _deliver(run: _Run, mask: int, reduce: Reduction | None) -> Deliver:
    def deliver(work: AsyncWork, data: NDArray[np.uint8]) -> None:
        segment, at = segment_at(work, run.destination, run.size, "writes", "global memory", written=True)

        def part(array: NDArray[Any]) -> NDArray[Any]:
            return array[at : at + run.size].reshape(-1, UNIT)

        memory = part(segment.data)
        if reduce is not None:
            reduce.apply(memory, data)
            return
        chosen = np.array([mask >> i & 1 for i in range(UNIT)], np.bool_)
        memory[:, chosen] = data[:, chosen]
        if segment.unfenced is not None:
            part(segment.unfenced)[:, chosen] = False

    return deliver
