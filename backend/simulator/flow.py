"""Control flows of a CTA: one of all its threads, and one for each role."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.ir import Operation

from tilec.backend.simulator.barriers import Slot
from tilec.backend.simulator.clocks import Agent, Components
from tilec.backend.simulator.memory import Access, BulkGroups, Loading
from tilec.dialects.tile import RoleOp

ISSUER, OTHERS = "the issuing thread", "the other threads"
"""Who acts in a flow: the thread that executes `tile.single_thread`, first, and all others."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A wait that has not returned: for the round of that number, which was the pending one when it began."""

    op: Operation
    slot: Slot
    parity: int
    round: int
    alone: bool
    """Whether one thread waits."""

    @property
    def passes(self) -> bool:
        """Whether it finds its parity, or a round that can complete."""
        return self.slot.rounds & 1 != self.parity or self.slot.complete


@dataclass(eq=False)
class Flow:
    """Threads that take one path through the kernel."""

    role: RoleOp | None
    """None: all threads of the CTA."""
    agents: list[Agent]
    tensor_core: int
    bulk_read: int
    bulk_write: int
    """Places in `Clock.g`."""
    threads: list[Agent] = field(init=False)
    """Those that a fence or a barrier of all its threads concerns: behind the roles also what they were in these."""
    bulk: BulkGroups = field(default_factory=BulkGroups)
    loading: dict[int, Loading] = field(default_factory=dict[int, Loading])
    """Register tiles that are on their way from an accumulator, by the identity of the array."""
    last_mma: Access | None = None
    turn: int = -1
    commits: int = 0
    waiting: Waiting | None = None
    over: bool = False

    def __post_init__(self) -> None:
        self.threads = self.agents

    @property
    def name(self) -> str:
        return "all threads" if self.role is None else f'role "{self.role.role}"'

    @property
    def noun(self) -> str:
        return "CTA" if self.role is None else "role"

    @property
    def sync(self) -> str:
        """The barrier of its threads."""
        return "cta_sync" if self.role is None else "role_sync"


def make_flows(parts: Components, roles: Sequence[RoleOp]) -> list[Flow]:
    """That of all threads, then those of the roles."""
    flows: list[Flow] = []
    for number, role in enumerate((None, *roles)):
        of = "" if role is None else f' of role "{role.role}"'
        agents = [
            Agent(2 * number + place, f"{name}{of}", parts.nothing(), parts.nothing())
            for place, name in enumerate((ISSUER, OTHERS))
        ]
        engines = parts.tensor_core(number), parts.bulk_read(number), parts.bulk_write(number)
        flows.append(Flow(role, agents, *engines))
    return flows
