"""The barrier of a cluster (PTX 9.7.13.3): which threads have arrived, and the phases that this makes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilec.backend.emulator.execution.lanes import Lanes
from tilec.backend.emulator.faults import FaultKind

if TYPE_CHECKING:
    from tilec.backend.emulator.execution.cta import Cluster, Cta

_NOT_ARRIVED = -1


class ClusterBarrier:
    """A phase completes when all threads of the cluster that have not exited have arrived."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.phase = 0
        self._arrived: list[NDArray[np.bool_]] = [np.zeros(cta.padded, np.bool_) for cta in cluster.ctas]
        self._owed: list[NDArray[np.int64]] = [np.full(cta.padded, _NOT_ARRIVED, np.int64) for cta in cluster.ctas]
        """The phase in which each thread has arrived without waiting for it since."""

    def arrive(self, lanes: Lanes) -> None:
        """Threads arrive, each once in a phase."""
        self.settle()
        arrived = self._arrived[lanes.cta.rank]
        again = arrived[lanes.index]
        if again.any():
            lanes.fault(
                FaultKind.ILLEGAL,
                "a thread arrives again at the barrier of its cluster before it has completed",
                int(np.argmax(again)),
                "barrier.cluster.wait follows each arrival",
            )
        arrived[lanes.index] = True
        self._owed[lanes.cta.rank][lanes.index] = self.phase
        lanes.machine.touch()
        self.settle()

    def wait(self, lanes: Lanes) -> int:
        """The phase that threads wait for: that of their arrivals, of which each is waited for once."""
        owed = self._owed[lanes.cta.rank]
        phases = owed[lanes.index].copy()
        if (phases == _NOT_ARRIVED).any():
            lanes.fault(
                FaultKind.ILLEGAL,
                "a thread waits at the barrier of its cluster without having arrived there since its last wait",
                int(np.argmax(phases == _NOT_ARRIVED)),
                "barrier.cluster.arrive comes before each barrier.cluster.wait",
            )
        owed[lanes.index] = _NOT_ARRIVED
        return int(phases.max())

    def settle(self) -> None:
        """Complete the phase if it is due; threads that exit can make it so."""
        if any(self._missing(cta).any() for cta in self._cluster.ctas) or not any(a.any() for a in self._arrived):
            return
        self.phase += 1
        for arrived in self._arrived:
            arrived[:] = False
        self._cluster.machine.touch()

    def completed(self, phase: int) -> bool:
        self.settle()
        return self.phase > phase

    def warps_arrived(self, cta: Cta, warps: NDArray[np.intp]) -> bool:
        """Whether all threads of these warps that have not exited have arrived in this phase."""
        return not self._missing(cta).reshape(-1, 32)[warps].any()

    def describe(self) -> str:
        """Which warps have not arrived."""
        parts: list[str] = []
        for cta in self._cluster.ctas:
            warps = [str(w) for w in np.flatnonzero(self._missing(cta).reshape(-1, 32).any(axis=1))]
            if warps:
                parts.append(f"{'warp' if len(warps) == 1 else 'warps'} {', '.join(warps)} of rank {cta.rank}")
        return f"the barrier of the cluster; missing: {'; '.join(parts)}"

    def _missing(self, cta: Cta) -> NDArray[np.bool_]:
        return cta.alive & ~self._arrived[cta.rank]
