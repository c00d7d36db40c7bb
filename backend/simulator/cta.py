"""One CTA under simulation: its agents, engines, barriers and storage."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np
from xdsl.ir import Block, Operation, SSAValue

from tilec.backend.reference.cta import Cta, Kind, Value, name_of
from tilec.backend.reference.numerics import Array
from tilec.backend.simulator.barriers import Barriers, Slot
from tilec.backend.simulator.clocks import Agent, Components
from tilec.backend.simulator.faults import Fault, FaultKind
from tilec.backend.simulator.history import History
from tilec.backend.simulator.memory import BulkGroups, Loading, TensorMemory
from tilec.backend.simulator.report import Counters
from tilec.backend.simulator.tensors import Tensor
from tilec.dialects.tile import KernelOp

AGENTS = ("the issuing thread", "the other threads")
"""Who acts in a CTA without roles: the thread that executes `tile.single_thread`, first, and all others."""

_REMEMBERED = 64
"""MMAs and commits that are kept to be named in a fault."""


@dataclass(eq=False)
class Launch:
    """What the CTAs of one launch share."""

    kernel: KernelOp
    components: Components
    tensors: dict[int, Tensor]
    """Of the views that the kernel writes, by the identity of the view."""
    turns: frozenset[Block]
    """Blocks that execute once for each output tile of a persistent kernel."""
    counters: Counters = field(default_factory=Counters)


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit: the round that it arrives in, and the number of MMAs issued before it."""

    op: Operation
    slot: Slot
    round: int
    mmas: int


@dataclass
class AsyncCta(Cta):
    """The state of one CTA of an asynchronous kernel.

    All scalars are uniform, so that the agents walk the same control flow in lock step: one legal order of many, and
    whatever another order could break is found by what is known of whom, not by what this order happens to do.
    """

    launch: Launch
    agents: list[Agent] = field(init=False)
    active: list[Agent] = field(init=False)
    """Those that execute the current operation."""
    now: int = field(default=0, init=False)
    """Operations executed so far."""
    turn: int = field(default=-1, init=False)
    mmas: int = field(default=0, init=False)
    """MMAs issued."""
    commits: int = field(default=0, init=False)
    recent_commits: deque[Commit] = field(default_factory=lambda: deque(maxlen=_REMEMBERED), init=False)
    last_mma: Operation | None = field(default=None, init=False)
    bulk: BulkGroups = field(default_factory=BulkGroups, init=False)
    slots: list[Slot] = field(default_factory=list[Slot], init=False)
    accumulators: list[TensorMemory] = field(default_factory=list[TensorMemory], init=False)
    loading: dict[int, Loading] = field(default_factory=dict[int, Loading], init=False)
    """Register tiles that are on their way from an accumulator, by the identity of the array."""
    last_sync: Operation | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        parts = self.launch.components
        self.agents = [Agent(i, name, parts.nothing(), parts.nothing()) for i, name in enumerate(AGENTS)]
        self.active = self.agents

    @property
    def alone(self) -> bool:
        """Whether one thread executes."""
        return len(self.active) == 1

    @property
    def issuer(self) -> Agent:
        return self.agents[0]

    @property
    def visit(self) -> int:
        """A number for this CTA at this turn, unique in the launch."""
        return max(self.turn, 0) * self.total + self.number

    def run(self, block: Block, arguments: Sequence[Value] = ()) -> list[Value]:
        if block in self.launch.turns:
            self.turn += 1
            self.launch.counters.tiles += 1
        return super().run(block, arguments)

    def never_ends(self, op: Operation, message: str, hint: str) -> NoReturn:
        self.fail("deadlock", op, message, hint)

    def tick(self) -> int:
        """The time of the operation that starts now."""
        self.now += 1
        return self.now

    def registers(self, op: Operation, value: SSAValue) -> Array:
        found = self.get(value, np.ndarray)
        if self.loading and (loading := self.loading.get(id(found))) is not None:
            self.fail(
                "in flight",
                op,
                f"{name_of(value)} is used before its load from the accumulator is complete",
                "put `tile.tmem.wait_ld` between the load and the first use",
                [(loading.op, "loaded here")],
            )
        return found

    def slot(self, op: Operation, barrier: SSAValue, stage: SSAValue | None) -> Slot:
        """The mbarrier of a stage."""
        return self.stage_of(op, self.get(barrier, Barriers), barrier, stage)

    def stage_of(self, op: Operation, stages: list[Kind], array: SSAValue, stage: SSAValue | None) -> Kind:
        index = 0 if stage is None else self.signed(stage)
        if not 0 <= index < len(stages):
            self.fail(
                "stage",
                op,
                f"stage {index} of {name_of(array)}, which has {len(stages)}",
                f"stages run from 0 to {len(stages) - 1}: wrap the stage where it reaches {len(stages)}",
            )
        return stages[index]

    def fail(
        self,
        kind: FaultKind,
        at: Operation | SSAValue,
        message: str,
        hint: str | None = None,
        notes: Sequence[tuple[Operation, str]] = (),
        *histories: History,
    ) -> NoReturn:
        raise Fault(kind, at, message, hint, notes, histories)
