"""Which operations LLVM's NVPTX back end is known to select, for which types, on which target.

LLVM ends the process ("Cannot select", exit status -6) where it meets an operation that it has no instruction for. So L2
is checked first: what is not in the tables here is a `CodegenError`. A row says only that it has been seen to select:
``tests/backend/test_codegen_fuzz.py`` compiles and assembles every one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

from xdsl.dialects import llvm
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntAttr,
    IntegerType,
    ModuleOp,
    VectorType,
)
from xdsl.ir import Attribute, Operation
from xdsl.traits import SymbolTable

from tilec.backend.target import TARGETS, Target
from tilec.diagnostics import TilecError, calls_to, location_of
from tilec.dialects import nvvm
from tilec.dialects.tile.names import RULE, is_identifier

ALL = frozenset(TARGETS)
HOPPER = frozenset({"sm_90a"})
BLACKWELL = frozenset({"sm_100a"})


class CodegenError(TilecError):
    """L2 holds something that is not known to become PTX."""


@dataclass(frozen=True)
class Row:
    """An operation (or an intrinsic, by its name) on these types. Types are spelled as `spell` does.

    ``i32!`` is an operand that has to be an ``llvm.mlir.constant``.
    """

    name: str
    operands: tuple[str, ...]
    results: tuple[str, ...]
    targets: frozenset[str] = ALL


def spell(kind: Attribute) -> str:
    """A short name: i32, bf16, p3 (pointer to address space 3), v4i32, {i32,i1}, [8 x f32]."""
    known = _spelled.get(id(kind))
    if known is None or known[0] is not kind:
        if len(_spelled) >= _MAX_SPELLED:
            _spelled.clear()
        known = _spelled[id(kind)] = (kind, _spell(kind))
    return known[1]


_MAX_SPELLED = 4096
_spelled: dict[int, tuple[Attribute, str]] = {}
"""By identity: the hash of a struct of 64 registers goes through all of them, and a kernel names it a hundred times."""


def _spell(kind: Attribute) -> str:
    match kind:
        case IntegerType():
            return f"i{kind.width.data}"
        case Float16Type() | Float32Type() | Float64Type() | BFloat16Type():
            return kind.name
        case llvm.LLVMPointerType():
            return f"p{kind.addr_space.data if isinstance(kind.addr_space, IntAttr) else 0}"
        case VectorType():
            return f"v{'x'.join(map(str, kind.get_shape()))}{spell(kind.element_type)}"
        case llvm.LLVMStructType():
            return "{" + ",".join(map(spell, kind.types.data)) + "}"
        case llvm.LLVMArrayType():
            return f"[{kind.size.data} x {spell(kind.type)}]"
        case _:
            return str(kind)


# The tables

INTEGERS = ("i8", "i16", "i32", "i64")
FLOATS = ("f16", "bf16", "f32", "f64")
BITS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "f16": 16, "bf16": 16, "f32": 32, "f64": 64}
POINTERS = ("p0", "p1", "p3", "p5", "p6", "p7", "p101")
VECTORS = (
    *(f"v{n}{kind}" for n in (2, 4) for kind in ("i16", "f16", "bf16", "i32", "f32", "i64")),
    *(f"v8{kind}" for kind in ("i16", "f16", "bf16")),
    *(f"v{n}i32" for n in (8, 16, 32, 64, 128)),
)
VALUES = (*BITS, *POINTERS, *VECTORS)
"""Types of values that may live in registers, and in structs and arrays."""
PACKED = ("v2f16", "v2bf16")

_MEMORY = ("i8", "i16", "i32", "i64", *FLOATS, "p0", "p1", "p3", "p6", *VECTORS)
_LOADED_FROM = ("p0", "p1", "p3", "p5", "p101")
_STORED_TO = ("p0", "p1", "p3", "p5")


def _bits(kind: str) -> int:
    found = re.fullmatch(r"v(\d+)(\w+)", kind)
    return BITS[kind] if found is None else int(found[1]) * BITS[found[2]]


def _rows() -> Iterator[Row]:
    for name in ("add", "sub", "mul", "udiv", "sdiv", "urem", "srem", "shl", "lshr", "ashr"):
        yield from (Row(f"llvm.{name}", (kind, kind), (kind,)) for kind in INTEGERS)
    for name, kind in product(("and", "or", "xor"), ("i1", *INTEGERS)):
        yield Row(f"llvm.{name}", (kind, kind), (kind,))
    for kind in ("i1", *INTEGERS):
        yield Row("llvm.icmp", (kind, kind), ("i1",))
    for kind in FLOATS:
        yield Row("llvm.fcmp", (kind, kind), ("i1",))
    for name, kind in product(("fadd", "fsub", "fmul"), (*FLOATS, *PACKED)):
        yield Row(f"llvm.{name}", (kind, kind), (kind,))
    for kind in FLOATS:
        yield Row("llvm.fdiv", (kind, kind), (kind,))
    for kind in (*FLOATS, *PACKED):
        yield Row("llvm.fneg", (kind,), (kind,))
        yield Row("llvm.intr.fabs", (kind,), (kind,))
        yield Row("llvm.intr.fma", (kind, kind, kind), (kind,))
        yield Row("llvm.intr.maxnum", (kind, kind), (kind,))
        yield Row("llvm.intr.minnum", (kind, kind), (kind,))
    for kind in FLOATS:
        yield Row("llvm.intr.floor", (kind,), (kind,))
        yield Row("llvm.intr.ceil", (kind,), (kind,))
        yield Row("llvm.intr.copysign", (kind, kind), (kind,))
    for kind in ("f32", "f64"):
        yield Row("llvm.intr.sqrt", (kind,), (kind,))
    yield Row("llvm.intr.exp2", ("f32",), ("f32",))

    widths = ("i1", *INTEGERS)
    for narrow, wide in ((a, b) for a, b in product(widths, widths) if BITS[a] < BITS[b]):
        yield Row("llvm.zext", (narrow,), (wide,))
        yield Row("llvm.sext", (narrow,), (wide,))
        yield Row("llvm.trunc", (wide,), (narrow,))
    for narrow, wide in (("f16", "f32"), ("bf16", "f32"), ("f16", "f64"), ("bf16", "f64"), ("f32", "f64")):
        yield Row("llvm.fpext", (narrow,), (wide,))
        yield Row("llvm.fptrunc", (wide,), (narrow,))
    for narrow, wide in (("v2f16", "v2f32"), ("v2bf16", "v2f32")):
        yield Row("llvm.fpext", (narrow,), (wide,))
        yield Row("llvm.fptrunc", (wide,), (narrow,))
    for whole, fraction in product(("i8", "i16", "i32", "i64"), FLOATS):
        yield Row("llvm.sitofp", (whole,), (fraction,))
    castable = (*(k for k in BITS if k not in ("i1", "i8")), *(k for k in VECTORS if _bits(k) <= 128))
    for a, b in product(castable, castable):
        if a != b and _bits(a) == _bits(b):
            yield Row("llvm.bitcast", (a,), (b,))
    for pointer, whole in product(("p0", "p1", "p3", "p5", "p6", "p7"), ("i32", "i64")):
        yield Row("llvm.ptrtoint", (pointer,), (whole,))
        yield Row("llvm.inttoptr", (whole,), (pointer,))
    for a, b in (
        ("p3", "p7"),
        ("p3", "p0"),
        ("p0", "p3"),
        ("p1", "p0"),
        ("p0", "p1"),
        ("p0", "p101"),
        ("p101", "p0"),
        ("p5", "p0"),
    ):
        yield Row("llvm.addrspacecast", (a,), (b,))
    for kind in (*BITS, "p0", "p1", "p3", "p6", "p7", *VECTORS):
        yield Row("llvm.select", ("i1", kind, kind), (kind,))

    for pointer, kind in product(_LOADED_FROM, _MEMORY):
        yield Row("llvm.load", (pointer,), (kind,))
    for pointer, kind in product(_STORED_TO, _MEMORY):
        yield Row("llvm.store", (kind, pointer), ())
    for vector in VECTORS:
        found = re.fullmatch(r"v\d+(\w+)", vector)
        assert found is not None
        yield Row("llvm.extractelement", (vector, "i32"), (found[1],))
        yield Row("llvm.insertelement", (vector, found[1], "i32"), (vector,))
    for kind in ("i16", "f16", "bf16", "i32", "f32"):
        for a, b in product((2, 4), (2, 4)):
            yield Row("llvm.shufflevector", (f"v{a}{kind}", f"v{a}{kind}"), (f"v{b}{kind}",))

    for register in ("tid.x", "ctaid.x", "nctaid.x", "laneid"):
        yield Row(f"nvvm.read.ptx.sreg.{register}", (), ("i32",))
    for operands in ((), ("i32",), ("i32", "i32")):
        yield Row("nvvm.barrier", operands, ())
    yield Row("nvvm.bar.warp.sync", ("i32",), ())
    for operands in ((), ("i32",)):
        yield Row("nvvm.elect.sync", operands, ("i1",))
    yield Row("nvvm.mbarrier.init", ("p3", "i32"), ())
    yield Row("nvvm.mbarrier.inval", ("p3",), ())
    yield Row("nvvm.mbarrier.arrive", ("p3",), ("i64",))
    yield Row("nvvm.mbarrier.arrive.expect_tx", ("p3", "i32"), ())
    yield Row("nvvm.mbarrier.try_wait.parity", ("p3", "i32", "i32"), ())
    yield Row("nvvm.mbarrier.try_wait", ("p3", "i32"), ("i1",))
    yield Row("nvvm.fence.mbarrier.init", (), ())
    yield Row("nvvm.fence.proxy", (), ())
    for rank, mask, hint in product(range(1, 6), ((), ("i16",)), ((), ("i64",))):
        box = ("i32",) * rank
        yield Row("nvvm.cp.async.bulk.tensor.shared.cluster.global", ("p7", "p0", *box, "p3", *mask, *hint), ())
        if not mask:
            yield Row("nvvm.cp.async.bulk.tensor.global.shared.cta", ("p0", "p3", *box, *hint), ())
            # The form that writes to shared::cta came with PTX 8.6.
            yield Row("nvvm.cp.async.bulk.tensor.shared.cluster.global", ("p3", "p0", *box, "p3", *hint), (), BLACKWELL)
    yield Row("nvvm.cp.async.bulk.commit.group", (), ())
    yield Row("nvvm.cp.async.bulk.wait_group", (), ())
    yield Row("nvvm.prefetch", ("p0",), ())
    for count in (1, 2, 4):
        yield Row("nvvm.stmatrix", ("p3", *("i32",) * count), ())
    for name in ("fence.aligned", "commit.group.sync.aligned", "wait.group.sync.aligned"):
        yield Row(f"nvvm.wgmma.{name}", (), (), HOPPER)
    yield Row("nvvm.tcgen05.alloc", ("p3", "i32"), (), BLACKWELL)
    yield Row("nvvm.tcgen05.dealloc", ("p6", "i32"), (), BLACKWELL)
    for name in ("relinquish_alloc_permit", "fence", "wait"):
        yield Row(f"nvvm.tcgen05.{name}", (), (), BLACKWELL)
    for mask in ((), ("i16",)):
        yield Row("nvvm.tcgen05.commit", ("p3", *mask), (), BLACKWELL)
    for count, offset in product((1, 2, 4, 8, 16, 32, 64, 128), ((), ("i64!",))):
        result = "i32" if count == 1 else f"v{count}i32"
        yield Row("nvvm.tcgen05.ld", ("p6", *offset), (result,), BLACKWELL)
    for a in ("i64", "p6"):
        yield Row("nvvm.tcgen05.mma", ("p6", a, "i64", "i32", "i1"), (), BLACKWELL)

    for name, signature, targets in _INTRINSICS:
        result, args = signature.removesuffix(")").split("(")
        operands = tuple(filter(None, args.split(",")))
        yield Row(name, operands, () if result == "void" else (result,), targets)


def _overloaded(names: str, kinds: Sequence[str], arity: int) -> Iterator[tuple[str, str, frozenset[str]]]:
    for name, kind in product(names.split(), kinds):
        yield f"llvm.{name}.{kind}", f"{kind}({','.join([kind] * arity)})", ALL


_INTRINSICS: tuple[tuple[str, str, frozenset[str]], ...] = (
    *_overloaded("smin smax umin umax", ("i16", "i32", "i64"), 2),
    *_overloaded("maxnum minnum maximum minimum", (*FLOATS[:3], *PACKED), 2),
    *_overloaded("fma", (*FLOATS, *PACKED), 3),
    *_overloaded("fabs", (*FLOATS, *PACKED), 1),
    *_overloaded("sqrt floor ceil trunc rint nearbyint", ("f32", "f64"), 1),
    *_overloaded("exp2", ("f32",), 1),
    *_overloaded("fshl fshr", ("i32",), 3),
    *_overloaded("ctpop bitreverse bswap", ("i32", "i64"), 1),
    *((f"llvm.{name}.i32", "i32(i32,i1!)", ALL) for name in ("ctlz", "cttz", "abs")),
    *(
        (f"llvm.nvvm.read.ptx.sreg.{name}", "i32()", ALL)
        for name in (
            *(f"{register}.{axis}" for register in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"),
            *("laneid", "warpid", "smid", "clusterid.x", "cluster.ctaid.x", "cluster.ctarank", "cluster.nctarank"),
        )
    ),
    *((f"llvm.nvvm.{name}", "f32(f32)", ALL) for name in ("rcp.approx.ftz.f", "rsqrt.approx.f", "sqrt.approx.f")),
    *((f"llvm.nvvm.{name}", "f32(f32)", ALL) for name in ("ex2.approx.f", "ex2.approx.ftz.f", "lg2.approx.f")),
    ("llvm.nvvm.ff2f16x2.rn", "v2f16(f32,f32)", ALL),
    ("llvm.nvvm.ff2bf16x2.rn", "v2bf16(f32,f32)", ALL),
    ("llvm.nvvm.prmt", "i32(i32,i32,i32)", ALL),
    *(
        (f"llvm.nvvm.shfl.sync.{mode}.{kind}", f"{value}(i32,{value},i32,i32)", ALL)
        for mode in ("bfly", "down", "up", "idx")
        for kind, value in (("i32", "i32"), ("f32", "f32"))
    ),
    *((f"llvm.nvvm.redux.sync.{name}", "i32(i32,i32)", ALL) for name in ("add", "max", "min", "umax", "umin")),
    ("llvm.nvvm.bar.warp.sync", "void(i32)", ALL),
    ("llvm.nvvm.barrier.cta.sync.aligned.all", "void(i32)", ALL),
    ("llvm.nvvm.barrier.cta.sync.aligned.count", "void(i32,i32)", ALL),
    ("llvm.nvvm.barrier.cta.arrive.aligned.count", "void(i32,i32)", ALL),
    ("llvm.nvvm.elect.sync", "{i32,i1}(i32)", ALL),
    ("llvm.nvvm.nanosleep", "void(i32)", ALL),
    ("llvm.nvvm.mbarrier.arrive.scope.cta.space.cta", "i64(p3,i32)", ALL),
    ("llvm.nvvm.mbarrier.arrive.scope.cluster.space.cluster", "void(p7,i32)", ALL),
    ("llvm.nvvm.mbarrier.arrive.expect.tx.scope.cta.space.cta", "i64(p3,i32)", ALL),
    ("llvm.nvvm.mbarrier.arrive.expect.tx.scope.cluster.space.cluster", "void(p7,i32)", ALL),
    ("llvm.nvvm.mbarrier.expect.tx.scope.cta.space.cta", "void(p3,i32)", ALL),
    ("llvm.nvvm.mbarrier.complete.tx.scope.cta.space.cta", "void(p3,i32)", ALL),
    ("llvm.nvvm.mbarrier.test.wait.parity.scope.cta.space.cta", "i1(p3,i32)", ALL),
    ("llvm.nvvm.mbarrier.try.wait.parity.scope.cta.space.cta", "i1(p3,i32)", ALL),
    ("llvm.nvvm.mbarrier.try.wait.parity.tl.scope.cta.space.cta", "i1(p3,i32,i32)", ALL),
    ("llvm.nvvm.mbarrier.try.wait.parity.scope.cluster.space.cta", "i1(p3,i32)", ALL),
    ("llvm.nvvm.mbarrier.try.wait.scope.cta.space.cta", "i1(p3,i64)", ALL),
    *((f"llvm.nvvm.fence.proxy.{name}", "void()", ALL) for name in ("async", "async.global", "async.shared_cta")),
    ("llvm.nvvm.fence.sc.cluster", "void()", ALL),
    *((f"llvm.nvvm.membar.{scope}", "void()", ALL) for scope in ("cta", "gl", "sys")),
    ("llvm.nvvm.cp.async.bulk.global.to.shared.cluster", "void(p7,p3,p1,i32,i16,i64,i1!,i1!)", ALL),
    ("llvm.nvvm.cp.async.bulk.shared.cta.to.global", "void(p1,p3,i32,i64,i1!)", ALL),
    *(
        (f"llvm.nvvm.barrier.cluster.{name}", "void()", ALL)
        for name in ("arrive", "arrive.aligned", "arrive.relaxed.aligned", "wait", "wait.aligned")
    ),
    ("llvm.nvvm.mapa.shared.cluster", "p7(p3,i32)", ALL),
    ("llvm.nvvm.griddepcontrol.wait", "void()", ALL),
    ("llvm.nvvm.griddepcontrol.launch.dependents", "void()", ALL),
    *((f"llvm.nvvm.setmaxnreg.{way}.sync.aligned.u32", "void(i32!)", ALL) for way in ("inc", "dec")),
    *(
        (f"llvm.nvvm.tcgen05.st.32x32b.x{n}", f"void(p6,{'i32' if n == 1 else f'v{n}i32'},i1!)", BLACKWELL)
        for n in (1, 2, 4, 8, 16, 32, 64, 128)
    ),
    ("llvm.nvvm.tcgen05.cp.32x128b_warpx4.cg1", "void(p6,i64)", BLACKWELL),
    ("llvm.nvvm.tcgen05.cp.128x256b.cg1", "void(p6,i64)", BLACKWELL),
)
"""Intrinsics for ``llvm.call_intrinsic``: name, signature, targets."""


@cache
def rows() -> tuple[Row, ...]:
    """All rows of the table."""
    return tuple(_rows())


@cache
def _table() -> dict[tuple[str, tuple[str, ...], tuple[str, ...]], Row]:
    return {(row.name, tuple(o.removesuffix("!") for o in row.operands), row.results): row for row in rows()}


# The check


def verify_selectable(module: ModuleOp, target: Target) -> None:
    """Raise `CodegenError` at the first operation that is not known to select on `target`."""
    table, name = _table(), target.name
    for op in module.walk():
        rule = _RULES.get(type(op))
        problem = _look_up(table, op.name, op, op.operands, name) if rule is None else rule(op, name)
        if problem is not None:
            raise CodegenError(f"{_signature(op)}: {problem}", location_of(op), notes=calls_to(op))


def _look_up(
    table: dict[tuple[str, tuple[str, ...], tuple[str, ...]], Row],
    key: str,
    op: Operation,
    operands: Sequence[Any],
    target: str,
) -> str | None:
    row = table.get((key, tuple([spell(o.type) for o in operands]), tuple([spell(r.type) for r in op.results])))
    if row is None:
        return f"not known to select on {target}"
    if target not in row.targets:
        return f"not on {target}, only on {', '.join(sorted(row.targets))}"
    for index, kind in enumerate(row.operands):
        if kind[-1] == "!" and not isinstance(operands[index].owner, llvm.ConstantOp):
            return f"operand {index} has to be an llvm.mlir.constant"
    return None


def _signature(op: Operation) -> str:
    name = op.name
    if isinstance(op, llvm.CallIntrinsicOp):
        name = f"{name} {op.intrin.data}"
    operands, results = ", ".join(spell(o.type) for o in op.operands), ", ".join(spell(r.type) for r in op.results)
    return f"{name} ({operands}) -> ({results})"


_Rule = Callable[[Any, str], str | None]


def _free(_op: Operation, _target: str) -> str | None:
    return None


def _is_value(kind: Attribute) -> bool:
    """A type that may live in registers: a scalar, pointer or vector, or a struct or array of those."""
    name = spell(kind)
    known = _values.get(name)
    if known is None:
        match kind:
            case llvm.LLVMStructType():
                known = all(_is_value(element) for element in kind.types.data)
            case llvm.LLVMArrayType():
                known = _is_value(kind.type)
            case _:
                known = False
        _values[name] = known
    return known


_values = dict.fromkeys(VALUES, True)
"""By the names of the types."""


def _of_values(op: Operation, target: str) -> str | None:
    """Constants, aggregates, branches: anything goes, as long as each type is one for registers."""
    strange = [kind for kind in (*op.operand_types, *op.result_types) if not _is_value(kind)]
    return None if not strange else f"{strange[0]} is no type of a value on {target}"


def _conditional_branch(op: llvm.CondBrOp, target: str) -> str | None:
    if op.then_block is op.else_block and list(op.then_arguments) != list(op.else_arguments):
        return "both edges lead to one block with different values"
    return _of_values(op, target)


def _compare_floats(op: llvm.FCmpOp, target: str) -> str | None:
    if op.predicate.value.data in (0, 15):
        return "a comparison that is always false or true is a constant"
    return _look_up(_table(), op.name, op, op.operands, target)


def _return(op: llvm.ReturnOp, _target: str) -> str | None:
    return None if op.arg is None else "a kernel returns nothing"


def _get_element_pointer(op: llvm.GEPOp, target: str) -> str | None:
    if op.result.type != op.ptr.type:
        return "pointer and result differ"
    if any(spell(index.type) not in ("i32", "i64") for index in op.ssa_indices):
        return "an index is neither i32 nor i64"
    return _of_values(op, target) if _is_value(op.elem_type) else f"{op.elem_type} is no type of a value on {target}"


def _tma_load(op: nvvm.CpAsyncBulkTensorGlobalToSharedClusterOp, target: str) -> str | None:
    if op.group is not None and target not in BLACKWELL:
        return f"cta_group is not on {target}, only on {', '.join(BLACKWELL)}"
    return _look_up(_table(), op.name, op, op.operands, target)


def _alloca(op: llvm.AllocaOp, target: str) -> str | None:
    if not isinstance(op.size.owner, llvm.ConstantOp):
        return "the number of elements has to be an llvm.mlir.constant"
    if spell(op.res.type) not in ("p0", "p5"):
        return "local memory has address space 0 or 5"
    return None if _is_value(op.elem_type) else f"{op.elem_type} is no type of a value on {target}"


def _address_of(op: llvm.AddressOfOp, _target: str) -> str | None:
    found = SymbolTable.lookup_symbol(op, op.global_name)
    if not isinstance(found, llvm.GlobalOp):
        return f"{op.global_name} is no global"
    return None if spell(op.result.type) == f"p{found.addr_space.value.data}" else "not the address space of the global"


def _name(op: llvm.FuncOp | llvm.GlobalOp) -> str | None:
    """LLVM ends the process on some names, and ptxas refuses others."""
    return None if is_identifier(op.sym_name.data) else f"its name is none that PTX reads: {RULE}"


def _global(op: llvm.GlobalOp, target: str) -> str | None:
    if (problem := _name(op)) is not None:
        return problem
    if op.addr_space.value.data not in (1, 3, 4):
        return "a global lies in address space 1, 3 or 4"
    if op.addr_space.value.data == 3 and op.value is not None:
        return "shared memory cannot be initialised"
    return None if _is_value(op.global_type) else f"{op.global_type} is no type of a value on {target}"


def _function(op: llvm.FuncOp, target: str) -> str | None:
    if (problem := _name(op)) is not None:
        return problem
    if "nvvm.kernel" not in op.attributes or not op.body.blocks:
        return "only kernels (nvvm.kernel) with a body can be compiled"
    if not isinstance(op.function_type.output, llvm.LLVMVoidType) or op.function_type.is_variadic:
        return "a kernel returns nothing and takes a fixed number of arguments"
    strange = [kind for kind in op.function_type.inputs if spell(kind) not in _PARAMETERS]
    return None if not strange else f"{strange[0]} is no type of a kernel argument on {target}"


_PARAMETERS = frozenset({"i8", "i16", "i32", "i64", *FLOATS, "p0", "p1"})


def _call_intrinsic(op: llvm.CallIntrinsicOp, target: str) -> str | None:
    return _look_up(_table(), op.intrin.data, op, op.args, target)


# Inline assembly

ASM_REGISTERS = {
    "h": ("i16",),
    "r": ("i32",),
    "l": ("i64",),
    "f": ("f32",),
    "d": ("f64",),
    "b": ("i1",),
}
"""LLVM's constraint letters for NVPTX and the types that go with them."""
ASM_FAMILIES: dict[str, frozenset[str]] = {
    **dict.fromkeys(
        (
            "abs",
            "add",
            "and",
            "bar",
            "barrier",
            "bfind",
            "bra",
            "brev",
            "clz",
            "cp",
            "createpolicy",
            "cvt",
            "cvta",
            "discard",
            "div",
            "elect",
            "ex2",
            "fence",
            "fma",
            "griddepcontrol",
            "ld",
            "ldmatrix",
            "lg2",
            "lop3",
            "mad",
            "mapa",
            "max",
            "mbarrier",
            "membar",
            "min",
            "mov",
            "mul",
            "nanosleep",
            "neg",
            "not",
            "or",
            "popc",
            "prefetch",
            "prmt",
            "rcp",
            "red",
            "redux",
            "rem",
            "rsqrt",
            "selp",
            "setmaxnreg",
            "setp",
            "shf",
            "shfl",
            "shl",
            "shr",
            "slct",
            "sqrt",
            "st",
            "stmatrix",
            "sub",
            "tanh",
            "trap",
            "vote",
            "xor",
        ),
        ALL,
    ),
    "wgmma": HOPPER,
    "tcgen05": BLACKWELL,
    "clusterlaunchcontrol": BLACKWELL,
}
"""First words of the PTX instructions that inline assembly may hold. LLVM does not read them; ptxas does."""
_LIST = re.compile(r"\{[^{};\n]*\}")
"""Registers in braces; a block in braces has a semicolon or a line break."""
_COMMENT = re.compile(r"//[^\n]*")
_LABEL = re.compile(r"[A-Za-z_$][\w$]*\s*:(?!:)")


def _inline_asm(op: llvm.InlineAsmOp, target: str) -> str | None:
    return _constraints_problem(op) or _asm_problem(op.asm_string.data, len(op.constraints.data.split(",")), target)


def _constraints_problem(op: llvm.InlineAsmOp) -> str | None:
    """A constraint that LLVM cannot meet also ends the process."""
    words = op.constraints.data.split(",") if op.constraints.data else []
    outputs = [word[1:] for word in words if word.startswith("=")]
    inputs = [word for word in words if word[0] not in "=~"]
    expected = [f"={o}" for o in outputs] + inputs + [word for word in words if word.startswith("~")]
    if words != expected:
        return "constraints stand in the order outputs, inputs, clobbers"
    if any(word.startswith("~") and word != "~{memory}" for word in words):
        return "the only clobber is ~{memory}"
    if op.res is None:
        results: list[str] = []
    elif isinstance(op.res.type, llvm.LLVMStructType):
        results = [spell(kind) for kind in op.res.type.types.data]
    else:
        results = [spell(op.res.type)]
    operands = [spell(operand.type) for operand in op.operands_]
    if len(outputs) != len(results) or len(inputs) != len(operands):
        return (
            f"{len(outputs)} outputs and {len(inputs)} inputs for {len(results)} results and {len(operands)} operands"
        )
    for letter, kind in zip(outputs, results, strict=True):
        if kind not in ASM_REGISTERS.get(letter, ()):
            return f"constraint ={letter} does not hold {kind}"
    for index, (letter, kind) in enumerate(zip(inputs, operands, strict=True)):
        if letter.isdigit():
            if int(letter) >= len(results) or results[int(letter)] != kind:
                return f"input {index} is tied to output {letter}, which is not {kind}"
        elif letter == "n":
            if not isinstance(op.operands_[index].owner, llvm.ConstantOp):
                return f"input {index} has to be an llvm.mlir.constant"
        elif kind not in ASM_REGISTERS.get(letter, ()):
            return f"constraint {letter} does not hold {kind}"
    return None


@cache
def _asm_problem(text: str, registers: int, target: str) -> str | None:
    """Cached: a kernel repeats few texts."""
    for number in re.findall(r"\$\{?(\d+)", text):
        if int(number) >= registers:
            return f"${number} names no operand"
    for statement in re.split(r"[;{}\n]", _LABEL.sub("", _LIST.sub("_", _COMMENT.sub("", text)))):
        words = statement.split()
        if words and words[0].startswith("@"):
            words = words[1:]
        if not words or words[0] == ".reg":
            continue
        family = words[0].split(".")[0]
        if family not in ASM_FAMILIES:
            return f"inline PTX '{words[0]}' is not known"
        if target not in ASM_FAMILIES[family]:
            return f"inline PTX '{words[0]}' is not on {target}, only on {', '.join(sorted(ASM_FAMILIES[family]))}"
    return None


_RULES: dict[type[Operation], _Rule] = {
    ModuleOp: _free,
    llvm.FuncOp: _function,
    llvm.GlobalOp: _global,
    llvm.UnreachableOp: _free,
    llvm.BrOp: _of_values,
    llvm.CondBrOp: _conditional_branch,
    llvm.FCmpOp: _compare_floats,
    llvm.ReturnOp: _return,
    llvm.ConstantOp: _of_values,
    llvm.UndefOp: _of_values,
    llvm.ZeroOp: _of_values,
    nvvm.PoisonOp: _of_values,
    llvm.ExtractValueOp: _of_values,
    llvm.InsertValueOp: _of_values,
    llvm.GEPOp: _get_element_pointer,
    nvvm.CpAsyncBulkTensorGlobalToSharedClusterOp: _tma_load,
    llvm.AllocaOp: _alloca,
    llvm.AddressOfOp: _address_of,
    llvm.CallIntrinsicOp: _call_intrinsic,
    llvm.InlineAsmOp: _inline_asm,
}
