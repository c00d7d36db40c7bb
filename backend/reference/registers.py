"""Register tiles: immutable arrays."""

from __future__ import annotations

import numpy as np

from tilec.backend.reference.cta import Cta, Handlers
from tilec.dialects.tile import AddOp, BroadcastOp, CastOp, MaxOp, MulOp, RegType, SplatOp, SubOp

handlers = Handlers()


@handlers.of(SplatOp)
def _splat(cta: Cta, op: SplatOp) -> None:
    assert isinstance(op.res.type, RegType)
    values = np.full(op.res.type.shape, op.value, np.float64)
    cta.values[op.res] = cta.numerics.round(values, op.res.type.dtype)


@handlers.of(CastOp)
def _cast(cta: Cta, op: CastOp) -> None:
    assert isinstance(op.res.type, RegType)
    cta.values[op.res] = cta.numerics.round(cta.registers(op, op.value), op.res.type.dtype)


@handlers.of(BroadcastOp)
def _broadcast(cta: Cta, op: BroadcastOp) -> None:
    assert isinstance(op.res.type, RegType)
    cta.values[op.res] = np.broadcast_to(cta.registers(op, op.value), op.res.type.shape)


def _elementwise(cta: Cta, op: AddOp | SubOp | MulOp | MaxOp) -> None:
    """In the operands' dtype: computed exactly enough, rounded once."""
    assert isinstance(op.res.type, RegType)
    values = _FUNCTIONS[type(op)](cta.registers(op, op.lhs), cta.registers(op, op.rhs))
    cta.values[op.res] = cta.numerics.round(values, op.res.type.dtype)


_FUNCTIONS = {AddOp: np.add, SubOp: np.subtract, MulOp: np.multiply, MaxOp: np.fmax}
for _op in _FUNCTIONS:
    handlers.of(_op)(_elementwise)
