"""Storage, copies, MMAs and register tiles."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

import numpy as np
from xdsl.ir import Operation, SSAValue

from tilec.backend.reference.cta import Cta, Handlers, name_of
from tilec.backend.reference.numerics import Array
from tilec.backend.reference.storage import Accumulator, Ring, SharedTile, View
from tilec.dialects.tile import (
    AccType,
    AddOp,
    AllocOp,
    BroadcastOp,
    CastOp,
    CopyAsyncOp,
    CopyOp,
    FreeOp,
    LoadOp,
    MaxOp,
    MmaOp,
    MulOp,
    RegType,
    RingType,
    SliceOp,
    SlotOp,
    SmemType,
    SplatOp,
    StoreOp,
    SubOp,
)

handlers = Handlers()


def _inside(
    offsets: Sequence[int], shape: Sequence[int], extents: Sequence[int]
) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """The part of a tile at `offsets` that lies inside a tensor: as slices of the tensor, and of the tile."""
    starts = [min(max(o, 0), e) for o, e in zip(offsets, extents, strict=True)]
    ends = [max(min(o + s, e), b) for o, s, e, b in zip(offsets, shape, extents, starts, strict=True)]
    tensor = tuple(slice(b, e) for b, e in zip(starts, ends, strict=True))
    tile = tuple(slice(b - o, e - o) for b, e, o in zip(starts, ends, offsets, strict=True))
    return tensor, tile


def _load(cta: Cta, view: View, indices: Sequence[SSAValue], tile: SharedTile) -> None:
    """Zero outside the tensor."""
    tensor_part, tile_part = _inside([cta.signed(i) for i in indices], tile.values.shape, view.array.shape)
    tile.values[...] = 0
    tile.values[tile_part] = view.array[tensor_part]


def _store(cta: Cta, values: Array, view: View, indices: Sequence[SSAValue]) -> None:
    """Nothing outside the tensor."""
    tensor_part, tile_part = _inside([cta.signed(i) for i in indices], values.shape, view.array.shape)
    view.array[tensor_part] = cta.numerics.round(values[tile_part], view.type.dtype)


def _is_asynchronous(accumulator: SSAValue) -> bool:
    """Whether an L1 operation uses the accumulator: then its first MMA overwrites, and until then it holds anything."""
    for use in accumulator.uses:
        match use.operation:
            case SliceOp(res=part):
                if _is_asynchronous(part):
                    return True
            case MmaOp(accumulate=None):
                pass
            case MmaOp() | CopyAsyncOp() | FreeOp():
                return True
            case _:
                pass
    return False


@handlers.of(AllocOp)
def _alloc(cta: Cta, op: AllocOp) -> None:
    name, type = name_of(op.res), op.res.type
    match type:
        case RingType():
            cta.values[op.res] = Ring(cta.new_tile(f"{name}[{i}]", type.slot) for i in range(type.depth))
        case SmemType():
            cta.values[op.res] = cta.new_tile(name, type)
        case AccType():
            cta.values[op.res] = cta.new_accumulator(name, type, np.nan if _is_asynchronous(op.res) else 0.0)


@handlers.of(FreeOp)
def _free(cta: Cta, op: FreeOp) -> None:
    accumulator = cta.get(op.acc, Accumulator)
    accumulator.check_read(op)
    accumulator.memory.freed = True


@handlers.of(SlotOp)
def _slot(cta: Cta, op: SlotOp) -> None:
    cta.values[op.res] = cta.slot(op, op.ring, op.stage)


@handlers.of(SliceOp)
def _slice(cta: Cta, op: SliceOp) -> None:
    whole = cta.get(op.acc, Accumulator)
    assert isinstance(op.res.type, AccType)
    part = tuple(slice(o, o + s) for o, s in zip(op.offsets, op.res.type.shape, strict=True))
    cta.values[op.res] = Accumulator(whole.name, whole.values[part], whole.memory)


def _read(cta: Cta, op: Operation, source: SSAValue) -> Array:
    """What a shared tile, an accumulator or a register tile holds."""
    match cta.values[source]:
        case SharedTile() | Accumulator() as storage:
            storage.check_read(op)
            return storage.values.copy()
        case registers:
            assert isinstance(registers, np.ndarray)
            return registers


@handlers.of(CopyOp)
def _copy(cta: Cta, op: CopyOp) -> None:
    if op.is_load:
        tile = cta.get(op.dest, SharedTile)
        tile.check_write(op)
        _load(cta, cta.get(op.source, View), op.indices, tile)
    else:
        _store(cta, _read(cta, op, op.source), cta.get(op.dest, View), op.indices)


@handlers.of(CopyAsyncOp)
def _copy_async(cta: Cta, op: CopyAsyncOp) -> None:
    if op.dispatch == "tmem":
        assert op.res is not None
        cta.values[op.res] = _read(cta, op, op.source)
        return
    assert op.dest is not None
    if op.is_load:
        tile = cta.get(op.dest, SharedTile)
        tile.check_write(op)
        _load(cta, cta.get(op.source, View), op.indices, tile)
        if op.barrier is not None:
            barrier = cta.barrier(op, op.barrier, op.stage)
            tile.load = cta.launch(op, f"the load of {tile.name} on {barrier.round}")
            barrier.riding.append(tile.load)
            assert isinstance(op.dest.type, SmemType)
            barrier.write(op, op.dest.type.layout.size)
    else:
        _store(cta, _read(cta, op, op.source), cta.get(op.dest, View), op.indices)
        if op.dispatch == "tma":
            tile = cta.get(op.source, SharedTile)
            store = cta.launch(op, f"the group of a TMA store that reads {tile.name}")
            tile.readers.append(store)
            cta.bulk.open.append(store)


@handlers.of(LoadOp)
def _tile_load(cta: Cta, op: LoadOp) -> None:
    cta.values[op.res] = _read(cta, op, op.source)


@handlers.of(StoreOp)
def _tile_store(cta: Cta, op: StoreOp) -> None:
    tile = cta.get(op.dest, SharedTile)
    tile.check_write(op)
    tile.values[...] = cta.registers(op.value)


@handlers.of(MmaOp)
def _mma(cta: Cta, op: MmaOp) -> None:
    """Products are exact; each `tile.mma` sums them in float64 and rounds once; hardware rounds more often."""
    accumulator = cta.get(op.acc, Accumulator)
    accumulator.check_use(op)
    operands = [cta.get(op.a, SharedTile), cta.get(op.b, SharedTile)]
    for tile in operands:
        tile.check_read(op)
    a, b = (tile.values.astype(np.float64) for tile in operands)
    total = _product(a, b)
    if op.accumulate is None or cta.unsigned(op.accumulate):
        total += accumulator.values
    accumulator.values[...] = total  # rounds: the array has the accumulator's dtype
    if op.accumulate is not None:
        mma = cta.launch(op, f"an MMA on {accumulator.name}")
        cta.mmas.append(mma)
        accumulator.memory.writers.append(mma)
        for tile in operands:
            tile.readers.append(mma)


def _product(a: Array, b: Array) -> Array:
    """a * b^T by a few rows at a time: BLAS starts threads for larger products, which costs more than a whole tile."""
    few = gcd(a.shape[0], 8)
    return (a.reshape(-1, few, a.shape[1]) @ b.T).reshape(a.shape[0], b.shape[0])


@handlers.of(SplatOp)
def _splat(cta: Cta, op: SplatOp) -> None:
    assert isinstance(op.res.type, RegType)
    values = np.full(op.res.type.shape, op.value, np.float64)
    cta.values[op.res] = cta.numerics.round(values, op.res.type.dtype)


@handlers.of(CastOp)
def _cast(cta: Cta, op: CastOp) -> None:
    assert isinstance(op.res.type, RegType)
    cta.values[op.res] = cta.numerics.round(cta.registers(op.value), op.res.type.dtype)


@handlers.of(BroadcastOp)
def _broadcast(cta: Cta, op: BroadcastOp) -> None:
    assert isinstance(op.res.type, RegType)
    cta.values[op.res] = np.broadcast_to(cta.registers(op.value), op.res.type.shape)


def _elementwise(cta: Cta, op: AddOp | SubOp | MulOp | MaxOp) -> None:
    """In the operands' dtype: computed exactly enough, rounded once."""
    assert isinstance(op.res.type, RegType)
    function = _FUNCTIONS[type(op)]
    cta.values[op.res] = cta.numerics.round(function(cta.registers(op.lhs), cta.registers(op.rhs)), op.res.type.dtype)


_FUNCTIONS = {AddOp: np.add, SubOp: np.subtract, MulOp: np.multiply, MaxOp: np.fmax}
for _op in _FUNCTIONS:
    handlers.of(_op)(_elementwise)
