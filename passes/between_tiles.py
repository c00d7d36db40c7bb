"""What a tile leaves undone for the next one: for `persistent`, which puts tiles one after another that knew nothing of it.

A tile of its own CTA may end where its results are out. In a loop over tiles the next one writes the same shared tiles and
accumulators and arrives on the same barriers, and what was free at the end of a CTA is not: only one thread knows that a
store has read its tile, a thread may still be about to read, another may wait for a round that is long past. The tile is
walked once for what it leaves, and once more, starting with that, for what disturbs it. Paths are joined: what may be left
on one of them is left. What our own passes make claims its storage first, and leaves nothing that disturbs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from xdsl.dialects import scf
from xdsl.ir import Block, Operation, SSAValue

from tilec.dialects.tile import (
    ArriveExpectTxOp,
    ArriveOp,
    CommitGroupOp,
    CommitOp,
    CopyAsyncOp,
    CtaSyncOp,
    FenceOp,
    LoadOp,
    MmaOp,
    SingleThreadOp,
    SliceOp,
    StoreOp,
    TryWaitOp,
    WaitGroupOp,
    WaitLdOp,
)
from tilec.passes.builder import LocatedBuilder
from tilec.passes.undone import AccRead, Tile, Touch, Undone


@dataclass
class Missing:
    """What has to stand between two tiles."""

    stores: bool = False
    """A wait for the stores: one of them may still read a tile that is written again."""
    proxy: bool = False
    """A proxy fence: threads have touched what TMA or an MMA touches next."""
    accumulator: bool = False
    """The fences around the meeting: threads have read an accumulator that an MMA writes next."""
    meeting: bool = False

    def __bool__(self) -> bool:
        return self.stores or self.proxy or self.accumulator or self.meeting

    def insert(self, b: LocatedBuilder) -> None:
        if not self:
            return
        if self.stores:
            b.single_thread().add(WaitGroupOp(0, read=True))
        if self.proxy:
            b.add(FenceOp("proxy_async"))
        if self.accumulator:
            b.add(FenceOp("before_thread_sync"))
        b.add(CtaSyncOp())
        if self.accumulator:
            b.add(FenceOp("after_thread_sync"))


def missing_between_tiles(body: Block) -> Missing:
    """What the end of a tile lacks before the same tile, at another place, may follow."""
    first = _Walk(body, Undone())
    first.walk(body.ops)
    second = _Walk(body, first.now, remember=False)
    second.walk(body.ops)
    return second.missing


def disturbs(body: Block, last: Operation, moved: Operation) -> bool:
    """Whether `moved`, right behind `last`, would disturb what the tile has not done by then."""
    until = _Walk(body, Undone())
    for op in body.ops:
        until.walk([op])
        if op is last:
            break
    behind = _Walk(body, until.now, remember=False)
    behind.walk([moved])
    return bool(behind.missing)


class _Walk:
    """One pass over a tile in program order."""

    def __init__(self, body: Block, start: Undone, *, remember: bool = True):
        self.now = start
        self.missing = Missing()
        """What disturbs `start`, and what comes after it where that is remembered."""
        self._remember = remember
        self._commits = {op.barrier for op in body.walk() if isinstance(op, CommitOp)}
        """A wait for these ends in a barrier of the threads."""
        self._one_thread = False

    def walk(self, ops: Iterable[Operation]) -> None:
        for op in ops:
            match op:
                case SingleThreadOp():
                    self._one_thread = True
                    self.walk(op.body.block.ops)
                    self._one_thread = False
                case scf.IfOp():
                    self._branches(op)
                case scf.ForOp() | scf.WhileOp():
                    self._loop(op)
                case _:
                    self._visit(op)

    def _branches(self, op: scf.IfOp) -> None:
        start = self.now
        ends: list[Undone] = []
        for region in op.regions:
            self.now = start
            for block in region.blocks:
                self.walk(block.ops)
            ends.append(self.now)
        self.now = ends[0].joined(ends[1])

    def _loop(self, op: scf.ForOp | scf.WhileOp) -> None:
        while True:
            before = self.now
            for region in op.regions:
                self.walk(region.block.ops)
            self.now = before.joined(self.now)
            if self.now == before:
                return

    def _visit(self, op: Operation) -> None:
        match op:
            case CtaSyncOp():
                self.now = self.now.met()
            case TryWaitOp() if not self._one_thread:
                self._wait(op)
            case ArriveExpectTxOp() | ArriveOp():
                self._arrive(op)
            case FenceOp():
                self._fence(op.kind)
            case CopyAsyncOp():
                self._copy(op)
            case LoadOp():
                self._touch(op.source, writes=False)
            case StoreOp():
                self._touch(op.dest, writes=True)
            case MmaOp():
                self._mma(op)
            case CommitGroupOp():
                self.now = self.now.committed()
            case WaitGroupOp():
                self.now = self.now.drained(op.pending)
            case WaitLdOp():  # only now have they been read: a fence before counts for nothing
                reads = self.now.acc_reads
                self.now = replace(
                    self.now, acc_reads=frozenset(replace(r, steps=0) if r.steps == 1 else r for r in reads)
                )
            case _:
                pass

    # Barriers and fences

    def _wait(self, op: TryWaitOp) -> None:
        if op.barrier in self._commits:
            self.now = self.now.met()
        elif self._remember:
            self.now = replace(self.now, waited=self.now.waited | {op.barrier})

    def _arrive(self, op: ArriveExpectTxOp | ArriveOp) -> None:
        if not self._one_thread:  # the threads meet, then one of them arrives
            self.now = self.now.met()
        self.missing.meeting |= op.barrier in self.now.waited

    def _fence(self, kind: str) -> None:
        match kind:
            case "proxy_async":
                touches = frozenset(replace(one, fenced=True) for one in self.now.touches)
                self.now = replace(self.now, touches=touches)
            case "before_thread_sync":
                reads = frozenset(replace(one, steps=max(one.steps, 1)) for one in self.now.acc_reads)
                self.now = replace(self.now, acc_reads=reads)
            case _:
                self.now = replace(self.now, acc_reads=frozenset(one for one in self.now.acc_reads if one.steps < 2))

    # Storage

    def _copy(self, op: CopyAsyncOp) -> None:
        match op.dispatch:
            case "tmem":
                if self._remember:
                    self.now = replace(self.now, acc_reads=self.now.acc_reads | {AccRead(_accumulator(op.source))})
            case "tma" if op.is_load:
                assert op.dest is not None
                self._engine(op.dest, writes=True)
            case "tma":
                self._engine(op.source, writes=False)
                if self._remember:
                    self.now = replace(self.now, stored=self.now.stored | {Tile.of(op.source)})
            case _:
                assert op.dest is not None
                self._touch(op.dest if op.is_load else op.source, writes=op.is_load)

    def _mma(self, op: MmaOp) -> None:
        self._engine(op.a, writes=False)
        self._engine(op.b, writes=False)
        self.missing.accumulator |= any(one.acc is _accumulator(op.acc) for one in self.now.acc_reads)

    def _touch(self, value: SSAValue, *, writes: bool) -> None:
        """All threads read or write a shared tile."""
        tile = Tile.of(value)
        self.missing.meeting |= any(not one.met for one in self._in_the_way(tile, writes))
        if writes:
            self._rewrite(tile)
            self.missing.meeting |= any(tile.overlaps(one) for one in self.now.released)
        if self._remember:
            self.now = replace(self.now, touches=self.now.touches | {Touch(tile, writes)})

    def _engine(self, value: SSAValue, *, writes: bool) -> None:
        """TMA or the tensor core reads or writes a shared tile."""
        tile = Tile.of(value)
        for one in self._in_the_way(tile, writes):
            self.missing.meeting = True
            self.missing.proxy |= not one.fenced
        if writes:
            self._rewrite(tile)

    def _in_the_way(self, tile: Tile, writes: bool) -> list[Touch]:
        return [one for one in self.now.touches if (writes or one.writes) and tile.overlaps(one.tile)]

    def _rewrite(self, tile: Tile) -> None:
        """A shared tile is written, which stores may not have read yet."""
        in_flight = self.now.stored.union(*self.now.groups)
        self.missing.stores |= any(tile.overlaps(one) for one in in_flight)


def _accumulator(value: SSAValue) -> SSAValue:
    """What a slice is a slice of."""
    while isinstance(value.owner, SliceOp):
        value = value.owner.acc
    return value
