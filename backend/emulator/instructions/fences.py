"""`fence`, `membar` and their proxy forms (PTX 9.7.13.4).

Memory is sequentially consistent here, so that a fence orders nothing that is not ordered already. What it does: a fence that
releases makes the thread's writes ready for the proxy fence of another thread, and `fence.proxy.async` makes writes visible to
the async proxy.
"""

from __future__ import annotations

from tilec.backend.emulator.decode import Decoder, instruction
from tilec.backend.emulator.lanes import Execute, Lanes
from tilec.backend.emulator.ptx.syntax import Integer
from tilec.backend.emulator.unfenced import writers_of

SCOPES = ("cta", "cluster", "gpu", "sys")
_TENSOR_MAP_BYTES = 128


def publish(lanes: Lanes) -> None:
    """The threads release: their writes to shared memory of the cluster are covered by the proxy fence of any thread."""
    writers = writers_of(lanes)
    for cta in lanes.cta.cluster.ctas:
        cta.shared.publish(writers)


def _fence_shared(lanes: Lanes) -> None:
    writers = writers_of(lanes)
    for cta in lanes.cta.cluster.ctas:
        cta.shared.fence(writers)


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
    kind = d.take("alias", "async", "tensormap::generic", "async::generic")
    match kind:
        case "alias":
            d.finish()
            d.count(0)
            return _nothing
        case "async":
            space = d.take("global", "shared::cta", "shared::cluster")
            d.finish()
            d.count(0)
            return _nothing if space == "global" else _fence_shared
        case "async::generic":
            semantics = d.take("acquire", "release")
            restriction = "sync_restrict::shared::cluster" if semantics == "acquire" else "sync_restrict::shared::cta"
            if d.take(restriction) is None or d.take("cluster") is None:
                d.unsupported(f".{semantics} goes with .{restriction}.cluster")
            d.finish()
            d.count(0)
            return _fence_shared
        case "tensormap::generic":
            return _tensormap(d)
        case _:
            d.unsupported("a proxy that the emulator does not know")


def _tensormap(d: Decoder) -> Execute:
    """Tensor maps are read anew by each instruction: the fence has nothing to do."""
    semantics = d.take("acquire", "release")
    if semantics is None or d.take(*SCOPES) is None:
        d.unsupported("fence.proxy.tensormap::generic is .acquire or .release, with a scope")
    d.finish()
    if semantics == "release":
        d.count(0)
        return publish
    d.count(2)
    d.address(d.operands[0])
    size = d.operands[1]
    if not isinstance(size, Integer) or size.value != _TENSOR_MAP_BYTES:
        d.unsupported("the size is 128")
    return _nothing
