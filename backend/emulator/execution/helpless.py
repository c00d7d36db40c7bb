"""Finds a cluster that can never go on, while others still run or have not even started.

Threads of other clusters reach a cluster through global memory alone. So if none of its threads can go on, no asynchronous work is
under way, and its polls only fail again, without a look at global memory, nothing will ever help it.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tilec.backend.emulator.execution.livelock import digest
from tilec.backend.emulator.execution.steps import Kind, Step

if TYPE_CHECKING:
    from tilec.backend.emulator.execution.cta import Cluster
    from tilec.backend.emulator.execution.machine import Machine

PATIENCE = 64
"""Times that all polling threads may fail, with nothing else happening, before it is a deadlock."""
_REPETITIONS = 4
"""Times that a cluster must come to one state."""
_TURNS = 64
"""Choices, for each group, after polls have failed: a cluster that goes on for longer is not stuck."""
_OUTSIDE = (
    "applypriority",
    "clusterlaunchcontrol",
    "cp",
    "discard",
    "griddepcontrol",
    "ldu",
    "multimem",
    "prefetch",
    "tensormap",
)
_ANY_SPACE = ("atom", "ld", "red", "st", "wmma")
_INSIDE = ("const", "local", "param", "shared", "shared::cta", "shared::cluster")


class Helpless:
    """Looks at the clusters of one machine that are stuck: the longer in vain, the more rarely."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._reaches: dict[Step, bool] = {}
        self._known: dict[int, int] = {}
        """For each cluster, by number, how often it had changed when it was looked at last."""
        self._vain: Counter[int] = Counter()
        self._pause: Counter[int] = Counter()
        self.looks = 0
        """Times that a cluster was looked at, and its threads may have gone on."""

    def find(self) -> Cluster | None:
        """A cluster that nothing can help. Called when no thread can go on and no asynchronous work is under way; lets polls fail,
        so that threads may be able to go on afterwards."""
        for cluster in list(self._machine.resident):
            number = cluster.number
            if self._known.get(number) == cluster.changes:
                continue
            if self._pause[number]:
                self._pause[number] -= 1
                continue
            self.looks += 1
            if self._is_helpless(cluster):
                return cluster
            self._known[number] = cluster.changes
            self._pause[number] = 2 ** self._vain[number] - 1
            self._vain[number] += 1
            if len(self._machine.engines):
                return None
        return None

    def _is_helpless(self, cluster: Cluster) -> bool:
        machine, flow = self._machine, self._machine.flow
        accesses = self._accesses()
        states: Counter[int] = Counter()
        failures = 0
        for _ in range(PATIENCE):
            if self._spins_outside(cluster):
                return False
            before = machine.epoch
            if not flow.let_polls_fail(cluster.ctas):
                return True
            if not self._stands_still(cluster) or self._accesses() != accesses:
                return False
            failures = failures + 1 if machine.epoch == before else 0
            states[digest(cluster)] += 1
            if max(states.values()) >= _REPETITIONS:
                return True
        return failures == PATIENCE

    def _stands_still(self, cluster: Cluster) -> bool:
        """Whether the threads of a cluster can soon not go on again, and none has started asynchronous work or ended."""
        machine = self._machine
        living = sum(int(cta.alive.sum()) for cta in cluster.ctas)
        for _ in range(_TURNS * sum(len(cta.groups) for cta in cluster.ctas)):
            groups = [g for cta in cluster.ctas for g in machine.flow.runnable(cta)]
            if not groups:
                return True
            machine.advance(groups, [])
            if len(machine.engines) or living != sum(int(cta.alive.sum()) for cta in cluster.ctas):
                return False
        return False

    def _spins_outside(self, cluster: Cluster) -> bool:
        """Whether threads repeat a loop in which they look at what other clusters can change."""
        steps = self._machine.flow.steps
        spinning = [g for cta in cluster.ctas for g in cta.groups if g.wait is None and not g.gathering]
        return any(self._reaches_outside(steps[place]) for g in spinning for place in g.loops.places)

    def _accesses(self) -> int:
        """How often instructions have executed that reach out of a cluster."""
        return sum(step.executed for step in self._machine.flow.steps.built() if self._reaches_outside(step))

    def _reaches_outside(self, step: Step) -> bool:
        found = self._reaches.get(step)
        if found is None:
            found = self._reaches[step] = _reaches_outside(step)
        return found


def _reaches_outside(step: Step) -> bool:
    """Whether an instruction may depend on what other clusters do, or change what they see. (Time is no help: it passes for
    all that wait, and `PATIENCE` ends that too.)"""
    parts = step.instruction.parts
    if step.kind is Kind.CALL or parts[0] in _OUTSIDE:
        return True
    return parts[0] in _ANY_SPACE and not any(part in _INSIDE for part in parts)
