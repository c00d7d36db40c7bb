"""Every row that `tilec.backend.selection` admits becomes PTX, and ptxas takes it.

LLVM ends its process where it cannot select, so rows are compiled in children, many at a time; when a child dies, the batch
is halved until the row that kills it is named.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pytest
from xdsl.dialects import llvm
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    IntAttr,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    UnitAttr,
    VectorType,
    bf16,
    f16,
    f32,
    f64,
    i1,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tilec.backend.llvm_ir import to_llvm
from tilec.backend.ptx import emit_ptx
from tilec.backend.ptxas import PtxasError, assemble, find_ptxas
from tilec.backend.selection import Row, rows
from tilec.backend.target import TARGETS
from tilec.dialects import nvvm

PTR_PARAM = llvm.LLVMPointerType(IntAttr(101))
SCALARS: dict[str, Attribute] = {
    t.name if not isinstance(t, IntegerType) else f"i{t.width.data}": t
    for t in (i1, i8, i16, i32, i64, f16, bf16, f32, f64)
}
CLASSES = {op.name: op for op in (*nvvm.LLVM.operations, *nvvm.NVVM.operations)}
GROUPS: list[dict[str, Attribute]] = [{"group": nvvm.CTAGroupAttr(group)} for group in nvvm.CTAGroup]
VARIANTS: dict[str, list[dict[str, Attribute]]] = {
    "llvm.icmp": [{"predicate": IntegerAttr(n, i64)} for n in range(10)],
    "llvm.fcmp": [{"predicate": IntegerAttr(n, i64)} for n in range(1, 15)],
    "nvvm.fence.proxy": [
        *({"kind": nvvm.ProxyKindAttr(kind)} for kind in list(nvvm.ProxyKind)[:3]),
        *(
            {"kind": nvvm.ProxyKindAttr(nvvm.ProxyKind.ASYNC_SHARED), "space": nvvm.SharedSpaceAttr(space)}
            for space in nvvm.SharedSpace
        ),
    ],
    "nvvm.cp.async.bulk.wait_group": [
        {"group": IntegerAttr(n, i32), **r} for n in (0, 3) for r in ({}, {"read": UnitAttr()})
    ],
    "nvvm.prefetch": [{"tensormap": UnitAttr()}, {"tensormap": UnitAttr(), "in_param_space": UnitAttr()}],
    "nvvm.stmatrix": [
        {
            "layout": nvvm.MMALayoutAttr(layout),
            "shape": nvvm.LdStMatrixShapeAttr(8, 8),
            "eltType": nvvm.LdStMatrixEltTypeAttr(nvvm.LdStMatrixEltType.B16),
        }
        for layout in nvvm.MMALayout
    ],
    "nvvm.wgmma.wait.group.sync.aligned": [{"group": IntegerAttr(n, i64)} for n in range(8)],
    "nvvm.tcgen05.alloc": GROUPS,
    "nvvm.tcgen05.dealloc": GROUPS,
    "nvvm.tcgen05.relinquish_alloc_permit": GROUPS,
    "nvvm.tcgen05.commit": GROUPS,
    "nvvm.tcgen05.fence": [{"kind": nvvm.Tcgen05FenceAttr(kind)} for kind in nvvm.Tcgen05Fence],
    "nvvm.tcgen05.wait": [{"kind": nvvm.Tcgen05WaitAttr(kind)} for kind in nvvm.Tcgen05Wait],
    "nvvm.tcgen05.ld": [
        {"shape": nvvm.Tcgen05LdStShapeAttr(shape), **pack}
        for shape in nvvm.Tcgen05LdStShape
        for pack in ({}, {"pack": UnitAttr()})
    ],
    "nvvm.tcgen05.mma": [
        {
            "kind": nvvm.Tcgen05MMAKindAttr(kind),
            "ctaGroup": nvvm.CTAGroupAttr(group),
            "collectorOp": nvvm.Tcgen05MMACollectorOpAttr(collector),
        }
        for kind in nvvm.Tcgen05MMAKind
        for group in nvvm.CTAGroup
        for collector in nvvm.Tcgen05MMACollectorOp
    ],
    "nvvm.cp.async.bulk.tensor.shared.cluster.global": [{}, *GROUPS],
}
"""Attributes that choose the instruction; one compilation each."""


@dataclass(frozen=True)
class Case:
    row: Row
    properties: dict[str, Attribute]

    def __str__(self) -> str:
        properties = ", ".join(f"{name} = {value}" for name, value in self.properties.items())
        return f"{self.row.name} {self.row.operands} -> {self.row.results} {{{properties}}}"


def cases(target: str) -> list[Case]:
    found: list[Case] = []
    for row in rows():
        if target in row.targets:
            found += [Case(row, p) for p in VARIANTS.get(row.name, [{}]) if _exists(row, p, target)]
    return found


def _exists(row: Row, properties: dict[str, Attribute], target: str) -> bool:
    """Combinations that the dialect's own verifier or the target rules out."""
    if row.name == "nvvm.tcgen05.ld":
        shape = properties["shape"]
        assert isinstance(shape, nvvm.Tcgen05LdStShapeAttr)
        count = 1 if row.results[0] == "i32" else int(row.results[0][1:-3])
        offset = len(row.operands) == 2
        return count in nvvm.TCGEN05_LD_REGISTERS[shape.data] and offset == (
            shape.data is nvvm.Tcgen05LdStShape.S16X32BX2
        )
    if row.name == "nvvm.cp.async.bulk.tensor.shared.cluster.global" and "group" in properties:
        return target == "sm_100a" and row.operands[0] == "p7"
    return True


def parse(kind: str) -> Attribute:
    """The inverse of `spell`."""
    if kind.startswith("{"):
        return llvm.LLVMStructType.from_type_list([parse(k) for k in kind[1:-1].split(",")])
    if kind in SCALARS:
        return SCALARS[kind]
    if kind == "p0":
        return llvm.LLVMPointerType()
    if kind.startswith("p"):
        return llvm.LLVMPointerType(IntAttr(int(kind[1:])))
    digits = 2 if kind[1:3].isdigit() else 1
    digits = 3 if kind[1:4].isdigit() else digits
    return VectorType(parse(kind[1 + digits :]), [int(kind[1 : 1 + digits])])


def _dictionaries(attributes: Sequence[dict[str, Attribute]]) -> ArrayAttr[DictionaryAttr]:
    return ArrayAttr([DictionaryAttr(each) for each in attributes])


class Kernel:
    """A kernel around one operation: operands come from memory, so that nothing folds; results go back to it."""

    def __init__(self, name: str, case: Case):
        self.block = Block(arg_types=[nvvm.PTR, nvvm.PTR_GLOBAL])
        self.tensor_map, self.memory = self.block.args
        op = self.make(case)
        if case.row.name == "nvvm.wgmma.commit.group.sync.aligned":
            self.block.add_op(nvvm.WgmmaWaitGroupSyncOp(0))
        for result in op.results:
            self.keep(result)
        self.block.add_op(llvm.ReturnOp())
        map_attributes: dict[str, Attribute] = {
            "llvm.byval": llvm.LLVMArrayType(128, i8),
            "llvm.align": IntegerAttr(64, i64),
            "nvvm.grid_constant": UnitAttr(),
        }
        self.function = llvm.FuncOp(
            name,
            llvm.LLVMFunctionType([nvvm.PTR, nvvm.PTR_GLOBAL]),
            llvm.LinkageAttr("external"),
            body=Region(self.block),
            other_props={"arg_attrs": _dictionaries([map_attributes, {}])},
            extra_attrs={
                "nvvm.kernel": UnitAttr(),
                "nvvm.reqntid": DenseArrayBase.from_list(i32, [128]),
                "nvvm.minctasm": IntegerAttr(1, i32),
            },
        )

    def add(self, op: Operation) -> SSAValue:
        self.block.add_op(op)
        return op.results[0]

    def load(self, kind: Attribute) -> SSAValue:
        return self.add(llvm.LoadOp(self.memory, kind, 16))

    def operand(self, kind: str) -> SSAValue:
        if kind.endswith("!"):
            # 40 is a legal register count for setmaxnreg and a legal column offset.
            bits = int(kind[1:-1])
            return self.add(llvm.ConstantOp(IntegerAttr(1 if bits == 1 else 40, bits), parse(kind[:-1])))
        if kind == "i1":
            return self.add(llvm.TruncOp(self.load(i8), i1))
        if kind == "p0":
            return self.tensor_map
        if kind == "p1":
            return self.memory
        if kind == "p101":
            return self.add(nvvm.AddrSpaceCastOp(self.tensor_map, PTR_PARAM))
        if kind.startswith("p"):
            return self.add(llvm.IntToPtrOp.create(operands=[self.load(i32)], result_types=[parse(kind)]))
        return self.load(parse(kind))

    def make(self, case: Case) -> Operation:
        row = case.row
        values = [self.operand(kind) for kind in row.operands]
        results = [parse(kind) for kind in row.results]
        if row.name == "nvvm.wgmma.commit.group.sync.aligned":
            self.wgmma()  # ptxas complains of an empty group
        op = self.build(case, values, results)
        self.block.add_op(op)
        return op

    def wgmma(self) -> None:
        registers = llvm.LLVMStructType.from_type_list([f32] * 4)
        accumulators = [self.load(f32) for _ in range(4)]
        descriptor = self.load(i64)
        text = "wgmma.fence.sync.aligned; wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {$0, $1, $2, $3}, $4, $5, 1, 1, 1, 0, 0;"
        operands = [descriptor, descriptor, *accumulators]
        constraints = "=f,=f,=f,=f,l,l,0,1,2,3,~{memory}"
        self.add(llvm.InlineAsmOp(text, constraints, operands, [registers], has_side_effects=True))

    def build(self, case: Case, values: list[SSAValue], results: list[Attribute]) -> Operation:
        row = case.row
        if row.name.startswith("llvm.") and row.name not in CLASSES:
            return llvm.CallIntrinsicOp(row.name, values, results)
        match row.name:
            case "nvvm.barrier":
                return nvvm.BarrierOp(*values)
            case "nvvm.cp.async.bulk.tensor.shared.cluster.global":
                rank = row.operands[:7].count("i32")
                rest = dict(zip(row.operands[3 + rank :], values[3 + rank :], strict=True))
                group = case.properties.get("group")
                return nvvm.CpAsyncBulkTensorGlobalToSharedClusterOp(
                    values[0],
                    values[1],
                    values[2 : 2 + rank],
                    values[2 + rank],
                    multicast_mask=rest.get("i16"),
                    l2_cache_hint=rest.get("i64"),
                    cta_only=row.operands[0] == "p3",
                    group=group.data if isinstance(group, nvvm.CTAGroupAttr) else None,
                )
            case "nvvm.cp.async.bulk.tensor.global.shared.cta":
                hint = values.pop() if row.operands[-1] == "i64" else None
                return nvvm.CpAsyncBulkTensorSharedCTAToGlobalOp(values[0], values[1], values[2:], l2_cache_hint=hint)
            case "llvm.shufflevector":
                length = int(row.results[0][1])
                mask = DenseArrayBase.from_list(
                    i32, [(n * 3 + 1) % (2 * int(row.operands[0][1])) for n in range(length)]
                )
                return llvm.ShuffleVectorOp(values[0], values[1], mask, results[0])
            case _:
                return CLASSES[row.name].create(operands=values, result_types=results, properties=case.properties)

    def keep(self, value: SSAValue) -> None:
        kind = value.type
        if isinstance(kind, llvm.LLVMStructType):
            for index, element in enumerate(kind.types):
                self.keep(self.add(llvm.ExtractValueOp(DenseArrayBase.from_list(i64, [index]), value, element)))
        elif kind == i1:
            self.keep(self.add(llvm.ZExtOp(value, i32)))
        elif kind == PTR_PARAM:
            self.keep(self.add(llvm.LoadOp(value, i32, 4)))
        elif isinstance(kind, llvm.LLVMPointerType):
            self.keep(self.add(llvm.PtrToIntOp(value, i64)))
        else:
            self.block.add_op(llvm.StoreOp(value, self.memory, 16))


def compile_cases(target: str, chosen: Sequence[int]) -> str:
    """PTX of the module that has one kernel a case."""
    every = cases(target)
    module = ModuleOp([Kernel(f"k{index}", every[index]).function for index in chosen])
    module.verify()
    return emit_ptx(to_llvm(module, TARGETS[target]), TARGETS[target])


def in_child(target: str, chosen: Sequence[int]) -> tuple[str | None, str]:
    """PTX, or None and what the child said."""
    done = subprocess.run(
        [sys.executable, __file__, target, json.dumps(list(chosen))], capture_output=True, text=True, timeout=600
    )
    return (done.stdout if done.returncode == 0 else None), f"exit status {done.returncode}: {done.stderr[-2000:]}"


def complaints(
    target: str, chosen: Sequence[int], attempt: Callable[[str, Sequence[int]], str | None]
) -> Iterator[str]:
    """The cases of `chosen` that fail on their own, with the reason."""
    problem = attempt(target, chosen)
    if problem is None:
        return
    if len(chosen) == 1:
        yield f"{cases(target)[chosen[0]]}: {problem}"
        return
    middle = len(chosen) // 2
    yield from complaints(target, chosen[:middle], attempt)
    yield from complaints(target, chosen[middle:], attempt)


def attempt(target: str, chosen: Sequence[int]) -> str | None:
    ptx, said = in_child(target, chosen)
    if ptx is None:
        return said
    if find_ptxas() is None:
        return None
    try:
        assemble(ptx, TARGETS[target], timeout=300)
    except PtxasError as error:
        return str(error)
    return None


BATCHES = 8


@pytest.mark.parametrize("batch", range(BATCHES))
@pytest.mark.parametrize("target", TARGETS)
def test_every_row_selects_and_assembles(target: str, batch: int) -> None:
    chosen = range(batch, len(cases(target)), BATCHES)
    assert list(complaints(target, chosen, attempt)) == []


if __name__ == "__main__":
    print(compile_cases(sys.argv[1], json.loads(sys.argv[2])))
