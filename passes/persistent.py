"""`persistent`: a fixed pool of CTAs, each of which goes through many tiles; setup and teardown are paid once.

    setup
    scf.while (turn, state...) { tile.schedule says whether there is a tile left }
    do { tile.schedule says which; the tile; yield turn + 1, state... }
    teardown

A barrier keeps its parity for the life of the kernel. So every phase, and every stage of a ring, that starts at a constant
goes on from where the last tile left it; what else a tile starts with (flags, values of the user) starts anew. Legal because
nothing of a tile is in flight at its end but TMA stores, whose staging slots are claimed before they are written. A tile that
was written by hand may leave more to do; what it lacks is put at its end (`between_tiles.py`), and stages that it counts are
carried first (`counted_stages.py`). Where the tile has a pipelined loop, the next tile's first loads are issued before the
epilogue (`run_ahead.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from tilec.diagnostics import fail
from tilec.dialects.tile import (
    AllocOp,
    CtaSyncOp,
    FenceOp,
    FreeOp,
    GridOp,
    KernelOp,
    MbarrierInitOp,
    ScheduleOp,
    SingleThreadOp,
    WaitGroupOp,
)
from tilec.dialects.tile.structure import MAX_GROUP
from tilec.passes.between_tiles import missing_between_tiles
from tilec.passes.builder import LocatedBuilder, Scalars
from tilec.passes.counted_stages import carry_counted_stages
from tilec.passes.protocol_state import State, find_state
from tilec.passes.run_ahead import run_ahead
from tilec.passes.setup import scalars_before, setup_of
from tilec.passes.synchronous import is_synchronous, refuse_roles


@dataclass(frozen=True)
class Persistent(ModulePass):
    """Let a fixed pool of CTAs loop over the tiles; loads run ahead into the next one.

    `group` tile rows form a group whose tiles are visited one after another: they share their operands in the L2 cache.
    """

    name: ClassVar[str] = "persistent"

    group: int = 8

    def __post_init__(self) -> None:
        if not 1 <= self.group <= MAX_GROUP:
            raise ValueError(f"persistent(group = {self.group}): a group has 1 to {MAX_GROUP} rows of tiles.")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in op.walk():
            if isinstance(kernel, KernelOp):
                _make_persistent(kernel, _grid_of(kernel), self.group)


def _grid_of(kernel: KernelOp) -> GridOp:
    if is_synchronous(kernel):
        fail(kernel, "this kernel is synchronous", hint="run `tma` (or `threads`) before `persistent`")
    grids = [op for op in kernel.walk() if isinstance(op, GridOp)]
    refuse_roles(
        kernel,
        "a kernel with roles cannot be made persistent any more",
        "run `persistent` on a kernel without tile.roles, or give each role its own loop over tile.schedule",
    )
    for op in kernel.walk():
        if isinstance(op, ScheduleOp):
            fail(op, "this kernel is persistent already: it has a tile scheduler", hint="run `persistent` once")
    if not grids:
        fail(kernel, "there is no grid whose tiles a CTA could go through", hint="write the kernel with a tile.grid")
    return grids[0]


def _make_persistent(kernel: KernelOp, grid: GridOp, group: int) -> None:
    body = grid.body.block
    carry_counted_stages(body)
    state = find_state(body)
    setup, teardown = setup_of(body), _teardown_of(body)
    before = LocatedBuilder.before(grid)
    for op in setup:
        op.detach()
        before.of(op).add(op)
    _check_setup(body, teardown)
    for op in teardown:
        op.detach()
    last = body.last_op or grid
    missing_between_tiles(body).insert(LocatedBuilder.at_end(body, last))
    loop = _loop(grid, before, body, state, scalars_before(grid), group)
    after = LocatedBuilder.after(run_ahead(loop))
    for op in teardown:
        after.of(op).add(op)
    grid.detach()
    grid.erase()


def _check_setup(body: Block, teardown: list[Operation]) -> None:
    """What is paid once must not stand between the operations of a tile."""
    for op in body.walk():
        if isinstance(op, AllocOp | MbarrierInitOp):
            fail(op, f"{op.name} in the middle of a tile", hint="put allocations and barriers first in the grid")
        if isinstance(op, FreeOp) and op not in teardown:
            fail(op, f"{op.name} in the middle of a tile", hint="free accumulators last in the grid")


def _loop(
    grid: GridOp, before: LocatedBuilder, body: Block, state: list[State], scalars: Scalars, group: int
) -> scf.WhileOp:
    """The loop over turns, with the grid's block as its body."""
    inits = [scalars.index(0), *(one.start for one in state)]
    hints = ["turn", *(one.hint for one in state)]
    types = [value.type for value in inits]
    condition = Block(arg_types=types)
    for argument, hint in zip(condition.args, hints, strict=True):
        argument.name_hint = hint
        argument.location = grid.location
    b = before.inside(condition)
    valid = b.add(ScheduleOp(condition.args[0], grid.view, grid.step, group), "valid").valid
    b.add(scf.ConditionOp(valid, *condition.args))

    grid.body.detach_block(body)
    offsets = list(body.args)
    turn, *carried = (body.insert_arg(type, place, grid.location) for place, type in enumerate(types))
    for argument, hint in zip((turn, *carried), hints, strict=True):
        argument.name_hint = hint
    first = body.first_op
    top = LocatedBuilder(InsertPoint.at_end(body) if first is None else InsertPoint.before(first), grid.location)
    schedule = top.add(ScheduleOp(turn, grid.view, grid.step, group), "valid", *(o.name_hint for o in offsets))
    for old, new in zip(offsets, schedule.offsets, strict=True):
        old.replace_all_uses_with(new)
        body.erase_arg(old)
    ends = [one.carry(argument, scalars) for one, argument in zip(state, carried, strict=True)]
    b = before.inside(body)
    b.yield_(b.add_index(turn, scalars.index(1), "turn"), *ends)
    return before.add(scf.WhileOp(inits, types, Region(condition), Region(body)), *hints)


def _teardown_of(body: Block) -> list[Operation]:
    """What ends the CTA and not the tile, in order: draining stores, then giving the accumulators back."""
    found: list[Operation] = []

    def take(op: Operation | None, wanted: bool) -> Operation | None:
        if op is None or not wanted:
            return op
        found.insert(0, op)
        return op.prev_op

    op = body.last_op
    while isinstance(op, FreeOp):
        op = take(op, True)
    if found:
        op = take(op, isinstance(op, FenceOp) and op.kind == "after_thread_sync")
        op = take(op, isinstance(op, CtaSyncOp))
        op = take(op, isinstance(op, FenceOp) and op.kind == "before_thread_sync")
    take(op, isinstance(op, SingleThreadOp) and _drains(op))
    return found


def _drains(op: SingleThreadOp) -> bool:
    inner = list(op.body.block.ops)
    return len(inner) == 1 and isinstance(inner[0], WaitGroupOp) and inner[0].pending == 0 and not inner[0].read
