"""The first half of `pipeline`: find the loops whose loads can run ahead, and say what in them does what.

Nothing is changed here. A loop that cannot be pipelined gives a reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects import scf
from xdsl.ir import Block, BlockArgument, Operation
from xdsl.traits import is_side_effect_free

from tilec.dialects.tile import (
    AllocOp,
    ArriveExpectTxOp,
    CommitOp,
    CopyAsyncOp,
    CtaSyncOp,
    FenceOp,
    MmaOp,
    SingleThreadOp,
    StoreOp,
    TryWaitOp,
)
from tilec.passes.builder import constant


@dataclass(frozen=True)
class Schedule:
    """One loop over K: its operations by what they do. The rest of the body computes."""

    loop: scf.ForOp
    issue: tuple[Operation, ...]
    """Start the loads of one iteration, in order: single-thread scopes, thread copies and the fence and barrier behind
    these."""
    indices: tuple[Operation, ...]
    """Index computations inside the loop that only the loads need, in order."""
    tiles: tuple[AllocOp, ...]
    """What the loads fill."""
    full_waits: tuple[TryWaitOp, ...]
    """Wait until loads have landed."""
    done: tuple[CommitOp | TryWaitOp, ...]
    """Commit MMAs and wait for them, so that the tiles are free."""
    last_mma: MmaOp | None
    lag_problem: str | None
    """Why each iteration must wait for its own MMAs."""

    @property
    def loads(self) -> list[CopyAsyncOp]:
        return list(loads_of(self.issue))


@dataclass(frozen=True)
class Refusal:
    """Why a loop with loads is left as it is."""

    at: Operation
    reason: str


def is_load(op: Operation) -> bool:
    return isinstance(op, CopyAsyncOp) and op.is_load


def loads_of(ops: tuple[Operation, ...]) -> Iterator[CopyAsyncOp]:
    for op in ops:
        for inner in op.walk():
            if isinstance(inner, CopyAsyncOp) and inner.is_load:
                yield inner


def loops_with_loads(block: Block) -> list[scf.ForOp]:
    """Loops that load tiles and hold no other such loop."""

    def loading(op: Operation) -> bool:
        return isinstance(op, scf.ForOp) and any(is_load(inner) for inner in op.walk())

    found = [op for top in block.ops for op in top.walk() if loading(op)]
    return [
        op
        for op in found
        if isinstance(op, scf.ForOp) and not any(loading(inner) for inner in op.walk() if inner is not op)
    ]


def schedule(loop: scf.ForOp) -> Schedule | Refusal:
    """Sort the operations of a loop by what they do."""
    if constant(loop.lb) != 0 or constant(loop.step) is None:
        return Refusal(loop, "the loop does not count from 0 in constant steps")
    issue = _issue(loop)
    loads = list(loads_of(issue))
    if any(is_load(op) and op not in loads for op in loop.walk()):
        return Refusal(loop, "a tile is loaded under a condition")
    tiles: list[AllocOp] = []
    for load in loads:
        assert load.dest is not None
        tile = load.dest.owner
        assert isinstance(tile, AllocOp)  # else it would be a slot: the kernel was pipelined before
        if tile in tiles:
            return Refusal(load, "this tile is filled twice in one iteration")
        tiles.append(tile)
        problem = _misuse(tile, loop)
        if problem is not None:
            return problem
    indices = _index_computations(loop, loads)
    if isinstance(indices, Refusal):
        return indices
    signalled = {load.barrier for load in loads if load.barrier is not None}
    committed = {op.barrier for op in loop.body.block.ops if isinstance(op, CommitOp)}
    full_waits: list[TryWaitOp] = []
    done: list[CommitOp | TryWaitOp] = []
    mmas: list[MmaOp] = []
    for op in loop.body.block.ops:
        match op:
            case TryWaitOp() if op.barrier in signalled:
                full_waits.append(op)
            case TryWaitOp() if op.barrier in committed:
                done.append(op)
            case CommitOp():
                done.append(op)
            case MmaOp():
                mmas.append(op)
            case _:
                pass
    unordered = _unordered_reader(loop, tiles, issue, done)
    if unordered is not None:
        return Refusal(unordered, "nothing in the loop waits for this to be done with its tile")
    return Schedule(
        loop,
        issue,
        indices,
        tuple(tiles),
        tuple(full_waits),
        tuple(done),
        mmas[-1] if mmas else None,
        _lag_problem(loop, tiles, done),
    )


def _issue(loop: scf.ForOp) -> tuple[Operation, ...]:
    found: list[Operation] = []
    for op in loop.body.block.ops:
        match op:
            case SingleThreadOp() if all(
                isinstance(inner, ArriveExpectTxOp) or is_load(inner) for inner in op.body.ops
            ):
                found.append(op)
            case CopyAsyncOp() if op.is_load:
                found.append(op)
            case FenceOp() | CtaSyncOp() if found and op.prev_op is found[-1] and _publishes_threads(found):
                if not (isinstance(op, FenceOp) and op.kind != "proxy_async"):
                    found.append(op)
            case _:
                pass
    return tuple(found)


def _publishes_threads(issue: list[Operation]) -> bool:
    """Whether thread copies were issued that no barrier has followed yet."""
    for op in reversed(issue):
        if isinstance(op, CtaSyncOp):
            return False
        if isinstance(op, CopyAsyncOp):
            return True
    return False


def _misuse(tile: AllocOp, loop: scf.ForOp) -> Refusal | None:
    """A tile may become a ring if each iteration fills it before it reads it, and nobody else wants what it holds."""
    for use in tile.res.uses:
        inside: Operation | None = use.operation
        while inside is not None and not isinstance(inside, scf.ForOp):
            inside = inside.parent_op()
        if inside is None or (inside is not loop and inside.is_ancestor(loop)):
            return Refusal(use.operation, "a tile that the loop loads is used outside of it")
        if loop.is_ancestor(inside):
            inside = loop
        first = next(op for op in inside.body.walk() if tile.res in op.operands)
        if first not in list(loads_of(_issue(inside))):
            return Refusal(first, "the loop reads this tile before it loads it, so that loads cannot run ahead")
    return None


def _index_computations(loop: scf.ForOp, loads: list[CopyAsyncOp]) -> tuple[Operation, ...] | Refusal:
    """The operations inside the loop that the loads' coordinates come from; they may depend on nothing but its counter."""
    needed: set[Operation] = set()
    pending = [index for load in loads for index in load.indices]
    while pending:
        value = pending.pop()
        block = value.owner if isinstance(value.owner, Block) else value.owner.parent
        if block is not loop.body.block:
            continue
        if isinstance(value, BlockArgument):
            if value.index > 0:
                return Refusal(loop, "a load's coordinates depend on the iteration before")
        elif isinstance(op := value.owner, Operation) and op not in needed:
            if not is_side_effect_free(op):
                return Refusal(op, "a load's coordinates depend on what the loop computes")
            needed.add(op)
            pending.extend(op.operands)
    return tuple(op for op in loop.body.block.ops if op in needed)


def _unordered_reader(
    loop: scf.ForOp, tiles: list[AllocOp], issue: tuple[Operation, ...], done: list[CommitOp | TryWaitOp]
) -> Operation | None:
    """A reader of the tiles after which the loop has no wait: MMAs need a commit and its wait, threads a cta_sync."""
    order = {op: place for place, op in enumerate(loop.body.block.ops) if op not in issue}
    last_sync = max((place for op, place in order.items() if isinstance(op, CtaSyncOp)), default=-1)
    last_commit = max((order[op] for op in done if isinstance(op, CommitOp)), default=-1)
    last_done = max((order[op] for op in done if isinstance(op, TryWaitOp)), default=-1)
    for op, place in order.items():
        for inner in op.walk():
            if not any(tile.res in inner.operands for tile in tiles):
                continue
            if isinstance(inner, MmaOp):
                if not place < last_commit < last_done:
                    return inner
            elif last_sync < place:
                return inner
    return None


def _lag_problem(loop: scf.ForOp, tiles: list[AllocOp], done: list[CommitOp | TryWaitOp]) -> str | None:
    """Why MMAs cannot be left running at the end of an iteration."""
    if not done:
        return "it has no MMAs"
    if any(isinstance(op, CopyAsyncOp) and op.dispatch == "tmem" for op in loop.walk()):
        return "it reads its accumulator"
    ringed = {tile.res for tile in tiles}
    operands = {operand for op in loop.walk() if isinstance(op, MmaOp) for operand in (op.a, op.b)}
    for op in loop.walk():
        if isinstance(op, StoreOp) and op.dest in operands and op.dest not in ringed:
            return "it writes an operand of its MMAs that has no stages"
    commit, *waits = done
    after = commit.next_op
    while after is not None:
        if after not in waits and not isinstance(after, FenceOp | CtaSyncOp) and not is_side_effect_free(after):
            return f"{after.name} needs the MMAs before it"
        after = after.next_op
    return None
