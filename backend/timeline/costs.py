"""What each step takes, a target: the constants of the cost model, each with the place it comes from.

Cycles are those of the multiprocessor's clock. A rate is per cycle and multiprocessor.
"""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Of one chip, or of an abstract one whose unit of time is not a cycle."""

    start: float
    """From the start of a CTA to the first step: block launch, barriers, tensor memory, descriptors fetched."""
    end: float
    """From the last step of a CTA until its place can be taken."""
    schedule: float
    """Finding an output tile: two divisions."""
    iterate: float
    """An iteration of a loop: counters, stages and phases."""
    sync: float
    """All threads meet."""
    wait: float
    """A wait, from the completion of the round on, or from its start where that was before."""
    arrive: float
    """Announcing bytes and arriving, for the thread that does it."""
    load_issue: float
    """One TMA load, for the thread that issues it."""
    load_latency: float
    """From the end of a load's turn at the engine until its bytes have landed and are counted; data in the L2 cache."""
    load_jitter: float
    """By how much of itself the latency of a load is longer or shorter; loads take turns."""
    load_rate: float
    """Bytes per cycle of the TMA engine."""
    mma_issue: float
    """From what an MMA waited for to its start: fences, descriptors, the first instruction."""
    mma_rate: float
    """Multiply-adds per cycle, f16 and bf16."""
    mma_latency: float
    """From the last cycle of an MMA to the arrival of its commit."""
    work: float
    """Before the first byte of any work of the threads."""
    accumulator_rate: float
    """Bytes per cycle from the accumulator into registers."""
    shared_rate: float
    """Bytes per cycle between registers and shared memory, all threads together."""
    compute_rate: float
    """Bytes per cycle of results of casts and arithmetic."""
    gather_latency: float
    """Of a copy from global to shared memory by the threads."""
    gather_rate: float
    """Bytes per cycle of such copies."""
    scatter_rate: float
    """Bytes per cycle that threads store to global memory."""
    store_issue: float
    """One TMA store, for the thread that issues it."""
    store_rate: float
    """Bytes per cycle that the TMA engine reads of shared memory for a store."""
    store_latency: float
    """From there to the completion of the write."""

    @staticmethod
    def abstract(*, ratio: float, load_bytes: int, macs: int) -> Costs:
        """The lesson's: the loads of a stage, `load_bytes` together, occupy the TMA engine for `ratio`; its MMA, of `macs`
        multiply-adds, takes 1; all else takes no time."""
        free = {field.name: float("inf") if field.name.endswith("_rate") else 0.0 for field in fields(Costs)}
        load_rate = load_bytes / ratio if ratio else float("inf")
        return Costs(**{**free, "mma_rate": float(macs), "load_rate": load_rate})
