"""One execution of a kernel without time: which loads and MMAs are in flight when each K tile is computed.

The steps that `tilec.backend.timeline.record` notes are played in order, each flow going on as soon as it can. A load is in flight from
its issue until its reader has waited for it, an MMA until those who issue MMAs know that it is complete.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from xdsl.ir import SSAValue

from tilec.backend.protocol.contract_walk import line_of
from tilec.backend.timeline import steps
from tilec.backend.timeline.steps import Recording, Stage, Step
from tilec.design.turns import MMA, Fill, Phases, Turns
from tilec.dialects.tile import CopyAsyncOp

_Brought = tuple[int, int | None]
"""A K tile and its stage; None where the threads copy."""


@dataclass
class _Turn:
    """A turn while it is read."""

    stage: int | None
    parity: int
    computes: str = ""
    loads_in_flight: tuple[int, ...] = ()
    loads_at_once: int = 0
    mmas_in_flight: tuple[int, ...] = ()
    waits: list[int] = field(default_factory=list[int])
    loads: list[_Brought] = field(default_factory=list[_Brought])


class Play:
    """One execution, as far as order goes."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._arrived: dict[Stage, int] = {}
        self._announced_loads: set[Stage] = {
            step.barrier for flow in recording.flows for step in flow if isinstance(step, steps.Load)
        }
        self._issued: dict[str, int] = {}
        """By ring, the loads issued so far: the number of the next K tile."""
        self._rounds: dict[Stage, list[int]] = {}
        """By barrier, the K tile of each round of loads."""
        self._landed: set[int] = set()
        self._queued: set[int] = set()
        """K tiles whose loads have been issued."""
        self._gathered: dict[SSAValue, int] = {}
        """By view, the copies by the threads so far, where TMA loads nothing: the number of the next K tile."""
        self._commits: dict[Stage, list[int]] = {}
        """By barrier, the turn up to which MMAs were committed."""
        self._known = [-1] * len(recording.flows)
        """By flow, the turn up to whose MMAs it knows that they are complete."""
        self._known_by_load: dict[int, int] = {}
        """By K tile, what the flow knew that issued its loads: who has waited for them knows it too."""
        self._computing = {
            number for number, flow in enumerate(recording.flows) if any(isinstance(step, steps.Mma) for step in flow)
        }
        self._turns: list[_Turn] = []
        self._turns_of_tile: list[int] = []
        self._prologue: list[_Brought] = []
        self._early: list[str] = []
        """What the threads do before the first turn."""
        self._end: list[str | _Brought] = []
        """What follows the last turn: words, and loads (K tile, stage), of which only those of the next output tile count."""
        self._stuck: str | None = None
        self.first_parity: dict[str, int] = {}

    def run(self) -> None:
        """Step by step, always of the first flow that can go on; those that load come first, since they run ahead."""
        flows = self._recording.flows
        order = sorted(range(len(flows)), key=lambda number: not _loads(flows[number]))
        places = [0] * len(flows)
        while True:
            over = [place == len(flow) for place, flow in zip(places, flows, strict=True)]
            ready = (
                number
                for number in order
                if not over[number] and self._goes_on(number, flows[number][places[number]], places, over)
            )
            number = next(ready, None)
            if number is None:
                break
            self._step(number, flows[number][places[number]])
            places[number] += 1
            # What is announced and the loads behind it are one step: nobody finds the round complete in between.
            while places[number] < len(flows[number]) and isinstance(step := flows[number][places[number]], steps.Load):
                self._step(number, step)
                places[number] += 1
        waiting = [flow[place] for flow, place in zip(flows, places, strict=True) if place < len(flow)]
        if waiting:
            waits = (_hangs(step) for step in waiting if isinstance(step, steps.Wait))
            self._stuck = next(waits, "a role never ends")

    def _goes_on(self, number: int, step: Step, places: list[int], over: list[bool]) -> bool:
        """Whether a flow can execute its next step: roles begin where the threads part, and these go on behind the last of them."""
        main = self._recording.flows[0]
        if number and not isinstance(main[places[0]] if places[0] < len(main) else None, steps.Fork):
            return False
        if isinstance(step, steps.Fork):
            return all(over[1:])
        return not isinstance(step, steps.Wait) or self._passes(step)

    def _completed(self, barrier: Stage) -> int:
        return self._arrived.get(barrier, 0) // self._recording.counts[barrier]

    def _passes(self, step: steps.Wait) -> bool:
        return self._completed(step.barrier) & 1 != step.parity

    def _step(self, flow: int, step: Step) -> None:
        match step:
            case steps.Expect() | steps.Arrive():
                self._arrived[step.barrier] = self._arrived.get(step.barrier, 0) + 1
            case steps.Load():
                self._load(flow, step)
            case steps.Commit():
                self._arrived[step.barrier] = self._arrived.get(step.barrier, 0) + 1
                self._commits.setdefault(step.barrier, []).append(len(self._turns) - 1)
            case steps.Wait():
                self._wait(flow, step)
            case steps.Mma():
                self._compute(flow, step, MMA)
            case steps.Work() | steps.Store() | steps.WaitGroup():
                self._work(flow, step)
            case _:
                pass

    def _load(self, flow: int, step: steps.Load) -> None:
        name, stage = step.slot
        k = self._issued.get(name, 0)
        self._issued[name] = k + 1
        rounds = self._rounds.setdefault(step.barrier, [])
        if k not in rounds:
            rounds.append(k)
        if k not in self._queued:
            self._queued.add(k)
            self._bring(flow, k, stage)

    def _gather(self, flow: int, step: steps.Work) -> None:
        """The threads copy: what they bring is there when they go on, but MMAs may run meanwhile."""
        assert isinstance(step.op, CopyAsyncOp)
        k = self._gathered.get(step.op.source, 0)
        self._gathered[step.op.source] = k + 1
        if k not in self._landed:
            self._landed.add(k)
            self._bring(flow, k, None)

    def _bring(self, flow: int, k: int, stage: int | None) -> None:
        self._known_by_load[k] = self._known[flow]
        for turn in self._turns[self._known[flow] + 1 :]:
            if turn.computes == MMA:
                turn.loads_in_flight += (k,)
                turn.loads_at_once = max(turn.loads_at_once, len((self._queued - self._landed) | {k}))
        self._end.append((k, stage))
        if self._turns:
            self._turns[-1].loads.append((k, stage))
        else:
            self._prologue.append((k, stage))

    def _wait(self, flow: int, step: steps.Wait) -> None:
        barrier = step.barrier
        self.first_parity.setdefault(barrier.name, step.parity)
        last = self._completed(barrier) - 1
        if last < 0:
            return
        if barrier in self._announced_loads:
            self._open(step)
            landed = self._rounds.get(barrier, [])[: last + 1]
            self._landed.update(landed)
            self._known[flow] = max((self._known[flow], *(self._known_by_load[k] for k in landed[-1:])))
        elif commits := self._commits.get(barrier):
            complete = commits[min(last, len(commits) - 1)]
            newly = list(range(self._known[flow] + 1, complete + 1))
            self._known[flow] = max(self._known[flow], complete)
            if step.iteration is None:
                if step.tile == 0:
                    self._end.append(f"wait for MMA {complete} ({barrier})")
            elif newly and self._turns and flow in self._computing:
                self._turns[-1].waits += newly

    def _open(self, step: steps.Wait) -> None:
        """A wait for loads begins a turn, unless the turn has only waited so far."""
        if not self._turns or self._turns[-1].computes:
            self._begin(step, step.barrier.number, step.parity)

    def _begin(self, step: Step, stage: int | None, parity: int) -> None:
        while len(self._turns_of_tile) <= step.tile:
            self._turns_of_tile.append(0)
        self._turns_of_tile[step.tile] += 1
        self._turns.append(_Turn(stage, parity))

    def _compute(self, flow: int, step: Step, what: str) -> None:
        if not self._announced_loads and (not self._turns or self._turns[-1].computes):
            self._begin(step, None, 0)
        if not self._turns or self._turns[-1].computes:
            return
        number = len(self._turns) - 1
        turn = self._turns[-1]
        turn.computes = what
        turn.loads_in_flight = tuple(sorted(self._queued - self._landed))
        turn.loads_at_once = len(turn.loads_in_flight)
        turn.mmas_in_flight = tuple(range(self._known[flow] + 1, number)) if what == MMA else ()

    def _work(self, flow: int, step: steps.Work | steps.Store | steps.WaitGroup) -> None:
        waiting = self._turns and not self._turns[-1].computes
        if waiting and not isinstance(step, steps.WaitGroup) and not self._computing:
            self._compute(flow, step, step.what if isinstance(step, steps.Work) else f"store to {step.place}")
        elif isinstance(step, steps.Work) and self._brings(step):
            self._gather(flow, step)
        elif step.tile == 0 and not self._turns:
            self._early.append(_words(step))
        elif step.tile == 0 and step.iteration is None:
            self._end.append(_words(step))

    def _brings(self, step: steps.Work) -> bool:
        """Whether threads bring a K tile, in a kernel that leaves all of them to the threads."""
        return bool(
            self._computing and not self._announced_loads and step.kind == "gather" and step.iteration is not None
        )

    def _is_early(self, k: int) -> bool:
        """Whether a K tile of the next output tile is loaded before that tile's first turn."""
        first = self._turns_of_tile[0]
        return any(k == early for turn in self._turns[:first] for early, _ in turn.loads)

    def phases(self, count: int | None, shape: dict[str, int]) -> Phases:
        own = self._turns_of_tile[0] if self._turns_of_tile else 0
        turns = self._turns[:own]
        last = max((number for number, turn in enumerate(turns) if any(k < own for k, _ in turn.loads)), default=-1)
        groups = list(_grouped(turns, own))
        first = [Fill(k, stage) for k, stage in self._prologue if k < own or not turns]
        ahead = range(own, own + self._turns_of_tile[1]) if own and len(self._turns_of_tile) > 1 else range(0)
        end = [
            word if isinstance(word, str) else f"load K tile {word[0] - own} of the next output tile{_into(word[1])}"
            for word in self._end
            if isinstance(word, str) or (word[0] in ahead and self._is_early(word[0]))
        ]
        return Phases(
            count,
            shape,
            tuple(_counted(self._early if turns else [])),
            tuple(first),
            tuple(group for group in groups if group.first <= last),
            tuple(group for group in groups if group.first > last),
            tuple(_counted(end if turns else [*self._early, *end])),
            self._stuck,
        )


def _grouped(turns: Sequence[_Turn], own: int) -> Iterator[Turns]:
    """Turns that do the same, relative to their number, as one; those that load apart from those that do not."""
    start = 0
    keys = [_relative(number, turn, own) for number, turn in enumerate(turns)]
    for number in range(1, len(turns) + 1):
        if number == len(turns) or keys[number] != keys[start]:
            members = turns[start:number]
            stages = tuple(turn.stage for turn in members if turn.stage is not None)
            parities = tuple(turn.parity for turn in members if turn.stage is not None)
            yield Turns(start, number - 1, stages, parities, *keys[start])
            start = number


_Relative = tuple[str, tuple[int, ...], int, tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def _relative(number: int, turn: _Turn, own: int) -> _Relative:
    return (
        turn.computes,
        tuple(k - number for k in turn.loads_in_flight if k < own),
        min(turn.loads_at_once, sum(k < own for k in turn.loads_in_flight)),
        tuple(k - number for k in turn.mmas_in_flight),
        tuple(k - number for k in turn.waits),
        tuple(k - number for k, _ in turn.loads if k < own),
    )


def _into(stage: int | None) -> str:
    return "" if stage is None else f" into stage {stage}"


def _counted(words: Sequence[str]) -> Iterator[str]:
    """Equal ones that follow each other as one, with their number."""
    start = 0
    for place in range(1, len(words) + 1):
        if place == len(words) or words[place] != words[start]:
            times = place - start
            yield words[start] if times == 1 else f"{words[start]} ({times} times)"
            start = place


def _words(step: steps.Work | steps.Store | steps.WaitGroup) -> str:
    match step:
        case steps.Work():
            return f"{step.what}: {step.bytes} bytes"
        case steps.Store():
            return f"TMA store of {step.slot} to {step.place}: {step.bytes} bytes"
        case steps.WaitGroup():
            return f"wait_group {step.pending}{' read' if step.read else ''}"


def _loads(flow: Sequence[Step]) -> bool:
    return any(isinstance(step, steps.Load) for step in flow)


def _hangs(step: steps.Wait) -> str:
    return f"the wait for {step.barrier} in line {line_of(step.op)} never ends"
