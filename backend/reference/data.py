"""Storage, copies and MMAs of synchronous kernels: each is complete when the next operation starts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.ir import Operation, SSAValue

from tilec.backend.reference.cta import Cta, Handlers
from tilec.backend.reference.numerics import Array
from tilec.backend.reference.storage import Tile, View, load, multiply, size_of, store
from tilec.diagnostics import fail
from tilec.dialects.tile import AccType, AllocOp, CopyOp, LoadOp, MmaOp, RingType, StoreOp

handlers = Handlers()


@dataclass
class Work:
    """What a kernel has done: bytes of global memory that copies have moved, and MMAs."""

    ctas: int = 0
    bytes_loaded: int = 0
    bytes_stored: int = 0
    mmas: int = 0


@dataclass
class SynchronousCta(Cta):
    """A CTA of a synchronous kernel."""

    work: Work


@handlers.of(AllocOp)
def _alloc(cta: Cta, op: AllocOp) -> None:
    """Fresh shared memory holds NaN; an accumulator is zero."""
    type = op.res.type
    if isinstance(type, RingType):
        fail(op, "a ring in a synchronous kernel", hint="allocate one !tile.smem: `pipeline` makes rings")
    fill = 0.0 if isinstance(type, AccType) else np.nan
    cta.values[op.res] = Tile(np.full(type.shape, fill, cta.numerics.array_dtype(type.dtype)))


def _read(cta: Cta, op: Operation, source: SSAValue) -> Array:
    """What a shared tile, an accumulator or a register tile holds."""
    found = cta.values[source]
    return found.values.copy() if isinstance(found, Tile) else cta.registers(op, source)


@handlers.of(CopyOp)
def _copy(cta: SynchronousCta, op: CopyOp) -> None:
    offsets = [cta.signed(i) for i in op.indices]
    if op.is_load:
        view = cta.get(op.source, View)
        cta.work.bytes_loaded += size_of(load(view, offsets, cta.get(op.dest, Tile).values)) * view.type.dtype.bytes
    else:
        view = cta.get(op.dest, View)
        part = store(view, offsets, _read(cta, op, op.source), cta.numerics)
        cta.work.bytes_stored += size_of(part) * view.type.dtype.bytes


@handlers.of(LoadOp)
def _tile_load(cta: Cta, op: LoadOp) -> None:
    cta.values[op.res] = _read(cta, op, op.source)


@handlers.of(StoreOp)
def _tile_store(cta: Cta, op: StoreOp) -> None:
    cta.get(op.dest, Tile).values[...] = cta.registers(op, op.value)


@handlers.of(MmaOp)
def _mma(cta: SynchronousCta, op: MmaOp) -> None:
    if op.accumulate is not None:
        cta.unknown(cta, op)
    a, b = cta.get(op.a, Tile).values, cta.get(op.b, Tile).values
    multiply(cta.get(op.acc, Tile).values, a, b, accumulate=True)
    cta.work.mmas += 1
