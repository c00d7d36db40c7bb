"""`barrier.cluster.arrive` and `barrier.cluster.wait` (PTX 9.7.13.3)."""

from __future__ import annotations

from typing import cast

from tilec.backend.emulator.execution.decode import Decoder, Together, instruction
from tilec.backend.emulator.execution.lanes import Answer, Execute, Lanes, Wait
from tilec.backend.emulator.instructions.fences import publish
from tilec.backend.emulator.synchronisation.cluster_barrier import ClusterBarrier


def _barrier(lanes: Lanes) -> ClusterBarrier:
    return cast(ClusterBarrier, lanes.cta.cluster.part(ClusterBarrier))


@instruction("barrier.cluster.arrive")
def arrive(d: Decoder) -> Execute | Together:
    releases = d.take("release", "relaxed") != "relaxed"
    aligned = d.take("aligned") is not None
    d.finish()
    d.count(0)

    def execute(lanes: Lanes) -> Answer:
        if releases:
            publish(lanes)
        barrier = _barrier(lanes)
        phase = barrier.phase
        barrier.arrive(lanes)
        if aligned or barrier.phase > phase:
            return None
        cta, warps = lanes.cta, lanes.warps

        def warp_is_here() -> bool:
            return barrier.completed(phase) or barrier.warps_arrived(cta, warps)

        if warp_is_here():
            return None
        return Wait(warp_is_here, lambda: "the rest of the warp to arrive at the barrier of the cluster")

    return Together(execute, "warp") if aligned else execute


@instruction("barrier.cluster.wait")
def wait(d: Decoder) -> Execute | Together:
    d.take("acquire")
    aligned = d.take("aligned") is not None
    d.finish()
    d.count(0)

    def execute(lanes: Lanes) -> Answer:
        barrier = _barrier(lanes)
        phase = barrier.wait(lanes)
        if barrier.completed(phase):
            return None
        return Wait(lambda: barrier.completed(phase), barrier.describe)

    return Together(execute, "warp") if aligned else execute
