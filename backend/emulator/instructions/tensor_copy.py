"""Copies through tensor maps: `cp.async.bulk.tensor` and `cp.reduce.async.bulk.tensor` (PTX 9.7.9.27.1).

Each lane issues its own copy. A map is read at issue; the tensor and shared memory when the work runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tilec.backend.emulator.execution.decode import Decoder, Reader, instruction
from tilec.backend.emulator.execution.engines import AsyncWork
from tilec.backend.emulator.execution.lanes import Execute, Lanes
from tilec.backend.emulator.faults import FaultKind, UnsupportedInstruction
from tilec.backend.emulator.instructions.bulk_groups import BulkGroups
from tilec.backend.emulator.ptx.syntax import Address
from tilec.backend.emulator.tma import tf32
from tilec.backend.emulator.tma.access import Refusal, TensorAccess, access_of
from tilec.backend.emulator.tma.descriptor import INTERLEAVES, Descriptor
from tilec.backend.emulator.tma.maps import each, map_at
from tilec.backend.emulator.tma.placement import UNIT, Placement, place
from tilec.backend.emulator.tma.reductions import OPERATIONS, THROUGH_MAP, Reduction, reduction
from tilec.backend.emulator.tma.targets import TargetReader, read_targets
from tilec.backend.emulator.tma.transfer import aligned, own_offset, segment_at, submit_load, submit_store

LOAD_MODES = ("tile", "tile::gather4", "im2col", "im2col::w", "im2col::w::128")
STORE_MODES = ("tile", "tile::scatter4", "im2col_no_offs")
_SHARED_ALIGNMENT = 128
_ROWS = 4
"""Rows of `.tile::gather4` and `.tile::scatter4`."""


@dataclass(frozen=True)
class MapOperand:
    """``[map, {c0, c1}]``: the generic address of the map, and the coordinates, innermost first."""

    address: Reader
    coordinates: tuple[Reader, ...]
    rank: int
    mode: str

    def accesses(self, lanes: Lanes, offsets: Sequence[Reader], *, stored: bool) -> list[TensorAccess]:
        """What each lane accesses."""
        addresses = each(self.address(lanes), lanes)
        starts = list(zip(*(each(c(lanes), lanes) for c in self.coordinates), strict=True))
        moved = list(zip(*(each(o(lanes), lanes) for o in offsets), strict=True)) or [()] * lanes.count
        found: list[TensorAccess] = []
        for lane, address in enumerate(addresses):
            descriptor = map_at(lanes, lane, address)
            _check_known(lanes, lane, descriptor, stored=stored)
            access = access_of(descriptor, self.mode, self.rank, starts[lane], moved[lane], stored=stored)
            if isinstance(access, Refusal):
                lanes.fault(access.kind, access.why, lane)
            found.append(access)
        return found


def _check_known(lanes: Lanes, lane: int, d: Descriptor, *, stored: bool) -> None:
    """Fault for maps that the chip does not have; stop for those of which it is not known what hardware does with them."""
    if lanes.machine.target.name == "sm_90a" and (d.type.packed or d.atomicity):
        what = f"elements of {d.type}" if d.type.packed else f"swizzle {d.swizzle}"
        lanes.fault(FaultKind.DESCRIPTOR, f"the tensor map has {what}; sm_90a knows none", lane)
    unknown: str | None = None
    if d.interleave:
        unknown = f"a tensor map with interleave {INTERLEAVES[d.interleave]}"
    elif d.swizzle.flips:
        unknown = f"a tensor map with swizzle {d.swizzle}"
    elif d.type.name == "tf32_ftz" or (stored and d.type.name in ("tf32", "f32_ftz")):
        unknown = f"a {'store' if stored else 'load'} of {d.type} elements"
    if unknown is not None:
        raise UnsupportedInstruction(lanes.machine.file, lanes.instruction, unknown)


def map_operand(d: Decoder, position: int, rank: int, mode: str) -> MapOperand:
    """The operand ``[map, {coordinates}]``."""
    operand = d.operands[position]
    if not isinstance(operand, Address) or operand.coordinates is None:
        d.unsupported("an operand that is no tensor map with coordinates")
    coordinates = operand.coordinates.elements
    expected = 1 + _ROWS if mode in ("tile::gather4", "tile::scatter4") else rank
    if len(coordinates) != expected:
        d.unsupported(f"{len(coordinates)} coordinates, not {expected}")
    return MapOperand(d.address(operand), tuple(d.reader(c, "s32") for c in coordinates), rank, mode)


def take_rank(d: Decoder, mode: str) -> int:
    """The dimension of the instruction, checked against its mode."""
    dimension = d.take("1d", "2d", "3d", "4d", "5d")
    if dimension is None:
        d.unsupported("no dimension")
    rank = int(dimension[0])
    if mode.startswith("im2col") and rank < 3:
        d.unsupported(f".{mode} has 3 to 5 dimensions")
    if mode in ("tile::gather4", "tile::scatter4") and rank != 2:
        d.unsupported(f".{mode} has 2 dimensions")
    return rank


def take_mode(d: Decoder, *modes: str) -> str:
    """The load mode. Those that the emulator does not know stop here."""
    mode = d.take(*modes) or "tile"
    if mode in ("im2col::w", "im2col::w::128"):
        d.unsupported(f"the emulator does not know the load mode .{mode}")
    return mode


@instruction("cp.async.bulk.tensor")
def tensor_copy(d: Decoder) -> Execute:
    spaces = (d.take("shared::cluster", "shared::cta", "global"), d.take("shared::cluster", "shared::cta", "global"))
    match spaces:
        case ("shared::cluster" | "shared::cta" as space, "global"):
            return _load(d, space)
        case ("global", "shared::cta"):
            return _store(d, None)
        case _:
            d.unsupported("a direction that the emulator does not know")


@instruction("cp.reduce.async.bulk.tensor")
def tensor_reduce(d: Decoder) -> Execute:
    if (d.take("shared::cta", "global"), d.take("shared::cta", "global")) != ("global", "shared::cta"):
        d.unsupported("a reduction goes from .shared::cta to .global")
    operation = d.take(*OPERATIONS)
    if operation is None:
        d.unsupported("no operation of the reduction")
    return _store(d, operation)


def _load(d: Decoder, space: str) -> Execute:
    mode = take_mode(d, *LOAD_MODES)
    rank = take_rank(d, mode)
    if d.take("mbarrier::complete_tx::bytes") is None:
        d.unsupported("a load completes on an mbarrier")
    multicast = d.take("multicast::cluster") is not None
    pair = d.take("cta_group::1", "cta_group::2") == "cta_group::2"
    hint = d.take("L2::cache_hint") is not None
    d.finish()
    im2col = mode == "im2col"
    d.count(3 + im2col + multicast + hint)
    destination = d.shared_address(d.operands[0], space)
    operand = map_operand(d, 1, rank, mode)
    barrier = d.shared_address(d.operands[2], space)
    offsets: tuple[Reader, ...] = ()
    if im2col:
        elements = d.elements(d.operands[3])
        if len(elements) != rank - 2:
            d.unsupported(f"{len(elements)} im2col offsets, not {rank - 2}")
        offsets = tuple(d.reader(e, "u16") for e in elements)
    mask = d.reader(d.operands[3 + im2col], "u16") if multicast else None
    if hint:
        d.reader(d.operands[-1], "b64")
    targets = TargetReader(destination, barrier, mask, space, pair)

    def execute(lanes: Lanes) -> None:
        accesses = operand.accesses(lanes, offsets, stored=False)
        for lane, (offset, found) in enumerate(read_targets(lanes, targets)):
            access = accesses[lane]
            aligned(lanes, lane, "the destination", offset, _SHARED_ALIGNMENT)
            submit_load(
                lanes, lane, "the TMA load", _fetch(access), _placement(access, offset), found, access.transferred
            )

    return execute


def _placement(access: TensorAccess, offset: int) -> Placement:
    return place(offset, access.rows, access.row_bytes, access.descriptor.swizzle)


def _needed(access: TensorAccess, placement: Placement) -> NDArray[np.intp]:
    """The units of shared memory of which a store brings something into the tensor."""
    if access.descriptor.type.padded:
        return placement.units
    return placement.units[access.existing().reshape(-1, UNIT).any(axis=1)]


def _fetch(access: TensorAccess) -> Callable[[AsyncWork], NDArray[np.uint8]]:
    def fetch(work: AsyncWork) -> NDArray[np.uint8]:
        data = access.filled()
        for box in access.boxes:
            if not box.empty:
                segment, at = segment_at(work, box.address, box.size, "reads", str(access))
                segment.check_async_read(work, partial(box.view, offset=at))
                access.within(data, box)[...] = _converted(work, access, box.view(segment.data, at))
        return access.unpacked(data)

    return fetch


def _converted(work: AsyncWork, access: TensorAccess, values: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Elements as shared memory gets them."""
    if access.descriptor.type.name != "tf32":
        return values
    bits = np.ascontiguousarray(values).view(np.uint32)
    if tf32.between(bits).any():
        raise UnsupportedInstruction(
            work.place.file, work.place.instruction, "a load of tf32 elements that lie halfway between two tf32 numbers"
        )
    return tf32.rounded(bits).view(np.uint8)


def _store(d: Decoder, operation: str | None) -> Execute:
    mode = take_mode(d, *(STORE_MODES if operation is None else ("tile", "im2col_no_offs")))
    rank = take_rank(d, mode)
    if d.take("bulk_group") is None:
        d.unsupported("a store completes by .bulk_group")
    hint = d.take("L2::cache_hint") is not None
    d.finish()
    d.count(2 + hint)
    operand = map_operand(d, 0, rank, mode)
    source = d.shared_address(d.operands[1], "shared::cta")
    if hint:
        d.reader(d.operands[2], "b64")
    name = "the TMA store" if operation is None else "the TMA reduction"

    def execute(lanes: Lanes) -> None:
        accesses = operand.accesses(lanes, (), stored=True)
        groups = lanes.cta.part(BulkGroups)
        for lane, (access, address) in enumerate(zip(accesses, each(source(lanes), lanes), strict=True)):
            offset = own_offset(lanes, lane, address, "the source")
            aligned(lanes, lane, "the source", offset, _SHARED_ALIGNMENT)
            deliver = _deliver(access, None if operation is None else _reduction(lanes, lane, operation, access))
            placement = _placement(access, offset)
            needed = _needed(access, placement)
            issued = submit_store(lanes, lane, name, deliver, placement, access.transferred, needed)
            groups.add(int(lanes.threads[lane]), issued)

    return execute


def _reduction(lanes: Lanes, lane: int, operation: str, access: TensorAccess) -> Reduction:
    type = access.descriptor.type
    if type.operand_type not in THROUGH_MAP[operation]:
        lanes.fault(FaultKind.DESCRIPTOR, f"there is no reduction .{operation} of elements of {type}", lane)
    return reduction(operation, type.operand_type)


def _deliver(access: TensorAccess, reduce: Reduction | None) -> Callable[[AsyncWork, NDArray[np.uint8]], None]:
    def deliver(work: AsyncWork, units: NDArray[np.uint8]) -> None:
        data = access.packed(units)
        for box in access.boxes:
            if box.empty:
                continue
            segment, at = segment_at(work, box.address, box.size, "writes", str(access), written=True)
            taken = partial(box.view, offset=at)
            memory, values = taken(segment.data), access.within(data, box)
            if reduce is None:
                memory[...] = values
                if segment.unfenced is not None:
                    taken(segment.unfenced)[...] = False
            elif box.overlaps:
                for row in np.ndindex(box.shape[:-1]):
                    reduce.apply(memory[row], values[row])
            else:
                reduce.apply(memory, values)

    return deliver
