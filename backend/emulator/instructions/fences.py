"""`fence`, `membar` and their proxy forms (PTX 9.7.13.4).

Memory is sequentially consistent here, so that a fence orders nothing that is not ordered already. What it does: a fence that
releases makes the thread's writes ready for the proxy fence of another thread, and `fence.proxy.async` makes writes visible to
the async proxy.
"""

from __future__ import annotations

from tilec.backend.emulator.execution.decode import Decoder, instruction
from tilec.backend.emulator.execution.lanes import Execute, Lanes
from tilec.backend.emulator.memory.unfenced import writers_of

SCOPES = ("cta", "cluster", "gpu", "sys")


def publish(lanes: Lanes) -> None:
    """The threads release: what they have written is covered by the proxy fence of any thread from now on."""
    writers = writers_of(lanes)
    for cta in lanes.cta.cluster.ctas:
        cta.shared.publish(writers)
    if (writes := lanes.machine.memory.unfenced) is not None:
        writes.publish(lanes)


def _fence_shared(lanes: Lanes) -> None:
    writers = writers_of(lanes)
    for cta in lanes.cta.cluster.ctas:
        cta.shared.fence(writers)


def _fence_global(lanes: Lanes) -> None:
    if (writes := lanes.machine.memory.unfenced) is not None:
        writes.fence(lanes)


def _fence_all(lanes: Lanes) -> None:
    _fence_shared(lanes)
    _fence_global(lanes)


_FENCES = {
    None: _fence_all,
    "global": _fence_global,
    "shared::cta": _fence_shared,
    "shared::cluster": _fence_shared,
}
"""`fence.proxy.async` by the state space that it is limited to."""


def _nothing(lanes: Lanes) -> None:
    pass


@instruction("fence")
def fence(d: Decoder) -> Execute:
    if d.take("mbarrier_init") is not None:
        if d.take("release") is None or d.take("cluster") is None:
            d.unsupported("fence.mbarrier_init is .release.cluster")
        d.finish()
        d.count(0)
        return _nothing
    semantics = d.take("sc", "acq_rel", "acquire", "release")
    restriction = d.take("sync_restrict::shared::cta", "sync_restrict::shared::cluster")
    if d.take(*SCOPES) is None:
        d.unsupported("a fence without a scope")
    if restriction is not None and semantics not in ("acquire", "release"):
        d.unsupported(".sync_restrict goes with .acquire or .release")
    d.finish()
    d.count(0)
    return _nothing if semantics == "acquire" else publish


@instruction("membar")
def membar(d: Decoder) -> Execute:
    if d.take("cta", "gl", "sys") is None:
        d.unsupported("a membar without a level")
    d.finish()
    d.count(0)
    return publish


@instruction("fence.proxy", "membar.proxy")
def fence_proxy(d: Decoder) -> Execute:
    kind = d.take("alias", "async", "async::generic")
    match kind:
        case "alias":
            d.finish()
            d.count(0)
            return _nothing
        case "async":
            space = d.take("global", "shared::cta", "shared::cluster")
            d.finish()
            d.count(0)
            return _FENCES[space]
        case "async::generic":
            semantics = d.take("acquire", "release")
            restriction = "sync_restrict::shared::cluster" if semantics == "acquire" else "sync_restrict::shared::cta"
            if d.take(restriction) is None or d.take("cluster") is None:
                d.unsupported(f".{semantics} goes with .{restriction}.cluster")
            d.finish()
            d.count(0)
            return _fence_shared
        case _:
            d.unsupported("a proxy that the emulator does not know")
