"""Who issues what for whom, and the steps by which loads and stores complete."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from xdsl.dialects import scf
from xdsl.ir import Block, Operation, SSAValue

from tilec.backend.protocol.contract_walk import ISSUER, THREADS, TMA, constant, executes, line_of, root_of, threads_of
from tilec.design.blocks import counted
from tilec.design.copies import Ends
from tilec.design.rings import Rings
from tilec.design.subject import Subject
from tilec.dialects.tile import (
    ArriveExpectTxOp,
    CommitGroupOp,
    CopyAsyncOp,
    CtaSyncOp,
    FenceOp,
    MbarrierInitOp,
    RoleSyncOp,
    SingleThreadOp,
    StoreOp,
    TryWaitOp,
    WaitGroupOp,
)


@dataclass(frozen=True)
class Issue:
    """One tile's copies: who issues them, and who needs what they bring."""

    tile: str
    direction: Literal["load", "store"]
    engine: str
    issuer: str
    issue_scope: Literal["one thread", "all threads"]
    consumer: str
    consumption_scope: str
    """Whose wait lets the consumer begin."""
    lines: tuple[int, ...]


@dataclass(frozen=True)
class Step:
    """One step of a protocol, and the lines of the program that say so."""

    what: str
    by: str
    lines: tuple[int, ...]


@dataclass(frozen=True)
class Budget:
    """An announcement, and what the copies behind it bring."""

    barrier: str
    announced: int
    brought: int
    line: int | None

    @property
    def holds(self) -> bool:
        return self.announced == self.brought


@dataclass(frozen=True)
class Protocols:
    issue: tuple[Issue, ...]
    load: tuple[Step, ...]
    """From the initialisation to the read; empty where TMA loads nothing."""
    budgets: tuple[Budget, ...]
    store: tuple[Step, ...]
    """From the write of the staging tile to the end of the CTA; empty where TMA stores nothing."""


def protocols(subject: Subject, rings: Rings) -> Protocols:
    return Protocols(
        tuple(_issue(subject, ops) for ops in _by_tile(subject)),
        tuple(_load_steps(subject, rings)),
        tuple(_budgets(subject)),
        tuple(_store_steps(subject)),
    )


def _by_tile(subject: Subject) -> list[list[CopyAsyncOp]]:
    groups: dict[tuple[SSAValue, bool], list[CopyAsyncOp]] = {}
    for op in (*subject.loads, *subject.stores):
        groups.setdefault((root_of(Ends.of(op).tile), op.is_load), []).append(op)
    return list(groups.values())


def _issue(subject: Subject, ops: list[CopyAsyncOp]) -> Issue:
    first = ops[0]
    name = subject.walk.name(Ends.of(first).tile)
    issuer = " and ".join(dict.fromkeys(executes(op) for op in ops))
    alone = all(executes(op) != threads_of(op) for op in ops)
    if first.is_load:
        rows = [row for row in subject.contract.handoffs if name in row.tiles and row.state == "ready"]
        consumers = dict.fromkeys(row.consumer for row in rows)
        waits = [op for op in subject.walk.ops if isinstance(op, TryWaitOp) and op.barrier is first.barrier]
        scope = dict.fromkeys(executes(op) for op in waits) or dict.fromkeys(row.signal for row in rows)
    else:
        consumers, scope = {f"readers of {Ends.of(first).view_name}": None}, {"after the kernel": None}
    return Issue(
        name,
        "load" if first.is_load else "store",
        "TMA" if first.dispatch == "tma" else "threads",
        issuer,
        "one thread" if alone else "all threads",
        " and ".join(consumers) or "nobody",
        " and ".join(scope) or "nobody waits",
        _lines(ops),
    )


def _lines(ops: Iterable[Operation]) -> tuple[int, ...]:
    return tuple(sorted({line for op in ops if (line := line_of(op)) is not None}))


def _by(ops: Sequence[Operation]) -> str:
    return " and ".join(dict.fromkeys(executes(op) for op in ops))


# ---- loads


def _load_steps(subject: Subject, rings: Rings) -> Iterable[Step]:
    ops = subject.walk.ops
    loads = [op for op in subject.loads if op.dispatch == "tma"]
    for barrier in dict.fromkeys(op.barrier for op in loads if op.barrier is not None):
        name = subject.walk.name(barrier)
        mine = [op for op in loads if op.barrier is barrier]
        row = next(one for one in rings.barriers if one.name == name)
        init = [op for op in ops if isinstance(op, MbarrierInitOp) and op.res is barrier]
        expects = [op for op in ops if isinstance(op, ArriveExpectTxOp) and op.barrier is barrier]
        waits = [op for op in ops if isinstance(op, TryWaitOp) and op.barrier is barrier]
        syncs = [op for op in subject.walk.between(init[0], mine[0]) if isinstance(op, CtaSyncOp)][:1]
        count = counted(row.arrivals, "arrival")
        yield Step(f"initialise {name}[{row.stages}], {count} a round", ISSUER, _lines(init))
        yield Step(f"fence.mbarrier_init, so that the TMA engine sees {name}", ISSUER, _lines(init))
        yield Step(
            "meet, so that all see it initialised" if syncs else "nothing makes the initialisation visible",
            "all threads",
            _lines(syncs),
        )
        announced = " or ".join(map(str, row.announced_bytes)) or "no"
        yield Step(f"arrive.expect_tx on {name}[stage]: {announced} bytes", _by(expects) or "nobody", _lines(expects))
        tiles = ", ".join(dict.fromkeys(subject.walk.name(Ends.of(op).tile) for op in mine))
        yield Step(f"issue the loads of {tiles}, which complete bytes on {name}[stage]", _by(mine), _lines(mine))
        phases = " / ".join(row.phase)
        yield Step(
            f"wait for {name}[stage]; phase {phases}" if waits else f"nobody waits for {name}",
            _by(waits) or "nobody",
            _lines(waits),
        )
        names = {subject.walk.name(Ends.of(op).tile) for op in mine}
        handed = [one for one in subject.contract.handoffs if one.state == "ready" and names & set(one.tiles)]
        for one in handed:
            fence = f" behind {', '.join(one.order)}" if one.order else ""
            yield Step(f"read {', '.join(one.tiles)}{fence}", one.consumer, ())
        yield from _refills(subject, names)


def _refills(subject: Subject, names: set[str]) -> Iterable[Step]:
    """What stands between the read of a stage and the load that overwrites it."""
    freed = [
        one
        for one in subject.contract.handoffs
        if one.state == "free" and one.consumer == TMA and names & set(one.tiles) and one.signal != "none"
    ]
    for signal in dict.fromkeys(one.signal for one in freed):
        name = signal.partition("[")[0]
        waits = [op for op in subject.walk.ops if isinstance(op, TryWaitOp) and subject.walk.name(op.barrier) == name]
        tiles = ", ".join(dict.fromkeys(tile for one in freed if one.signal == signal for tile in one.tiles))
        what = f"wait for {name}[stage]" if waits else f"meet at {name}"
        yield Step(f"{what} before a refill of {tiles}", _by(waits) or THREADS, _lines(waits))


def _budgets(subject: Subject) -> Iterable[Budget]:
    """One for each round: the announcements that stand together, and the loads that go with them."""
    seen: set[Operation] = set()
    for op in subject.walk.ops:
        if isinstance(op, ArriveExpectTxOp) and op not in seen:
            rounds = [_round(op, block) for block in _blocks(op)]
            expects, brought = next((one for one in rounds if sum(e.bytes for e in one[0]) == one[1]), rounds[-1])
            seen.update(expects)
            yield Budget(subject.walk.name(op.barrier), sum(one.bytes for one in expects), brought, line_of(op))


def _blocks(op: Operation) -> Iterable[Block]:
    """The blocks around an operation that are executed as often, the innermost first."""
    block = op.parent_block()
    while block is not None:
        yield block
        parent = block.parent_op()
        block = parent.parent_block() if isinstance(parent, SingleThreadOp | scf.IfOp) else None


def _round(op: ArriveExpectTxOp, block: Block) -> tuple[list[ArriveExpectTxOp], int]:
    """The announcements of one round within a block, and the bytes that loads bring to it there."""
    inside = list(block.walk())
    expects = [one for one in inside if isinstance(one, ArriveExpectTxOp) and _same(one, op)]
    loads = [one for one in inside if isinstance(one, CopyAsyncOp) and one.barrier is not None and _same(one, op)]
    return expects, sum(Ends.of(load).tile_type.layout.size for load in loads)


def _same(one: ArriveExpectTxOp | CopyAsyncOp, other: ArriveExpectTxOp) -> bool:
    """Whether two mean the same stage of the same mbarrier."""
    stage, wanted = one.stage, other.stage
    if one.barrier is not other.barrier or stage is None or wanted is None:
        return False
    return stage is wanted or (constant(stage) is not None and constant(stage) == constant(wanted))


# ---- stores


def _store_steps(subject: Subject) -> Iterable[Step]:
    ops = subject.walk.ops
    stores = [op for op in subject.stores if op.dispatch == "tma"]
    if not stores:
        return
    roots = {root_of(Ends.of(op).tile) for op in stores}
    names = ", ".join(dict.fromkeys(subject.walk.names[root] for root in roots))
    writes = [op for op in ops if isinstance(op, StoreOp) and root_of(op.dest) in roots]
    if writes:
        yield Step(f"write {names}", _by(writes), _lines(writes))
        between = subject.walk.between(writes[0], stores[0])
        fences = [op for op in between if isinstance(op, FenceOp) and op.kind == "proxy_async"]
        syncs = [op for op in between if isinstance(op, CtaSyncOp | RoleSyncOp)]
        yield Step(
            "fence proxy_async" if fences else "nothing shows the writes to the async proxy",
            _by(writes),
            _lines(fences),
        )
        yield Step("meet" if syncs else "nothing brings the threads together", _by(writes), _lines(syncs))
    yield Step(f"issue the TMA stores of {names}", _by(stores), _lines(stores))
    groups = [op for op in ops if isinstance(op, CommitGroupOp)]
    yield Step(
        "cp.async.bulk.commit_group" if groups else "no group is closed", _by(groups) or "nobody", _lines(groups)
    )
    waits = [op for op in ops if isinstance(op, WaitGroupOp)]
    last = [op for op in waits if op.pending == 0 and op in subject.walk.between(stores[-1], None)][-1:]
    rewrites = [op for op in waits if op not in last]
    if rewrites:
        *others, most = sorted({op.pending for op in rewrites})
        pending = f"{', '.join(map(str, others))} or {most}" if others else f"{most}"
        yield Step(
            f"cp.async.bulk.wait_group{'.read' if all(op.read for op in rewrites) else ''} {pending}, then meet, before a slot is written again",
            _by(rewrites),
            _lines(rewrites),
        )
    yield Step(
        "cp.async.bulk.wait_group 0, before the CTA ends" if last else "nothing drains the stores before the CTA ends",
        _by(last) or "nobody",
        _lines(last),
    )
