"""Where the parts of a pipelined kernel are, found by what operations do and never by their names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from tilec.dialects.tile import (
    ArriveExpectTxOp,
    CommitGroupOp,
    CommitOp,
    CopyAsyncOp,
    CtaSyncOp,
    FenceOp,
    FreeOp,
    KernelOp,
    MbarrierInitOp,
    MmaOp,
    RingType,
    ScheduleOp,
    SingleThreadOp,
    SlotOp,
    SmemType,
    StoreOp,
    TryWaitOp,
    ViewType,
    WaitGroupOp,
)

OpT = TypeVar("OpT", bound=Operation)
Sites = list[tuple[str, Operation]]
"""Places for a mistake, each with its label."""


class Anatomy:
    """The parts of the one kernel of a module, in program order."""

    def __init__(self, module: ModuleOp):
        self.kernel = next(op for op in module.walk() if isinstance(op, KernelOp))
        self.ops = list(self.kernel.body.walk())
        self.place = {op: place for place, op in enumerate(self.ops)}
        self.inits = [op for op in self.ops if isinstance(op, MbarrierInitOp)]
        self.syncs = [op for op in self.ops if isinstance(op, CtaSyncOp)]
        self.fences = [op for op in self.ops if isinstance(op, FenceOp)]
        self.mmas = [op for op in self.ops if isinstance(op, MmaOp)]
        self.commits = [op for op in self.ops if isinstance(op, CommitOp)]
        self.frees = [op for op in self.ops if isinstance(op, FreeOp)]
        self.slots = [op for op in self.ops if isinstance(op, SlotOp)]
        self.announcements = [op for op in self.ops if isinstance(op, ArriveExpectTxOp)]
        self.commit_groups = [op for op in self.ops if isinstance(op, CommitGroupOp)]
        self.wait_groups = [op for op in self.ops if isinstance(op, WaitGroupOp)]
        self.loads = [op for op in self.ops if isinstance(op, CopyAsyncOp) and op.is_load]
        self.stores = [op for op in self.ops if is_copy_out(op)]
        self.reads = [op for op in self.ops if isinstance(op, CopyAsyncOp) and op.dispatch == "tmem"]

        waits = [op for op in self.ops if isinstance(op, TryWaitOp)]
        full = {op.barrier for op in self.announcements}
        done = {op.barrier for op in self.commits}
        self.full_waits = [op for op in waits if op.barrier in full]
        self.done_waits = [op for op in waits if op.barrier in done]

        loops = [loop for op in (*self.mmas, *self.full_waits) if (loop := loop_of(op)) is not None]
        self.k_loop = loops[0] if loops else None
        turns = [op for op in self.ops if isinstance(op, scf.WhileOp)]
        self.turns = turns[0] if turns else None

    def in_k_loop(self, op: Operation) -> bool:
        return self.k_loop is not None and self.k_loop.is_ancestor(op)

    def in_turns(self, op: Operation) -> bool:
        return self.turns is not None and self.turns.is_ancestor(op)

    def prologue_of(self, op: Operation) -> scf.ForOp | None:
        """The loop that issues the first loads of a tile, if `op` is in one."""
        loop = loop_of(op)
        return None if loop is self.k_loop else loop

    def issue_label(self, op: Operation) -> str:
        """Where loads are issued."""
        if self.prologue_of(op) is not None:
            others = any(not self.in_turns(o) for o in self.announcements)
            if self.turns is None or not others:
                return "prologue"
            return "next tile's prologue" if self.in_turns(op) else "first prologue"
        return "refill" if self.in_k_loop(op) and parent_of(op, scf.IfOp) is not None else "load"

    def chunk_label(self, op: Operation) -> str:
        """Which piece of a tile, for an operation at or before its copy out."""
        before = sum(1 for store in self.stores if self.place[store] < self.place[op])
        return f"chunk {before}"

    def schedules(self) -> list[ScheduleOp]:
        return [op for op in self.ops if isinstance(op, ScheduleOp)]


def is_copy_out(op: Operation) -> bool:
    """Whether `op` copies a shared tile to a view."""
    return (
        isinstance(op, CopyAsyncOp)
        and op.dest is not None
        and isinstance(op.source.type, SmemType)
        and isinstance(op.dest.type, ViewType)
    )


def parent_of(op: Operation, kind: type[OpT]) -> OpT | None:
    """The innermost operation of a kind around `op`."""
    above = op.parent_op()
    while above is not None and not isinstance(above, kind):
        above = above.parent_op()
    return above


def loop_of(op: Operation) -> scf.ForOp | None:
    """The innermost counted loop around `op`."""
    return parent_of(op, scf.ForOp)


def after(op: Operation) -> Iterator[Operation]:
    """The operations behind `op` in its block, nearest first."""
    following = op.next_op
    while following is not None:
        yield following
        following = following.next_op


def before(op: Operation) -> Iterator[Operation]:
    """The operations ahead of `op` in its block, nearest first."""
    earlier = op.prev_op
    while earlier is not None:
        yield earlier
        earlier = earlier.prev_op


def holds(op: Operation, *kinds: type[Operation]) -> bool:
    """Whether `op` is, or has inside, an operation of a kind."""
    return any(isinstance(inside, kinds) for inside in op.walk())


def copies_out(op: Operation) -> bool:
    """Whether `op` is, or has inside, a copy of a shared tile to a view."""
    return any(is_copy_out(inside) for inside in op.walk())


def until_sync(ops: Iterator[Operation]) -> Iterator[Operation]:
    """What comes before the next barrier of threads."""
    for op in ops:
        if isinstance(op, CtaSyncOp):
            return
        yield op


def scope_of(op: Operation) -> SingleThreadOp | None:
    """The single-thread scope in which `op` stands."""
    return parent_of(op, SingleThreadOp)


def carried(loop: scf.ForOp | scf.WhileOp, value: SSAValue) -> int | None:
    """The place of `value` among what a loop carries, if it is an argument of the loop's body."""
    body = body_of(loop)
    if not isinstance(value, BlockArgument) or value.owner is not body:
        return None
    return value.index - 1 if isinstance(loop, scf.ForOp) else value.index


def body_of(loop: scf.ForOp | scf.WhileOp) -> Block:
    return loop.body.block if isinstance(loop, scf.ForOp) else loop.after_region.block


def yield_of(loop: scf.ForOp | scf.WhileOp) -> scf.YieldOp:
    last = body_of(loop).last_op
    assert isinstance(last, scf.YieldOp)
    return last


def ring_depth(slot: SlotOp) -> int:
    assert isinstance(slot.ring.type, RingType)
    return slot.ring.type.depth


def writes_tile(op: Operation) -> bool:
    """Whether `op` is, or has inside, a store of registers to a shared tile."""
    return holds(op, StoreOp)
