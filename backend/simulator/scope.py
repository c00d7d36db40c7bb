"""Who executes an operation: one thread, all threads of the CTA, or the setup."""

from __future__ import annotations

from xdsl.ir import Operation

from tilec.backend.simulator.cta import AsyncCta
from tilec.backend.simulator.faults import storage_outside
from tilec.dialects.tile import GridOp, KernelOp


def one_thread(cta: AsyncCta, op: Operation, problem: str, hint: str) -> None:
    if not cta.alone:
        cta.fail("scope", op, problem, hint)


def all_threads(cta: AsyncCta, op: Operation, problem: str | None = None, hint: str | None = None) -> None:
    if cta.alone:
        cta.fail(
            "scope",
            op,
            problem or f"{op.name} belongs to all threads of its role",
            hint or f"move {op.name} out of tile.single_thread",
        )


def storage(op: Operation) -> None:
    if not isinstance(op.parent_op(), KernelOp | GridOp):
        raise storage_outside(op)
