"""The machine: clusters that start as others end, and the loop that lets threads and engines go on until all have ended."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tilec.backend.emulator.execution.cta import Cluster, Cta, Index3
from tilec.backend.emulator.execution.engines import AsyncWork, Engines
from tilec.backend.emulator.execution.flow import Flow
from tilec.backend.emulator.execution.group import Group
from tilec.backend.emulator.execution.helpless import PATIENCE, Helpless
from tilec.backend.emulator.execution.livelock import Livelock
from tilec.backend.emulator.execution.orders import Order
from tilec.backend.emulator.execution.program import Program
from tilec.backend.emulator.execution.statistics import Statistics
from tilec.backend.emulator.execution.stuck import report_deadlock
from tilec.backend.emulator.memory.address_space import GlobalMemory, Segment

if TYPE_CHECKING:
    from tilec.backend.target import Target

_PROBE_BUDGET = 1 << 16

_WORKSPACE_BYTES = 8


class Machine:
    """One launch. `shared_bytes`: of a CTA, without the reserved bytes; `multiprocessors`: of the device it stands for."""

    def __init__(
        self,
        program: Program,
        memory: GlobalMemory,
        parameters: Segment,
        target: Target,
        order: Order,
        *,
        grid: Index3,
        block: Index3,
        cluster: Index3,
        explicit_cluster: bool,
        dynamic_smem: int,
        seed: int,
    ) -> None:
        self.program = program
        self.file = program.module.file
        self.kernel = program.kernel.name
        self.memory = memory
        self.parameters = parameters
        self.target = target
        self.order = order
        self.grid = grid
        self.block = block
        self.cluster = cluster
        self.clusters: Index3 = (grid[0] // cluster[0], grid[1] // cluster[1], grid[2] // cluster[2])
        self.explicit_cluster = explicit_cluster
        self.dynamic_smem = dynamic_smem
        self.shared_bytes = program.dynamic_offset - 0x400 + dynamic_smem
        self.multiprocessors = target.sm_count
        self.statistics = Statistics()
        self.engines = Engines()
        self.seed = seed
        self.epoch = 0
        """Grows with everything that a waiting thread could have waited for."""
        self.steps_done = 0
        self.resident: list[Cluster] = []
        self.waiting = list(range(self.clusters[0] * self.clusters[1] * self.clusters[2]))
        """Clusters that have not started, by number; cluster launch control takes from here too."""
        self.flow = Flow(self)

    @cached_property
    def grid_workspace(self) -> int:
        """The address of what a cooperative launch hands to its grid: the size of it, and a barrier that starts at 0, 32 bits each.
        Every launch may be taken for one: CTAs are started until those that wait for one another are all there."""
        segment = self.memory.allocate("the workspace of the grid", _WORKSPACE_BYTES)
        segment.view(np.dtype(np.uint32))[0] = _WORKSPACE_BYTES
        return segment.address

    @property
    def shared_hint(self) -> str | None:
        """Why shared memory may be smaller than the kernel thinks."""
        if not self.program.has_dynamic_shared or self.dynamic_smem:
            return None
        return "the kernel declares dynamic shared memory (.extern .shared), and the launch gives it dynamic_smem = 0"

    def touch(self) -> None:
        """Something has happened that may let a waiting thread go on: memory or a barrier has changed, work has ended."""
        self.epoch += 1

    def clock(self) -> int:
        """A time that only grows."""
        return self.steps_done

    def garbage(self) -> int:
        """What a register holds before it is written."""
        return (0xA5A5_C3C3_DEAD_BEEF + 0x9E37_79B9_7F4A_7C15 * self.seed) & (2**64 - 1)

    def run(self) -> None:
        """Run all CTAs to their end."""
        failures = 0
        livelock = Livelock(lock_step=self.order.across_warps)
        helpless = Helpless(self)
        while True:
            if len(self.resident) < self.order.resident:
                self._start_cluster()
            groups = [g for cta in self._ctas() for g in self.flow.runnable(cta)]
            works = self.engines.heads()
            if groups or works:
                before = self.epoch
                if works:
                    livelock.reset()
                else:
                    livelock.count(groups)
                if livelock.probing and livelock.repeats(self.resident, self.memory):
                    if self._start_more():
                        livelock.reset()
                    elif livelock.hopeless or not self.flow.let_polls_fail(self._ctas()):
                        report_deadlock(self, list(self._ctas()))
                    continue
                if livelock.probing:
                    self._probe(groups, livelock)
                else:
                    self.advance(groups, works)
                failures = 0 if self.epoch != before else failures
                continue
            before, looks = self.epoch, helpless.looks
            if (stuck := helpless.find()) is not None:
                report_deadlock(self, stuck.ctas)
            failures = 0 if self.epoch != before else failures
            if helpless.looks != looks or self._start_more():
                continue
            if not self.resident:
                return
            if failures >= PATIENCE or not self.flow.let_polls_fail(self._ctas()):
                report_deadlock(self, list(self._ctas()))
            failures += 1

    def _ctas(self) -> Iterator[Cta]:
        return (cta for cluster in self.resident for cta in cluster.ctas)

    def advance(self, groups: list[Group], works: list[AsyncWork]) -> None:
        """Let one of these groups and works go on, as the order chooses."""
        choice = self.order.choose(groups, works)
        if isinstance(choice, AsyncWork):
            self.engines.advance(choice)
            self.touch()
            return
        group, budget = choice
        self.flow.run(group, budget, groups)
        if group.cta.exited:
            self._retire(group.cta)

    def _probe(self, groups: list[Group], livelock: Livelock) -> None:
        """Let a group go on to the end of an iteration. What runs in lock step keeps its order, in which threads meet again."""
        if self.order.across_warps:
            choice = self.order.choose(groups, [])
            assert not isinstance(choice, AsyncWork)
            group, budget = choice
            livelock.takes_turn(group)
            turns = group.turns
            self.flow.run(group, budget, groups)
            if group.turns > turns:
                self.flow.run(group, budget, groups, to_loop_end=True)
        else:
            group = livelock.next_in_turn(groups)
            livelock.takes_turn(group)
            self.flow.run(group, _PROBE_BUDGET, groups, to_loop_end=True)
        if group.cta.exited:
            self._retire(group.cta)

    def _start_more(self) -> bool:
        """Those that run may wait for others: start one more cluster, or some if there are many; False if all have been."""
        if not self.waiting:
            return False
        for _ in range(1 + len(self.resident) // 4):
            self._start_cluster()
        return True

    def _start_cluster(self) -> None:
        """Start one more cluster, if there is one."""
        if not self.waiting:
            return
        number = self.waiting.pop(self.order.start_next(len(self.waiting)))
        cluster = Cluster(self, number)
        self.resident.append(cluster)
        self.statistics.ctas += len(cluster.ctas)
        for cta in cluster.ctas:
            self.flow.start(cta)

    def _retire(self, cta: Cta) -> None:
        """All threads of a CTA have exited: check what it leaves, and let its cluster go if it was the last."""
        cta.finish()
        self.touch()
        if all(c.exited for c in cta.cluster.ctas):
            self.resident.remove(cta.cluster)
