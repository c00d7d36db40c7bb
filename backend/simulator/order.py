"""The rules of ordering: each access of storage against the earlier ones that it conflicts with."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Operation

from tilec.backend.simulator import accumulators, races
from tilec.backend.simulator.clocks import Agent
from tilec.backend.simulator.cta import AsyncCta
from tilec.backend.simulator.memory import Access, Accumulator, SharedTile

ASYNC_PROXY = -1
"""In place of an agent's own number: it has no accesses of its own in that proxy."""


def conflicts(tile: SharedTile, *, writes: bool) -> Iterator[Access]:
    """Accesses that a read, or a write, must come after."""
    if tile.write is not None:
        yield tile.write
    if writes:
        yield from tile.reads.values()


def is_known(access: Access, g: list[int], threads: list[int], own: int) -> bool:
    """Whether an access is ordered before one that knows `g` (or `o`) of the engines and `threads` of the threads' accesses."""
    match access.kind:
        case "threads":
            return all(threads[agent] >= access.time for agent in access.agents if agent != own)
        case _:
            return g[access.component] >= access.time


def by_threads(cta: AsyncCta, op: Operation, tile: SharedTile, *, writes: bool) -> Access:
    """All threads of the active agents read or write a shared tile."""
    if not writes and tile.write is None:
        raise races.uninitialised(op, tile)
    for agent in cta.active:
        g = agent.clock.g
        for earlier in conflicts(tile, writes=writes):
            if not is_known(earlier, g, g, agent.index):
                raise races.race(cta, op, tile, earlier, agent)
    access = Access("threads", cta.now, op, cta.now, agents=tuple(a.index for a in cta.active), writes=writes)
    if writes:
        tile.was_written(access)
        tile.history.append((cta.now, op, f"threads write {tile.name}"))
    else:
        tile.was_read(access)
        tile.history.append((cta.now, op, f"threads read {tile.name}"))
    return access


def by_engine(cta: AsyncCta, tile: SharedTile, access: Access) -> None:
    """A TMA load writes a shared tile, or a TMA store reads it."""
    if not access.writes and tile.write is None:
        raise races.uninitialised(access.op, tile)
    agent = cta.issuer
    known = agent.clock.o if access.writes else agent.clock.g
    for earlier in conflicts(tile, writes=access.writes):
        if not is_known(earlier, known, agent.clock.p, ASYNC_PROXY):
            raise races.race(cta, access.op, tile, earlier, agent)
    if access.writes:
        tile.was_written(access)
        tile.history.append((cta.now, access.op, f"a TMA load into {tile.name} is issued"))
    else:
        tile.was_read(access)
        tile.history.append((cta.now, access.op, f"a TMA store from {tile.name} is issued"))


def by_mma(cta: AsyncCta, tile: SharedTile, access: Access) -> None:
    """An MMA reads an operand: in order for every thread of its role."""
    if tile.write is None:
        raise races.uninitialised(access.op, tile)
    for agent in cta.active:
        if not is_known(tile.write, agent.tensor.g, agent.tensor.p, ASYNC_PROXY):
            raise races.race(cta, access.op, tile, tile.write, agent)
    tile.was_read(access)
    tile.history.append((cta.now, access.op, f"MMA {access.time} reads {tile.name}"))


def reads_are_done(agent: Agent, read: Access) -> bool:
    """Whether tensor-core operations of an agent come after a read of the accumulator."""
    others = (other for other in read.agents if other != agent.index)
    own = agent.index not in read.agents or agent.loads_done >= read.time
    return own and all(agent.tensor.q[other] >= read.time for other in others)


def accumulator_write(cta: AsyncCta, op: Operation, accumulator: Accumulator, *, accumulates: bool) -> None:
    """An MMA writes an accumulator: after all reads of it, and after the MMAs of other roles; its own come in order."""
    own = cta.flow.tensor_core
    accumulators.check_not_freed(op, accumulator)
    for columns in accumulator.columns:
        if accumulates and columns.mma is None:
            raise accumulators.accumulates_onto_nothing(op, accumulator)
        if accumulates and columns.turn != cta.turn:
            raise accumulators.accumulates_onto_last_tile(cta, op, accumulator, columns)
        for agent in cta.active:
            for read in columns.reads.values():
                if not reads_are_done(agent, read):
                    raise accumulators.read_not_done(cta, op, accumulator, read, agent)
            if (mma := columns.mma) is not None and mma.component != own and not _is_complete(mma, agent):
                raise accumulators.mma_not_done(cta, op, accumulator, mma, agent)


def _is_complete(mma: Access, agent: Agent) -> bool:
    """Whether tensor-core operations of an agent come after an MMA."""
    return agent.tensor.g[mma.component] >= mma.time


def accumulator_read(cta: AsyncCta, op: Operation, accumulator: Accumulator) -> None:
    """Threads load from an accumulator: after the MMAs that write it."""
    accumulators.check_not_freed(op, accumulator)
    access = Access("threads", cta.now, op, cta.now, agents=tuple(agent.index for agent in cta.active))
    for columns in accumulator.columns:
        if columns.mma is None:
            raise accumulators.uninitialised(cta, op, accumulator)
        for agent in cta.active:
            if not _is_complete(columns.mma, agent):
                if columns.turn > cta.turn:
                    raise accumulators.overwritten(cta, op, accumulator, columns)
                raise accumulators.mma_not_done(cta, op, accumulator, columns.mma, agent)
        columns.reads[access.agents] = access
    accumulator.memory.history.append((cta.now, op, f"threads read {accumulator.name}"))


def accumulator_free(cta: AsyncCta, op: Operation, accumulator: Accumulator) -> None:
    """Accumulator memory is given back: after its MMAs and its reads."""
    accumulators.check_not_freed(op, accumulator)
    for columns in accumulator.memory.columns:
        if columns.mma is not None and not _is_complete(columns.mma, cta.issuer):
            raise accumulators.mma_not_done(cta, op, accumulator, columns.mma, cta.issuer)
        for read in columns.reads.values():
            if not reads_are_done(cta.issuer, read):
                raise accumulators.read_not_done(cta, op, accumulator, read, cta.issuer)
