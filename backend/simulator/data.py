"""Storage, thread copies, register loads and stores, and the tensor core."""

from __future__ import annotations

import numpy as np
from xdsl.ir import Operation

from tilec.backend.reference.cta import Handlers, name_of
from tilec.backend.reference.storage import View, load, multiply, size_of, store
from tilec.backend.simulator import order, scope
from tilec.backend.simulator.cta import AsyncCta
from tilec.backend.simulator.engines import tma_load, tma_store
from tilec.backend.simulator.memory import (
    Access,
    Accumulator,
    Columns,
    Loading,
    Ring,
    SharedTile,
    TensorMemory,
)
from tilec.backend.simulator.traffic import loads_from, stores_to
from tilec.diagnostics import fail
from tilec.dialects.tile import (
    AccType,
    AllocOp,
    CopyAsyncOp,
    FreeOp,
    LoadOp,
    MmaOp,
    RingType,
    SliceOp,
    SlotOp,
    SmemType,
    StoreOp,
)

handlers = Handlers()


@handlers.of(AllocOp)
def _alloc(cta: AsyncCta, op: AllocOp) -> None:
    scope.storage(op)
    name, type = name_of(op.res), op.res.type
    match type:
        case RingType():
            cta.values[op.res] = Ring(_new_tile(cta, op, f"{name}[{i}]", type.slot) for i in range(type.depth))
        case SmemType():
            cta.values[op.res] = _new_tile(cta, op, name, type)
        case AccType():
            memory = TensorMemory(name, op, [Columns(0, type.shape[1])])
            cta.accumulators.append(memory)
            values = np.full(type.shape, np.nan, cta.numerics.array_dtype(type.dtype))
            cta.values[op.res] = Accumulator(memory, values, 0)


def _new_tile(cta: AsyncCta, op: Operation, name: str, type: SmemType) -> SharedTile:
    return SharedTile(name, np.full(type.shape, np.nan, cta.numerics.array_dtype(type.dtype)), op)


@handlers.of(FreeOp)
def _free(cta: AsyncCta, op: FreeOp) -> None:
    scope.all_threads(cta, op)
    cta.tick()
    accumulator = cta.get(op.acc, Accumulator)
    order.accumulator_free(cta, op, accumulator)
    accumulator.memory.freed = op


@handlers.of(SlotOp)
def _slot(cta: AsyncCta, op: SlotOp) -> None:
    cta.values[op.res] = cta.stage_of(op, cta.get(op.ring, Ring), op.ring, op.stage)


@handlers.of(SliceOp)
def _slice(cta: AsyncCta, op: SliceOp) -> None:
    whole = cta.get(op.acc, Accumulator)
    assert isinstance(op.res.type, AccType)
    part = tuple(slice(o, o + s) for o, s in zip(op.offsets, op.res.type.shape, strict=True))
    cta.values[op.res] = Accumulator(whole.memory, whole.values[part], whole.start + op.offsets[1])


@handlers.of(CopyAsyncOp)
def _copy_async(cta: AsyncCta, op: CopyAsyncOp) -> None:
    match op.dispatch:
        case "tmem":
            _load_accumulator(cta, op)
        case "threads":
            _copy_by_threads(cta, op)
        case _:
            scope.one_thread(
                cta,
                op,
                f"every thread of the {cta.flow.noun} would issue this copy",
                "put it into tile.single_thread { ... }",
            )
            (tma_load if op.is_load else tma_store)(cta, op)


def _load_accumulator(cta: AsyncCta, op: CopyAsyncOp) -> None:
    scope.all_threads(cta, op, "a read of an accumulator belongs to all threads of its role")
    now = cta.tick()
    accumulator = cta.get(op.source, Accumulator)
    order.accumulator_read(cta, op, accumulator)
    assert op.res is not None
    values = accumulator.values.copy()
    cta.values[op.res] = values
    cta.loading[id(values)] = Loading(values, op, now)


def _copy_by_threads(cta: AsyncCta, op: CopyAsyncOp) -> None:
    scope.all_threads(cta, op, "a copy by threads belongs to all threads of its role")
    cta.tick()
    assert op.dest is not None
    offsets = [cta.signed(i) for i in op.indices]
    if op.is_load:
        tile, view = cta.get(op.dest, SharedTile), cta.get(op.source, View)
        access = order.by_threads(cta, op, tile, writes=True)
        region = load(view, offsets, tile.values)
        loads_from(cta, view, region, access)
        cta.launch.counters.bytes_loaded += size_of(region) * view.type.dtype.bytes
    else:
        tile, view = cta.get(op.source, SharedTile), cta.get(op.dest, View)
        access = order.by_threads(cta, op, tile, writes=False)
        region = store(view, offsets, tile.values, cta.numerics)
        stores_to(cta, view, region, access)
        cta.launch.counters.bytes_stored += size_of(region) * view.type.dtype.bytes


@handlers.of(LoadOp)
def _tile_load(cta: AsyncCta, op: LoadOp) -> None:
    scope.all_threads(cta, op)
    cta.tick()
    if isinstance(op.source.type, AccType):
        fail(op, "tile.load reads no accumulator at this level", hint="use tile.copy_async with dispatch tmem")
    tile = cta.get(op.source, SharedTile)
    order.by_threads(cta, op, tile, writes=False)
    cta.values[op.res] = tile.values.copy()


@handlers.of(StoreOp)
def _tile_store(cta: AsyncCta, op: StoreOp) -> None:
    scope.all_threads(cta, op)
    cta.tick()
    tile, values = cta.get(op.dest, SharedTile), cta.registers(op, op.value)
    order.by_threads(cta, op, tile, writes=True)
    tile.values[...] = values


@handlers.of(MmaOp)
def _mma(cta: AsyncCta, op: MmaOp) -> None:
    assert op.accumulate is not None
    scope.all_threads(cta, op)
    now, accumulates = cta.tick(), bool(cta.unsigned(op.accumulate))
    accumulator = cta.get(op.acc, Accumulator)
    access = Access("mma", cta.mmas + 1, op, now, cta.flow.tensor_core)
    a, b = cta.get(op.a, SharedTile), cta.get(op.b, SharedTile)
    for tile in (a, b):
        order.by_mma(cta, tile, access)
    order.accumulator_write(cta, op, accumulator, accumulates=accumulates)
    multiply(accumulator.values, a.values, b.values, accumulate=accumulates)
    for columns in accumulator.columns:
        columns.mma, columns.reads, columns.turn = access, {}, cta.turn
    verb = "adds to" if accumulates else "overwrites"
    accumulator.memory.history.append((now, op, f"MMA {access.time} {verb} {accumulator.name}"))
    cta.mmas, cta.flow.last_mma = access.time, access
    cta.launch.counters.mmas += 1
