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
from tilec.backend.simulator.coroutines import Coroutines
from tilec.backend.simulator.faults import Fault, FaultKind
from tilec.backend.simulator.flow import Flow, make_flows
from tilec.backend.simulator.history import History
from tilec.backend.simulator.memory import Access, BulkGroups, Loading, TensorMemory
from tilec.backend.simulator.report import Counters
from tilec.backend.simulator.tensors import Tensor
from tilec.dialects.tile import KernelOp, RoleOp, RolesOp, TryWaitOp
from tilec.dialects.tile.roles import role_of

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
    seed: int | None = None
    """Of the order in which roles go on."""
    counters: Counters = field(default_factory=Counters)
    roles: tuple[RoleOp, ...] = field(init=False)
    flows: dict[Operation, int] = field(init=False)
    """The number of the role's flow, by operation in a role; all others belong to flow 0, that of all threads."""

    def __post_init__(self) -> None:
        self.roles = roles_of(self.kernel)
        self.flows = {op: number for number, role in enumerate(self.roles, 1) for op in role.walk()}


def roles_of(kernel: KernelOp) -> tuple[RoleOp, ...]:
    return next((op.roles for op in kernel.walk() if isinstance(op, RolesOp)), ())


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit: the round that it arrives in, and the number of MMAs issued before it."""

    op: Operation
    slot: Slot
    round: int
    component: int
    """The tensor core's place in `Clock.g`, for the flow that commits."""
    mmas: int


@dataclass
class AsyncCta(Cta):
    """The state of one CTA of an asynchronous kernel.

    All scalars are uniform in a flow, so that its agents walk the same control flow in lock step; of the roles one goes on
    at a time. That is one legal order of many, and whatever another order could break is found by what is known of whom,
    not by what this order happens to do.
    """

    launch: Launch
    flows: list[Flow] = field(init=False)
    """That of all threads first, then those of the roles."""
    agents: list[Agent] = field(init=False)
    """Of all flows."""
    flow: Flow = field(init=False)
    """The one that goes on now."""
    active: list[Agent] = field(init=False)
    """Those that execute the current operation."""
    coroutines: Coroutines | None = field(default=None, init=False)
    """While there are roles: each of them."""
    now: int = field(default=0, init=False)
    """Operations executed so far."""
    mmas: int = field(default=0, init=False)
    """MMAs issued."""
    groups: int = field(default=0, init=False)
    """Bulk groups opened."""
    recent_commits: deque[Commit] = field(default_factory=lambda: deque(maxlen=_REMEMBERED), init=False)
    slots: list[Slot] = field(default_factory=list[Slot], init=False)
    accumulators: list[TensorMemory] = field(default_factory=list[TensorMemory], init=False)

    def __post_init__(self) -> None:
        self.flows = make_flows(self.launch.components, self.launch.roles)
        self.agents = [agent for flow in self.flows for agent in flow.agents]
        self.flow = self.flows[0]
        self.active = self.flow.agents

    @property
    def alone(self) -> bool:
        """Whether one thread executes."""
        return len(self.active) == 1

    @property
    def issuer(self) -> Agent:
        return self.flow.agents[0]

    @property
    def bulk(self) -> BulkGroups:
        return self.flow.bulk

    @property
    def loading(self) -> dict[int, Loading]:
        return self.flow.loading

    @property
    def turn(self) -> int:
        return self.flow.turn

    @property
    def visit(self) -> int:
        """A number for this CTA at this turn, unique in the launch."""
        return max(self.flow.turn, 0) * self.total + self.number

    def flow_of(self, op: Operation) -> Flow:
        """The flow that executes an operation."""
        return self.flows[self.launch.flows.get(op, 0)]

    def meeting(self, flow: Flow) -> str | None:
        """What makes the threads that go on now meet those of another flow; None between two roles."""
        if flow is self.flow:
            return flow.sync
        return "cta_sync" if flow.role is None or self.flow.role is None else None

    def commit_of(self, mma: Access) -> Commit | None:
        """The first commit behind an MMA that is still remembered; rather one on which the flow that goes on now waits."""
        behind = [c for c in self.recent_commits if c.component == mma.component and c.mmas >= mma.time]
        return min(behind, key=lambda commit: not self.waits_for(commit.slot), default=None)

    def waits_for(self, slot: Slot) -> bool:
        """Whether the flow that goes on now has a wait for a barrier somewhere."""
        waits = (use.operation for use in slot.barrier.uses if isinstance(use.operation, TryWaitOp))
        return any(role_of(wait) is self.flow.role for wait in waits)

    def run(self, block: Block, arguments: Sequence[Value] = ()) -> list[Value]:
        if block in self.launch.turns:
            self.flow.turn += 1
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
