"""`pipeline`: loads run ahead of the MMAs that use them, through a ring of stages.

Two steps: `pipeline_schedule` says for each loop what loads, waits, computes and completes, or why it has to stay serial;
`pipeline_expand` builds the ring, prologue, steady state and drain. Legal because the steady state refills a stage only
after the wait (or the barrier of threads) that ends its last use, and nothing but loads moves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block
from xdsl.passes import ModulePass

from tilec.diagnostics import collect, fail, remark
from tilec.dialects.tile import CopyAsyncOp, GridOp, KernelOp, ScheduleOp, SlotOp
from tilec.passes.pipeline_expand import expand
from tilec.passes.pipeline_schedule import Refusal, Schedule, loops_with_loads, schedule
from tilec.passes.setup import scalars_of
from tilec.passes.storage import plan, target_of
from tilec.passes.synchronous import is_synchronous, refuse_roles

MAX_STAGES = 1 << 11
"""A slot of a ring takes 128 bytes or more: no chip's shared memory holds so many."""


@dataclass(frozen=True)
class Pipeline(ModulePass):
    """Run loads ahead through a ring of `stages` shared tiles.

    A stage is refilled when the MMA of `lag` iterations earlier is complete: 0 waits for each MMA at once, as the lesson
    does; 1, the default from 3 stages on, keeps the tensor core busy during the wait.
    """

    name: ClassVar[str] = "pipeline"

    stages: int = 2
    lag: int | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.stages <= MAX_STAGES:
            raise ValueError(f"pipeline(stages = {self.stages}): a ring has 1 to {MAX_STAGES} stages.")
        if self.lag is not None and not 0 <= self.lag < self.stages:
            raise ValueError(
                f"pipeline(stages = {self.stages}, lag = {self.lag}): lag is at least 0 and less than stages, since the "
                "MMAs in flight hold their stages."
            )

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in op.walk():
            if isinstance(kernel, KernelOp):
                _check_order(kernel)
                serial = kernel.clone()
                _pipeline(kernel, self.stages, self.lag)
                self._check_memory(kernel, serial)

    def _check_memory(self, kernel: KernelOp, serial: KernelOp) -> None:
        """Refuse a ring that shared memory cannot hold, and say which one it can."""
        target = target_of(kernel)
        needed = plan(kernel).total
        if needed <= target.smem_per_cta:
            return
        fits, fails = 0, self.stages
        while fails - fits > 1:
            middle = (fits + fails) // 2
            trial = serial.clone()
            with collect():  # remarks have been made
                _pipeline(trial, middle, None)
            if plan(trial).total <= target.smem_per_cta:
                fits = middle
            else:
                fails = middle
        fail(
            kernel,
            f"{self.stages} stages need {needed} bytes of shared memory, a CTA of {target.name} has {target.smem_per_cta}",
            hint=f"the deepest ring that fits: pipeline({fits})" if fits else "use smaller tiles: retile(m, n, k)",
        )


def _check_order(kernel: KernelOp) -> None:
    if is_synchronous(kernel):
        fail(
            kernel,
            "no loads to run ahead: this kernel is synchronous",
            hint="run `tma` (or `threads`) before `pipeline`",
        )
    refuse_roles(
        kernel,
        "a kernel with roles cannot be pipelined any more",
        "run `pipeline` on a kernel without tile.roles, or write the ring and its full and empty barriers by hand",
    )
    for op in kernel.walk():
        if isinstance(op, ScheduleOp | scf.WhileOp):
            fail(op, "a persistent kernel cannot be pipelined any more", hint="run `pipeline` before `persistent`")
        if isinstance(op, CopyAsyncOp) and op.is_load and op.dest is not None and isinstance(op.dest.owner, SlotOp):
            fail(op, "this kernel is pipelined already: its loads fill a ring", hint="run `pipeline` once")


def _pipeline(kernel: KernelOp, stages: int, lag: int | None) -> None:
    block = _body_of(kernel)
    loops = loops_with_loads(block)
    if not loops:
        fail(
            kernel,
            "no loop with loads: there is nothing to run ahead of",
            hint="put the loads into a tile.for (in Python, a tile.range)",
        )
    plans: list[Schedule] = []
    for loop in loops:
        found = schedule(loop)
        if isinstance(found, Refusal):
            remark(found.at, f"this loop is not pipelined: {found.reason}")
        else:
            plans.append(found)
    scalars = scalars_of(block)
    for found in plans:
        chosen = (1 if stages >= 3 else 0) if lag is None else min(lag, stages - 1)
        if chosen and found.lag_problem is not None:
            if lag is not None:
                remark(found.loop, f"lag 0 in this loop: {found.lag_problem}")
            chosen = 0
        expand(found, stages, chosen, scalars)


def _body_of(kernel: KernelOp) -> Block:
    for op in kernel.body.block.ops:
        if isinstance(op, GridOp):
            return op.body.block
    return kernel.body.block
