"""mbarriers: arrivals, bytes and rounds of one slot, and what a round's completion tells those who wait for it."""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.ir import Operation, SSAValue

from tilec.backend.simulator.clocks import Clock
from tilec.backend.simulator.history import History, new_history
from tilec.dialects.tile import ArriveExpectTxOp, ArriveOp, CommitOp, CopyAsyncOp
from tilec.dialects.tile.roles import role_of


def committers(barrier: SSAValue) -> frozenset[Operation | None]:
    """The roles (None: all threads of the CTA) whose waits on a barrier also bring their threads together: those that commit
    on it, if nothing but `tile.commit` arrives there."""
    arrivals = [use.operation for use in barrier.uses]
    if any(isinstance(op, ArriveExpectTxOp | ArriveOp | CopyAsyncOp) for op in arrivals):
        return frozenset()
    return frozenset(role_of(op) for op in arrivals if isinstance(op, CommitOp))


@dataclass(frozen=True, slots=True)
class Wait:
    """A wait that has returned: for which parity, and the round that it found complete (-1: the one before all)."""

    round: int
    parity: int
    time: int
    op: Operation
    again: bool
    """Whether the thread had seen that round before."""


@dataclass(eq=False)
class Slot:
    """One mbarrier. Rounds count from 0; `rounds` of them are complete, and the one of that number is pending."""

    name: str
    count: int
    component: int
    """Its place in a clock."""
    init: tuple[int, Operation]
    committers: frozenset[Operation | None]
    barrier: SSAValue
    nothing: Clock
    waits: list[Wait | None]
    """The last one of each agent."""
    pending: Clock = field(init=False)
    published: Clock = field(init=False)
    rounds: int = 0
    arrivals: int = 0
    announced: int = 0
    issued: int = 0
    announcer: Operation | None = None
    """The last operation that announced bytes of the pending round."""
    brings: str = ""
    """What the pending round completes, if it is loads or MMAs."""
    brought: str = ""
    """The same for the last completed round."""
    commits: int = 0
    """Commits of its flow up to the one that completed the last round."""
    pending_commits: int = 0
    loads: int = 0
    """Time of the last load on this slot."""
    load: Operation | None = None
    blocked: dict[int, int] = field(default_factory=dict[int, int])
    """By agent that waits now, the round that it waits for."""
    history: History = field(default_factory=new_history)

    def __post_init__(self) -> None:
        self.published = self.nothing.copy()
        self._begin()

    def _begin(self) -> None:
        self.pending = self.nothing.copy()
        self.arrivals = self.announced = self.issued = 0
        self.brings = ""
        self.announcer = None

    @property
    def complete(self) -> bool:
        """Whether the pending round has all that it waits for."""
        return self.arrivals == self.count and self.announced == self.issued

    @property
    def open(self) -> bool:
        """Whether anything of the pending round has happened."""
        return bool(self.arrivals or self.announced or self.issued)

    def missed(self) -> int | None:
        """The agent that has waited for the last round and may still be in that wait when the pending one completes;
        -1 when nobody has waited for it, though it brought something."""
        last = self.rounds - 1
        waited = [wait is not None and wait.round == last for wait in self.waits]
        blocked = next((agent for agent, round in self.blocked.items() if round == last), None)
        if blocked is not None:
            return blocked
        if self.brought and not any(waited):
            return -1
        for agent, wait in enumerate(self.waits):
            if wait is not None and wait.round == last and self.pending.o[agent] < wait.time:
                return agent
        return None

    def fire(self) -> None:
        """Complete the pending round."""
        self.rounds += 1
        self.published = self.pending
        self.published.g = [*self.published.g]
        self.published.g[self.component] = self.rounds
        self.published.o = list(map(max, self.published.o, self.published.g))
        self.brought = self.brings
        self.commits = self.pending_commits
        self._begin()


class Barriers(list[Slot]):
    """The mbarriers of the stages."""
