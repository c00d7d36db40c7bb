"""Barriers, commits and bulk groups. Fences and CTA barriers have nothing to order where one agent runs alone."""

from __future__ import annotations

from xdsl.ir import Operation

from tilec.backend.reference.cta import Cta, Handlers, name_of
from tilec.backend.reference.storage import Barriers, Mbarrier
from tilec.dialects.tile import (
    ArriveExpectTxOp,
    ArriveOp,
    CommitGroupOp,
    CommitOp,
    CtaSyncOp,
    FenceOp,
    MbarrierInitOp,
    MbarrierType,
    TryWaitOp,
    WaitGroupOp,
    WaitLdOp,
)

handlers = Handlers()


@handlers.of(MbarrierInitOp)
def _init(cta: Cta, op: MbarrierInitOp) -> None:
    name, type = name_of(op.res), op.res.type
    assert isinstance(type, MbarrierType)
    cta.values[op.res] = Barriers(Mbarrier(f"{name}[{i}]", op.count) for i in range(type.depth))


@handlers.of(ArriveExpectTxOp)
def _arrive_expect_tx(cta: Cta, op: ArriveExpectTxOp) -> None:
    cta.barrier(op, op.barrier, op.stage).arrive(op, announce=op.bytes)


@handlers.of(ArriveOp)
def _arrive(cta: Cta, op: ArriveOp) -> None:
    cta.barrier(op, op.barrier, op.stage).arrive(op)


@handlers.of(CommitOp)
def _commit(cta: Cta, op: CommitOp) -> None:
    cta.mmas = [mma for mma in cta.mmas if not mma.landed]
    barrier = cta.barrier(op, op.barrier, op.stage)
    barrier.riding += cta.mmas
    barrier.arrive(op)


@handlers.of(TryWaitOp)
def _try_wait(cta: Cta, op: TryWaitOp) -> None:
    cta.barrier(op, op.barrier, op.stage).wait(op, cta.unsigned(op.phase) & 1)


@handlers.of(CommitGroupOp)
def _commit_group(cta: Cta, op: CommitGroupOp) -> None:
    cta.bulk.commit()


@handlers.of(WaitGroupOp)
def _wait_group(cta: Cta, op: WaitGroupOp) -> None:
    cta.bulk.wait(op.pending)


def _nothing(cta: Cta, op: Operation) -> None:
    """Orders accesses of several threads or proxies."""


handlers[CtaSyncOp] = handlers[FenceOp] = handlers[WaitLdOp] = _nothing
