"""L0 to L1: each whole-tile operation becomes the asynchronous operations that do it.

Conversion goes through the program once, in order. `in_flight` knows what still runs and inserts the waits; `dispatch` says
who copies; `stores` writes epilogues. What is left for this file: what a synchronous kernel may hold, the layout of its shared
tiles, its loops, setup and teardown.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects import scf
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import Rewriter

from tilec.backend.target import Target
from tilec.diagnostics import fail
from tilec.dialects.tile import (
    AccType,
    AllocOp,
    CopyOp,
    CtaSyncOp,
    FenceOp,
    ForOp,
    FreeOp,
    KernelOp,
    LoadOp,
    MmaOp,
    SmemType,
    StoreOp,
    ViewType,
    WaitGroupOp,
    YieldOp,
)
from tilec.passes.builder import LocatedBuilder
from tilec.passes.coverage import remark_misfits
from tilec.passes.dispatch import Dispatch, with_layout
from tilec.passes.in_flight import Frame, InFlight
from tilec.passes.overlap import rewritten_views
from tilec.passes.setup import Setup
from tilec.passes.storage import target_of
from tilec.passes.stores import STAGING_SLOTS, Stores, load_acc
from tilec.passes.synchronous import body_of


def convert(kernel: KernelOp, dispatch: Dispatch, staging_slots: int = STAGING_SLOTS) -> None:
    """Make a synchronous kernel asynchronous; results go out through `staging_slots` slots at most."""
    body = body_of(kernel)
    source = body.parent_op()
    assert source is not None
    remark_misfits(body)
    _check_view_hazards(body)
    _lay_out(body)
    _Conversion(target_of(kernel), dispatch, body, source, staging_slots).run()


def _check_view_hazards(body: Block) -> None:
    """Refuse a kernel that reads what it wrote: stores complete late, and nothing here waits for them."""
    written: set[SSAValue] = set()
    for op in body.walk():
        if not isinstance(op, CopyOp):
            continue
        if op.is_load and op.source in written:
            fail(op, "this view is read after the kernel has written to it", hint="load before the first store")
        if not op.is_load:
            written.add(op.dest)
            loop = op.parent_op()
            while isinstance(loop, ForOp):
                for other in loop.walk():
                    if isinstance(other, CopyOp) and other.is_load and other.source is op.dest:
                        fail(other, "this view is read in a loop that also writes to it", hint="load before the loop")
                loop = loop.parent_op()


def _lay_out(body: Block) -> None:
    """Give each shared tile its layout: the order of the view that fills it, else of the view that it goes to."""
    orders: dict[SSAValue, tuple[int, ...]] = {}
    copies = [op for op in body.walk() if isinstance(op, CopyOp)]
    for op in sorted(copies, key=lambda op: not op.is_load):
        view, tile = (op.source, op.dest) if op.is_load else (op.dest, op.source)
        assert isinstance(view.type, ViewType)
        orders.setdefault(tile, view.type.order)
    for op in body.walk():
        if not isinstance(op, AllocOp) or not isinstance(tile := op.res.type, SmemType) or tile.swizzle:
            continue
        laid_out = with_layout(tile.shape, tile.element, orders.get(op.res, tile.order))
        if laid_out is None:
            fail(
                op,
                f"the rows of this shared tile are not a multiple of 16 bytes: {tile.shape} x {tile.dtype.name}",
                hint="widen the dimension that is contiguous in memory",
            )
        Rewriter.replace_value_with_new_type(op.res, laid_out)


def _between_smem(op: CopyOp) -> bool:
    """Whether the copy is one between a view and a shared tile."""
    return isinstance((op.dest if op.is_load else op.source).type, SmemType)


def _async_tiles(body: Block, problems: Mapping[CopyOp, str | None]) -> set[SSAValue]:
    """Shared tiles that MMAs or the TMA engine touch anywhere: around these, threads need a proxy fence."""
    found = {op.dest if op.is_load else op.source for op, problem in problems.items() if problem is None}
    for op in body.walk():
        if isinstance(op, MmaOp):
            found |= {op.a, op.b}
    return found


def _touched(loop: ForOp) -> set[SSAValue]:
    """The storage that a loop uses, and the views that it writes to."""
    return {
        value
        for op in loop.walk()
        for value in op.operands
        if not (isinstance(op, CopyOp) and op.is_load and value is op.source)
    }


class _Conversion:
    """The conversion of one kernel, in place."""

    def __init__(self, target: Target, dispatch: Dispatch, body: Block, source: Operation, staging_slots: int):
        self._target = target
        self._dispatch = dispatch
        self._body = body
        self._source = source
        self._setup = Setup(body, source)
        self._rewritten = rewritten_views(body)
        problems = {op: self._tma_problem(op) for op in body.walk() if isinstance(op, CopyOp) and _between_smem(op)}
        self._flight = InFlight(body, source, self._setup, problems, _async_tiles(body, problems), self._rewritten)
        self._stores = Stores(dispatch, self._setup, self._flight, problems, self._rewritten, staging_slots)

    def _tma_problem(self, op: CopyOp) -> str | None:
        """Why threads do a copy between a view and a shared tile."""
        view, tile = (op.source.type, op.dest.type) if op.is_load else (op.dest.type, op.source.type)
        assert isinstance(view, ViewType) and isinstance(tile, SmemType)
        return self._dispatch.choose(op, view, tile, rewritten=op.dest in self._rewritten)

    def run(self) -> None:
        self._convert_block(self._body)
        end = LocatedBuilder.at_end(self._body, self._source)
        self._flight.end_block(end)
        if self._stores.has_bulk_groups:
            end.single_thread().add(WaitGroupOp(0, read=False))  # no CTA exits before its stores are done
        if self._setup.accs:
            end.add(FenceOp("before_thread_sync"))
            end.add(CtaSyncOp())
            end.add(FenceOp("after_thread_sync"))
            for acc in self._setup.accs:
                assert isinstance(acc.owner, Operation)
                end.of(acc.owner).add(FreeOp(acc))
        self._setup.finish()

    def _convert_block(self, block: Block) -> None:
        for op in list(block.ops):
            b = LocatedBuilder.before(op)
            match op:
                case AllocOp():
                    self._setup.alloc(op, op, op.res.name_hint)
                    if isinstance(op.res.type, AccType):
                        self._flight.define(op.res, self._setup.scalars.flag(False))
                    continue
                case CopyOp() if op.is_load:
                    self._flight.load(op)
                    continue
                case CopyOp():
                    if isinstance(op.source.type, AccType):
                        self._check_acc(op, op.source)
                    self._stores.store(op)
                case MmaOp():
                    self._check_acc(op, op.acc)
                    self._flight.mma(b, op)
                    b.add(MmaOp(op.acc, op.a, op.b, self._flight.read(op.acc)))
                    self._flight.write(op.acc, self._setup.scalars.flag(True))
                case LoadOp() if isinstance(op.source.type, AccType):
                    self._flight.acc_read(b, op.source)
                    loaded = load_acc(b, op.source, self._flight.read(op.source))
                    self._flight.acc_was_read(op.source)
                    loaded.results[0].name_hint = op.res.name_hint
                    op.res.replace_all_uses_with(loaded.results[0])
                case LoadOp():
                    self._flight.tile_read(b, op.source)
                    continue
                case StoreOp():
                    self._flight.tile_write(b, op.dest)
                    continue
                case ForOp():
                    self._convert_loop(b, op)
                case _:  # computations, and the loop's terminator
                    continue
            op.detach()
            op.erase()

    def _check_acc(self, op: Operation, acc: SSAValue) -> None:
        assert isinstance(acc.type, AccType)
        rows, columns = acc.type.shape
        problem = self._target.mma_problem(rows, columns)
        if problem is not None:
            fail(op, f"no MMA computes this accumulator: {problem}", hint="choose other tile sizes: retile(m, n, k)")

    def _convert_loop(self, b: LocatedBuilder, op: ForOp) -> None:
        """`tile.for` to `scf.for`, which carries the phases and flags that its body changes as well."""
        scalars = self._setup.scalars
        self._flight.before_loop(b, _touched(op))
        body = op.body.block
        frame = Frame(body, op)
        self._flight.frames.append(frame)
        self._convert_block(body)
        last = body.last_op
        assert isinstance(last, YieldOp)
        end = LocatedBuilder.before(last)
        self._flight.end_block(end)
        self._flight.frames.pop()
        end.add(scf.YieldOp(*last.values, *(frame.values[key] for key in frame.carried)))
        last.detach()
        last.erase()
        op.body.detach_block(body)
        bounds = scalars.index(0), scalars.dim(op.view, op.dimension), scalars.index(op.step)
        loop = b.add(scf.ForOp(*bounds, [*op.inits, *frame.carried.values()], body))
        for before, after in zip(op.res, loop.res, strict=False):
            after.name_hint = before.name_hint
            before.replace_all_uses_with(after)
        for key, after in zip(frame.carried, loop.res[len(op.inits) :], strict=True):
            after.name_hint = frame.values[key].name_hint if key not in self._setup.accs else "live"
            self._flight.frame.values[key] = after
        self._flight.frame.fence_before_mma = self._flight.frame.fence_before_read = True
