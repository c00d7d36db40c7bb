"""`lower`: asynchronous tile IR (L1) to llvm and nvvm operations of one thread (L2), for the kernel's target."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from xdsl.context import Context
from xdsl.dialects import arith, llvm, scf
from xdsl.dialects.builtin import IntAttr, IntegerType, ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from tilec.backend.target import Target
from tilec.diagnostics import fail
from tilec.dialects import tile
from tilec.passes.lower import barriers, control, copies, registers
from tilec.passes.lower.fragment import Fragment
from tilec.passes.lower.kernel import SMEM_SYMBOL, KernelLowering, Ring, SmemTile
from tilec.passes.lower.kernel import Acc as LoweredAcc
from tilec.passes.lower.tcgen05 import Tcgen05
from tilec.passes.lower.tensor_core import TensorCore
from tilec.passes.lower.wgmma import Wgmma
from tilec.passes.storage import is_commit_only, plan, target_of
from tilec.passes.synchronous import refuse_roles

SMEM_ALIGNMENT = 1024
"""The longest swizzle pattern; the dynamic segment starts on it."""


@dataclass(frozen=True)
class Lower(ModulePass):
    """Lower asynchronous tile kernels (L1) to llvm and nvvm operations of one thread (L2)."""

    name = "lower"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        kernels = [k for k in op.ops if isinstance(k, tile.KernelOp)]
        for kernel in kernels:
            function = _Kernel(kernel).lower()
            op.body.block.insert_op_before(function, kernel)
            kernel.detach()
            kernel.erase()
        if kernels:
            first = op.body.block.first_op
            assert first is not None
            op.body.block.insert_op_before(_dynamic_smem(), first)


def _dynamic_smem() -> llvm.GlobalOp:
    """`.extern .shared .align 1024 .b8 tilec_smem[]`: its size is given at launch."""
    return llvm.GlobalOp(
        llvm.LLVMArrayType(IntAttr(0), IntegerType(8)),
        SMEM_SYMBOL,
        "external",
        addr_space=3,
        alignment=SMEM_ALIGNMENT,
    )


class _Kernel:
    """The walk over one kernel."""

    def __init__(self, kernel: tile.KernelOp):
        refuse_roles(
            kernel,
            "roles are not lowered yet",
            "`tilec run` executes this kernel in the simulator; to compile it, write it without tile.roles",
        )
        self.kernel = kernel
        target = target_of(kernel)
        storage = plan(kernel)
        if storage.total > target.smem_per_cta:
            fail(
                kernel,
                f"the kernel needs {storage.total} bytes of shared memory, a CTA of {target.name} has "
                f"{target.smem_per_cta}",
                hint="use smaller tiles (retile) or fewer stages (pipeline)",
            )
        rows = _rows(kernel, target)
        self.core = _tensor_core(target, rows, len(storage.acc_columns))
        self.k = KernelLowering(kernel, target, storage, target.threads(rows))
        self.flow = control.Flow(self.k, self.core.fragment, self.block)
        self.lowerings = self._table()

    def lower(self) -> llvm.FuncOp:
        for acc in self.k.storage.acc_columns:
            _check_freed(self.kernel, acc)
        self.block(self.kernel.body.block)
        return self.k.finish()

    def block(self, block: Block) -> None:
        for op in block.ops:
            if isinstance(op, scf.YieldOp | scf.ConditionOp):
                return
            self.k.e.location = op.location
            lowering = self.lowerings.get(type(op))
            if lowering is None:
                fail(op, f"{op.name} cannot be lowered", hint=_hint(op))
            self._check(op)
            lowering(op)

    def _check(self, op: Operation) -> None:
        """What holds for many operations alike."""
        for result in op.results:
            if isinstance(result.type, tile.RegType) and (problem := self.core.fragment.problem(result.type)):
                fail(op, problem)
        if isinstance(op, tile.AllocOp | tile.MbarrierInitOp) and not isinstance(
            op.parent_op(), tile.KernelOp | tile.GridOp
        ):
            fail(op, "storage is set up once for a CTA", hint="move it in front of the loops and conditions")
        collective = isinstance(op, _COLLECTIVE) or (isinstance(op, tile.CopyAsyncOp) and op.dispatch == "tmem")
        if self.k.in_single_thread and collective:
            fail(op, f"{op.name} belongs to all threads of its role", hint="move it out of tile.single_thread")

    def _table(self) -> dict[type[Operation], Callable[[Any], None]]:
        k, core, flow, fragment = self.k, self.core, self.flow, self.core.fragment
        table: dict[type[Operation], Callable[[Any], None]] = {
            arith.ConstantOp: lambda op: control.lower_constant(k, op),
            arith.CmpiOp: lambda op: control.lower_compare(k, op),
            arith.SelectOp: lambda op: control.lower_select(k, op),
            arith.CeilDivUIOp: lambda op: control.lower_ceil_divide(k, op),
            arith.IndexCastOp: lambda op: control.lower_index_cast(k, op),
            arith.ExtUIOp: lambda op: control.lower_extend(k, op),
            scf.ForOp: flow.for_,
            scf.IfOp: flow.if_,
            scf.WhileOp: flow.while_,
            tile.GridOp: flow.grid,
            tile.SingleThreadOp: flow.single_thread,
            tile.DimOp: lambda op: control.lower_dim(k, op),
            tile.AssumeOp: lambda op: control.lower_assume(k, op),
            tile.ScheduleOp: lambda op: control.lower_schedule(k, op),
            tile.AllocOp: self._alloc,
            tile.FreeOp: lambda op: core.free(k, op),
            tile.SlotOp: self._slot,
            tile.SliceOp: self._slice,
            tile.CopyAsyncOp: self._copy,
            tile.MmaOp: self._mma,
            tile.CommitOp: lambda op: core.commit(k, op),
            tile.TryWaitOp: self._wait,
            tile.MbarrierInitOp: lambda op: barriers.lower_init(k, op),
            tile.ArriveExpectTxOp: lambda op: barriers.lower_expect_tx(k, op),
            tile.ArriveOp: lambda op: barriers.lower_arrive(k, op),
            tile.CtaSyncOp: lambda op: barriers.lower_cta_sync(k, op),
            tile.FenceOp: lambda op: barriers.lower_fence(k, op),
            tile.CommitGroupOp: lambda op: barriers.lower_commit_group(k, op),
            tile.WaitGroupOp: lambda op: barriers.lower_wait_group(k, op),
            tile.WaitLdOp: lambda op: barriers.lower_wait_ld(k, op),
            tile.LoadOp: lambda op: registers.lower_load(k, fragment, op),
            tile.StoreOp: lambda op: registers.lower_store(k, fragment, op),
            tile.SplatOp: lambda op: registers.lower_splat(k, fragment, op),
            tile.CastOp: lambda op: registers.lower_cast(k, op),
            tile.BroadcastOp: lambda op: registers.lower_broadcast(k, fragment, op),
        }
        for arithmetic in control.ARITHMETIC:
            table[arithmetic] = lambda op: control.lower_arithmetic(k, op)
        for binary in (tile.AddOp, tile.SubOp, tile.MulOp, tile.MaxOp):
            table[binary] = lambda op: registers.lower_binary(k, op)
        return table

    def _alloc(self, op: tile.AllocOp) -> None:
        if isinstance(op.res.type, tile.AccType):
            self.core.alloc(self.k, op)
            return
        block = next(b for b in self.k.storage.tiles if b.value is op.res)
        match op.res.type:
            case tile.RingType() as ring:
                self.k.values[op.res] = Ring(ring, block.offset, block.slot_size)
            case tile.SmemType() as type:
                self.k.values[op.res] = SmemTile(type, block.offset)

    def _slot(self, op: tile.SlotOp) -> None:
        ring = self.k.ring(op.ring)
        e = self.k.e
        offset = e.plus(e.times(self.k.scalar(op.stage), ring.slot_size), ring.offset)
        self.k.values[op.res] = SmemTile(ring.type.slot, offset)

    def _slice(self, op: tile.SliceOp) -> None:
        acc = self.k.acc(op.acc)
        assert isinstance(op.res.type, tile.AccType)
        if op.offsets[1] % 8 or op.res.type.shape[1] % 8:
            fail(op, "a slice of an accumulator starts at and spans a multiple of 8 columns")
        self.k.values[op.res] = LoweredAcc(op.res.type, acc.root, acc.column + op.offsets[1])

    def _copy(self, op: tile.CopyAsyncOp) -> None:
        match op.dispatch:
            case "tma":
                copies.lower_tma(self.k, op)
            case "threads":
                copies.lower_threads(self.k, op)
            case _:
                self.core.load(self.k, op)

    def _mma(self, op: tile.MmaOp) -> None:
        assert isinstance(op.acc.type, tile.AccType)
        if problem := self.k.target.mma_problem(*op.acc.type.shape):
            fail(op, f"no MMA computes this part of an accumulator: {problem}")
        self.core.mma(self.k, op)

    def _wait(self, op: tile.TryWaitOp) -> None:
        if is_commit_only(op.barrier):
            if self.k.in_single_thread:
                fail(op, "a wait for MMAs brings all threads together", hint="move it out of tile.single_thread")
            self.core.wait(self.k, op)
        else:
            barriers.spin(self.k, op.barrier, op.stage, op.phase)


_COLLECTIVE = (tile.LoadOp, tile.StoreOp, tile.WaitLdOp, tile.FreeOp, tile.CommitOp)
"""Operations of all threads of a role; others say so themselves, with more to tell."""


def _check_freed(kernel: tile.KernelOp, acc: SSAValue) -> None:
    """An accumulator is given back once, on every path: behind all else in the block that allocated it."""
    frees = [op for op in kernel.walk() if isinstance(op, tile.FreeOp) and op.acc is acc]
    assert isinstance(acc.owner, Operation)
    if not frees:
        fail(acc, "this accumulator is never given back", hint="end with tile.free")
    if len(frees) > 1:
        fail(frees[1], "this accumulator is given back twice")
    (free,) = frees
    block = acc.owner.parent
    if free.parent is not block or block is None:
        fail(free, "this accumulator is given back on some paths only", hint="move tile.free behind all that uses it")
    for use in _users(acc):
        around = use
        while around.parent is not block:
            parent = around.parent_op()
            assert parent is not None
            around = parent
        if block.get_operation_index(around) > block.get_operation_index(free):
            fail(use, "this accumulator has been given back", hint="move tile.free behind all that uses it")


def _users(acc: SSAValue) -> Iterator[Operation]:
    """Operations that use an accumulator or a part of it."""
    for use in acc.uses:
        yield use.operation
        if isinstance(use.operation, tile.SliceOp):
            yield from _users(use.operation.res)


def _hint(op: Operation) -> str:
    if isinstance(op, tile.CopyOp | tile.ForOp):
        return "it belongs to L0: run `tma` (or `threads`) first"
    return "kernels use the tile, arith and scf operations of docs/dialect.md"


def _rows(kernel: tile.KernelOp, target: Target) -> int:
    """Rows of the kernel's accumulators, or of its register tiles: they decide which thread holds what."""
    rows: int | None = None
    for op in kernel.walk():
        for value in op.results:
            match value.type:
                case tile.AccType() as type if isinstance(op, tile.AllocOp):
                    problem = target.mma_problem(*type.shape)
                    if problem is not None:
                        fail(op, f"no MMA computes this accumulator: {problem}", hint="use retile(m, n, k)")
                case tile.RegType() as type if len(type.shape) == 2:
                    pass
                case _:
                    continue
            if rows is not None and type.shape[0] != rows:
                fail(
                    op, f"tiles of {rows} and of {type.shape[0]} rows in one kernel: its threads hold one kind of rows"
                )
            rows = type.shape[0]
    if rows is not None and rows not in target.mma_m:
        fail(kernel, f"register tiles of {rows} rows: {target.name} spreads {', '.join(map(str, target.mma_m))}")
    return 128 if rows is None else rows


def _tensor_core(target: Target, rows: int, accumulators: int) -> TensorCore[Fragment]:
    if target.mma == "wgmma":
        return Wgmma(rows, target.threads(rows) // 128)
    return Tcgen05(rows, accumulators)
