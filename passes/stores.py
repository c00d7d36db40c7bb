"""Stores to global memory at L1: accumulator or registers -> cast -> staging tile -> the view.

A chunk of columns goes through one slot of the staging ring:

    single_thread { bulk.wait_group p read }; cta_sync     the slot's last store has read it
    accumulator -> registers -> cast -> slot               zeros where no MMA has run (K = 0)
    fence proxy_async; fence before_thread_sync; cta_sync  all threads have written, and are done with the accumulator
    single_thread { slot -> view; bulk.commit_group }

`p` is the number of groups committed since that slot's last store. The slots of chunks 0, 1, ... were last stored by the
end of the same sequence, one tile earlier, when the kernel is persistent; else there was none, and the wait is free.
Where TMA cannot store, threads copy the slot to the view, and a cta_sync takes the place of the wait.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from xdsl.dialects import scf
from xdsl.ir import SSAValue

from tilec.diagnostics import fail
from tilec.dialects.tile import (
    AccType,
    AllocOp,
    CastOp,
    CommitGroupOp,
    CopyAsyncOp,
    CopyOp,
    RegType,
    RingType,
    SliceOp,
    SlotOp,
    SmemType,
    SplatOp,
    StoreOp,
    ViewType,
    WaitGroupOp,
    WaitLdOp,
)
from tilec.passes.builder import LocatedBuilder
from tilec.passes.dispatch import Dispatch, staging_columns, with_layout
from tilec.passes.in_flight import InFlight
from tilec.passes.setup import Setup

STAGING_SLOTS = 2
"""Of a staging ring, unless the pass list says otherwise: one is written while the last one is stored."""


def read_acc(b: LocatedBuilder, acc: SSAValue) -> SSAValue:
    """All of an accumulator, or a part, in registers."""
    assert isinstance(acc.type, AccType)
    result = RegType.of(acc.type.shape, acc.type.element)
    registers = b.add(CopyAsyncOp(acc, None, [], "tmem", result=result), "r").res
    assert registers is not None
    b.add(WaitLdOp())
    return registers


def load_acc(b: LocatedBuilder, acc: SSAValue, live: SSAValue) -> scf.IfOp:
    """An accumulator in registers: zeros where no MMA has written it."""
    assert isinstance(acc.type, AccType)
    type = RegType.of(acc.type.shape, acc.type.element)
    op, then, otherwise = b.if_else(live, type)
    then.yield_(read_acc(then, acc))
    otherwise.yield_(otherwise.add(SplatOp(0.0, type), "zeros").res)
    return op


@dataclass
class Stores:
    """Emits the stores of one kernel."""

    dispatch: Dispatch
    setup: Setup
    flight: InFlight
    problems: Mapping[CopyOp, str | None]
    """By store of a shared tile, why TMA does not do it."""
    rewritten: Set[SSAValue]
    """Views to which the kernel may store twice in one place."""
    staging_slots: int
    """Slots of a staging ring, at most."""
    has_bulk_groups: bool = False
    """Some store goes through TMA: the kernel must drain before it ends."""

    def store(self, op: CopyOp) -> None:
        b = LocatedBuilder.before(op)
        self.flight.before_store(b, op.dest)
        match op.source.type:
            case AccType():
                self._store_acc(b, op)
            case RegType():
                self._store_registers(b, op)
            case _:
                self._store_tile(b, op)

    def _store_acc(self, b: LocatedBuilder, op: CopyOp) -> None:
        acc, view = op.source.type, op.dest.type
        assert isinstance(acc, AccType) and isinstance(view, ViewType)
        rows, columns = acc.shape
        width = staging_columns((rows, columns), view.element, view.order)
        chunks = columns // width
        slot_type = self._staging_type(op, (rows, width), view)
        by_tma = self._choose(op, slot_type)
        slots = min(self.staging_slots, chunks)
        staging = self._staging(op, slot_type, slots)
        self.flight.acc_read(b, op.source)
        live = self.flight.read(op.source)
        for chunk in range(chunks):
            slot = staging
            if slots > 1:
                slot = b.add(SlotOp(staging, self.setup.scalars.index(chunk % slots)), "slot").res
            self._claim(b, by_tma, groups_since(chunk, chunks, slots))
            _, then, otherwise = b.if_else(live)
            part = op.source
            if chunks > 1:
                part = then.add(
                    SliceOp(op.source, (0, chunk * width), AccType.of((rows, width), acc.element)), "part"
                ).res
            then.add(StoreOp(_cast(then, read_acc(then, part), view), slot))
            then.yield_()
            zeros = otherwise.add(SplatOp(0.0, RegType.of((rows, width), view.element)), "zeros").res
            otherwise.add(StoreOp(zeros, slot))
            otherwise.yield_()
            self.flight.acc_was_read(op.source)
            row, column = op.indices
            if chunk:
                column = b.add_index(column, self.setup.scalars.index(chunk * width), column.name_hint)
            self._send(b, slot, op.dest, [row, column], by_tma)

    def _store_registers(self, b: LocatedBuilder, op: CopyOp) -> None:
        value, view = op.source.type, op.dest.type
        assert isinstance(value, RegType) and isinstance(view, ViewType)
        slot_type = self._staging_type(op, value.shape, view)
        by_tma = self._choose(op, slot_type)
        staging = self._staging(op, slot_type, 1)
        self._claim(b, by_tma, groups_since(0, 1, 1))
        b.add(StoreOp(_cast(b, op.source, view), staging))
        self._send(b, staging, op.dest, op.indices, by_tma)

    def _store_tile(self, b: LocatedBuilder, op: CopyOp) -> None:
        """A shared tile goes out from where it lies; the store has read it before anything else happens."""
        by_tma = self.problems[op] is None
        if not by_tma:
            self.flight.view_write(b, op.dest)
        self.flight.tile_read(b, op.source, by_threads=not by_tma)
        if by_tma:
            self.has_bulk_groups = True
            one = b.single_thread()
            one.add(CopyAsyncOp(op.source, op.dest, op.indices, "tma"))
            one.add(CommitGroupOp())
            one.add(WaitGroupOp(0, read=True))
        else:
            b.add(CopyAsyncOp(op.source, op.dest, op.indices, "threads"))
            self.flight.view_was_written(op.dest)  # the meetings before it do not order what comes after

    def _staging_type(self, op: CopyOp, shape: tuple[int, ...], view: ViewType) -> SmemType:
        type = with_layout(shape, view.element, view.order)
        if type is None:
            fail(
                op,
                f"this store needs a staging tile whose rows are a multiple of 16 bytes, not {shape} x {view.dtype.name}",
                hint="widen the dimension that is contiguous in memory",
            )
        return type

    def _choose(self, op: CopyOp, tile: SmemType) -> bool:
        """Whether TMA stores a staging tile."""
        view = op.dest.type
        assert isinstance(view, ViewType)
        return self.dispatch.choose(op, view, tile, rewritten=op.dest in self.rewritten) is None

    def _staging(self, op: CopyOp, slot: SmemType, slots: int) -> SSAValue:
        type = slot if slots == 1 else RingType.of(slots, slot)
        return self.setup.alloc(AllocOp(type), op, "staging")

    def _claim(self, b: LocatedBuilder, by_tma: bool, pending: int) -> None:
        """Make sure that the slot's last store, `pending` stores ago, has read it."""
        if by_tma:
            b.single_thread().add(WaitGroupOp(pending, read=True))
        # Threads have met since they copied the slot out if another slot has gone out in between.
        if by_tma or pending == 0:
            self.flight.sync(b)

    def _send(
        self, b: LocatedBuilder, slot: SSAValue, view: SSAValue, indices: Sequence[SSAValue], by_tma: bool
    ) -> None:
        """Store a slot that the threads have written."""
        self.flight.sync(b, proxy=by_tma)
        if by_tma:
            self.has_bulk_groups = True
            one = b.single_thread()
            one.add(CopyAsyncOp(slot, view, indices, "tma"))
            one.add(CommitGroupOp())
        else:
            self.flight.view_write(b, view)
            b.add(CopyAsyncOp(slot, view, indices, "threads"))
            self.flight.view_was_written(view)


def groups_since(chunk: int, chunks: int, slots: int) -> int:
    """Groups that this sequence has committed after the last store from the slot of `chunk`."""
    if chunk >= slots:
        return slots - 1
    last = max(c for c in range(chunks) if c % slots == chunk)
    return (chunks - 1 - last) + chunk


def _cast(b: LocatedBuilder, value: SSAValue, view: ViewType) -> SSAValue:
    assert isinstance(value.type, RegType)
    if value.type.element == view.element:
        return value
    return b.add(CastOp(value, RegType.of(value.type.shape, view.element)), "h").res
