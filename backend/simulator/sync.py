"""Barriers, commits, fences and bulk groups."""

from __future__ import annotations

from xdsl.ir import Operation

from tilec.backend.reference.cta import Handlers, name_of
from tilec.backend.simulator import scope, stuck
from tilec.backend.simulator.barriers import Barriers, Slot, Wait, committers
from tilec.backend.simulator.clocks import Agent, meet
from tilec.backend.simulator.cta import AsyncCta, Commit
from tilec.backend.simulator.faults import plural
from tilec.backend.simulator.flow import Waiting
from tilec.backend.simulator.roles import block, give_way
from tilec.dialects.tile import (
    ArriveExpectTxOp,
    ArriveOp,
    CommitGroupOp,
    CommitOp,
    CtaSyncOp,
    FenceOp,
    MbarrierInitOp,
    MbarrierType,
    TryWaitOp,
    WaitGroupOp,
    WaitLdOp,
)
from tilec.dialects.tile.sync import MAX_TX_BYTES

handlers = Handlers()


@handlers.of(MbarrierInitOp)
def _init(cta: AsyncCta, op: MbarrierInitOp) -> None:
    scope.storage(op)
    now, name, type = cta.tick(), name_of(op.res), op.res.type
    assert isinstance(type, MbarrierType)
    parts, commits = cta.launch.components, committers(op.res)
    barriers = Barriers()
    for stage in range(type.depth):
        component = parts.slot(len(cta.slots))
        waits: list[Wait | None] = [None] * parts.agents
        slot = Slot(f"{name}[{stage}]", op.count, component, (now, op), commits, op.res, parts.nothing(), waits)
        barriers.append(slot)
        cta.slots.append(slot)
    cta.values[op.res] = barriers


def use(cta: AsyncCta, op: Operation, slot: Slot) -> None:
    """A barrier exists for other threads once they have met the one that initialised it."""
    for agent in cta.active:
        if agent.index != 0 and agent.clock.g[0] < slot.init[0]:
            raise stuck.not_initialised(op, slot)


def _fire(cta: AsyncCta, op: Operation, slot: Slot) -> None:
    if (agent := slot.missed()) is not None:
        raise stuck.missed_round(cta, op, slot, agent)
    slot.fire()


def _arrive(cta: AsyncCta, op: Operation, slot: Slot, announced: int = 0) -> None:
    use(cta, op, slot)
    if slot.arrivals == slot.count:
        if not slot.complete:
            raise stuck.arrival_too_many(op, slot)
        # All is on its way, which is not to say that it is there. (What follows an announcement is convicted by its loads.)
        if slot.brings and isinstance(op, ArriveOp):
            raise stuck.round_not_over(op, slot)
        _fire(cta, op, slot)
        if not slot.brought:
            _knows_its_arrivals(cta, slot)
    slot.arrivals += 1
    slot.announced += announced
    check_bytes(cta, op, slot)


def _knows_its_arrivals(cta: AsyncCta, slot: Slot) -> None:
    """Who comes after all arrivals of a round of nothing else comes after the round."""
    for agent in cta.active:
        known = agent.publish(cta.now).o
        if all(known[other.index] >= slot.published.o[other.index] for other in cta.agents):
            agent.clock.o = [*agent.clock.o]
            agent.clock.o[slot.component] = slot.rounds


def check_bytes(cta: AsyncCta, op: Operation, slot: Slot) -> None:
    pending = max(slot.announced, slot.issued)
    if pending > MAX_TX_BYTES:
        cta.fail(
            "bytes",
            op,
            f"round {slot.rounds} of {slot.name} has {pending} bytes pending: an mbarrier counts up to {MAX_TX_BYTES}",
            "load less at once, or spread the copies over more barriers",
            (),
            slot.history,
        )


def _release(slot: Slot, agent: Agent, now: int) -> None:
    """What an arriving agent knows, those that wait for the round will know."""
    slot.pending.join(agent.publish(now))


@handlers.of(ArriveExpectTxOp)
def _arrive_expect_tx(cta: AsyncCta, op: ArriveExpectTxOp) -> None:
    scope.one_thread(
        cta,
        op,
        f"every thread of the {cta.flow.noun} would announce these bytes",
        "put arrive.expect_tx and its copies into tile.single_thread { ... }",
    )
    now, slot = cta.tick(), cta.slot(op, op.barrier, op.stage)
    _arrive(cta, op, slot, op.bytes)
    slot.announcer = op
    _release(slot, cta.issuer, now)
    slot.history.append((now, op, f"round {slot.rounds} of {slot.name}: {op.bytes} bytes are announced"))


@handlers.of(ArriveOp)
def _arrive_once(cta: AsyncCta, op: ArriveOp) -> None:
    """One arrival of the role: its threads meet first, then one arrives for all."""
    now, slot = cta.tick(), cta.slot(op, op.barrier, op.stage)
    if not cta.alone:
        meet(cta.flow.threads, now)
    _arrive(cta, op, slot)
    _release(slot, cta.active[0], now)
    slot.history.append((now, op, f"round {slot.rounds} of {slot.name}: an arrival"))


@handlers.of(CommitOp)
def _commit(cta: AsyncCta, op: CommitOp) -> None:
    scope.all_threads(cta, op)
    now, slot = cta.tick(), cta.slot(op, op.barrier, op.stage)
    _arrive(cta, op, slot)
    core = cta.flow.tensor_core
    if slot.pending.g[core] < cta.mmas:
        slot.pending.g = [*slot.pending.g]
        slot.pending.g[core] = cta.mmas
    if cta.mmas:
        slot.brings = "MMAs"
    # It releases nothing of the threads, but it comes after the waits that they have behind them.
    slot.pending.o = list(map(max, slot.pending.o, cta.issuer.publish(now).o))
    cta.flow.commits += 1
    slot.pending_commits = cta.flow.commits
    cta.recent_commits.append(Commit(op, slot, slot.rounds, core, cta.mmas))
    slot.history.append((now, op, f"round {slot.rounds} of {slot.name}: a commit of the MMAs up to number {cta.mmas}"))


@handlers.of(TryWaitOp)
def _try_wait(cta: AsyncCta, op: TryWaitOp) -> None:
    now, slot, parity = cta.tick(), cta.slot(op, op.barrier, op.stage), cta.unsigned(op.phase) & 1
    use(cta, op, slot)
    joins = cta.flow.role in slot.committers
    if joins:
        scope.all_threads(cta, op)
    cta.launch.counters.waits += 1
    if cta.coroutines is not None and cta.coroutines.gives_way():
        give_way(cta)
        now = cta.tick()
    if slot.rounds & 1 == parity:
        slot.history.append((now, op, f"a wait for parity {parity} of {slot.name} blocks on round {slot.rounds}"))
        if not slot.complete:
            if cta.coroutines is None:
                raise stuck.deadlock(cta, op, slot, parity)
            _block(cta, op, slot, parity)
            now = cta.tick()
        if slot.rounds & 1 == parity:
            _fire(cta, op, slot)
        cta.launch.counters.stalls += 1
    else:
        slot.history.append(
            (now, op, f"a wait for parity {parity} of {slot.name} finds round {slot.rounds - 1} complete")
            if slot.rounds
            else (now, op, f"a wait for parity {parity} of {slot.name} passes: no round has completed")
        )
    if joins:
        _check_outstanding(cta, op, slot)
    _check_knows_the_last(cta, op, slot)
    for agent in cta.active:
        agent.clock.join(slot.published)
        before = slot.waits[agent.index]
        again = before is not None and before.round == slot.rounds - 1
        slot.waits[agent.index] = Wait(slot.rounds - 1, parity, now, op, again)
    if joins:
        meet(cta.flow.threads, now)


def _block(cta: AsyncCta, op: TryWaitOp, slot: Slot, parity: int) -> None:
    """The pending round needs another role first."""
    waiters = [agent.index for agent in cta.active]
    slot.blocked.update(dict.fromkeys(waiters, slot.rounds))
    block(cta, Waiting(op, slot, parity, slot.rounds, cta.alone))
    for agent in waiters:
        del slot.blocked[agent]


def _check_knows_the_last(cta: AsyncCta, op: TryWaitOp, slot: Slot) -> None:
    """A wait that finds round r is for it only if the one two earlier could not have let it pass: r - 1 is known to be complete."""
    known = slot.rounds - 1
    for agent in cta.active:
        if agent.clock.o[slot.component] < known:
            raise stuck.too_early(cta, op, slot, agent)


def _check_outstanding(cta: AsyncCta, op: TryWaitOp, slot: Slot) -> None:
    """Where commits are groups, the wait leaves that many of the last ones running: the one meant must not be among
    them."""
    later = cta.flow.commits - slot.commits
    if slot.rounds and op.outstanding > later:
        cta.fail(
            "race",
            op,
            f"this wait leaves {plural(op.outstanding, 'commit')} outstanding, but only {later} came after the one that it "
            "is for",
            f"write `outstanding {later}` at most: on sm_90a the wait would return before its MMAs are complete",
            (),
            slot.history,
        )


@handlers.of(CtaSyncOp)
def _cta_sync(cta: AsyncCta, op: CtaSyncOp) -> None:
    scope.all_threads(
        cta, op, "one thread alone would wait here for ever", "move tile.cta_sync out of tile.single_thread"
    )
    meet(cta.flow.threads, cta.tick())


@handlers.of(FenceOp)
def _fence(cta: AsyncCta, op: FenceOp) -> None:
    now = cta.tick()
    for agent in cta.active if cta.alone else cta.flow.threads:
        agent.fence(op, now)


@handlers.of(CommitGroupOp)
def _commit_group(cta: AsyncCta, op: CommitGroupOp) -> None:
    scope.one_thread(cta, op, *_GROUPS)
    cta.tick()
    bulk = cta.bulk
    if not bulk.open:
        cta.groups += 1
    bulk.committed.append(bulk.open or cta.groups)
    bulk.open = 0


@handlers.of(WaitGroupOp)
def _wait_group(cta: AsyncCta, op: WaitGroupOp) -> None:
    scope.one_thread(cta, op, *_GROUPS)
    cta.tick()
    done = cta.bulk.done(op.pending)
    cta.issuer.learn(cta.flow.bulk_read, done)
    if not op.read:
        cta.issuer.learn(cta.flow.bulk_write, done)


_GROUPS = (
    "bulk groups belong to the thread that issued the stores",
    "put it into tile.single_thread { ... }, where the stores are issued",
)


@handlers.of(WaitLdOp)
def _wait_ld(cta: AsyncCta, op: WaitLdOp) -> None:
    scope.all_threads(cta, op)
    cta.tick()
    done = max((loading.time for loading in cta.loading.values()), default=0)
    for agent in cta.flow.threads:
        agent.loads_done = max(agent.loads_done, done)
    cta.loading.clear()
