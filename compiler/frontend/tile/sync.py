"""Words by which threads meet and see each other's work; those of barriers are in `tile.mbarrier`."""

from __future__ import annotations

from typing import Literal

from tilec.frontend.tile.outside import only_in_kernels


def cta_sync() -> None:
    """All threads of the CTA meet and see each other's writes (__syncthreads).

    It knows nothing of TMA transfers or MMAs in flight.
    """
    only_in_kernels("cta_sync")


def role_sync() -> None:
    """The threads of the executing role meet and see each other's writes (a named barrier)."""
    only_in_kernels("role_sync")


def fence(kind: Literal["proxy_async", "before_thread_sync", "after_thread_sync"]) -> None:
    """Order one kind of access against another.

    * ``"proxy_async"``: the thread's accesses to shared memory before, those of TMA and MMA after. Every writing thread
      executes it, then they meet.
    * ``"before_thread_sync"``, ``"after_thread_sync"``: tcgen05 operations before or after threads have met; nothing on
      Hopper.
    """
    only_in_kernels("fence")
