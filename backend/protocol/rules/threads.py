"""What brings threads together, fences, bulk groups, and the end of a CTA."""

from __future__ import annotations

from xdsl.ir import Operation

from tilec.backend.protocol.machine import Broken
from tilec.backend.protocol.rules.context import BOTH, Context, Run, broken
from tilec.backend.protocol.rules.order import meet
from tilec.backend.protocol.rules.views import check_turns
from tilec.backend.protocol.state import ISSUER, State
from tilec.dialects.tile import CommitGroupOp, CtaSyncOp, FenceOp, WaitGroupOp

_MOST_GROUPS = 128


def cta_sync(k: Context, op: CtaSyncOp, single: bool) -> Run:
    if single:
        return broken(op, "one thread alone would wait here for ever")

    def run(s: State) -> None:
        meet(k, s)
        if s.regions:
            s.regions = frozenset(region for region in s.regions if region.kind not in ("threads", "issuer"))

    return run


def fence(k: Context, op: FenceOp, single: bool) -> Run:
    agents = (ISSUER,) if single else BOTH
    events, width = k.events, k.events.width

    def proxy(s: State) -> None:
        for agent in agents:
            s.known[agent] |= (s.present & events.thread_accesses[agent]) << width

    def before(s: State) -> None:
        for agent in agents:
            s.known[agent] |= (s.known[agent] & s.present & events.accumulator_reads[agent]) << 2 * width

    def after(s: State) -> None:
        for agent in agents:
            s.snapshots[agent] = s.known[agent]

    return {"proxy_async": proxy, "before_thread_sync": before, "after_thread_sync": after}[op.kind]


def commit_group(k: Context, op: CommitGroupOp, single: bool) -> Run:
    if not single:
        return broken(op, "bulk groups belong to the thread that issued the stores")

    def run(s: State) -> None:
        if len(s.groups) == _MOST_GROUPS:
            raise Broken(op, f"{_MOST_GROUPS} bulk groups are pending: nobody waits for them")
        s.groups, s.open = (*s.groups, s.open), ()
        if s.regions:
            s.regions = frozenset(
                region._replace(kind="tma") if region.kind == "open" else region for region in s.regions
            )

    return run


def wait_group(k: Context, op: WaitGroupOp, single: bool) -> Run:
    if not single:
        return broken(op, "bulk groups belong to the thread that issued the stores")
    pending, read = op.pending, op.read

    def run(s: State) -> None:
        done = len(s.groups) - pending
        for group in s.groups[: max(done, 0)]:
            for event in group:
                s.known[ISSUER] |= event
        s.groups = s.groups[max(done, 0) :]
        if not read and pending == 0 and s.regions:
            s.regions = frozenset(
                region._replace(kind="issuer") if region.kind == "tma" else region for region in s.regions
            )

    return run


def finish(k: Context, op: Operation) -> Run:
    """A CTA exits: nothing is on its way, everything is given back."""

    def run(s: State) -> None:
        for number, barrier in enumerate(s.barriers):
            name = k.events.signals[number].name
            if barrier.arrivals or barrier.announced or barrier.issued:
                raise Broken(op, f"the CTA ends with a round of {name} that is not complete or not waited for")
            if barrier.unobserved:
                raise Broken(op, f"the CTA ends with a round of {name} that nobody has waited for")
        if any(s.groups) or s.open:
            raise Broken(op, "the CTA ends before its TMA stores have drained")
        for accumulator, memory in zip(s.accumulators, k.events.memories, strict=True):
            if s.present & memory.mma & ~s.known[ISSUER]:
                raise Broken(op, f"the CTA ends before the MMA on {memory.name} was waited for")
            if accumulator.status in ("allocated", "written"):
                raise Broken(op, f"{memory.name} is never freed")
        if k.scheduled is not None and k.turns is not None:
            check_turns(k, s, op)

    return run


rules = {CtaSyncOp: cta_sync, FenceOp: fence, CommitGroupOp: commit_group, WaitGroupOp: wait_group}
