"""What is in flight while a kernel is made asynchronous, and the waits that complete it when someone needs it.

* Loads that stand together form a group with one full barrier, which is waited for at the first operation that touches one
  of the group's tiles.
* MMAs run until something needs their result, or the shared tiles that they read: then one commit, one wait.
* What threads read or write in shared memory is followed by `tile.cta_sync` before anyone else touches the tile, with a
  proxy fence before it where the TMA engine or the tensor core is on the other side. So is what they store to a view, where
  the kernel may store to the same place again.

At the end of each block nothing is in flight, so that a loop's next iteration and a persistent kernel's next tile find all
storage free.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field

from xdsl.dialects.builtin import i1
from xdsl.ir import Block, Operation, SSAValue

from tilec.diagnostics import fail
from tilec.dialects.tile import (
    ArriveExpectTxOp,
    CommitOp,
    CopyAsyncOp,
    CopyOp,
    CtaSyncOp,
    FenceOp,
    MmaOp,
    SmemType,
    TryWaitOp,
)
from tilec.dialects.tile.sync import MAX_TX_BYTES
from tilec.passes.builder import LocatedBuilder
from tilec.passes.setup import Setup


def _tiles() -> set[SSAValue]:
    return set()


@dataclass(frozen=True)
class Group:
    """TMA loads that complete together."""

    barrier: SSAValue
    views: frozenset[SSAValue]
    tiles: frozenset[SSAValue]


@dataclass
class Frame:
    """One block under conversion: what is in flight in it, and what it carries if it is a loop's body."""

    block: Block
    source: Operation
    values: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    """By barrier its phase, by accumulator whether an MMA has written it."""
    carried: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    """Those of `values` that go round the loop, with their values before it."""
    loads: list[CopyOp] = field(default_factory=list[CopyOp])
    """Read from the source, not issued yet."""
    groups: list[Group] = field(default_factory=list[Group])
    """Issued, not waited for."""
    mma_tiles: set[SSAValue] = field(default_factory=_tiles)
    mma_accs: set[SSAValue] = field(default_factory=_tiles)
    """Read and written by MMAs that no commit has followed."""
    last_mma: Operation | None = None
    reads: set[SSAValue] = field(default_factory=_tiles)
    writes: set[SSAValue] = field(default_factory=_tiles)
    acc_reads: set[SSAValue] = field(default_factory=_tiles)
    """Shared tiles and accumulators that threads have touched since they last met."""
    stored: set[SSAValue] = field(default_factory=_tiles)
    """Shared tiles that TMA stores have read since, as one thread knows."""
    view_writes: set[SSAValue] = field(default_factory=_tiles)
    """Views to which threads have stored since they last met, and which may be stored to again."""
    apart: bool = False
    """Threads have waited for a load since they last met: one may be a round behind the others."""
    fence_before_mma: bool = True
    fence_before_read: bool = True
    """`fence after_thread_sync` is due before the next MMA, or before the next read of an accumulator."""

    @property
    def unmet(self) -> set[SSAValue]:
        """What must not be touched again before the threads have met."""
        return self.reads | self.writes | self.acc_reads | self.stored | self.view_writes


class InFlight:
    """The operations in flight, frame by frame; each method inserts what it finds missing."""

    def __init__(
        self,
        body: Block,
        source: Operation,
        setup: Setup,
        problems: Mapping[CopyOp, str | None],
        async_tiles: set[SSAValue],
        rewritten: Set[SSAValue],
    ):
        self._setup = setup
        self._problems = problems
        """By load of a shared tile, why TMA does not do it."""
        self._async_tiles = async_tiles
        self._rewritten = rewritten
        """Views to which the kernel may store twice in one place: all stores to these are by threads."""
        self.frames = [Frame(body, source)]

    @property
    def frame(self) -> Frame:
        return self.frames[-1]

    # Values that go round loops

    def define(self, key: SSAValue, value: SSAValue) -> None:
        """Start a phase or a flag in the current block."""
        self.frame.values[key] = value

    def read(self, key: SSAValue) -> SSAValue:
        """The current value; loops between its definition and here carry it from now on."""
        for outer, inner in zip(self.frames, self.frames[1:], strict=False):
            if key in outer.values and key not in inner.values:
                before = outer.values[key]
                argument = inner.block.insert_arg(before.type, len(inner.block.args), inner.source.location)
                argument.name_hint = "live" if before.type == i1 else f"{key.name_hint}_phase"
                inner.values[key] = argument
                inner.carried[key] = before
        return self.frame.values[key]

    def write(self, key: SSAValue, value: SSAValue) -> None:
        self.read(key)
        self.frame.values[key] = value

    def _wait(self, b: LocatedBuilder, barrier: SSAValue) -> None:
        """Wait for a round of a barrier, and flip its phase where the round after it can come: in a loop."""
        phase = self.read(barrier)
        b.add(TryWaitOp(barrier, None, phase))
        if len(self.frames) > 1:
            self.write(barrier, b.flip(phase, self._setup.scalars.phase(1), f"{barrier.name_hint}_phase"))
        self.frame.fence_before_mma = True

    def _barrier(self, source: Operation, hint: str) -> SSAValue:
        barrier = self._setup.barrier(source, hint)
        self.frames[0].values[barrier] = self._setup.scalars.phase(0)
        return barrier

    # Loads

    def load(self, op: CopyOp) -> None:
        """Add a load to the group that is being collected."""
        if any(op.dest is other.dest for other in self.frame.loads):
            self.issue(LocatedBuilder.before(op))
        self.frame.loads.append(op)

    def issue(self, b: LocatedBuilder) -> None:
        """Start the loads collected so far."""
        loads, self.frame.loads = self.frame.loads, []
        if not loads:
            return
        tiles = {op.dest for op in loads}
        self._land(b, tiles)
        if tiles & self.frame.mma_tiles:
            self.complete(b)
        if tiles & (self.frame.reads | self.frame.writes | self.frame.stored):
            self.sync(b)
        by_tma = [op for op in loads if self._problems[op] is None]
        by_threads = [op for op in loads if self._problems[op] is not None]
        if by_tma:
            self._issue_tma(b.of(by_tma[0]), by_tma)
        for op in by_threads:
            b.of(op).add(CopyAsyncOp(op.source, op.dest, op.indices, "threads"))
        if by_threads:
            # Part of the issue, which a later pass may move as a whole: it says nothing about other tiles.
            end = b.of(by_threads[-1])
            if any(op.dest in self._async_tiles for op in by_threads):
                end.add(FenceOp("proxy_async"))
            end.add(CtaSyncOp())
            self.frame.fence_before_mma = True
        for op in loads:
            op.detach()
            op.erase()

    def _issue_tma(self, b: LocatedBuilder, loads: list[CopyOp]) -> None:
        barrier = self._barrier(loads[0], "full")
        bytes = 0
        for op in loads:
            assert isinstance(op.dest.type, SmemType)
            bytes += op.dest.type.layout.size
        if bytes > MAX_TX_BYTES:
            fail(loads[0], f"loads of {bytes} bytes at once: an mbarrier counts up to {MAX_TX_BYTES}")
        one = b.single_thread()
        one.add(ArriveExpectTxOp(barrier, None, bytes))
        for op in loads:
            one.of(op).add(CopyAsyncOp(op.source, op.dest, op.indices, "tma", barrier=barrier))
        views, tiles = (frozenset(values) for values in zip(*((op.source, op.dest) for op in loads), strict=True))
        self.frame.groups.append(Group(barrier, views, tiles))

    def _land(self, b: LocatedBuilder, storage: Iterable[SSAValue] | None = None) -> None:
        """Wait for the groups that read or fill some of these views and tiles, or for all."""
        wanted = None if storage is None else set(storage)
        for group in list(self.frame.groups):
            if wanted is None or (group.views | group.tiles) & wanted:
                self.frame.groups.remove(group)
                self._wait(b, group.barrier)
                self.frame.apart = True

    # Uses of tiles

    def mma(self, b: LocatedBuilder, op: MmaOp) -> None:
        """Make everything ready for an MMA, and note that it runs."""
        self.issue(b)
        self._land(b, (op.a, op.b))
        if self.frame.writes & {op.a, op.b} or op.acc in self.frame.acc_reads:
            self.sync(b)
        if self.frame.fence_before_mma:
            self._fence_after(b)
        self.frame.mma_tiles |= {op.a, op.b}
        self.frame.mma_accs.add(op.acc)
        self.frame.last_mma = op

    def complete(self, b: LocatedBuilder) -> None:
        """Wait for the MMAs that run."""
        if self.frame.last_mma is None:
            return
        barrier = self._barrier(self.frame.last_mma, "done")
        b = b.of(self.frame.last_mma)
        self.frame.last_mma = None
        b.add(CommitOp(barrier))
        self._wait(b, barrier)
        self.frame.mma_tiles.clear()
        self.frame.mma_accs.clear()
        self.frame.fence_before_read = True
        self.frame.apart = False  # the wait for a commit ends in a barrier of the role's threads

    def acc_read(self, b: LocatedBuilder, acc: SSAValue) -> None:
        """Make an accumulator ready to be read by the threads."""
        self.issue(b)
        if acc in self.frame.mma_accs:
            self.complete(b)
        if self.frame.fence_before_read:
            self._fence_after(b)

    def acc_was_read(self, acc: SSAValue) -> None:
        self.frame.acc_reads.add(acc)

    def tile_read(self, b: LocatedBuilder, tile: SSAValue, *, by_threads: bool = True) -> None:
        """Make a shared tile ready to be read by the threads or by a TMA store, and note that they do."""
        self.issue(b)
        self._land(b, (tile,))
        if tile in self.frame.writes:
            self.sync(b)
        (self.frame.reads if by_threads else self.frame.stored).add(tile)

    def tile_write(self, b: LocatedBuilder, tile: SSAValue) -> None:
        """Make a shared tile ready to be written by the threads, and note that they do."""
        self.issue(b)
        self._land(b, (tile,))
        if tile in self.frame.mma_tiles:
            self.complete(b)
        if tile in self.frame.reads | self.frame.writes | self.frame.stored:
            self.sync(b)
        self.frame.writes.add(tile)

    def before_store(self, b: LocatedBuilder, view: SSAValue) -> None:
        """Make a view ready to be written."""
        self.issue(b)
        self._land(b, (view,))

    def view_write(self, b: LocatedBuilder, view: SSAValue) -> None:
        """Order a store by threads to a view after those before it: other threads may have written the same elements."""
        if view in self.frame.view_writes:
            self.sync(b)

    def view_was_written(self, view: SSAValue) -> None:
        """Note a store by threads, where another may come to the same place."""
        if view in self._rewritten:
            self.frame.view_writes.add(view)

    # Threads meet

    def sync(self, b: LocatedBuilder, *, proxy: bool = False) -> None:
        """All threads meet; what they did in shared and in accumulator memory is ordered before what follows.

        `proxy`: they wrote something else that the async proxy will read.
        """
        if proxy or (self.frame.reads | self.frame.writes) & self._async_tiles:
            b.add(FenceOp("proxy_async"))
        if self.frame.acc_reads:
            b.add(FenceOp("before_thread_sync"))
        b.add(CtaSyncOp())
        self.frame.reads.clear()
        self.frame.writes.clear()
        self.frame.acc_reads.clear()
        self.frame.stored.clear()
        self.frame.view_writes.clear()
        self.frame.apart = False
        self.frame.fence_before_mma = True

    def _fence_after(self, b: LocatedBuilder) -> None:
        b.add(FenceOp("after_thread_sync"))
        self.frame.fence_before_mma = self.frame.fence_before_read = False

    # Blocks

    def before_loop(self, b: LocatedBuilder, touched: set[SSAValue]) -> None:
        """Leave nothing in flight that the loop touches."""
        self.issue(b)
        self.complete(b)
        self._land(b, touched)
        if touched & self.frame.unmet:
            self.sync(b)

    def end_block(self, b: LocatedBuilder) -> None:
        """Leave nothing in flight."""
        self.issue(b)
        self._land(b)
        self.complete(b)
        if self.frame.unmet or self.frame.apart:
            self.sync(b)
