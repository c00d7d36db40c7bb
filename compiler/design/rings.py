"""The rings that loads fill, and every mbarrier with who arrives on it and who waits for it."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import SSAValue

from tilec.backend.protocol.contract import Handoff
from tilec.backend.protocol.contract_phase import describe_phase
from tilec.backend.protocol.contract_walk import TENSOR_CORE, TMA, executes, line_of, root_of, threads_of
from tilec.design.phases import Schedule
from tilec.design.subject import Subject, depth_of
from tilec.dialects.tile import (
    AllocOp,
    ArriveExpectTxOp,
    ArriveOp,
    CommitOp,
    CopyAsyncOp,
    MbarrierInitOp,
    RingType,
    SmemType,
    TryWaitOp,
)
from tilec.passes.storage import is_commit_only


@dataclass(frozen=True)
class Barrier:
    """An array of mbarriers, one a stage."""

    name: str
    stages: int
    arrivals: int
    """That complete a round."""
    announced_bytes: tuple[int, ...]
    """What announcements say; empty where only arrivals count."""
    producers: tuple[str, ...]
    """Who arrives."""
    consumers: tuple[str, ...]
    """Who waits."""
    arrival_lines: tuple[int, ...]
    wait_lines: tuple[int, ...]
    initial_phase: int | None
    """The parity of the first wait; None where no launch of the schedule's shape waits."""
    phase: tuple[str, ...]
    """Where the phases of the waits come from."""
    becomes: str
    """What it is on the target."""

    @property
    def problem(self) -> str | None:
        """Why it does not hand on from one to one."""
        if not self.producers and not self.consumers:
            return None  # nobody uses it
        if not self.producers:
            return "nobody arrives on it"
        if not self.consumers:
            return "nobody waits for it"
        if len(self.producers) > 1:
            return f"several arrive on it: {', '.join(self.producers)}"
        return f"several wait for it: {', '.join(self.consumers)}" if len(self.consumers) > 1 else None


@dataclass(frozen=True)
class Signal:
    """How a stage is handed on: an mbarrier of the ring's table, or what takes its place."""

    tiles: tuple[str, ...]
    signal: str
    """``full[2]``, ``cta_sync``, ``none``."""
    producer: str
    consumer: str
    order: tuple[str, ...]
    """Fences, and what drains."""

    @staticmethod
    def of(row: Handoff) -> Signal:
        return Signal(row.tiles, row.signal, row.producer, row.consumer, row.order)


@dataclass(frozen=True)
class RingTile:
    name: str
    bytes: int
    """Of one stage."""
    base: int | None
    line: int | None


@dataclass(frozen=True)
class Ring:
    """Tiles that are filled together: stage by stage, all of a stage on one signal."""

    tiles: tuple[RingTile, ...]
    depth: int
    bytes_per_stage: int
    bytes: int
    ready: tuple[Signal, ...]
    """How who reads a stage learns that it is filled."""
    free: tuple[Signal, ...]
    """How who fills a stage learns that it has been read."""
    in_loop: bool
    """Whether it is filled again."""


@dataclass(frozen=True)
class Rings:
    rings: tuple[Ring, ...]
    barriers: tuple[Barrier, ...]


def rings(subject: Subject, schedule: Schedule) -> Rings:
    """The rings in the order in which they are filled first, and the mbarriers in the order of the text."""
    groups: dict[tuple[object, int], list[SSAValue]] = {}
    for op in subject.loads:
        assert op.dest is not None
        root = root_of(op.dest)
        if not isinstance(root.owner, AllocOp):
            continue
        signal: object = op.barrier if op.barrier is not None else "threads"
        tiles = groups.setdefault((signal, depth_of(root)), [])
        if root not in tiles:
            tiles.append(root)
    barriers = tuple(_barrier(subject, schedule, op) for op in subject.walk.ops if isinstance(op, MbarrierInitOp))
    return Rings(tuple(_ring(subject, tiles) for tiles in groups.values()), barriers)


def _ring(subject: Subject, roots: list[SSAValue]) -> Ring:
    names = {subject.walk.names[root] for root in roots}
    rows = subject.contract.handoffs
    concerned = [row for row in rows if names & set(row.tiles)]
    tiles = tuple(_tile(subject, root) for root in roots)
    depth = depth_of(roots[0])
    per_stage = sum(tile.bytes for tile in tiles)
    again = any(row.state == "free" for row in concerned)
    return Ring(
        tiles,
        depth,
        per_stage,
        per_stage * depth,
        tuple(Signal.of(row) for row in concerned if row.state == "ready"),
        tuple(Signal.of(row) for row in concerned if row.state == "free"),
        again,
    )


def _tile(subject: Subject, root: SSAValue) -> RingTile:
    blocks = () if subject.storage is None else subject.storage.tiles
    block = next((one for one in blocks if one.value is root), None)
    tile = root.type.slot if isinstance(root.type, RingType) else root.type
    assert isinstance(tile, SmemType)
    size = tile.layout.slot_size if tile.swizzle else 0
    return RingTile(subject.walk.names[root], size, None if block is None else block.offset, line_of(root))


def _barrier(subject: Subject, schedule: Schedule, op: MbarrierInitOp) -> Barrier:
    users = [user for user in subject.walk.ops if op.res in user.operands]
    producers: dict[str, None] = {}
    consumers: dict[str, None] = {}
    arrivals: set[int] = set()
    waits: set[int] = set()
    announced: dict[int, None] = {}
    phases: dict[str, None] = {}
    loads = any(isinstance(user, CopyAsyncOp) for user in users)
    for user in users:
        line = line_of(user)
        lines = {line} - {None}
        match user:
            case ArriveExpectTxOp():
                producers[f"{TMA}, announced by the {executes(user)}" if loads else executes(user)] = None
                announced[user.bytes] = None
                arrivals |= {n for n in lines if n is not None}
            case CommitOp():
                producers[f"{TENSOR_CORE}, committed by {threads_of(user)}"] = None
                arrivals |= {n for n in lines if n is not None}
            case ArriveOp():
                producers[executes(user)] = None
                arrivals |= {n for n in lines if n is not None}
            case TryWaitOp():
                consumers[executes(user)] = None
                phases[describe_phase(user.phase)] = None
                waits |= {n for n in lines if n is not None}
            case _:
                pass
    for one in list(producers):
        if one.startswith(f"{TMA}, announced by the "):  # who announces may arrive as well
            producers.pop(one.removeprefix(f"{TMA}, announced by the "), None)
    grouped = subject.target.mma == "wgmma" and is_commit_only(op.res)
    name = subject.walk.names[op.res]
    return Barrier(
        name,
        op.res.type.depth,
        op.count,
        tuple(announced),
        tuple(producers),
        tuple(consumers),
        tuple(sorted(arrivals)),
        tuple(sorted(waits)),
        schedule.first_parity.get(name),
        tuple(phases),
        "wgmma.commit_group and wgmma.wait_group, no memory"
        if grouped
        else f"{op.res.type.depth} x 8 bytes in shared memory",
    )
