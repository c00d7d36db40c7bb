"""The TMA engine: loads that complete on an mbarrier, stores that complete by bulk group."""

from __future__ import annotations

from ctypes import memmove
from functools import lru_cache

import numpy as np

from tilec.backend.reference.numerics import Array
from tilec.backend.reference.storage import Region, View, load, size_of, store
from tilec.backend.simulator import order
from tilec.backend.simulator.cta import AsyncCta
from tilec.backend.simulator.faults import plural
from tilec.backend.simulator.memory import Access, SharedTile
from tilec.backend.simulator.sync import check_bytes, use
from tilec.backend.simulator.traffic import loads_from, stores_to
from tilec.dialects.tile import CopyAsyncOp, SmemType

GRID = 16
"""Bytes: the unit of coordinates and of clipping along the contiguous dimension (measured)."""


@lru_cache(maxsize=256)
def _box_bytes(type: SmemType) -> int:
    """Bytes that the copies of a tile complete: boxes over the edge count in full."""
    return type.layout.size


def _offsets(cta: AsyncCta, op: CopyAsyncOp, view: View) -> list[int]:
    """Start coordinates, which the engine takes only where the contiguous one lies on its grid."""
    offsets = [cta.signed(i) for i in op.indices]
    inner, size = view.type.order[0], view.type.dtype.bytes
    if offsets[inner] * size % GRID:
        cta.fail(
            "tma",
            op,
            f"this TMA copy starts at element {offsets[inner]} of dimension {inner} of {view.name}, the contiguous one: byte "
            f"{offsets[inner] * size} is off the {GRID}-byte grid, an illegal instruction on hardware",
            f"start at a multiple of {GRID // size} elements, or use dispatch threads",
        )
    return offsets


def tma_load(cta: AsyncCta, op: CopyAsyncOp) -> None:
    assert op.dest is not None and op.barrier is not None and isinstance(op.dest.type, SmemType)
    now, tile, view = cta.tick(), cta.get(op.dest, SharedTile), cta.get(op.source, View)
    slot = cta.slot(op, op.barrier, op.stage)
    use(cta, op, slot)
    offsets = _offsets(cta, op, view)
    access = Access("load", slot.rounds + 1, op, now, slot.component, slot=slot, writes=True)
    order.by_engine(cta, tile, access)
    region = load(view, offsets, tile.values)
    loads_from(cta, view, region, access)
    size = _box_bytes(op.dest.type)
    slot.issued += size
    slot.loads, slot.load, slot.brings = access.time, op, "loads"
    slot.history.append((now, op, f"round {slot.rounds} of {slot.name}: a load into {tile.name} brings {size} bytes"))
    check_bytes(cta, op, slot)
    cta.launch.counters.bytes_loaded += size_of(region) * view.type.dtype.bytes


def tma_store(cta: AsyncCta, op: CopyAsyncOp) -> None:
    assert op.dest is not None
    now, tile, view = cta.tick(), cta.get(op.source, SharedTile), cta.get(op.dest, View)
    offsets = _offsets(cta, op, view)
    if not cta.bulk.open:
        cta.groups += 1
        cta.bulk.open = cta.groups
    access = Access("store", cta.bulk.open, op, now, cta.flow.bulk_read)
    order.by_engine(cta, tile, access)
    cta.bulk.last = access.time, op
    region = store(view, offsets, tile.values, cta.numerics)
    stores_to(cta, view, region, access)
    _check_tail(cta, op, view, offsets, region, tile.values)
    cta.launch.counters.bytes_stored += size_of(region) * view.type.dtype.bytes


def _check_tail(cta: AsyncCta, op: CopyAsyncOp, view: View, offsets: list[int], region: Region, values: Array) -> None:
    """Stores are clipped in units of 16 bytes: what lies past the edge in the last unit is written too."""
    inner, size = view.type.order[0], view.type.dtype.bytes
    extent, unit = view.array.shape[inner], GRID // size
    over = min(offsets[inner] + values.shape[inner], -(-extent // unit) * unit) - extent
    if over <= 0 or not size_of(region):
        return
    _damage(cta, view, inner, offsets, region, values, over)
    cta.fail(
        "tma",
        op,
        f"this TMA store writes {plural(over * size, 'byte')} past the edge of {view.name} in each row: stores are clipped in "
        f"units of {GRID} bytes, and dimension {inner} has {extent} elements, {extent * size} bytes",
        f"give {view.name} an extent that is a multiple of {unit} elements, or say `tail = free` in its type and use dispatch "
        "threads",
    )


def _damage(
    cta: AsyncCta, view: View, inner: int, offsets: list[int], region: Region, values: Array, over: int
) -> None:
    """Write past the edge, as the engine does, where the array is part of a larger one."""
    array = view.array
    owner = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    low, high = np.lib.array_utils.byte_bounds(owner)
    extent = array.shape[inner]
    columns = slice(extent - offsets[inner], extent - offsets[inner] + over)
    source = [slice(part.start - o, part.stop - o) for part, o in zip(region, offsets, strict=True)]
    source[inner] = columns
    past = cta.numerics.round(values[tuple(source)], view.type.dtype)
    shape = [part.stop - part.start for part in region]
    shape[inner] = over
    for index in np.ndindex(*shape):
        place = [i + part.start for i, part in zip(index, region, strict=True)]
        place[inner] = extent + index[inner]
        address = array.ctypes.data + sum(i * stride for i, stride in zip(place, array.strides, strict=True))
        if low <= address <= high - array.itemsize:
            memmove(address, past[index].tobytes(), array.itemsize)
