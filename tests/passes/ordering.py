"""A second opinion on fences and barriers of threads: the trace of a sequential run must hold them where they are needed.

The reference executor runs a CTA as one agent and so cannot miss a `tile.cta_sync` or a `tile.fence`. Here each event of such
a run gets a time, and each access is checked against the earlier ones on the same storage: what must lie between them?
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from tilec.backend.reference import control, data, scalars, sync
from tilec.backend.reference.arguments import bind_views
from tilec.backend.reference.cta import Cta
from tilec.backend.reference.numerics import Machine
from tilec.backend.reference.storage import Accumulator, Mbarrier, SharedTile, View
from tilec.dialects.tile import (
    ArriveExpectTxOp,
    CommitGroupOp,
    CommitOp,
    CopyAsyncOp,
    CtaSyncOp,
    FenceOp,
    FreeOp,
    GridOp,
    KernelOp,
    LoadOp,
    MbarrierInitOp,
    MmaOp,
    SingleThreadOp,
    StoreOp,
    TryWaitOp,
    WaitGroupOp,
)

HANDLERS = {**control.handlers, **data.handlers, **scalars.handlers, **sync.handlers}
NEVER = -1


def check_ordering(module: ModuleOp, arrays: Sequence[npt.NDArray[Any]], ctas: int) -> None:
    """Run an asynchronous kernel; an ordering that is missing is an AssertionError that names both accesses."""
    kernel = next(op for op in module.walk() if isinstance(op, KernelOp))
    for op in kernel.walk():
        check_thread_scopes(op)
    views = bind_views(kernel, arrays, Machine())
    grids = [op for op in kernel.walk() if isinstance(op, GridOp)]
    launches: list[tuple[int, ...]] = [()] * ctas
    if grids:
        shape = next(v.array.shape for v, a in zip(views, kernel.body.block.args, strict=True) if a is grids[0].view)
        launches = list(product(*(range(0, e, s) for e, s in zip(shape, grids[0].step, strict=True))))[:2]
    with np.errstate(all="ignore"):
        for number, tile in enumerate(launches):
            trace = Trace()
            cta = Cta(trace.handlers(), Machine(), {}, tile, number, len(launches))
            cta.run(kernel.body.block, [*views])


def check_thread_scopes(op: Operation) -> None:
    """What one thread does, and what all must do."""
    alone = False
    above = op.parent_op()
    while above is not None:
        alone |= isinstance(above, SingleThreadOp)
        above = above.parent_op()
    one_thread = isinstance(op, ArriveExpectTxOp | WaitGroupOp) or (
        isinstance(op, CopyAsyncOp) and op.dispatch == "tma"
    )
    everyone = isinstance(op, CtaSyncOp | FenceOp | MmaOp | CommitOp | TryWaitOp | LoadOp | StoreOp) or (
        isinstance(op, CopyAsyncOp) and op.dispatch != "tma"
    )
    assert not (one_thread and not alone), f"{op} by all threads"
    assert not (everyone and alone), f"{op} by one thread"


@dataclass
class Touches:
    """When storage was last touched, by kind of access."""

    written: int = NEVER
    read: int = NEVER
    stored: int = NEVER
    """A TMA store that reads it has been waited for."""


Region = tuple[str, tuple[tuple[int, int], ...]]
"""Part of a view: from where to where in each dimension."""


@dataclass
class Store:
    """A TMA store, and how many groups have been committed since."""

    region: Region
    groups_since: int = NEVER


def overlaps(one: Region, other: Region) -> bool:
    return one[0] == other[0] and all(a < d and c < b for (a, b), (c, d) in zip(one[1], other[1], strict=True))


@dataclass
class Trace:
    now: int = 0
    syncs: list[int] = field(default_factory=list[int])
    proxy_fences: list[int] = field(default_factory=list[int])
    before_fences: list[int] = field(default_factory=list[int])
    after_fences: list[int] = field(default_factory=list[int])
    open_group: list[Touches] = field(default_factory=list[Touches])
    groups: list[list[Touches]] = field(default_factory=list[list[Touches]])
    mma_waits: list[int] = field(default_factory=list[int])
    tiles: dict[int, Touches] = field(default_factory=dict[int, Touches])
    accs: dict[int, Touches] = field(default_factory=dict[int, Touches])
    stores: list[Store] = field(default_factory=list["Store"])
    """TMA stores whose writes need not be done, oldest first."""
    loads: list[tuple[int, Region]] = field(default_factory=list[tuple[int, "Region"]])
    """TMA loads in flight, by their barrier."""
    thread_loads: list[tuple[int, Region]] = field(default_factory=list[tuple[int, "Region"]])
    thread_stores: list[tuple[int, Region]] = field(default_factory=list[tuple[int, "Region"]])
    """Parts of views that threads have read and written since they last met, and when."""
    commits: set[int] = field(default_factory=set[int])
    last_init: int = NEVER
    rounds: dict[int, int] = field(default_factory=dict[int, int])
    """When each mbarrier was last waited for."""

    def handlers(self) -> dict[type[Operation], Callable[[Cta, Any], None]]:
        """The reference's handlers, each of which reports here first."""

        def reporting(inner: Callable[[Cta, Any], None]) -> Callable[[Cta, Any], None]:
            def handle(cta: Cta, op: Operation) -> None:
                self.now += 1
                self.event(cta, op)
                inner(cta, op)

            return handle

        return {kind: reporting(inner) for kind, inner in HANDLERS.items()}

    def event(self, cta: Cta, op: Operation) -> None:
        match op:
            case CtaSyncOp():
                self.syncs.append(self.now)
                self.thread_loads.clear()
                self.thread_stores.clear()
            case FenceOp():
                fences = {"proxy_async": self.proxy_fences, "before_thread_sync": self.before_fences}
                fences.get(op.kind, self.after_fences).append(self.now)
            case MbarrierInitOp():
                self.last_init = self.now
            case WaitGroupOp():
                while len(self.groups) > op.pending:
                    for touched in self.groups.pop(0):
                        touched.stored = self.now
                if not op.read:
                    self.stores = [store for store in self.stores if store.groups_since < op.pending]
            case CommitGroupOp():
                for store in self.stores:
                    store.groups_since += 1
                self.groups.append(self.open_group)
                self.open_group = []
            case CommitOp():
                self.commits.add(id(cta.barrier(op, op.barrier, op.stage)))
            case TryWaitOp():
                self.wait(op, cta.barrier(op, op.barrier, op.stage))
            case ArriveExpectTxOp():
                self.need(op, "barrier initialisation", self.last_init, self.syncs)
                waited = self.rounds.get(id(cta.barrier(op, op.barrier, op.stage)), NEVER)
                self.need(op, "the wait for the round before", waited, sorted([*self.syncs, *self.mma_waits]))
            case MmaOp():
                self.mma(cta, op)
            case LoadOp():
                self.thread_read(op, cta.get(op.source, SharedTile))
            case StoreOp():
                self.thread_write(op, cta.get(op.dest, SharedTile))
            case CopyAsyncOp():
                self.copy(cta, op)
            case FreeOp():
                touched = self.accs.get(id(cta.get(op.acc, Accumulator).memory), Touches())
                self.need(
                    op, "a read of the accumulator", touched.read, self.before_fences, self.syncs, self.after_fences
                )
            case _:
                pass

    def need(self, op: Operation, what: str, since: int, *between: list[int]) -> None:
        """After `since` there must be one event of each of `between`, in this order."""
        if since == NEVER:
            return
        at = since
        for place, times in enumerate(between):
            later = [time for time in times if time > at]
            assert later, f"after {what}, {op} needs more: step {place + 1} of {len(between)} is missing"
            at = later[0]

    def tile(self, tile: SharedTile) -> Touches:
        return self.tiles.setdefault(id(tile), Touches())

    def wait(self, op: TryWaitOp, barrier: Mbarrier) -> None:
        self.need(op, "barrier initialisation", self.last_init, self.syncs)
        self.rounds[id(barrier)] = self.now
        self.loads = [(signalled, region) for signalled, region in self.loads if signalled != id(barrier)]
        if id(barrier) in self.commits:
            self.mma_waits.append(self.now)

    def thread_read(self, op: Operation, tile: SharedTile) -> None:
        touched = self.tile(tile)
        self.need(op, "a write by threads", touched.written, self.syncs)
        touched.read = self.now

    def thread_write(self, op: Operation, tile: SharedTile) -> None:
        touched = self.tile(tile)
        self.need(op, "a write by threads", touched.written, self.syncs)
        self.need(op, "a read by threads", touched.read, self.syncs)
        self.need(op, "a TMA store", touched.stored, self.syncs)
        touched.written = self.now

    def mma(self, cta: Cta, op: MmaOp) -> None:
        for operand in (op.a, op.b):
            touched = self.tile(cta.get(operand, SharedTile))
            self.need(op, "a write by threads", touched.written, self.proxy_fences, self.syncs)
        touched = self.accs.setdefault(id(cta.get(op.acc, Accumulator).memory), Touches())
        self.need(op, "a read of the accumulator", touched.read, self.before_fences, self.syncs, self.after_fences)
        met = max([NEVER, *self.syncs[-1:], *self.rounds.values()])
        self.need(op, "a synchronisation", met, self.after_fences)

    def thread_view(self, op: CopyAsyncOp, region: Region) -> None:
        """What threads have done to a view, other threads and the TMA engine come after."""
        for since, written in self.thread_stores:
            if overlaps(region, written):
                self.need(op, "a store by threads to the same place", since, self.syncs)
        if not op.is_load:
            for since, read in self.thread_loads:
                if overlaps(region, read):
                    self.need(op, "a load by threads from the same place", since, self.syncs)
        if op.dispatch == "threads":
            (self.thread_loads if op.is_load else self.thread_stores).append((self.now, region))

    def copy(self, cta: Cta, op: CopyAsyncOp) -> None:
        if op.dispatch == "tmem":
            memory = cta.get(op.source, Accumulator).memory
            self.accs.setdefault(id(memory), Touches()).read = self.now
            self.need(op, "the wait for the MMAs", max([NEVER, *self.mma_waits]), self.after_fences)
            return
        assert op.dest is not None
        tile = cta.get(op.dest if op.is_load else op.source, SharedTile)
        touched = self.tile(tile)
        view = cta.get(op.source if op.is_load else op.dest, View)
        starts = [cta.signed(index) for index in op.indices]
        region = (
            view.name,
            tuple((start, start + size) for start, size in zip(starts, tile.values.shape, strict=True)),
        )
        if not op.is_load:
            assert not any(overlaps(region, store.region) for store in self.stores), f"{op} overtakes an earlier store"
            assert not any(overlaps(region, load) for _, load in self.loads), f"{op} overtakes a load"
        self.thread_view(op, region)
        if op.dispatch == "tma" and op.is_load:
            assert op.barrier is not None
            self.loads.append((id(cta.barrier(op, op.barrier, op.stage)), region))
        elif op.dispatch == "tma":
            self.stores.append(Store(region))
        if op.dispatch == "threads":
            (self.thread_write if op.is_load else self.thread_read)(op, tile)
        elif op.is_load:
            self.need(op, "an access by threads", max(touched.written, touched.read), self.proxy_fences, self.syncs)
        else:
            self.need(op, "a write by threads", touched.written, self.proxy_fences, self.syncs)
            self.open_group.append(touched)
