"""Part of the expectation table: in which kernels a kind of mistake can be made, by what their IR has and not by name.

A kernel outside of a kind's domain has nothing of what the mistake is about: that pair is no cell of the table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mutation_anatomy import Anatomy, ring_depth
from xdsl.ir import Operation

from tilec.dialects.tile import CopyAsyncOp, SlotOp


@dataclass(frozen=True)
class Domain:
    """A set of kernels."""

    name: str
    holds: Callable[[Anatomy], bool]

    def __and__(self, other: Domain) -> Domain:
        return Domain(f"{self.name}, {other.name}", lambda a: self.holds(a) and other.holds(a))


@dataclass(frozen=True)
class Row:
    """Where some kinds of mistakes can be made."""

    domain: Domain
    because: str
    kinds: list[str]


def _by(ops: list[Operation], dispatch: str) -> bool:
    return any(isinstance(op, CopyAsyncOp) and op.dispatch == dispatch for op in ops)


def _stages_of_loads(a: Anatomy) -> int:
    """Stages of the deepest ring that loads go into; 0 where they go into no ring."""
    return max(
        (ring_depth(op.dest.owner) for op in a.loads if op.dest and isinstance(op.dest.owner, SlotOp)), default=0
    )


ALL = Domain("all", lambda a: True)
PERSISTENT = Domain("persistent", lambda a: bool(a.schedules()))
MMAS = Domain("MMAs", lambda a: bool(a.mmas))
TMA_LOADS = Domain("TMA loads", lambda a: _by([*a.loads], "tma"))
TMA_STORES = Domain("TMA stores", lambda a: _by(a.stores, "tma"))
THREAD_LOADS = Domain("loads by threads", lambda a: _by([*a.loads], "threads"))
RINGS = Domain("rings of tiles", lambda a: bool(a.slots))
PIPELINED = Domain("loads into rings", lambda a: _stages_of_loads(a) > 0)
SEVERAL_STAGES = Domain("loads into rings of several stages", lambda a: _stages_of_loads(a) > 1)

DOMAINS = [
    Row(
        ALL,
        "every kernel has mbarriers, and waits",
        [
            "wait for the wrong parity",
            "a phase never flips",
            "two arrivals expected",
            "barriers used before init is visible",
            "barrier of threads ahead of init",
        ],
    ),
    Row(
        PERSISTENT,
        "only these have turns",
        [
            "phases reset per tile",
            "every second turn",
            "the same turn for ever",
            "turns start at 1",
            "loads with another tile's offsets",
        ],
    ),
    Row(PERSISTENT & PIPELINED, "a stage is carried from tile to tile", ["stage and phases reset per tile"]),
    Row(
        PIPELINED,
        "stages are filled ahead and again, and phases flip where the ring wraps",
        [
            "the ring's phase flips each iteration",
            "one barrier for all stages",
            "refill not guarded",
            "prologue one short",
            "prologue one long",
            "prologue not guarded",
        ],
    ),
    Row(
        MMAS & PIPELINED,
        "MMAs read stages that are filled again",
        ["the MMA's phase flips once a trip", "refill before the MMA has read"],
    ),
    Row(SEVERAL_STAGES, "there is another stage", ["wait for another stage"]),
    Row(MMAS & SEVERAL_STAGES, "there is another stage to read", ["MMA reads another stage"]),
    Row(RINGS, "a slot has a type of its own", ["slot with another swizzle"]),
    Row(
        TMA_LOADS,
        "one thread issues them, and announces their bytes to the barrier that they complete on",
        [
            "wait for a load dropped",
            "wait for a load by one thread only",
            "budget 16 bytes too large",
            "budget 16 bytes too small",
            "budget halved",
            "budget doubled",
            "budget counted per warp",
            "loads issued by all threads",
            "bytes announced by all threads",
        ],
    ),
    Row(THREAD_LOADS, "threads tell one another of their parts", ["barrier after a thread copy dropped"]),
    Row(
        TMA_STORES,
        "one thread issues them, in bulk groups",
        [
            "store issued by all threads",
            "barrier after wait_group dropped",
            "wait_group dropped",
            "last wait_group dropped",
            "wait_group leaves one more",
            "last wait_group only for reads",
            "commit_group dropped",
        ],
    ),
    Row(
        MMAS,
        "these have accumulators, commits and their fences, two operands, and sums on the way out",
        [
            "wait for an MMA dropped",
            "wait for the last MMA dropped",
            "A loaded into B's tile",
            "proxy fence dropped",
            "barrier before the copy out dropped",
            "barrier before free dropped",
            "accumulator freed early",
            "accumulator leaked",
            "first step accumulates",
            "no step accumulates",
            "commit dropped",
            "wait_ld dropped",
            "fence after a barrier dropped",
            "fence before a barrier dropped",
        ],
    ),
]
"""Each kind is in one row."""


def domain_of(kind: str) -> Domain:
    """The kernels in which a kind of mistake can be made."""
    return next(row.domain for row in DOMAINS if kind in row.kinds)
