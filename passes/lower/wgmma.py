"""sm_90a: accumulators are register fragments, MMAs are asynchronous per warpgroup, commits are groups."""

from __future__ import annotations

from xdsl.dialects import llvm
from xdsl.dialects.builtin import IntAttr, f32, i32
from xdsl.ir import SSAValue

from tilec.dialects import nvvm
from tilec.dialects.tile import AccType, AllocOp, CommitOp, CopyAsyncOp, FreeOp, MmaOp, TryWaitOp
from tilec.passes.lower.barriers import arrive
from tilec.passes.lower.fragment import WgmmaFragment
from tilec.passes.lower.kernel import Acc, KernelLowering, RegTile
from tilec.passes.lower.tensor_core import TensorCore, accumulate_flag, advanced, descriptor, operands
from tilec.passes.storage import is_commit_only

_BLOCK = 64
"""Rows of one wgmma."""

_F32_BYTES = 4


class Wgmma(TensorCore[WgmmaFragment]):
    """Each accumulator is an array of f32 on the stack; LLVM's SROA turns it into registers that flow through the loops.

    The inline asm of an MMA, and of the wait that completes it, takes all of the accumulator in and out: nothing else
    tells LLVM that the registers change there.
    """

    def __init__(self, rows: int, groups: int):
        self.fragment = WgmmaFragment(rows, groups)
        self.slots: dict[SSAValue, list[SSAValue]] = {}

    def _registers(self, type: AccType) -> int:
        return self.fragment.blocks * type.shape[1] // 2

    def alloc(self, k: KernelLowering, op: AllocOp) -> None:
        assert isinstance(op.res.type, AccType)
        count, number = self._registers(op.res.type), len(self.slots)
        array = llvm.LLVMArrayType(IntAttr(count), f32)
        slot = k.once(
            f"accumulator {number}", lambda: k.e.add(llvm.AllocaOp(k.e.int32(1), array, alignment=_F32_BYTES)).res
        )
        self.slots[op.res] = [
            k.once(f"accumulator {number} [{i}]", lambda i=i: k.e.offset(slot, _F32_BYTES * i)) for i in range(count)
        ]
        k.values[op.res] = Acc(op.res.type, op.res, 0)

    def free(self, k: KernelLowering, op: FreeOp) -> None:
        """Registers need no giving back."""

    def _through_asm(
        self, k: KernelLowering, root: SSAValue, text: str, operands: list[SSAValue], constraints: list[str]
    ) -> None:
        """Run `text` with the whole accumulator as its outputs $0, $1, ... and as inputs tied to them."""
        e = k.e
        slots = self.slots[root]
        tied = [e.load(slot, f32, _F32_BYTES) for slot in slots]
        ties = [str(i) for i in range(len(slots))]
        constraint = ",".join(["=f"] * len(slots) + constraints + ties + ["~{memory}"])
        result = e.asm(
            text, constraint, [*operands, *tied], llvm.LLVMStructType.from_type_list([f32] * len(slots)), effects=True
        )
        assert result is not None
        for i, slot in enumerate(slots):
            e.store(e.member(result, i, f32), slot, _F32_BYTES)

    def mma(self, k: KernelLowering, op: MmaOp) -> None:
        e = k.e
        flag = e.extended(accumulate_flag(k, op), i32)
        acc = k.acc(op.acc)
        a_tile, a, b_tile, b = operands(k, op)
        assert isinstance(acc.root.type, AccType)
        n, whole = acc.type.shape[1], acc.root.type.shape[1]
        count = self._registers(acc.root.type)
        inputs: list[SSAValue] = []
        first = count

        def operand(value: SSAValue) -> str:
            inputs.append(value)
            return f"${first + len(inputs) - 1}"

        rows = k.once("rows of the warpgroup", lambda: e.times(k.warpgroup, self.fragment.blocks))
        a_base = descriptor(k, a_tile, a.wgmma, e.times(rows, a.offset(_BLOCK, 0)))
        b_base = descriptor(k, b_tile, b.wgmma)
        b_steps = [operand(advanced(k, b_base, b.step(i))) for i in range(b.k_steps)]
        lines = ["wgmma.fence.sync.aligned;"]
        for block in range(self.fragment.blocks):
            start = (block * whole + acc.column) // 2
            registers = ", ".join(f"${i}" for i in range(start, start + n // 2))
            for index in range(a.k_steps):
                a_step = operand(advanced(k, a_base, a.offset(block * _BLOCK, 0) + a.step(index)))
                # Only the first step of a tile may overwrite; all others add to it.
                scale = "p" if index == 0 else "1"
                lines.append(
                    f"wgmma.mma_async.sync.aligned.m64n{n}k{a.type.dtype.mma_k}.f32.{a.type.dtype.name}."
                    f"{a.type.dtype.name} {{{registers}}}, {a_step}, {b_steps[index]}, {scale}, 1, 1, "
                    f"{int(a.mn_major)}, {int(b.mn_major)};"
                )
        constraints = ["l"] * len(inputs) + ["r"]
        predicate = operand(flag)
        body = "\n".join(lines)
        text = f"{{\n.reg .pred p;\nsetp.ne.b32 p, {predicate}, 0;\n{body}\n}}"
        self._through_asm(k, acc.root, text, inputs, constraints)

    def commit(self, k: KernelLowering, op: CommitOp) -> None:
        """A group; where others arrive on the barrier too, the role waits here and arrives for all its MMAs."""
        k.e.add(nvvm.WgmmaGroupSyncAlignedOp())
        if not is_commit_only(op.barrier):
            self._drain(k)
            k.by_first_thread(lambda: arrive(k, op.barrier, op.stage))

    def _drain(self, k: KernelLowering) -> None:
        """All MMAs are complete, for all threads of the role."""
        for root in self.slots:
            self._through_asm(k, root, "wgmma.wait_group.sync.aligned 0;", [], [])
        k.barrier()

    def wait(self, k: KernelLowering, op: TryWaitOp) -> None:
        if op.outstanding:
            # The accumulators stay in flight: nothing may touch them here.
            k.e.add(nvvm.WgmmaWaitGroupSyncOp(op.outstanding))
            k.barrier()
        else:
            self._drain(k)

    def load(self, k: KernelLowering, op: CopyAsyncOp) -> None:
        assert op.res is not None
        acc = k.acc(op.source)
        e = k.e
        slots = self.slots[acc.root]
        assert isinstance(acc.root.type, AccType)
        whole, count = acc.root.type.shape[1], acc.type.shape[1] // 2
        words: list[SSAValue] = []
        for block in range(self.fragment.blocks):
            start = (block * whole + acc.column) // 2
            words += [e.load(slot, f32, _F32_BYTES) for slot in slots[start : start + count]]
        k.values[op.res] = RegTile(tuple(words))
