"""Issue scopes, and operations that only synchronous kernels may hold."""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.ir import Block, Operation

from tilec.backend.reference.cta import Handlers
from tilec.backend.simulator.cta import AsyncCta
from tilec.diagnostics import fail
from tilec.dialects.tile import CopyOp, ForOp, KernelOp, MmaOp, ScheduleOp, SingleThreadOp

handlers = Handlers()


@handlers.of(SingleThreadOp)
def _single_thread(cta: AsyncCta, op: SingleThreadOp) -> None:
    active, cta.active = cta.active, [cta.issuer]
    cta.run(op.body.block)
    cta.active = active


def check_mixture(kernel: KernelOp) -> None:
    """Refuse synchronous operations in an asynchronous kernel."""
    for op in kernel.walk():
        if isinstance(op, CopyOp | ForOp) or (isinstance(op, MmaOp) and op.accumulate is None):
            fail(op, f"{op.name} is synchronous, but this kernel is asynchronous", _HINTS[type(op)])


_HINTS: dict[type[Operation], str] = {
    CopyOp: "use tile.copy_async and say who copies",
    ForOp: "use scf.for",
    MmaOp: "add `accumulate %flag`, a tile.commit and a wait for it",
}


def turn_blocks(kernel: KernelOp) -> frozenset[Block]:
    """The bodies of the innermost loops around each tile.schedule: one execution is one output tile."""
    blocks: set[Block] = set()
    for op in kernel.walk():
        if isinstance(op, ScheduleOp) and (loop := _loop_around(op)) is not None:
            blocks.add(loop.body.block if isinstance(loop, scf.ForOp) else loop.after_region.block)
    return frozenset(blocks)


def _loop_around(op: Operation) -> scf.ForOp | scf.WhileOp | None:
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, scf.ForOp | scf.WhileOp):
        parent = parent.parent_op()
    return parent
