"""Happens-before: what each agent knows of the threads' accesses, of the engines' work and of barrier rounds.

Time is one counter per CTA that each operation advances, so that an access by several agents has one time. Knowledge
comes in domains, since a barrier of threads alone orders neither the async proxy nor tensor memory:

* `g`, generic: by agent, the time up to which its accesses are ordered before ours; by flow (the CTA, or one of its roles),
  its MMAs that are complete, and its bulk groups that have been read and that are written; by mbarrier, its completed rounds.
* `p`, async proxy: by agent, the time up to which its accesses of shared memory are visible to TMA and to MMAs.
* `q`, tensor memory: by agent, the time up to which its reads of accumulators are complete.
* `o`, order: what has happened, like `g`, whether its effects are visible or not. A commit makes nothing of its threads visible,
  but it comes after their waits: that is enough for a TMA load to overwrite what they have waited for, and for knowing that
  they are no longer in those waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tilec.dialects.tile import FenceOp


@dataclass(slots=True)
class Clock:
    """Knowledge. The lists are never changed in place, so that copies may share them."""

    g: list[int]
    p: list[int]
    q: list[int]
    o: list[int]

    def copy(self) -> Clock:
        return Clock(self.g, self.p, self.q, self.o)

    def join(self, other: Clock) -> None:
        self.g = list(map(max, self.g, other.g))
        self.p = list(map(max, self.p, other.p))
        self.q = list(map(max, self.q, other.q))
        self.o = list(map(max, self.o, other.o))

    def intersect(self, other: Clock) -> None:
        self.g = list(map(min, self.g, other.g))
        self.p = list(map(min, self.p, other.p))
        self.q = list(map(min, self.q, other.q))
        self.o = list(map(min, self.o, other.o))


@dataclass(frozen=True)
class Components:
    """Where things stand in `g`: two agents of each flow first, then the flows' engines, then the slots of the mbarriers."""

    flows: int
    slots: int

    @property
    def agents(self) -> int:
        return 2 * self.flows

    def tensor_core(self, flow: int) -> int:
        return self.agents + 3 * flow

    def bulk_read(self, flow: int) -> int:
        return self.agents + 3 * flow + 1

    def bulk_write(self, flow: int) -> int:
        return self.agents + 3 * flow + 2

    def slot(self, number: int) -> int:
        return 5 * self.flows + number

    def nothing(self) -> Clock:
        threads = [0] * self.agents
        everything = [0] * self.slot(self.slots)
        return Clock(everything, threads, threads, everything)


@dataclass(eq=False)
class Agent:
    """Threads that act as one. Its own events are always known to it: `g` holds them only for others to take."""

    index: int
    name: str
    clock: Clock
    tensor: Clock
    """What `fence after_thread_sync` has put before this agent's tensor-core operations."""
    synced: int = 0
    """When that fence was last executed."""
    fence_op: FenceOp | None = None
    """Which one that was."""
    loads_done: int = 0
    """Time of the last accumulator read that `tmem.wait_ld` has completed."""
    fenced: dict[str, int] = field(default_factory=dict[str, int])
    """When each kind of fence was last executed."""

    def publish(self, now: int) -> Clock:
        """What another agent learns from this one."""
        clock = self.clock.copy()
        clock.g = [*clock.g]
        clock.g[self.index] = now
        clock.o = [*clock.o]
        clock.o[self.index] = now
        return clock

    def learn(self, component: int, time: int) -> None:
        if self.clock.g[component] < time:
            self.clock.g = [*self.clock.g]
            self.clock.g[component] = time
            self.clock.o = list(map(max, self.clock.o, self.clock.g))

    def fence(self, op: FenceOp, now: int) -> None:
        self.fenced[kind := op.kind] = now
        match kind:
            case "proxy_async":
                self.clock.p = [*self.clock.p]
                self.clock.p[self.index] = now
            case "before_thread_sync":
                self.clock.q = [*self.clock.q]
                self.clock.q[self.index] = self.loads_done
            case _:
                self.tensor, self.synced, self.fence_op = self.clock.copy(), now, op


def meet(agents: Sequence[Agent], now: int) -> None:
    """A barrier of threads."""
    first, *others = (agent.publish(now) for agent in agents)
    for other in others:
        first.join(other)
    for agent in agents:
        agent.clock = first.copy()


def common(agents: Sequence[Agent], now: int) -> tuple[Clock, Clock]:
    """What all of these know, and what all have put before their tensor-core operations."""
    clock, tensor = agents[0].publish(now), agents[0].tensor.copy()
    for agent in agents[1:]:
        clock.intersect(agent.publish(now))
        tensor.intersect(agent.tensor)
    return clock, tensor
