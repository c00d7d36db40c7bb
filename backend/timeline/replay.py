"""Plays recorded steps in time: threads go on until they wait, engines take what they are given one after another.

The CTAs that share a multiprocessor share its three engines: TMA loads, TMA stores and the tensor core. Of all flows the one
whose clock is behind goes on next, so that each engine is asked in the order of time. A barrier's round is complete when its
arrivals and its bytes are, as PTX says (9.7.13.15).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import inf
from typing import Any

from tilec.backend.timeline import steps
from tilec.backend.timeline.costs import Costs
from tilec.backend.timeline.steps import Recording, Stage, Step
from tilec.backend.timeline.trace import STORE, TENSOR_CORE, TMA, Kind, Link, Span, Trace
from tilec.diagnostics import TilecError, location_of

_AT_FIRST = "the CTA's start"


@dataclass(slots=True)
class _Draft:
    """A span in the making."""

    lane: str
    kind: Kind
    issued: float
    start: float
    end: float
    cta: int
    tile: int
    k: int | None
    stage: int | None
    phase: int | None
    what: list[str]
    why: str
    lines: list[int]

    def finished(self) -> Span:
        return Span(
            self.lane,
            self.kind,
            self.issued,
            self.start,
            self.end,
            self.cta,
            self.tile,
            self.k,
            self.stage,
            self.phase,
            ", ".join(dict.fromkeys(self.what)),
            self.why,
            tuple(sorted(set(self.lines))),
        )


@dataclass(slots=True)
class _Mbarrier:
    """Rounds of one mbarrier: what has come of the current one, and when and by what those before were completed."""

    count: int
    arrived: int = 0
    owed: int = 0
    latest: float = 0.0
    source: int | None = None
    times: list[float] = field(default_factory=list[float])
    sources: list[int | None] = field(default_factory=list[int | None])
    waiting: list[_Flow] = field(default_factory=list["_Flow"])
    load: int | None = None
    """The span of the loads of the current round."""

    def take(self, time: float, source: int | None, arrivals: int = 0, bytes: int = 0) -> bool:
        """Arrivals, and bytes announced (positive) or there (negative). Whether that completes the round."""
        self.arrived += arrivals
        self.owed += bytes
        if time >= self.latest:
            self.latest, self.source = time, source
        if self.arrived < self.count or self.owed:
            return False
        self.times.append(self.latest)
        self.sources.append(self.source)
        self.arrived, self.latest, self.source, self.load = 0, 0.0, None, None
        return True


@dataclass(eq=False, slots=True)
class _Flow:
    """Threads that go one way."""

    cta: _Cta
    lane: str
    todo: Sequence[Step]
    time: float
    at: int = 0
    after: str = _AT_FIRST
    """What it waited for last."""
    work: _Draft | None = None
    """Work of the threads that goes on."""


@dataclass(eq=False, slots=True)
class _Cta:
    recording: Recording
    number: int
    place: int
    """Which of the CTAs that the multiprocessor holds at a time."""
    begin: float
    barriers: dict[Stage, _Mbarrier]
    roles: int = 0
    """That are not over."""
    last_mma: int | None = None
    mma_end: float = 0.0
    filled: dict[Stage, int] = field(default_factory=dict[Stage, int])
    """The loads that a slot holds."""
    groups: deque[tuple[float, float, int]] = field(default_factory=deque[tuple[float, float, int]])
    """Of the stores of the CTA: when read, when written, and a span; the groups of one issuing thread."""
    open_group: list[tuple[float, float, int]] = field(default_factory=list[tuple[float, float, int]])


class _Multiprocessor:
    """One multiprocessor, and the CTAs that it is given."""

    def __init__(self, ctas: Sequence[Recording], resident: int, costs: Costs) -> None:
        self.costs = costs
        self.queue = deque(enumerate(ctas))
        self.several = min(resident, len(ctas)) > 1
        self.ready: list[tuple[float, int, _Flow]] = []
        self.pushes = 0
        self.load_free = self.mma_free = self.store_free = self.makespan = 0.0
        self.drafts: list[_Draft] = []
        self.links: list[Link] = []
        self.unfinished: set[_Flow] = set()
        for place in range(min(resident, len(ctas))):
            self.start(place, 0.0)

    # ---- flows

    def start(self, place: int, time: float) -> None:
        """Give a place to the next CTA."""
        if not self.queue:
            return
        number, recording = self.queue.popleft()
        barriers = {barrier: _Mbarrier(count) for barrier, count in recording.counts.items()}
        cta = _Cta(recording, number, place, time, barriers)
        flow = self.flow(cta, 0, time)
        if self.costs.start:
            self.draft(flow, "setup", time, time, time + self.costs.start, ["set up the CTA"], _AT_FIRST)
        flow.time += self.costs.start
        self.push(flow)

    def flow(self, cta: _Cta, number: int, time: float) -> _Flow:
        name = cta.recording.names[number]
        flow = _Flow(cta, f"{name} {cta.place}" if self.several else name, cta.recording.flows[number], time)
        self.unfinished.add(flow)
        return flow

    def push(self, flow: _Flow) -> None:
        self.pushes += 1
        heappush(self.ready, (flow.time, self.pushes, flow))

    def play(self) -> None:
        while self.ready:
            _, _, flow = heappop(self.ready)
            horizon = self.ready[0][0] if self.ready else inf
            while flow.time <= horizon:
                if flow.at == len(flow.todo):
                    self.finish(flow)
                    break
                step = flow.todo[flow.at]
                flow.at += 1
                if not isinstance(step, steps.Work):
                    flow.work = None
                if not _PLAY[type(step)](self, flow, step):
                    break
                horizon = self.ready[0][0] if self.ready else inf
            else:
                self.push(flow)
        waits = [(flow, flow.todo[flow.at - 1]) for flow in self.unfinished]
        for flow, step in sorted(waits, key=lambda one: one[0].lane):
            if isinstance(step, steps.Wait):
                raise TilecError(
                    f"{flow.lane} wait for {step.barrier} for ever",
                    location_of(step.op),
                    "`tilec check` shows how it comes about",
                )

    def finish(self, flow: _Flow) -> None:
        self.unfinished.discard(flow)
        cta = flow.cta
        if flow.todo is cta.recording.flows[0]:
            end = flow.time + self.costs.end
            if self.costs.end:
                self.draft(flow, "setup", flow.time, flow.time, end, ["leave the multiprocessor"], flow.after)
            self.makespan = max(self.makespan, end)
            self.start(cta.place, end)
            return
        cta.roles -= 1
        main = next(one for one in self.unfinished if one.cta is cta and one.todo is cta.recording.flows[0])
        if flow.time >= main.time:
            main.time, main.after = flow.time, f"the end of role {flow.lane}"
        if not cta.roles:
            self.push(main)

    # ---- spans

    def draft(
        self,
        flow: _Flow,
        kind: Kind,
        issued: float,
        start: float,
        end: float,
        what: list[str],
        why: str,
        *,
        step: Step | None = None,
        lane: str | None = None,
        barrier: Stage | None = None,
        round: int = 0,
    ) -> int:
        self.drafts.append(
            _Draft(
                lane or flow.lane,
                kind,
                issued,
                start,
                end,
                flow.cta.number,
                0 if step is None else step.tile,
                None if step is None else step.iteration,
                None if barrier is None else barrier[1],
                None if barrier is None else round & 1,
                what,
                why,
                [] if step is None else list(step.lines),
            )
        )
        return len(self.drafts) - 1

    # ---- mbarriers

    def arrival(self, flow: _Flow, name: Stage, time: float, source: int | None, arrivals: int, bytes: int) -> None:
        barrier = flow.cta.barriers[name]
        if barrier.take(time, source, arrivals, bytes):
            for waiting in barrier.waiting:
                waiting.at -= 1
                self.push(waiting)
            barrier.waiting.clear()

    def expect(self, flow: _Flow, step: steps.Expect) -> bool:
        flow.time += self.costs.arrive
        self.arrival(flow, step.barrier, flow.time, None, 1, step.bytes)
        return True

    def arrive(self, flow: _Flow, step: steps.Arrive) -> bool:
        flow.time += self.costs.arrive
        self.arrival(flow, step.barrier, flow.time, None, 1, 0)
        return True

    def commit(self, flow: _Flow, step: steps.Commit) -> bool:
        cta = flow.cta
        done = cta.mma_end + self.costs.mma_latency if cta.last_mma is not None else flow.time
        self.arrival(flow, step.barrier, max(done, flow.time), cta.last_mma, 1, 0)
        return True

    def wait(self, flow: _Flow, step: steps.Wait) -> bool:
        barrier = flow.cta.barriers[step.barrier]
        completed = bisect_right(barrier.times, flow.time)
        if completed & 1 != step.parity:
            return True
        if len(barrier.times) == completed:
            barrier.waiting.append(flow)
            return False
        name = str(step.barrier)
        end = barrier.times[completed] + self.costs.wait
        self.waited(flow, step, end, name, barrier.sources[completed], step.barrier, completed)
        return True

    def waited(
        self,
        flow: _Flow,
        step: Step,
        end: float,
        signal: str,
        source: int | None,
        barrier: Stage | None = None,
        round: int = 0,
    ) -> None:
        """A flow goes on at `end`."""
        for_what = "" if source is None else f": {', '.join(self.drafts[source].what)}"
        why = f"{signal} was not complete{for_what}"
        wait = self.draft(
            flow,
            "wait",
            flow.time,
            flow.time,
            end,
            [f"wait for {signal}"],
            why,
            step=step,
            barrier=barrier,
            round=round,
        )
        if source is not None:
            self.links.append(Link(source, wait, signal))
        flow.time, flow.after = end, f"the wait for {signal}"

    # ---- engines

    def load(self, flow: _Flow, step: steps.Load) -> bool:
        costs, barrier = self.costs, flow.cta.barriers[step.barrier]
        flow.time += costs.load_issue
        start = max(flow.time, self.load_free)
        self.load_free = start + step.bytes / costs.load_rate
        landed = self.load_free + costs.load_latency
        what = f"{step.slot} <- {step.place}"
        if barrier.load is None:
            why = f"issued after {flow.after}"
            if start > flow.time:
                why += "; the engine was busy with earlier loads"
            barrier.load = self.draft(
                flow, "load", flow.time, start, landed, [what], why,
                step=step, lane=TMA, barrier=step.barrier, round=len(barrier.times),
            )  # fmt: skip
        else:
            draft = self.drafts[barrier.load]
            draft.end = max(draft.end, landed)
            draft.what.append(what)
            draft.lines += step.lines
        flow.cta.filled[step.slot] = barrier.load
        self.arrival(flow, step.barrier, landed, barrier.load, 0, -step.bytes)
        return True

    def mma(self, flow: _Flow, step: steps.Mma) -> bool:
        costs, cta = self.costs, flow.cta
        flow.time += costs.mma_issue
        start = max(flow.time, self.mma_free)
        self.mma_free = cta.mma_end = start + step.macs / costs.mma_rate
        loads = {cta.filled[slot] for slot in step.reads if slot in cta.filled}
        stages = {self.drafts[load].stage for load in loads}
        for load in loads:
            self.drafts[load].tile, self.drafts[load].k = step.tile, step.iteration
        why = f"issued after {flow.after}"
        if start > flow.time:
            why += "; the tensor core was busy with earlier MMAs"
        what = [f"MMA of {' and '.join(map(str, step.reads))}"]
        cta.last_mma = self.draft(flow, "mma", flow.time, start, self.mma_free, what, why, step=step, lane=TENSOR_CORE)
        if len(stages) == 1:
            draft = self.drafts[cta.last_mma]
            draft.stage, draft.phase = stages.pop(), self.drafts[loads.pop()].phase
        return True

    def store(self, flow: _Flow, step: steps.Store) -> bool:
        costs = self.costs
        flow.time += costs.store_issue
        start = max(flow.time, self.store_free)
        self.store_free = start + step.bytes / costs.store_rate
        why = f"issued after {flow.after}"
        if start > flow.time:
            why += "; the engine was busy with earlier stores"
        what = [f"{step.place} <- {step.slot}"]
        span = self.draft(flow, "store", flow.time, start, self.store_free, what, why, step=step, lane=STORE)
        self.drafts[span].stage, self.drafts[span].k = step.slot[1], None
        flow.cta.open_group.append((self.store_free, self.store_free + costs.store_latency, span))
        return True

    def commit_group(self, flow: _Flow, step: steps.CommitGroup) -> bool:
        cta = flow.cta
        if cta.open_group:
            read, written = (max(times) for times in list(zip(*cta.open_group, strict=True))[:2])
            cta.groups.append((read, written, cta.open_group[-1][2]))
            cta.open_group.clear()
        return True

    def wait_group(self, flow: _Flow, step: steps.WaitGroup) -> bool:
        groups = flow.cta.groups
        over = list(groups)[: max(len(groups) - step.pending, 0)]
        if over:
            which = 0 if step.read else 1
            last = max(over, key=lambda group: group[which])
            if last[which] > flow.time:
                self.waited(flow, step, last[which] + self.costs.wait, "bulk group", last[2])
            for _ in over if not step.read else ():
                groups.popleft()
        return True

    # ---- threads

    def sync(self, flow: _Flow, step: steps.Sync) -> bool:
        flow.time += self.costs.sync
        return True

    def iterate(self, flow: _Flow, step: steps.Iterate) -> bool:
        flow.time += self.costs.iterate
        return True

    def schedule(self, flow: _Flow, step: steps.Schedule) -> bool:
        flow.time += self.costs.schedule
        return True

    def fork(self, flow: _Flow, step: steps.Fork) -> bool:
        roles = [self.flow(flow.cta, number, flow.time) for number in range(1, len(flow.cta.recording.flows))]
        flow.cta.roles = len(roles)
        for role in roles:
            self.push(role)
        return not roles

    def work(self, flow: _Flow, step: steps.Work) -> bool:
        costs = self.costs
        match step.kind:
            case "accumulator":
                time = costs.work + step.bytes / costs.accumulator_rate
            case "shared":
                time = costs.work + step.bytes / costs.shared_rate
            case "compute":
                time = step.bytes / costs.compute_rate
            case "gather":
                time = costs.work + costs.gather_latency + step.bytes / costs.gather_rate
            case "scatter":
                time = costs.work + step.bytes / costs.scatter_rate
        kind: Kind = "copy" if step.kind == "gather" else "epilogue"
        begin, flow.time = flow.time, flow.time + time
        if flow.work is None or flow.work.kind != kind:
            span = self.draft(flow, kind, begin, begin, flow.time, [step.what], f"after {flow.after}", step=step)
            flow.work = self.drafts[span]
            if kind == "epilogue":
                flow.work.k = None
            return True
        flow.work.end = flow.time
        flow.work.what.append(step.what)
        flow.work.lines += step.lines
        return True


_PLAY: dict[type[Step], Callable[[_Multiprocessor, _Flow, Any], bool]] = {
    steps.Expect: _Multiprocessor.expect,
    steps.Arrive: _Multiprocessor.arrive,
    steps.Load: _Multiprocessor.load,
    steps.Mma: _Multiprocessor.mma,
    steps.Commit: _Multiprocessor.commit,
    steps.Wait: _Multiprocessor.wait,
    steps.Sync: _Multiprocessor.sync,
    steps.Work: _Multiprocessor.work,
    steps.Store: _Multiprocessor.store,
    steps.CommitGroup: _Multiprocessor.commit_group,
    steps.WaitGroup: _Multiprocessor.wait_group,
    steps.Iterate: _Multiprocessor.iterate,
    steps.Schedule: _Multiprocessor.schedule,
    steps.Fork: _Multiprocessor.fork,
}
"""What a step does; false where the flow cannot go on for now."""


def replay(ctas: Sequence[Recording], costs: Costs, *, resident: int = 1) -> Trace:
    """Play the CTAs that one multiprocessor executes, `resident` of them at a time, each as soon as there is a place.

    Raises TilecError at a wait that never ends.
    """
    machine = _Multiprocessor(ctas, resident, costs)
    machine.play()
    order = sorted(range(len(machine.drafts)), key=lambda i: machine.drafts[i].start)
    new = {old: i for i, old in enumerate(order)}
    spans = tuple(machine.drafts[i].finished() for i in order)
    links = tuple(Link(new[link.source], new[link.wait], link.signal) for link in machine.links)
    used = dict.fromkeys(span.lane for span in spans)
    engines = [lane for lane in (TMA, TENSOR_CORE, STORE) if lane in used]
    threads = sorted(lane for lane in used if lane not in engines)
    lanes = [*engines[:2], *threads, *engines[2:]] if STORE in used else [*engines, *threads]
    return Trace(spans, links, tuple(lanes), machine.makespan)
