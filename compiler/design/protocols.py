"""Who issues what for whom, and the steps by which loads and stores complete."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from xdsl.ir import Block, Operation, SSAValue

from tilec.backend.protocol.contract_walk import executes, line_of, root_of, threads_of
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
        consumers, scope = {"the tensor in memory": None}, {"who reads it after the kernel": None}
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
        count = "1 arrival" if row.arrivals == 1 else f"{row.arrivals} arrivals"
        yield Step(f"initialise {name}[{row.stages}], {count} a round", "the issuing thread", _lines(init))
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


def _budgets(subject: Subject) -> Iterable[Budget]:
    for op in subject.walk.ops:
        if isinstance(op, ArriveExpectTxOp) and isinstance(op.parent, Block):
            brought = sum(
                Ends.of(other).tile_type.layout.size
                for other in op.parent.ops
                if isinstance(other, CopyAsyncOp) and other.barrier is op.barrier and other.stage is op.stage
            )
            yield Budget(subject.walk.name(op.barrier), op.bytes, brought, line_of(op))


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
    yield Step("commit_group" if groups else "no group is closed", _by(groups) or "nobody", _lines(groups))
    waits = [op for op in ops if isinstance(op, WaitGroupOp)]
    rewrites = [op for op in waits if op.read]
    if rewrites:
        pending = " or ".join(dict.fromkeys(str(op.pending) for op in rewrites))
        yield Step(
            f"wait_group {pending} read, then meet, before a slot is written again", _by(rewrites), _lines(rewrites)
        )
    last = [op for op in waits if op.pending == 0 and op in subject.walk.between(stores[-1], None)]
    yield Step(
        "wait_group 0, before the CTA ends" if last else "nothing drains the stores before the CTA ends",
        _by(last) or "nobody",
        _lines(last[-1:]),
    )
