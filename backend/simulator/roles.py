"""Roles: each is a control flow of its own. One goes on at a time, until it waits for a round that cannot complete yet."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tilec.backend.reference.cta import Handlers
from tilec.backend.simulator import scope
from tilec.backend.simulator.clocks import common, meet
from tilec.backend.simulator.coroutines import Coroutines
from tilec.backend.simulator.cta import AsyncCta
from tilec.backend.simulator.flow import Flow, Waiting
from tilec.backend.simulator.waiters import all_wait
from tilec.dialects.tile import RoleOp, RolesOp, RoleSyncOp

handlers = Handlers()


@handlers.of(RolesOp)
def _roles(cta: AsyncCta, op: RolesOp) -> None:
    """Nobody meets at either end: the roles begin with what all threads know, and all threads go on with what all roles do."""
    all_threads, *roles = cta.flows
    now = cta.tick()
    clock, tensor = common(all_threads.agents, now)
    for agent in (agent for flow in roles for agent in flow.agents):
        agent.clock, agent.tensor = clock.copy(), tensor.copy()
    seed = cta.launch.seed
    random = None if seed is None else Random(f"{seed} {cta.number}")
    cta.coroutines = Coroutines([_body(cta, flow, role) for flow, role in zip(roles, op.roles, strict=True)], random)
    finished = cta.coroutines.run()
    cta.coroutines = None
    if not finished:
        raise all_wait(cta, roles)
    cta.flow, cta.active = all_threads, all_threads.agents
    all_threads.threads = cta.agents
    clock, tensor = common([agent for flow in roles for agent in flow.agents], cta.tick())
    for agent in all_threads.agents:
        agent.clock, agent.tensor = clock.copy(), tensor.copy()
    for flow in roles:
        all_threads.loading.update(flow.loading)


def _body(cta: AsyncCta, flow: Flow, role: RoleOp) -> Callable[[], None]:
    def body() -> None:
        cta.flow, cta.active = flow, flow.agents
        cta.run(role.body.block)
        flow.over = True

    return body


def block(cta: AsyncCta, waiting: Waiting) -> None:
    """Let the other roles go on until this wait can pass."""
    cta.flow.waiting = waiting
    _switch(cta, lambda: waiting.passes)
    cta.flow.waiting = None


def give_way(cta: AsyncCta) -> None:
    """Let another role go first."""
    _switch(cta, lambda: True)


def _switch(cta: AsyncCta, until: Callable[[], bool]) -> None:
    assert cta.coroutines is not None
    flow, active = cta.flow, cta.active
    cta.coroutines.wait(until)
    cta.flow, cta.active = flow, active


@handlers.of(RoleSyncOp)
def _role_sync(cta: AsyncCta, op: RoleSyncOp) -> None:
    scope.all_threads(
        cta, op, "one thread alone would wait here for ever", "move tile.role_sync out of tile.single_thread"
    )
    meet(cta.flow.agents, cta.tick())
