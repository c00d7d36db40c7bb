"""Plays recorded steps in time: threads go on until they wait, engines take what they are given one after another.

The CTAs that share a multiprocessor share its three engines: TMA loads, TMA stores and the tensor core. Of all flows the one
whose clock is behind goes on next, so that each engine is asked in the order of time. A barrier's round is complete when its
arrivals and its bytes are, as PTX says (9.7.13.15).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from math import inf
from typing import Any

from tilec.backend.timeline import steps
from tilec.backend.timeline.costs import Costs
from tilec.backend.timeline.drafts import GROUP, Draft, finished
from tilec.backend.timeline.flows import Cta, Flow, Mbarrier
from tilec.backend.timeline.steps import Recording, Stage, Step
from tilec.backend.timeline.trace import STORE, TENSOR_CORE, TMA, Kind, Link, Trace
from tilec.diagnostics import TilecError, location_of

_GOLDEN = 0.6180339887498949


class _Multiprocessor:
    """One multiprocessor, and the CTAs that it is given."""

    def __init__(self, ctas: Sequence[Recording], resident: int, costs: Costs) -> None:
        self.costs = costs
        self.queue = deque(enumerate(ctas))
        self.several = min(resident, len(ctas)) > 1
        self.ready: list[tuple[float, int, Flow]] = []
        self.pushes = self.loads = 0
        self.load_free = self.mma_free = self.store_free = self.makespan = 0.0
        self.drafts: list[Draft] = []
        self.links: list[Link] = []
        self.unfinished: set[Flow] = set()
        for place in range(min(resident, len(ctas))):
            self.start(place, 0.0)

    # ---- flows

    def start(self, place: int, time: float) -> None:
        """Give a place to the next CTA."""
        if not self.queue:
            return
        number, recording = self.queue.popleft()
        barriers = {barrier: Mbarrier(count) for barrier, count in recording.counts.items()}
        cta = Cta(recording, number, place, barriers)
        flow = self.flow(cta, 0, time)
        if self.costs.start:
            self.draft(flow, "setup", time, time, time + self.costs.start)
        flow.time += self.costs.start
        self.push(flow)

    def flow(self, cta: Cta, number: int, time: float) -> Flow:
        name = cta.recording.names[number]
        flow = Flow(cta, f"{name} {cta.place}" if self.several else name, cta.recording.flows[number], time)
        self.unfinished.add(flow)
        return flow

    def push(self, flow: Flow) -> None:
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

    def finish(self, flow: Flow) -> None:
        self.unfinished.discard(flow)
        cta = flow.cta
        if flow.todo is cta.recording.flows[0]:
            end = flow.time + self.costs.end
            if self.costs.end:
                self.draft(flow, "teardown", flow.time, flow.time, end)
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
        flow: Flow,
        kind: Kind,
        issued: float,
        start: float,
        end: float,
        *,
        step: Step | None = None,
        lane: str | None = None,
        barrier: Stage | None = None,
        round: int = 0,
        source: int | None = None,
    ) -> int:
        self.drafts.append(
            Draft(
                lane or flow.lane,
                kind,
                issued,
                start,
                end,
                flow.cta.number,
                0 if step is None else step.tile,
                None if step is None else step.iteration,
                None if barrier is None else barrier.number,
                None if barrier is None else round & 1,
                [] if step is None else [step],
                flow.after,
                start > issued,
                source,
            )
        )
        return len(self.drafts) - 1

    # ---- mbarriers

    def arrival(self, flow: Flow, name: Stage, time: float, source: int | None, arrivals: int, bytes: int) -> None:
        barrier = flow.cta.barriers[name]
        if barrier.take(time, source, arrivals, bytes):
            for waiting in barrier.waiting:
                waiting.at -= 1
                self.push(waiting)
            barrier.waiting.clear()

    def expect(self, flow: Flow, step: steps.Expect) -> bool:
        flow.time += self.costs.arrive
        self.arrival(flow, step.barrier, flow.time, None, 1, step.bytes)
        return True

    def arrive(self, flow: Flow, step: steps.Arrive) -> bool:
        flow.time += self.costs.arrive
        self.arrival(flow, step.barrier, flow.time, None, 1, 0)
        return True

    def commit(self, flow: Flow, step: steps.Commit) -> bool:
        done = flow.mma_end + self.costs.mma_latency if flow.last_mma is not None else flow.time
        self.arrival(flow, step.barrier, max(done, flow.time), flow.last_mma, 1, 0)
        return True

    def wait(self, flow: Flow, step: steps.Wait) -> bool:
        barrier = flow.cta.barriers[step.barrier]
        completed = bisect_right(barrier.times, flow.time)
        if completed & 1 != step.parity:
            flow.time += self.costs.wait
            return True
        if len(barrier.times) == completed:
            barrier.waiting.append(flow)
            return False
        source = barrier.sources[completed]
        end = barrier.times[completed] + self.costs.wait
        span = self.draft(
            flow, "wait", flow.time, flow.time, end, step=step, barrier=step.barrier, round=completed, source=source
        )
        if source is not None:
            self.links.append(Link(source, span, str(step.barrier)))
        flow.time, flow.after = end, step.barrier
        return True

    # ---- engines

    def spread(self) -> float:
        """Of the latencies of loads: around 1, evenly, in an order without a pattern (multiples of the golden ratio)."""
        self.loads += 1
        return 1 + self.costs.load_jitter * (2 * (self.loads * _GOLDEN % 1) - 1)

    def load(self, flow: Flow, step: steps.Load) -> bool:
        costs, barrier = self.costs, flow.cta.barriers[step.barrier]
        flow.time += costs.load_issue
        start = max(flow.time, self.load_free)
        self.load_free = start + step.bytes / costs.load_rate
        landed = self.load_free + costs.load_latency * self.spread()
        if barrier.load is None:
            barrier.load = self.draft(
                flow,
                "load",
                flow.time,
                start,
                landed,
                step=step,
                lane=TMA,
                barrier=step.barrier,
                round=len(barrier.times),
            )
        else:
            draft = self.drafts[barrier.load]
            draft.end = max(draft.end, landed)
            draft.steps.append(step)
        flow.cta.filled[step.slot] = barrier.load
        self.arrival(flow, step.barrier, landed, barrier.load, 0, -step.bytes)
        return True

    def mma(self, flow: Flow, step: steps.Mma) -> bool:
        costs, cta = self.costs, flow.cta
        flow.time += costs.mma_issue
        start = max(flow.time, self.mma_free)
        self.mma_free = flow.mma_end = start + step.macs / costs.mma_rate
        loads = {cta.filled[slot] for slot in step.reads if slot in cta.filled}
        stages = {self.drafts[load].stage for load in loads}
        for load in loads:
            self.drafts[load].tile, self.drafts[load].k = step.tile, step.iteration
        flow.last_mma = self.draft(flow, "mma", flow.time, start, self.mma_free, step=step, lane=TENSOR_CORE)
        if len(stages) == 1:
            draft = self.drafts[flow.last_mma]
            draft.stage, draft.phase = stages.pop(), self.drafts[loads.pop()].phase
        return True

    def store(self, flow: Flow, step: steps.Store) -> bool:
        costs = self.costs
        flow.time += costs.store_issue
        start = max(flow.time, self.store_free)
        self.store_free = start + step.bytes / costs.store_rate
        span = self.draft(flow, "store", flow.time, start, self.store_free, step=step, lane=STORE)
        self.drafts[span].stage, self.drafts[span].k = step.slot.number, None
        flow.open_group.append((self.store_free, self.store_free + costs.store_latency, span))
        return True

    def commit_group(self, flow: Flow, step: steps.CommitGroup) -> bool:
        if flow.open_group:
            read, written = (max(times) for times in list(zip(*flow.open_group, strict=True))[:2])
            flow.groups.append((read, written, flow.open_group[-1][2]))
            flow.open_group.clear()
        return True

    def wait_group(self, flow: Flow, step: steps.WaitGroup) -> bool:
        groups = flow.groups
        flow.time += self.costs.wait
        over = list(groups)[: max(len(groups) - step.pending, 0)]
        if over:
            which = 0 if step.read else 1
            last = max(over, key=lambda group: group[which])
            if last[which] > flow.time:
                span = self.draft(flow, "wait", flow.time, flow.time, last[which], step=step, source=last[2])
                self.links.append(Link(last[2], span, GROUP))
                flow.time, flow.after = last[which], f"the wait for {GROUP}"
            for _ in over if not step.read else ():
                groups.popleft()
        return True

    # ---- threads

    def sync(self, flow: Flow, step: steps.Sync) -> bool:
        flow.time += self.costs.sync
        return True

    def iterate(self, flow: Flow, step: steps.Iterate) -> bool:
        flow.time += self.costs.iterate
        return True

    def schedule(self, flow: Flow, step: steps.Schedule) -> bool:
        flow.time += self.costs.schedule
        return True

    def fork(self, flow: Flow, step: steps.Fork) -> bool:
        roles = [self.flow(flow.cta, number, flow.time) for number in range(1, len(flow.cta.recording.flows))]
        flow.cta.roles = len(roles)
        for role in roles:
            self.push(role)
        return not roles

    def work(self, flow: Flow, step: steps.Work) -> bool:
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
            span = self.draft(flow, kind, begin, begin, flow.time, step=step)
            flow.work = self.drafts[span]
            if kind == "epilogue":
                flow.work.k = None
            return True
        flow.work.end = flow.time
        flow.work.steps.append(step)
        return True


_PLAY: dict[type[Step], Callable[[_Multiprocessor, Flow, Any], bool]] = {
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


def makespan(ctas: Sequence[Recording], costs: Costs, *, resident: int = 1) -> float:
    """When the last of the CTAs is over: as `replay`, for who needs nothing else."""
    machine = _Multiprocessor(ctas, resident, costs)
    machine.play()
    return machine.makespan


def replay(ctas: Sequence[Recording], costs: Costs, *, resident: int = 1) -> Trace:
    """Play the CTAs that one multiprocessor executes, `resident` of them at a time, each as soon as there is a place.

    Raises TilecError at a wait that never ends.
    """
    machine = _Multiprocessor(ctas, resident, costs)
    machine.play()
    drafts = machine.drafts
    order = sorted(range(len(drafts)), key=lambda i: drafts[i].start)
    new = {old: i for i, old in enumerate(order)}
    spans = tuple(finished(drafts[i], drafts) for i in order)
    links = tuple(Link(new[link.source], new[link.wait], link.signal) for link in machine.links)
    used = dict.fromkeys(span.lane for span in spans)
    engines = [lane for lane in (TMA, TENSOR_CORE, STORE) if lane in used]
    threads = sorted(lane for lane in used if lane not in engines)
    lanes = [*engines[:2], *threads, *engines[2:]] if STORE in used else [*engines, *threads]
    return Trace(spans, links, tuple(lanes), machine.makespan)
