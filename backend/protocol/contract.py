"""The contract of an asynchronous kernel, read off its IR: who does what, what lies where, and how it is handed on.

This is the table that one writes by hand when designing a TMA pipeline: roles, storage, hand-offs (a tile is *ready* for
who reads it, or *free* for who overwrites it) and lifetimes. It shows what the program says; whether that is right is for
`tilec.backend.protocol.check` to say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from xdsl.ir import Operation, SSAValue

from tilec.backend.protocol.contract_phase import describe_phase
from tilec.backend.protocol.contract_walk import TENSOR_CORE, TMA, Access, Walk, is_threads, line_of, parted, root_of
from tilec.backend.target import DEFAULT_TARGET, TARGETS
from tilec.dialects.tile import (
    AccType,
    AllocOp,
    ArriveExpectTxOp,
    ArriveOp,
    CommitGroupOp,
    CommitOp,
    CopyAsyncOp,
    CtaSyncOp,
    FenceOp,
    FreeOp,
    KernelOp,
    MbarrierInitOp,
    MbarrierType,
    RingType,
    RoleSyncOp,
    SmemType,
    TryWaitOp,
    WaitGroupOp,
)
from tilec.dialects.tile.roles import role_of

_BARRIER_BYTES = 8


@dataclass(frozen=True)
class Role:
    """One who acts: threads or an engine."""

    name: str
    does: tuple[Action, ...]


@dataclass(frozen=True)
class Action:
    """``wait for full, done``, and the lines that say so."""

    what: str
    lines: tuple[int, ...]


@dataclass(frozen=True)
class Storage:
    """Memory of a CTA. `bytes` is all stages together; `address` in shared memory, where a plan says it."""

    name: str
    bytes: int
    stages: int
    where: str
    layout: str
    address: int | None = None


@dataclass(frozen=True)
class Handoff:
    """`tiles` go from `producer` to `consumer`: with data in them (ready), or to be overwritten (free)."""

    tiles: tuple[str, ...]
    state: Literal["ready", "free", "stored"]
    producer: str
    consumer: str
    signal: str
    """The mbarrier, the bulk group, the `cta_sync` or `role_sync` by which the consumer learns of it; ``none`` where nothing stands
    between."""
    arrivals: int | None
    """Arrivals that complete a round of the mbarrier."""
    bytes: tuple[int, ...]
    """What is announced to the mbarrier; several where the announcements differ."""
    phase: tuple[str, ...]
    """Where the phases of the waits come from."""
    order: tuple[str, ...]
    """Fences, and what drains."""


@dataclass(frozen=True)
class Place:
    """An operation in words, and its line in the program."""

    what: str
    line: int | None


@dataclass(frozen=True)
class Lifetime:
    """The stations of one piece of storage, each the first or the last in the order of the text."""

    name: str
    allocated: Place
    first_written: Place | None
    last_read: Place | None
    given_back: Place | None


@dataclass(frozen=True)
class Contract:
    """All of it, for one kernel."""

    kernel: str
    target: str
    roles: tuple[Role, ...]
    storage: tuple[Storage, ...]
    handoffs: tuple[Handoff, ...]
    lifetimes: tuple[Lifetime, ...]


def contract(kernel: KernelOp, addresses: Mapping[SSAValue, int] | None = None) -> Contract:
    """The contract of an asynchronous kernel. `addresses`: where its tiles and barriers lie in shared memory, if planned."""
    walk = Walk(kernel)
    target = DEFAULT_TARGET if kernel.target is None else kernel.target.data
    roles = tuple(
        Role(
            name,
            tuple(
                Action(f"{verb} {', '.join(names)}".rstrip(), tuple(sorted(lines)))
                for verb, (names, lines) in does.items()
            ),
        )
        for name, does in walk.roles().items()
        if does
    )
    return Contract(
        kernel.sym_name.data,
        target,
        roles,
        tuple(_storage(walk, value, target, addresses or {}) for value in walk.names),
        tuple(_handoffs(walk)),
        tuple(_lifetime(walk, value) for value in walk.names),
    )


def _storage(walk: Walk, value: SSAValue, target: str, addresses: Mapping[SSAValue, int]) -> Storage:
    name, address = walk.names[value], addresses.get(value)
    match value.type:
        case AccType() as acc:
            where = "tensor memory" if TARGETS[target].mma == "tcgen05" else "registers"
            rows, columns = acc.shape
            return Storage(name, rows * columns * acc.dtype.bytes, 1, where, f"{rows}x{columns} {acc.dtype.name}")
        case MbarrierType() as barrier:
            assert isinstance(value.owner, MbarrierInitOp)
            size = barrier.depth * _BARRIER_BYTES
            return Storage(name, size, barrier.depth, "shared memory", f"mbarrier, count {value.owner.count}", address)
        case RingType() as ring:
            tile, depth = ring.slot, ring.depth
        case SmemType() as tile:
            depth = 1
        case _:
            raise AssertionError(value.type)
    shape = "x".join(map(str, tile.shape))
    if not tile.swizzle:
        layout, size = "no layout yet", 0
    else:
        swizzle = "no swizzle" if tile.swizzle == 16 else f"swizzle {tile.swizzle}"
        layout, size = f"dimension {tile.order[0]} fastest, {swizzle}", tile.layout.slot_size * depth
    return Storage(name, size, depth, "shared memory", f"{shape} {tile.dtype.name}, {layout}", address)


# ---- hand-offs


def _handoffs(walk: Walk) -> list[Handoff]:
    """One row for each way on which something is handed on; tiles that go the same way share it."""
    rows: dict[Handoff, list[str]] = {}
    for before, after in walk.conflicts():
        row = _handoff(walk, before, after)
        names = rows.setdefault(row, [])
        if (name := walk.names[before.storage]) not in names:
            names.append(name)
    merged = [replace(row, tiles=tuple(names)) for row, names in rows.items()]
    return [*merged, *_stored(walk)]


def _handoff(walk: Walk, before: Access, after: Access) -> Handoff:
    state = "ready" if before.writes and not after.writes else "free"
    row = Handoff((), state, before.actor, after.actor, "none", None, (), (), ())
    if before.actor == TMA and before.writes:
        assert isinstance(before.op, CopyAsyncOp)
        signal = before.op.barrier
        return row if signal is None else _through(walk, row, before, after, signal)
    if parted(before.op, after.op):
        kind = CommitOp if before.actor == TENSOR_CORE else ArriveOp
        signal = walk.handed_over(before.op, after.op, kind)
        return row if signal is None else _through(walk, row, before, after, signal)
    between = walk.between(before.op, after.op)
    row = replace(row, order=_order(between, before, after))
    match before.actor:
        case "TMA engine":
            groups = [op for op in between if isinstance(op, WaitGroupOp) and _drains(walk, before, after, op)]
            if not groups:
                return row
            waited = walk.between(groups[0], after.op)
            then = [_word(op) for op in waited if isinstance(op, CtaSyncOp | RoleSyncOp)][:1]
            return replace(row, signal="bulk group", order=(_words(groups[0]), *row.order, *then))
        case "tensor core":
            commit = walk.next_of(before.op, CommitOp)
            if commit is None or not _is_waited_for(between, commit.operands[0]):
                return row
            return _by_barrier(walk, row, commit.operands[0])
        case _:
            met = next((op for op in between if isinstance(op, CtaSyncOp | RoleSyncOp | ArriveOp)), None)
            if isinstance(met, ArriveOp):
                return _by_barrier(walk, row, met.barrier)
            return row if met is None else replace(row, signal=_word(met))


def _through(walk: Walk, row: Handoff, before: Access, after: Access, signal: SSAValue) -> Handoff:
    """The row of what an mbarrier hands on."""
    apart = parted(before.op, after.op)
    between = walk.path(before.op, after.op, signal) if apart else walk.between(before.op, after.op)
    mine = [op for op in walk.ops if role_of(op) is role_of(after.op)] if apart else between
    if not _is_waited_for(mine, signal):
        return row
    return _by_barrier(walk, replace(row, order=_order(between, before, after)), signal)


def _is_waited_for(ops: Sequence[Operation], barrier: SSAValue) -> bool:
    return any(isinstance(op, TryWaitOp) and op.barrier is barrier for op in ops)


def _drains(walk: Walk, before: Access, after: Access, wait: WaitGroupOp) -> bool:
    """Whether the group of the TMA store `before` is complete behind `wait`: as many groups as may be pending were closed after it.

    Of a ring whose stages are computed the text does not say which store a wait is for.
    """
    ring = before.storage.type
    if isinstance(ring, RingType) and ring.depth > 1 and None in (before.stage, after.stage):
        return True
    closed = sum(isinstance(op, CommitGroupOp) for op in walk.between(before.op, wait))
    return closed > wait.pending


def _order(between: list[Operation], before: Access, after: Access) -> tuple[str, ...]:
    """The fences among these operations that matter between two accesses."""
    fences = [f"fence {op.kind}" for op in between if isinstance(op, FenceOp) and op.kind in _fences(before, after)]
    return tuple(dict.fromkeys(fences))


def _fences(before: Access, after: Access) -> set[str]:
    """The fences that matter between two accesses."""
    kinds = {"after_thread_sync"} if TENSOR_CORE in (before.actor, after.actor) else set[str]()
    if is_threads(before.actor) and after.actor in (TMA, TENSOR_CORE):
        kinds.add("before_thread_sync" if isinstance(before.storage.type, AccType) else "proxy_async")
    if before.actor == TENSOR_CORE and after.actor == TMA:
        kinds.discard("after_thread_sync")
    return kinds


def _by_barrier(walk: Walk, row: Handoff, barrier: SSAValue) -> Handoff:
    users = [op for op in walk.ops if barrier in op.operands]
    announced = dict.fromkeys(op.bytes for op in users if isinstance(op, ArriveExpectTxOp))
    phases = dict.fromkeys(describe_phase(op.phase) for op in users if isinstance(op, TryWaitOp))
    init = barrier.owner
    assert isinstance(init, MbarrierInitOp) and isinstance(barrier.type, MbarrierType)
    signal = f"{walk.names[barrier]}[{barrier.type.depth}]"
    return replace(row, signal=signal, arrivals=init.count, bytes=tuple(announced), phase=tuple(phases))


def _stored(walk: Walk) -> list[Handoff]:
    """What leaves the kernel: stores of the TMA engine are complete when their bulk groups have drained."""
    stores = [op for op in walk.ops if isinstance(op, CopyAsyncOp) and op.dispatch == "tma" and not op.is_load]
    if not stores:
        return []
    views = dict.fromkeys(op.dest.name_hint or "a view" for op in stores if op.dest is not None)
    drains = [op for op in walk.between(stores[-1], None) if isinstance(op, WaitGroupOp) and op.pending == 0]
    signal = "bulk group" if drains else "none"
    order = tuple(_words(op) for op in drains[-1:])
    return [Handoff(tuple(views), "stored", TMA, "after the kernel", signal, None, (), (), order)]


def _word(op: Operation) -> str:
    return op.name.removeprefix("tile.")


def _words(op: WaitGroupOp) -> str:
    return f"wait_group {op.pending}{' read' if op.read else ''}"


# ---- lifetimes


def _lifetime(walk: Walk, value: SSAValue) -> Lifetime:
    owner = value.owner
    assert isinstance(owner, AllocOp | MbarrierInitOp)
    allocated = Place("alloc" if isinstance(owner, AllocOp) else "mbarrier.init", line_of(owner))
    if isinstance(owner, MbarrierInitOp):
        users = [op for op in walk.ops if value in op.operands]
        arrivals = [op for op in users if isinstance(op, ArriveExpectTxOp | ArriveOp | CommitOp)]
        waits = [op for op in users if isinstance(op, TryWaitOp)]
        first = _place(arrivals[0]) if arrivals else None
        return Lifetime(walk.names[value], allocated, first, _place(waits[-1]) if waits else None, None)
    accesses = [access for access in walk.accesses if access.storage is value]
    written = next((Place(a.what, line_of(a.op)) for a in accesses if a.writes), None)
    readers = [a for a in accesses if not a.writes]
    read = Place(readers[-1].what, line_of(readers[-1].op)) if readers else None
    freed = next((op for op in walk.ops if isinstance(op, FreeOp) and root_of(op.acc) is value), None)
    over = freed if freed is not None else _over(walk, readers[-1]) if readers else None
    return Lifetime(walk.names[value], allocated, written, read, None if over is None else _place(over))


def _over(walk: Walk, last: Access) -> Operation | None:
    """The operation after which the last reader has certainly read."""
    match last.actor:
        case "tensor core":
            commit = walk.next_of(last.op, CommitOp)
            waits = (op for op in walk.between(last.op, None) if isinstance(op, TryWaitOp))
            return next((op for op in waits if commit is not None and op.barrier is commit.operands[0]), None)
        case "TMA engine":
            return walk.next_of(last.op, WaitGroupOp)
        case _:
            return walk.next_of(last.op, CtaSyncOp)


def _place(op: Operation) -> Place:
    name = _word(op)
    match op:
        case WaitGroupOp():
            name = _words(op)
        case TryWaitOp():
            name = f"try_wait {op.barrier.name_hint or ''}".rstrip()
        case _:
            pass
    return Place(name, line_of(op))
