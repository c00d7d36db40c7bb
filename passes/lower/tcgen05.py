"""sm_100a: accumulators live in tensor memory, one thread issues MMAs, commits arrive on mbarriers."""

from __future__ import annotations

from xdsl.dialects.builtin import f32, i32
from xdsl.ir import SSAValue

from tilec.dialects import nvvm
from tilec.dialects.tile import AccType, AllocOp, CommitOp, CopyAsyncOp, FreeOp, MmaOp, TryWaitOp
from tilec.passes.lower.barriers import barrier_pointer, spin
from tilec.passes.lower.descriptors import instruction_descriptor
from tilec.passes.lower.emit import PTR_TENSOR
from tilec.passes.lower.fragment import Tcgen05Fragment
from tilec.passes.lower.kernel import Acc, KernelLowering, RegTile
from tilec.passes.lower.tensor_core import TensorCore, accumulate_flag, advanced, descriptor, operands

_BLOCK = 128
"""Rows of one MMA, and lanes of tensor memory."""

_LANES_PER_WARP = 32
_LANE_SHIFT = 16
"""A tensor-memory address is lane << 16 | column (PTX ISA 9.7.16.1)."""

_LOAD_COLUMNS = (64, 32, 16, 8, 4, 2, 1)
"""Columns that one tcgen05.ld.32x32b takes, widest first; x128 would leave no registers for anything else."""


class Tcgen05(TensorCore[Tcgen05Fragment]):
    """One allocation holds all accumulators; the first warp makes it and gives it back."""

    def __init__(self, rows: int, accumulators: int):
        self.fragment = Tcgen05Fragment(rows)
        self.to_free = accumulators
        self.base: SSAValue | None = None

    def alloc(self, k: KernelLowering, op: AllocOp) -> None:
        assert isinstance(op.res.type, AccType)
        if self.base is None:
            self.base = self._allocate(k)
        k.values[op.res] = Acc(op.res.type, op.res, 0)

    def _allocate(self, k: KernelLowering) -> SSAValue:
        e = k.e
        assert k.storage.tmem_slot is not None
        slot = k.smem_pointer(k.storage.tmem_slot)

        def body() -> None:
            e.add(nvvm.Tcgen05AllocOp(slot, e.int32(k.storage.tmem_columns)))
            e.add(nvvm.Tcgen05RelinquishAllocPermitOp())

        e.when(k.is_first_warp, body)
        e.add(nvvm.Tcgen05FenceOp(nvvm.Tcgen05Fence.BEFORE))
        k.barrier()
        e.add(nvvm.Tcgen05FenceOp(nvvm.Tcgen05Fence.AFTER))
        return e.load(slot, i32, 4)

    def free(self, k: KernelLowering, op: FreeOp) -> None:
        del op
        self.to_free -= 1
        if self.to_free:
            return
        e = k.e
        e.when(
            k.is_first_warp,
            lambda: e.add(nvvm.Tcgen05DeallocOp(self._pointer(k, 0), e.int32(k.storage.tmem_columns))) and None,
        )

    def _pointer(self, k: KernelLowering, column: int, lanes: SSAValue | None = None) -> SSAValue:
        assert self.base is not None
        address = k.e.plus(self.base, column)
        if lanes is not None:
            address = k.e.plus(address, lanes)
        return k.e.int_to_pointer(address, PTR_TENSOR)

    def _column(self, k: KernelLowering, acc: Acc) -> int:
        return k.storage.acc_columns[acc.root] + acc.column

    def mma(self, k: KernelLowering, op: MmaOp) -> None:
        flag = accumulate_flag(k, op)
        acc = k.acc(op.acc)
        a_tile, a, b_tile, b = operands(k, op)
        assert isinstance(acc.root.type, AccType)
        (m, n), whole = acc.type.shape, acc.root.type.shape[1]
        e = k.e

        def body() -> None:
            a_base = descriptor(k, a_tile, a.tcgen05)
            b_base = descriptor(k, b_tile, b.tcgen05)
            idesc = e.int32(instruction_descriptor(min(m, _BLOCK), n, a, b))
            for block in range(max(m // _BLOCK, 1)):
                d = self._pointer(k, self._column(k, acc) + block * whole)
                for index in range(a.k_steps):
                    e.add(
                        nvvm.Tcgen05MMAOp(
                            d,
                            advanced(k, a_base, a.offset(block * _BLOCK, 0) + a.step(index)),
                            advanced(k, b_base, b.step(index)),
                            idesc,
                            # Only the first step of a tile may overwrite; all others add to it.
                            flag if index == 0 else e.boolean(True),
                            nvvm.Tcgen05MMAKind.F16,
                        )
                    )

        k.by_first_thread(body)

    def commit(self, k: KernelLowering, op: CommitOp) -> None:
        k.by_first_thread(lambda: self._commit(k, op))

    def _commit(self, k: KernelLowering, op: CommitOp) -> None:
        k.e.add(nvvm.Tcgen05CommitOp(barrier_pointer(k, op.barrier, op.stage)))

    def wait(self, k: KernelLowering, op: TryWaitOp) -> None:
        spin(k, op.barrier, op.stage, op.phase)
        k.barrier()

    def load(self, k: KernelLowering, op: CopyAsyncOp) -> None:
        assert op.res is not None
        acc = k.acc(op.source)
        e = k.e
        assert isinstance(acc.root.type, AccType)
        lanes = k.once("lanes of the warp", lambda: e.shifted_left(k.warp, 5 + _LANE_SHIFT))
        whole, n = acc.root.type.shape[1], acc.type.shape[1]
        words: list[SSAValue] = []
        for block in range(max(self.fragment.rows // _BLOCK, 1)):
            at = 0
            while at < n:
                columns = next(c for c in _LOAD_COLUMNS if c <= n - at)
                pointer = self._pointer(k, self._column(k, acc) + block * whole + at, lanes)
                loaded = e.add(nvvm.Tcgen05LdOp(pointer, columns)).res
                parts = [loaded] if columns == 1 else [e.element(loaded, i) for i in range(columns)]
                words += [e.bitcast(part, f32) for part in parts]
                at += columns
        k.values[op.res] = RegTile(tuple(words))
