"""Control flow of threads: groups that part at branches, meet again, wait for others of their warp, and end.

A group runs until it is parked, until its budget is used up, or until it reaches the place of another group of its threads'
warps: groups at one place are joined. Compilers rely on threads meeting again behind a branch (PTX 9.7.12 `.aligned`), so an
instruction that asks for whole warps lets a group wait for the rest of its warps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilec.backend.emulator.execution.calls import Calls
from tilec.backend.emulator.execution.group import Frame, Group, as_index
from tilec.backend.emulator.execution.lanes import Answer, Lanes, Part, Wait
from tilec.backend.emulator.execution.rendezvous import Party, Rendezvous
from tilec.backend.emulator.execution.steps import Kind, Step, Steps

if TYPE_CHECKING:
    from tilec.backend.emulator.execution.cta import Cta
    from tilec.backend.emulator.execution.machine import Machine

_NOWHERE = 1 << 60


class Flow:
    """Moves groups."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.steps = Steps(machine.program)
        self.calls = Calls(machine.program)
        self.rendezvous = Rendezvous(machine.program)
        self._to_loop_end = False
        self.entry = machine.program.functions[machine.program.kernel.name].start

    def start(self, cta: Cta) -> None:
        """Threads of a new CTA stand at the first instruction."""
        if self.machine.order.across_warps:
            cta.groups = [Group(cta, cta.everyone[: cta.threads], self.entry, None)]
            return
        warps = range(0, cta.threads, 32)
        cta.groups = [Group(cta, cta.everyone[w : min(w + 32, cta.threads)], self.entry, None) for w in warps]

    # What can go on.

    def runnable(self, cta: Cta) -> list[Group]:
        """The groups that can go on, after those have been woken whose waits have ended, and those joined that have met."""
        epoch = self.machine.epoch
        if cta.runnable is None or cta.asked != (cta.cluster.changes, epoch):
            cta.runnable = self._look_for_runnable(cta)
            # What wakes in one look may end the wait of another, which is asked in the next.
            cta.asked = cta.cluster.changes, epoch
        return cta.runnable

    def _look_for_runnable(self, cta: Cta) -> list[Group]:
        epoch = self.machine.epoch
        for group in cta.groups:
            if group.wait is not None and group.asked != epoch:
                group.asked = epoch
                if group.wait.ready():
                    self._wake(group)
        if len(cta.groups) > 1:
            self._join(cta)
        found = [g for g in cta.groups if g.wait is None and not g.gathering and g.spinning != epoch]
        for group in [g for g in cta.groups if g.gathering and g.asked != epoch]:
            group.asked = epoch
            found += self._release(group)
        if sum(g.gathering for g in cta.groups) > 1:
            found += self._meet(cta)
        return found

    def _wake(self, group: Group) -> None:
        wait = group.wait
        assert wait is not None
        group.cta.cluster.changes += 1
        group.wait = None
        group.turns = 0
        group.pc += 1
        if wait.then is not None:
            wait.then()

    def let_polls_fail(self, ctas: Iterable[Cta]) -> bool:
        """Nothing can go on: end the waits that hardware may end without success, and let spinning threads poll once more."""
        found = False
        for group in [g for cta in ctas for g in cta.groups]:
            if group.wait is not None and group.wait.may_give_up:
                self._wake(group)
                found = True
        return found

    def _join(self, cta: Cta) -> None:
        """Join groups that stand at one place after the same calls; unless in lock step, of one warp only."""
        across = self.machine.order.across_warps
        places: dict[tuple[int, Frame | None, int, bool, bool], list[Group]] = {}
        for group in cta.groups:
            if group.wait is None:
                first = int(group.threads[0])
                # Those that wait for their warpgroup are joined with its other warps in every order.
                together = group.gathering and self.steps[group.pc].scope == "warpgroup"
                who = -1 if across else first >> 7 if together else first >> 5
                # Threads that are complete would gather anew, and for ever, with those that still wait for others.
                places.setdefault((group.pc, group.frame, who, together, group.gathering), []).append(group)
        for groups in places.values():
            if len(groups) > 1:
                self._merge(cta, groups)

    def _merge(self, cta: Cta, groups: list[Group]) -> None:
        cta.cluster.changes += 1
        first = groups[0]
        threads = np.sort(np.concatenate([g.threads for g in groups]))
        joined = Group(cta, threads, first.pc, first.frame)
        joined.turns = max(g.turns for g in groups)
        joined.gathering = first.gathering
        kept = [g for g in cta.groups if g not in groups]
        cta.groups = [*kept, joined]

    def _release(self, group: Group) -> list[Group]:
        """Of a group that gathers, the threads that are complete, as a group that can go on."""
        step = self.steps[group.pc]
        complete = self._complete(group, step, group.threads, group.threads)
        if not complete.any():
            return []
        group.cta.cluster.changes += 1
        if complete.all():
            group.gathering = False
            return [group]
        ready = self._split(group, group.threads[complete])
        ready.gathering = False
        return [ready]

    def _meet(self, cta: Cta) -> list[Group]:
        """Let groups go on that wait at different places, or after different calls, for the same instruction with a member mask."""
        waiting: dict[str, list[Group]] = {}
        for group in cta.groups:
            if group.gathering and self.steps[group.pc].scope == "mask":
                waiting.setdefault(self.steps[group.pc].instruction.opcode, []).append(group)
        found: list[Group] = []
        for groups in waiting.values():
            everyone = np.concatenate([g.threads for g in groups])
            complete = [g.threads[self._complete(g, self.steps[g.pc], everyone, g.threads)] for g in groups]
            parties = [Party(g.pc, threads) for g, threads in zip(groups, complete, strict=True) if len(threads)]
            if not parties:
                continue
            self.rendezvous.execute(cta, parties)
            cta.cluster.changes += 1
            self.machine.touch()
            for group, threads in zip(groups, complete, strict=True):
                if len(threads):
                    ready = self._split(group, threads) if len(threads) < len(group.threads) else group
                    ready.gathering = False
                    ready.pc += 1
                    self.steps[group.pc - (ready is group)].executed += _warps(threads)
                    found.append(ready)
        return found

    def _complete(
        self, group: Group, step: Step, present: NDArray[np.intp], threads: NDArray[np.intp]
    ) -> NDArray[np.bool_]:
        """For each of the threads, of a group at `step`, whether all participants of its instruction are present."""
        cta = group.cta
        here = np.zeros(cta.padded, np.bool_)
        here[present] = True
        if step.scope == "mask":
            assert step.mask is not None
            lanes = Lanes(cta, as_index(threads), len(threads), step.instruction)
            masks = np.broadcast_to(step.mask(lanes), (len(threads),)).astype(np.uint32)
            absent = np.packbits((cta.alive & ~here).reshape(-1, 32), axis=1, bitorder="little").view(np.uint32)[:, 0]
            return (masks & absent[threads >> 5]) == 0
        width = 128 if step.scope == "warpgroup" else 32
        groups = -(-cta.padded // width)
        missing = np.zeros(groups * width, np.bool_)
        missing[: cta.padded] = cta.alive & ~here
        incomplete = np.asarray(missing.reshape(groups, width).any(axis=1))
        return ~incomplete[threads // width]

    # Running.

    def run(self, group: Group, budget: int, others: Sequence[Group], *, to_loop_end: bool = False) -> None:
        """Let a group go on for up to `budget` instructions; with `to_loop_end` no further than a branch back."""
        self._to_loop_end = to_loop_end
        group.spinning = None
        group.cta.cluster.changes += 1
        machine, cta, steps = self.machine, group.cta, self.steps
        limit = self._limit(group, others)
        while budget:
            budget -= 1
            if group.pc >= limit[0] and group.depth == limit[1]:
                return
            step = steps[group.pc]
            machine.steps_done += 1
            index, count = group.index, len(group.threads)
            active = group.threads
            if step.guard is not None:
                held = cta.registers[step.guard][index]
                if step.negated:
                    held = ~held
                if not held.all():
                    if not held.any():
                        group.pc += 1
                        continue
                    active = group.threads[held]
                    index, count = as_index(active), len(active)
            if step.kind is Kind.PLAIN:
                lanes = Lanes(cta, index, count, step.instruction)
                if step.scope is not None and not self._gather(group, step, lanes):
                    return
                step.executed += _warps(active)
                if cta.registers_in_flight is not None:
                    cta.registers_in_flight.check(lanes, step)
                answer = step.execute(lanes)
                if answer is None:
                    group.pc += 1
                    if step.scope != "warpgroup" or machine.order.across_warps:
                        continue
                    self._part_warps(group)
                    return
                self._park(group, lanes, step, answer)
                return
            step.executed += _warps(active)
            if not self._transfer(group, step, active):
                return
        group.turns += 1

    def _part_warps(self, group: Group) -> None:
        """Let the warps of a group go on separately."""
        for warp in np.unique(group.threads >> 5)[1:]:
            self._split(group, group.threads[group.threads >> 5 == warp])

    def _limit(self, group: Group, others: Sequence[Group]) -> tuple[int, int]:
        """The nearest place where another group stands that this one could join, and how deep in calls."""
        warp = int(group.threads[0]) >> 5
        across = self.machine.order.across_warps
        places = [
            g.pc
            for g in others
            if g is not group
            and g.cta is group.cta
            and g.frame is group.frame
            and g.pc > group.pc
            and (across or int(g.threads[0]) >> 5 == warp)
        ]
        return min(places, default=_NOWHERE), group.depth

    def _gather(self, group: Group, step: Step, lanes: Lanes) -> bool:
        """Whether all participants are there; otherwise the group waits for them."""
        complete = self._complete(group, step, lanes.threads, lanes.threads)
        if complete.all():
            return True
        if lanes.count != len(group.threads):
            # The guard keeps some threads from an instruction that the others wait for: those go on without it.
            executing = self._split(group, lanes.threads)
            group.pc += 1
            group = executing
        group.gathering = True
        group.asked = -1
        self.machine.touch()
        return False

    def _park(self, group: Group, lanes: Lanes, step: Step, answer: Answer) -> None:
        cta = group.cta
        parts = [Part(np.arange(lanes.count), answer)] if isinstance(answer, Wait) else answer
        assert parts is not None
        self.machine.statistics.waits[step.instruction.parts[0]] += 1
        if len(parts) == 1 and lanes.count == len(group.threads):
            self._set_wait(group, parts[0].wait)
            return
        for part in parts:
            parted = self._split(group, lanes.threads[part.lanes])
            self._set_wait(parted, part.wait)
        if group in cta.groups:
            group.pc += 1

    def _set_wait(self, group: Group, wait: Wait | None) -> None:
        if wait is None:
            group.pc += 1
            return
        group.wait = wait
        group.asked = -1
        if wait.may_give_up and self.machine.order.gives_up(group):
            self._wake(group)

    def _split(self, group: Group, threads: NDArray[np.intp]) -> Group:
        """Part `threads` from a group; the rest stays in it. If there is no rest, the group leaves the CTA's list."""
        cta = group.cta
        parted = Group(cta, threads, group.pc, group.frame)
        parted.turns = group.turns
        parted.gathering = group.gathering
        rest = group.threads[~np.isin(group.threads, threads, assume_unique=True)]
        cta.groups.append(parted)
        self._set_threads(group, rest)
        return parted

    @staticmethod
    def _set_threads(group: Group, threads: NDArray[np.intp]) -> None:
        if not len(threads):
            group.cta.groups.remove(group)
            return
        group.threads = threads
        group.index = as_index(threads)

    # Changes of the flow of control.

    def _transfer(self, group: Group, step: Step, active: NDArray[np.intp]) -> bool:
        """Execute a branch, call, return or exit for the threads in `active`. Whether the group simply goes on."""
        whole = len(active) == len(group.threads)
        match step.kind:
            case Kind.BRANCH if whole:
                return self._jump(group, step.target)
            case Kind.BRANCH:
                taken = self._split(group, active)
                taken.pc = step.target
                group.pc += 1
                return False
            case Kind.INDEXED:
                self._indexed(group, step, active)
                return False
            case Kind.EXIT:
                self._exit(group, active)
                return False
            case Kind.RETURN if group.frame is None:
                self._exit(group, active)
                return False
            case _:
                if not whole:
                    parted = self._split(group, active)
                    group.pc += 1
                    group = parted
                self.calls.transfer(group, step, self._split)
                return False

    def _jump(self, group: Group, target: int) -> bool:
        backward = target <= group.pc
        if backward and group.loops.repeats(group, target, self.machine.epoch):
            group.spinning = self.machine.epoch
            group.pc = target
            return False
        group.pc = target
        return not (backward and self._to_loop_end)

    def _indexed(self, group: Group, step: Step, active: NDArray[np.intp]) -> None:
        assert step.reader is not None
        lanes = Lanes(group.cta, as_index(active), len(active), step.instruction)
        choice = np.broadcast_to(step.reader(lanes), active.shape)
        if len(active) != len(group.threads):
            self._split(group, group.threads[~np.isin(group.threads, active)]).pc += 1
        # An index beyond the table is undefined (PTX 9.7.12.4): no table entry can be meant.
        if int(choice.max()) >= len(step.targets):
            lane = int(np.argmax(choice))
            from tilec.backend.emulator.faults import FaultKind

            lanes.fault(
                FaultKind.ILLEGAL, f"index {int(choice[lane])} into a table of {len(step.targets)} labels", lane
            )
        for value in np.unique(choice)[1:]:
            self._split(group, active[choice == value]).pc = step.targets[int(value)]
        group.pc = step.targets[int(choice.min())]

    def _exit(self, group: Group, active: NDArray[np.intp]) -> None:
        group.cta.alive[active] = False
        self.machine.touch()
        if len(active) == len(group.threads):
            group.cta.groups.remove(group)
        else:
            self._set_threads(group, group.threads[~np.isin(group.threads, active)])
            group.pc += 1


def _warps(threads: NDArray[np.intp]) -> int:
    """How many warps the threads, ascending, are of."""
    if threads[0] >> 5 == threads[-1] >> 5:
        return 1
    warps = threads >> 5
    return int(np.count_nonzero(warps[1:] != warps[:-1])) + 1
