"""Walks one CTA of an asynchronous kernel and records its steps. Nothing is computed but scalars.

No step's time decides where control flow goes: all scalars come from extents and counters, and a wait blocks. So the steps
can be recorded first, and played in time afterwards, with any costs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from tilec.backend import reference
from tilec.backend.kernels import find_kernel
from tilec.backend.protocol.extents import extents_of
from tilec.backend.reference.cta import Cta, Handlers, Value, name_of
from tilec.backend.reference.launch import launch
from tilec.backend.reference.numerics import Machine
from tilec.backend.reference.storage import View, inside
from tilec.backend.simulator.control import check_mixture, turn_blocks
from tilec.backend.timeline import steps
from tilec.backend.timeline.steps import Recording, Stage, Step
from tilec.diagnostics import fail, location_of
from tilec.dialects.tile import (
    AccType,
    AddOp,
    AllocOp,
    ArriveExpectTxOp,
    ArriveOp,
    BroadcastOp,
    CastOp,
    CommitGroupOp,
    CommitOp,
    CopyAsyncOp,
    CtaSyncOp,
    FenceOp,
    FreeOp,
    KernelOp,
    LoadOp,
    MaxOp,
    MbarrierInitOp,
    MmaOp,
    MulOp,
    RegType,
    RingType,
    RolesOp,
    RoleSyncOp,
    ScheduleOp,
    SingleThreadOp,
    SliceOp,
    SlotOp,
    SmemType,
    SplatOp,
    StoreOp,
    SubOp,
    TryWaitOp,
    ViewType,
    WaitGroupOp,
    WaitLdOp,
)

handlers = Handlers()


@dataclass(frozen=True, slots=True)
class _Stages:
    name: str
    depth: int


@dataclass
class Recorder(Cta):
    """A CTA that notes what it would do."""

    turns: frozenset[Block]
    most: int | None
    """Output tiles that the scheduler hands out."""
    flows: list[list[Step]] = field(default_factory=lambda: [[]], init=False)
    names: list[str] = field(default_factory=lambda: ["threads"], init=False)
    counts: dict[Stage, int] = field(default_factory=dict[Stage, int], init=False)
    tiles: list[int] = field(default_factory=lambda: [-1], init=False)
    """Turns so far, a flow."""
    flow: int = field(default=0, init=False)
    iterations: list[int] = field(default_factory=list[int], init=False)
    """Of the loops around the current operation."""
    used: set[str] = field(default_factory=set[str], init=False)
    """Names of storage."""
    lines: dict[Operation, tuple[int, ...]] = field(default_factory=dict[Operation, tuple[int, ...]], init=False)
    inside: dict[Stage, tuple[int, ...]] = field(default_factory=dict[Stage, tuple[int, ...]], init=False)
    """How much of what a slot holds lies inside the tensor that it was loaded from."""

    def note(self, step: type[Step], op: Operation, *details: object) -> None:
        if (lines := self.lines.get(op)) is None:
            place = location_of(op)
            lines = self.lines[op] = () if place is None else (place.line,)
        iteration = self.iterations[-1] if self.iterations else None
        self.flows[self.flow].append(step(op, lines, max(self.tiles[self.flow], 0), iteration, *details))

    def run(self, block: Block, arguments: Sequence[Value] = ()) -> list[Value]:
        if block in self.turns:
            self.tiles[self.flow] += 1
        return super().run(block, arguments)

    def stage(self, op: Operation, array: SSAValue, stage: SSAValue | None) -> Stage:
        """The mbarrier or the shared tile of a stage."""
        stages = self.get(array, _Stages)
        number = 0 if stage is None else self.signed(stage)
        if not 0 <= number < stages.depth:
            hint = "`tilec check` shows how it comes about"
            fail(op, f"stage {number} of {stages.name}, which has {stages.depth}", hint)
        return Stage(stages.name, number)

    def slot(self, tile: SSAValue) -> Stage:
        return self.get(tile, Stage)

    def name(self, value: SSAValue, otherwise: str) -> str:
        """A name for a tile, ring or barrier that no other one has."""
        wanted = value.name_hint or otherwise
        name, number = wanted, 0
        while name in self.used:
            number += 1
            name = f"{wanted}_{number}"
        self.used.add(name)
        return name

    def place(self, view: SSAValue, indices: Sequence[SSAValue]) -> str:
        return f"{_plain(view)}[{', '.join(str(self.signed(i)) for i in indices)}]"


def record(
    module: ModuleOp, shape: Mapping[str, int], *, number: int = 0, ctas: int | None = None, most: int | None = None
) -> Recording:
    """The steps of CTA `number` of a launch. `shape` has an extent for each name in the kernel's view types; `ctas` is the
    grid of a persistent kernel, of whose output tiles the first `most` are recorded. Raises TilecError for a kernel that is
    not asynchronous, and where a stage does not exist."""
    kernel = find_kernel(module, None)
    check_mixture(kernel)
    views = views_of(kernel, shape)
    for tile, index, total in launch(kernel, views, ctas):
        if index == number:
            recorder = Recorder(_HANDLERS, {}, Machine(), tile, number, total, turn_blocks(kernel), most)
            recorder.run(kernel.body.block, views)
            flows = tuple(tuple(flow) for flow in recorder.flows)
            return Recording(flows, tuple(recorder.names), recorder.counts, max(max(recorder.tiles) + 1, 1))
    return Recording(((),), ("threads",), {}, 0)


def views_of(kernel: KernelOp, shape: Mapping[str, int]) -> list[View]:
    """Views of these extents that take no memory."""
    views: list[View] = []
    for argument in kernel.body.block.args:
        assert isinstance(argument.type, ViewType)
        extents = tuple(extents_of(argument, shape))
        dtype = Machine().array_dtype(argument.type.dtype)
        views.append(View(name_of(argument), argument.type, np.broadcast_to(np.zeros((), dtype), extents)))
    return views


def _plain(value: SSAValue) -> str:
    return value.name_hint or "tile"


def _bytes(type: SmemType | AccType | RegType) -> int:
    return prod(type.shape) * type.dtype.bytes


# ---- storage and barriers


@handlers.of(AllocOp)
def _alloc(cta: Recorder, op: AllocOp) -> None:
    name, type = cta.name(op.res, "tile"), op.res.type
    cta.values[op.res] = _Stages(name, type.depth) if isinstance(type, RingType) else Stage(name, 0)


@handlers.of(MbarrierInitOp)
def _init(cta: Recorder, op: MbarrierInitOp) -> None:
    name, depth = cta.name(op.res, "barrier"), op.res.type.depth
    cta.values[op.res] = _Stages(name, depth)
    cta.counts.update({Stage(name, number): op.count for number in range(depth)})


@handlers.of(SlotOp)
def _slot(cta: Recorder, op: SlotOp) -> None:
    cta.values[op.res] = cta.stage(op, op.ring, op.stage)


@handlers.of(SliceOp)
def _slice(cta: Recorder, op: SliceOp) -> None:
    cta.values[op.res] = cta.values[op.acc]


@handlers.of(ArriveExpectTxOp)
def _expect(cta: Recorder, op: ArriveExpectTxOp) -> None:
    cta.note(steps.Expect, op, cta.stage(op, op.barrier, op.stage), op.bytes)


@handlers.of(ArriveOp)
def _arrive(cta: Recorder, op: ArriveOp) -> None:
    cta.note(steps.Arrive, op, cta.stage(op, op.barrier, op.stage))


@handlers.of(CommitOp)
def _commit(cta: Recorder, op: CommitOp) -> None:
    cta.note(steps.Commit, op, cta.stage(op, op.barrier, op.stage))


@handlers.of(TryWaitOp)
def _wait(cta: Recorder, op: TryWaitOp) -> None:
    cta.note(steps.Wait, op, cta.stage(op, op.barrier, op.stage), cta.unsigned(op.phase) & 1)


def _sync(cta: Recorder, op: CtaSyncOp | RoleSyncOp) -> None:
    cta.note(steps.Sync, op)


handlers[CtaSyncOp] = handlers[RoleSyncOp] = _sync


@handlers.of(CommitGroupOp)
def _commit_group(cta: Recorder, op: CommitGroupOp) -> None:
    cta.note(steps.CommitGroup, op)


@handlers.of(WaitGroupOp)
def _wait_group(cta: Recorder, op: WaitGroupOp) -> None:
    cta.note(steps.WaitGroup, op, op.pending, op.read)


# ---- engines and threads


@handlers.of(MmaOp)
def _mma(cta: Recorder, op: MmaOp) -> None:
    assert isinstance(op.a.type, SmemType) and isinstance(op.b.type, SmemType)
    (m, k), (n, _) = op.a.type.shape, op.b.type.shape
    reads = cta.slot(op.a), cta.slot(op.b)
    useful = min(cta.inside.get(slot, (0, k))[-1] for slot in reads)
    cta.note(steps.Mma, op, m * n * k, m * n * useful, reads)


@handlers.of(CopyAsyncOp)
def _copy_async(cta: Recorder, op: CopyAsyncOp) -> None:
    if op.dispatch == "tmem":
        assert op.res is not None and isinstance(op.source.type, AccType)
        _value(cta, op.res)
        cta.note(steps.Work, op, "accumulator", _bytes(op.source.type), f"read {_plain(op.source)}")
        return
    (_load_tile if op.is_load else _store_tile)(cta, op)


def _load_tile(cta: Recorder, op: CopyAsyncOp) -> None:
    assert op.dest is not None and isinstance(op.dest.type, SmemType)
    slot, place, size = cta.slot(op.dest), cta.place(op.source, op.indices), _bytes(op.dest.type)
    offsets = [cta.signed(i) for i in op.indices]
    part, _ = inside(offsets, op.dest.type.shape, cta.get(op.source, View).array.shape)
    within = cta.inside[slot] = tuple(one.stop - one.start for one in part)
    if op.dispatch == "threads":
        cta.note(steps.Work, op, "gather", size, f"copy {place}", within)
    else:
        assert op.barrier is not None
        cta.note(steps.Load, op, cta.stage(op, op.barrier, op.stage), slot, size, place, within)


def _store_tile(cta: Recorder, op: CopyAsyncOp) -> None:
    assert op.dest is not None and isinstance(op.source.type, SmemType)
    place, size = cta.place(op.dest, op.indices), _bytes(op.source.type)
    if op.dispatch == "threads":
        cta.note(steps.Work, op, "scatter", size, f"store to {place}")
    else:
        cta.note(steps.Store, op, cta.slot(op.source), size, place)


@handlers.of(LoadOp)
def _load(cta: Recorder, op: LoadOp) -> None:
    _value(cta, op.res)
    assert isinstance(op.res.type, RegType)
    cta.note(steps.Work, op, "shared", _bytes(op.res.type), f"read {_plain(op.source)}")


@handlers.of(StoreOp)
def _store(cta: Recorder, op: StoreOp) -> None:
    assert isinstance(op.value.type, RegType)
    cta.note(steps.Work, op, "shared", _bytes(op.value.type), f"write {_plain(op.dest)}")


def _compute(cta: Recorder, op: CastOp | BroadcastOp | SplatOp | AddOp | SubOp | MulOp | MaxOp) -> None:
    _value(cta, op.res)
    assert isinstance(op.res.type, RegType)
    cta.note(steps.Work, op, "compute", _bytes(op.res.type), op.name.removeprefix("tile."))


for _op in (CastOp, BroadcastOp, SplatOp, AddOp, SubOp, MulOp, MaxOp):
    handlers[_op] = _compute


def _value(cta: Recorder, value: SSAValue) -> None:
    """A register tile: nobody looks at what it is."""
    cta.values[value] = value.name_hint


def _nothing(cta: Recorder, op: Operation) -> None:
    """Takes no time of its own."""
    del cta, op


for _op in (FenceOp, WaitLdOp, FreeOp):
    handlers[_op] = _nothing


# ---- structure


@handlers.of(SingleThreadOp)
def _single_thread(cta: Recorder, op: SingleThreadOp) -> None:
    cta.run(op.body.block)


@handlers.of(ScheduleOp)
def _schedule(cta: Recorder, op: ScheduleOp) -> None:
    reference.control.handlers[ScheduleOp](cta, op)
    if cta.most is not None and cta.unsigned(op.turn) >= cta.most:
        cta.set_integer(op.valid, 0)
    cta.note(steps.Schedule, op)


@handlers.of(scf.ForOp)
def _for(cta: Recorder, op: scf.ForOp) -> None:
    step = cta.signed(op.step)
    if step <= 0:
        fail(op, f"the loop's step is {step}: it must be positive")
    carried = cta.get_all(op.iter_args)
    cta.iterations.append(0)
    for i in range(cta.signed(op.lb), cta.signed(op.ub), step):
        cta.note(steps.Iterate, op)
        carried = cta.run(op.body.block, [i, *carried])
        cta.iterations[-1] += 1
    cta.iterations.pop()
    cta.bind(op.res, carried)


@handlers.of(RolesOp)
def _roles(cta: Recorder, op: RolesOp) -> None:
    cta.note(steps.Fork, op)
    around = list(cta.iterations)
    for role in op.roles:
        cta.iterations = list(around)
        cta.flows.append([])
        cta.names.append(role.role)
        cta.tiles.append(-1)
        cta.flow = len(cta.flows) - 1
        cta.run(role.body.block)
    cta.flow = 0


_HANDLERS: dict[type[Operation], Callable[[Recorder, Operation], None]] = {
    **reference.control.handlers,
    **reference.scalars.handlers,
    **handlers,
}
