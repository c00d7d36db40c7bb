"""What the rules of a kernel need to know of it, and how they find what operations name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from xdsl.ir import Operation, SSAValue

from tilec.backend.protocol.events import Events, Memory, Slot
from tilec.backend.protocol.machine import Broken, Machine, OutOfScope
from tilec.backend.protocol.regions import Tiles
from tilec.backend.protocol.state import ISSUER, OTHERS, State
from tilec.dialects.tile import AllocOp, MbarrierInitOp, SliceOp

Run = Callable[[State], None]
BOTH = (ISSUER, OTHERS)


@dataclass
class Context:
    """Facts of one kernel."""

    machine: Machine
    events: Events
    ids: dict[SSAValue, int]
    """Where the environment keeps a value."""
    mutable: set[int] = field(default_factory=set[int])
    """Views that the kernel both reads and writes."""
    scheduled: int | None = None
    """The view that a scheduler hands out tiles of, if the kernel stores to it."""
    tiles: Tiles = field(default_factory=Tiles)
    """Those of the grid or the scheduler."""
    turns: int | None = None
    """The bound that says how many tiles a CTA visits."""
    most_outstanding: int = 0
    """The most commits that a wait of the kernel leaves in flight."""
    turn_counters: dict[Operation, int] = field(default_factory=dict[Operation, int])
    """By persistent loop, its counter of turns."""


def broken(op: Operation, message: str) -> Run:
    """An instruction that must not be reached."""

    def run(s: State) -> None:
        raise Broken(op, message)

    return run


def find_stage(k: Context, op: Operation, value: SSAValue | None, depth: int) -> Callable[[State], int]:
    """The number of a stage, which has to be known."""
    if value is None:
        return lambda s: 0
    at = k.ids[value]
    machine = k.machine

    def number(s: State) -> int:
        stage = machine.resolved(s, s.environment[at])
        if not isinstance(stage, int):
            raise OutOfScope(op, "the stage of a ring depends on more than its depth")
        if not 0 <= stage < depth:
            raise Broken(op, f"stage {stage} of a ring of {depth}")
        return stage

    return number


def find_signal(k: Context, op: Operation, barrier: SSAValue, stage: SSAValue | None) -> Callable[[State], int]:
    owner = barrier.owner
    if not isinstance(owner, MbarrierInitOp):
        raise OutOfScope(op, "a barrier that is not the result of tile.mbarrier.init")
    first = k.events.first[barrier]
    number = find_stage(k, op, stage, owner.res.type.depth)
    return lambda s: first + number(s)


def find_slot(k: Context, value: SSAValue) -> Callable[[State], Slot]:
    at, slots = k.ids[value], k.events.slots

    def find(s: State) -> Slot:
        number = s.environment[at]
        assert isinstance(number, int)
        return slots[number]

    return find


def find_memory(k: Context, op: Operation, value: SSAValue) -> tuple[int, Memory]:
    while isinstance(value.owner, SliceOp):
        value = value.owner.acc
    if not isinstance(value.owner, AllocOp):
        raise OutOfScope(op, "an accumulator that is not the result of tile.alloc")
    number = k.events.first[value]
    return number, k.events.memories[number]
