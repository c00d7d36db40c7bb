"""Issue scopes, and operations that only synchronous kernels may hold."""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.ir import Block, BlockArgument, Operation

from tilec.backend.reference.cta import Handlers
from tilec.backend.simulator.cta import AsyncCta
from tilec.diagnostics import fail
from tilec.dialects.tile import CopyAsyncOp, CopyOp, ForOp, KernelOp, MmaOp, ScheduleOp, SingleThreadOp

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
        if isinstance(op, CopyAsyncOp) and op.dispatch != "tmem":
            view = op.source if op.is_load else op.dest
            if not isinstance(view, BlockArgument) or view.owner is not kernel.body.block:
                fail(op, "a copy of a view that is no argument of the kernel", "name the argument where it is copied")


_HINTS: dict[type[Operation], str] = {
    CopyOp: "use tile.copy_async and say who copies",
    ForOp: "use scf.for",
    MmaOp: "add `accumulate %flag`, a tile.commit and a wait for it",
}


def turn_blocks(kernel: KernelOp) -> frozenset[Block]:
    """The bodies of the loops that go from tile to tile: one execution is one output tile."""
    blocks: set[Block] = set()
    for op in kernel.walk():
        if isinstance(op, ScheduleOp) and (loop := _loop_of_tiles(op)) is not None:
            blocks.add(loop.body.block if isinstance(loop, scf.ForOp) else loop.after_region.block)
    return frozenset(blocks)


def _loop_of_tiles(op: Operation) -> scf.ForOp | scf.WhileOp | None:
    """The innermost scf.while around a schedule, else the innermost loop."""
    around: list[scf.ForOp | scf.WhileOp] = []
    parent = op.parent_op()
    while parent is not None:
        if isinstance(parent, scf.ForOp | scf.WhileOp):
            around.append(parent)
        parent = parent.parent_op()
    return next((loop for loop in around if isinstance(loop, scf.WhileOp)), around[0] if around else None)
