"""mbarriers: counters in shared memory whose rounds complete with arrivals and with bytes that TMA has written.

Round r (from 0) is waited for with parity r & 1. Before round 0 is complete, parity 1 reads as complete: who waits for a
free slot starts with parity 1, who waits for a full one with parity 0.
"""

from __future__ import annotations

from tilec.frontend.tile.outside import only_in_kernels
from tilec.frontend.tile.types import I32, Mbarrier, Stage

__all__ = ["arrive", "init", "try_wait"]


def init(*, count: int = 1, depth: int = 1) -> Mbarrier:
    """Barriers for `depth` stages, each of which expects `count` agents a round; `tile.cta_sync` must follow.

    An agent is a commit, or a role that arrives. ``full = tile.mbarrier.init(count=1, depth=2)``, then ``full[s]``.
    """
    only_in_kernels("mbarrier.init")


class Arrive:
    """The word `tile.mbarrier.arrive`, and `tile.mbarrier.arrive.expect_tx`."""

    def __call__(self, barrier: Mbarrier | Stage) -> None:
        """One arrival of the executing agent: ``tile.mbarrier.arrive(empty[s])``."""
        only_in_kernels("mbarrier.arrive")

    @staticmethod
    def expect_tx(barrier: Mbarrier | Stage, bytes: int) -> None:
        """Announce bytes and arrive, as one step: ``tile.mbarrier.arrive.expect_tx(full[s], a.nbytes + b.nbytes)``.

        The round completes when the arrivals are in and exactly so many bytes are written: too many is a deadlock, too few
        an early release or a deadlock (lesson 09, step 4).
        """
        only_in_kernels("mbarrier.arrive.expect_tx")


arrive = Arrive()


def try_wait(barrier: Mbarrier | Stage, phase: I32 | int, *, outstanding: int = 0) -> None:
    """Block until the round of parity `phase` is complete: ``tile.mbarrier.try_wait(full[s], phase)``.

    `outstanding`: later commits that may be in flight when this returns, 0 to 7. Where commits become groups (Hopper) it
    keeps them running; 0 is always right.
    """
    only_in_kernels("mbarrier.try_wait")
