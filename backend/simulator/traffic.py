"""Global memory: copies between tensors and tiles against the kernel's earlier copies and those of other CTAs."""

from __future__ import annotations

from typing import NoReturn

from xdsl.ir import Operation

from tilec.backend.reference.storage import Region, View, size_of
from tilec.backend.simulator.clocks import Agent
from tilec.backend.simulator.cta import AsyncCta
from tilec.backend.simulator.flow import Flow
from tilec.backend.simulator.memory import Access
from tilec.backend.simulator.order import ASYNC_PROXY, is_known
from tilec.backend.simulator.tensors import SEVERAL, Tensor, overlap

_MANY = 16
"""Loads of a tensor to remember before those that every agent knows are forgotten."""


def loads_from(cta: AsyncCta, view: View, region: Region, access: Access) -> None:
    """A copy reads a part of a tensor, which matters where the kernel writes to that tensor."""
    tensor = cta.launch.tensors.get(id(view))
    if tensor is None or not size_of(region):
        return
    if not tensor.is_fresh(region):
        _check_other_cta(cta, tensor, region, access.op, "loads")
        _check_stores(cta, tensor, region, access, "load")
    tensor.load(region, cta.number, access)
    if len(tensor.loads) > _MANY:
        tensor.loads = [(part, load) for part, load in tensor.loads if not _all_know(cta, tensor, load)]


def stores_to(cta: AsyncCta, view: View, region: Region, access: Access) -> None:
    """A copy writes a part of a tensor."""
    tensor = cta.launch.tensors[id(view)]
    if not size_of(region):
        return
    if not tensor.is_fresh(region):
        _check_other_turn(cta, tensor, region, access.op)
        _check_other_cta(cta, tensor, region, access.op, "stores")
        _check_stores(cta, tensor, region, access, "store")
    if tensor.is_loaded:
        _check_loads(cta, tensor, region, access)
    tensor.store(region, cta.visit, access)


def _all_know(cta: AsyncCta, tensor: Tensor, load: Access) -> bool:
    """Whether every later store comes after a load. What the async proxy knows, threads know."""
    return all(_is_before_stores(cta, load, agent, by_tma=tensor.is_stored_by_tma) for agent in cta.agents)


def _is_before_stores(cta: AsyncCta, load: Access, agent: Agent, *, by_tma: bool) -> bool:
    """Whether a store that an agent issues or makes now comes after a load."""
    clock = agent.clock
    threads, own = (clock.p, ASYNC_PROXY) if by_tma else (clock.g, agent.index)
    return is_known(load, clock.g, threads, own)


def _check_other_cta(cta: AsyncCta, tensor: Tensor, region: Region, op: Operation, verb: str) -> None:
    found = tensor.other_writer(region, cta.visit, cta.total, exactly=False)
    if found is not None:
        element, visit = found
        _two_ctas(cta, tensor, op, element, f"CTA {visit % cta.total} stores", f"CTA {cta.number} {verb}")


def _two_ctas(cta: AsyncCta, tensor: Tensor, op: Operation, element: tuple[int, ...], one: str, other: str) -> NoReturn:
    stores = tensor.last_stores(tuple(slice(i, i + 1) for i in element))
    earlier = next((store for store in stores if store is not None), None)
    cta.fail(
        "ctas",
        op,
        f"{one} and {other} {_place(element)} of {tensor.view.name}: nothing orders two CTAs of a launch",
        "let each CTA store its own part, and load nothing that another one stores",
        [] if earlier is None else [(earlier[1], "the other CTA's store")],
    )


def _check_other_turn(cta: AsyncCta, tensor: Tensor, region: Region, op: Operation) -> None:
    """A tile of the schedule belongs to one turn of one CTA."""
    if tensor.step is None:
        return
    found = tensor.other_writer(region, cta.visit, cta.total, exactly=True)
    if found is not None:
        element, visit = found
        tile = tuple(i // s * s for i, s in zip(element, tensor.step, strict=True))
        cta.fail(
            "tiles",
            op,
            f"the tile at {_place(tile)} of {tensor.view.name} is stored by {turn_name(visit, cta.total)} and "
            f"{turn_name(cta.visit, cta.total)}",
            "each tile of the schedule is stored in the turn that visits it: use the offsets of that turn's tile.schedule",
        )


def turn_name(visit: int, ctas: int) -> str:
    return f"turn {visit // ctas} of CTA {visit % ctas}"


def _place(element: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, element))})"


def _check_stores(cta: AsyncCta, tensor: Tensor, region: Region, access: Access, verb: str) -> None:
    """The CTA's own stores to the same place."""
    by_tma, by_threads = tensor.last_stores(region)
    asynchronous = access.kind != "threads"
    for agent in cta.active:
        clock = agent.clock
        if by_tma is not None and clock.g[(flow := cta.flow_of(by_tma[1])).bulk_write] < by_tma[0]:
            cta.fail(
                "race",
                access.op,
                f"this {verb} touches what an earlier TMA store writes to {tensor.view.name}, and nothing has waited for that "
                "write",
                f"the issuing thread waits first, `tile.bulk.wait_group {flow.bulk.after(by_tma[0])}` without "
                f"`read`, then `tile.{flow.sync}` tells the other threads",
                [(by_tma[1], "the store")],
            )
        if by_threads is None:
            continue
        known = clock.p if asynchronous else clock.g
        flow = cta.flow_of(by_threads[1])
        others = (a for a in flow.agents if asynchronous or a is not agent)
        if any(known[other.index] < by_threads[0] for other in others):
            fence = "`tile.fence proxy_async` and " if asynchronous else ""
            cta.fail(
                "race",
                access.op,
                f"this {verb} touches what threads have stored to {tensor.view.name}, and nothing orders it after that",
                f"put {fence}{_meeting(cta, flow)} between the two",
                [(by_threads[1], "the store by threads")],
            )


def _meeting(cta: AsyncCta, flow: Flow) -> str:
    """Where the threads that go on now meet those of a flow."""
    sync = cta.meeting(flow)
    return "an arrival on an mbarrier and the wait for it" if sync is None else f"`tile.{sync}`"


def _check_loads(cta: AsyncCta, tensor: Tensor, region: Region, access: Access) -> None:
    """Loads of the same place, by this CTA and by others."""
    found = tensor.other_reader(region, cta.number)
    if found is not None:
        element, reader = found
        one = "another CTA loads" if reader == SEVERAL else f"CTA {reader} loads"
        _two_ctas(cta, tensor, access.op, element, one, f"CTA {cta.number} stores")
    for part, load in tensor.loads:
        if not overlap(part, region):
            continue
        for agent in cta.active:
            if not _is_before_stores(cta, load, agent, by_tma=access.kind == "store"):
                cta.fail(
                    "race",
                    access.op,
                    f"this store to {tensor.view.name} may overtake an earlier load from the same place",
                    "wait for the load first"
                    if load.kind == "load"
                    else f"let the threads meet between the two, at {_meeting(cta, cta.flow_of(load.op))}",
                    [(load.op, "the load")],
                )
