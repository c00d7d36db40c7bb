"""L2 (the llvm and nvvm dialects) to LLVM IR text.

What xDSL's own converter says right is left to it (`convert_op`); the rest stands beside it in the same style: a table of
converters by op class that fill the map from xDSL values to llvmlite values. Those are the nvvm ops, pointers outside
address space 0, bf16, inline assembly with call attributes, kernel headers, and debug locations.
"""

# llvmlite carries no types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from xdsl.backend.llvm.convert_op import CastInstrWithFlags, convert_op, create_constant
from xdsl.backend.llvm.convert_type import convert_type as convert_xdsl_type
from xdsl.dialects import llvm
from xdsl.dialects.builtin import (
    BFloat16Type,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    VectorType,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from tilec.backend.selection import CodegenError, verify_selectable
from tilec.backend.target import Target
from tilec.diagnostics import SourceLocation, calls_to, location_of, resolve
from tilec.dialects import nvvm

TRIPLE = "nvptx64-nvidia-cuda"
DATA_LAYOUT = "e-p3:32:32-p4:32:32-p5:32:32-p6:32:32-p7:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
"""LLVM's for nvptx64 with ``--nvptx-short-ptr``: pointers to shared, constant, local and tensor memory have 32 bits."""


def to_llvm(module: ModuleOp, target: Target) -> str:
    """The LLVM IR of `module`, whose ops are all known to select on `target` (else `CodegenError`)."""
    verify_selectable(module, target)
    return _Translation(module).text()


class _BFloatType(ir.types.Type):
    """bf16, which llvmlite lacks."""

    null = "0.0"
    intrinsic_name = "bf16"

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BFloatType)

    def __hash__(self) -> int:
        return hash(_BFloatType)

    def format_constant(self, value: float) -> str:
        # LLVM takes a hexadecimal double wherever it is exact in the narrower type; round to nearest even first.
        (bits,) = struct.unpack("<I", struct.pack("<f", value))
        if value == value:
            bits += 0x7FFF + ((bits >> 16) & 1)
        (rounded,) = struct.unpack("<f", struct.pack("<I", bits & 0xFFFF0000))
        return f"0x{struct.unpack('<Q', struct.pack('<d', rounded))[0]:016x}"


def convert_type(kind: Attribute) -> Any:
    """`xdsl.backend.llvm.convert_type` with bf16, alone and inside vectors, arrays and structs."""
    cached = _TYPES.get(kind)
    if cached is None:
        match kind:
            case BFloat16Type():
                cached = _BFloatType()
            case VectorType():
                cached = ir.VectorType(convert_type(kind.element_type), kind.get_shape()[0])
            case llvm.LLVMArrayType():
                cached = ir.ArrayType(convert_type(kind.type), kind.size.data)
            case llvm.LLVMStructType():
                cached = ir.LiteralStructType([convert_type(element) for element in kind.types.data])
            case _:
                cached = convert_xdsl_type(kind)
        _TYPES[kind] = cached
    return cached


_TYPES: dict[Attribute, Any] = {}
_I1, _I16, _I32, _I64 = ir.IntType(1), ir.IntType(16), ir.IntType(32), ir.IntType(64)
_VOID = ir.VoidType()
_SHARED, _CLUSTER, _PARAM = 3, 7, 101
"""Address spaces of LLVM's NVPTX back end."""
_ELECTED = ir.LiteralStructType([_I32, _I1])
_CONVERGENT = ("convergent", "nounwind")

_ARG_FLAGS = {
    "llvm.noalias": "noalias",
    "llvm.nocapture": "captures(none)",
    "llvm.nonnull": "nonnull",
    "llvm.noundef": "noundef",
    "llvm.readonly": "readonly",
    "llvm.readnone": "readnone",
    "llvm.writeonly": "writeonly",
    "nvvm.grid_constant": '"nvvm.grid_constant"',
}
_FUNCTION_ATTRIBUTES = {
    "nvvm.reqntid": "nvvm.reqntid",
    "nvvm.maxntid": "nvvm.maxntid",
    "nvvm.cluster_dim": "nvvm.cluster_dim",
    "nvvm.minctasm": "nvvm.minctasm",
    "nvvm.maxnreg": "nvvm.maxnreg",
    "nvvm.cluster_max_blocks": "nvvm.maxclusterrank",
}


class _Function(ir.Function):
    """A function whose header carries what `llvmlite.ir` refuses to print: typed and string attributes."""

    def __init__(self, module: ir.Module, kind: Any, name: str, args: Sequence[str], attributes: str):
        super().__init__(module, kind, name)
        self.kind = kind
        self.arg_attributes = args
        self.function_attributes = attributes

    def descr_prototype(self, buf: list[str]) -> None:
        define = "define" if self.blocks else "declare"
        words = [define, self.linkage, self.calling_convention, str(self.kind.return_type)]
        args = ", ".join(
            " ".join(filter(None, (str(arg.type), attributes, arg.get_reference())))
            for arg, attributes in zip(self.args, self.arg_attributes, strict=True)
        )
        tail = " ".join(filter(None, ("", self.function_attributes, self._stringify_metadata())))
        buf.append(f"{' '.join(filter(None, words))} {self.get_reference()}({args}){tail}\n")


def _integers(value: Attribute) -> str | None:
    """``array<i32: 2, 1, 1>`` or ``1 : i32`` as the text of an LLVM string attribute."""
    if isinstance(value, IntegerAttr):
        return str(value.value.data)
    if isinstance(value, DenseArrayBase):
        return ",".join(str(i) for i in value.iter_values())
    return None


@dataclass(frozen=True)
class _Node:
    """A metadata node, as an instruction refers to it."""

    number: int

    def get_reference(self) -> str:
        return f"!{self.number}"


class _DebugInfo:
    """Locations of ops as ``!DILocation``, just enough for ``.file`` and ``.loc`` in the PTX.

    Written as text: a node an op is too much for llvmlite's metadata objects.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.known: dict[str, _Node] = {}
        self.locations: dict[SourceLocation, _Node] = {}
        self.unit: _Node | None = None
        self.scope = _Node(0)
        self.scope_file = ""

    def add(self, text: str) -> _Node:
        node = _Node(len(self.lines))
        self.lines.append(f"!{node.number} = {text}")
        return node

    def once(self, text: str) -> _Node:
        known = self.known.get(text)
        if known is None:
            known = self.known[text] = self.add(text)
        return known

    def file(self, name: str) -> str:
        # ptxas ends a file name at its first double quote, escaped or not.
        safe = _escaped(name.replace('"', "'"))
        return self.once(f'!DIFile(filename: "{safe}", directory: "")').get_reference()

    def enter(self, function: str, at: SourceLocation) -> _Node:
        """The scope of the locations to come."""
        file = self.file(at.file)
        if self.unit is None:
            # Line directives only: "debug" on the target line would switch the assembler's optimisations off.
            self.unit = self.add(
                f'distinct !DICompileUnit(language: DW_LANG_C, file: {file}, producer: "tilec", isOptimized: true,'
                " emissionKind: DebugDirectivesOnly)"
            )
        kind = self.once(f"!DISubroutineType(types: {self.once('!{null}').get_reference()})")
        self.scope = self.add(
            f'distinct !DISubprogram(name: "{_escaped(function)}", scope: {file}, file: {file}, line: {at.line}, scopeLine: {at.line},'
            f" type: {kind.get_reference()}, spFlags: DISPFlagDefinition | DISPFlagOptimized,"
            f" unit: {self.unit.get_reference()})"
        )
        self.scope_file = at.file
        self.locations = {}
        return self.scope

    def location(self, at: SourceLocation) -> _Node:
        found = self.locations.get(at)
        if found is None:
            scope = self.scope.get_reference()
            if at.file != self.scope_file:
                block = f"!DILexicalBlockFile(scope: {scope}, file: {self.file(at.file)}, discriminator: 0)"
                scope = self.once(block).get_reference()
            # LLVM keeps 16 bits of the column.
            text = f"!DILocation(line: {at.line}, column: {min(at.column, 0xFFFF)}, scope: {scope})"
            found = self.locations[at] = self.add(text)
        return found

    def text(self) -> str:
        if self.unit is None:
            return ""
        version = self.once('!{i32 2, !"Debug Info Version", i32 3}')
        named = [
            f"!llvm.dbg.cu = !{{{self.unit.get_reference()}}}",
            f"!llvm.module.flags = !{{{version.get_reference()}}}",
        ]
        return "\n".join([*named, *self.lines, ""])


def _escaped(text: str) -> str:
    """`text` inside LLVM's double quotes: UTF-8, with what is not printable ASCII in hexadecimal."""
    return "".join(
        chr(byte) if 0x20 <= byte < 0x7F and byte not in b'"\\' else f"\\{byte:02X}"
        for byte in text.encode("utf-8", "surrogateescape")
    )


class _Translation:
    """One module on its way to llvmlite; `builder` and `values` belong to the function at hand."""

    def __init__(self, module: ModuleOp) -> None:
        self.llvm = ir.Module()
        self.llvm.triple = TRIPLE
        self.llvm.data_layout = DATA_LAYOUT
        self.debug = _DebugInfo()
        self.values: dict[SSAValue, Any] = {}
        self.blocks: dict[Block, Any] = {}
        self.builder: Any = None
        functions: list[tuple[llvm.FuncOp, _Function]] = []
        for op in module.ops:
            match op:
                case llvm.GlobalOp():
                    self.declare_global(op)
                case llvm.FuncOp():
                    functions.append((op, self.declare_function(op)))
                case _:
                    raise CodegenError(f"{op.name} cannot stand in an LLVM module", location_of(op), notes=calls_to(op))
        for op, function in functions:
            if op.body.blocks:
                self.convert_body(op, function)

    def text(self) -> str:
        return f"{self.llvm}\n{self.debug.text()}"

    def declare_global(self, op: llvm.GlobalOp) -> None:
        variable: Any = ir.GlobalVariable(
            self.llvm, convert_type(op.global_type), op.sym_name.data, addrspace=op.addr_space.value.data
        )
        variable.linkage = op.linkage.linkage.data
        variable.global_constant = op.constant is not None
        if op.alignment is not None:
            variable.align = op.alignment.value.data
        if op.value is not None:
            variable.initializer = create_constant(op.global_type, op.value)

    def declare_function(self, op: llvm.FuncOp) -> _Function:
        kind = ir.FunctionType(
            convert_type(op.function_type.output), [convert_type(arg) for arg in op.function_type.inputs]
        )
        attributes = " ".join(
            f'"{_FUNCTION_ATTRIBUTES[name]}"="{_integers(value)}"'
            for name, value in op.attributes.items()
            if name in _FUNCTION_ATTRIBUTES
        )
        args = [""] * len(kind.args)
        if op.arg_attrs is not None:
            args = [_argument_attributes(op, attrs.data) for attrs in op.arg_attrs]
        function = _Function(self.llvm, kind, op.sym_name.data, args, attributes)
        if "nvvm.kernel" in op.attributes:
            function.calling_convention = "ptx_kernel"
        elif op.body.blocks:
            function.linkage = op.linkage.linkage.data if op.linkage.linkage.data != "external" else ""
        return function

    def convert_body(self, op: llvm.FuncOp, function: _Function) -> None:
        blocks = _reverse_post_order(op.body.blocks[0])
        self.values = {}
        self.blocks = {block: function.append_basic_block(block.name_hint or "") for block in blocks}
        for arg, value in zip(blocks[0].args, function.args, strict=True):
            self.values[arg] = value
        for block in blocks[1:]:
            builder = ir.IRBuilder(self.blocks[block])
            for arg in block.args:
                self.values[arg] = builder.phi(convert_type(arg.type))
        at = location_of(op)
        if at is not None:
            function.set_metadata("dbg", self.debug.enter(function.name, at))
        location, node = None, None
        for block in blocks:
            self.builder = ir.IRBuilder(self.blocks[block])
            for inner in block.ops:
                if at is not None:
                    # Most operations share the location of the tile operation that they were made of with their neighbours.
                    if inner.location is not location:
                        location = inner.location
                        where = resolve(location)
                        node = None if where is None else self.debug.location(where)
                    self.builder.debug_metadata = node
                converter = _CONVERTERS.get(type(inner))
                if converter is None:
                    convert_op(inner, self.builder, self.values, self.blocks)
                else:
                    converter(self, inner)

    def operands(self, op: Operation) -> list[Any]:
        return [self.values[operand] for operand in op.operands]

    def call(self, name: str, result: Any, args: Sequence[Any]) -> Any:
        """Call an LLVM function by name, declaring it at its first use."""
        function = self.llvm.globals.get(name)
        if function is None:
            function = ir.Function(self.llvm, ir.FunctionType(result, [arg.type for arg in args]), name)
        return self.builder.call(function, args)

    def asm(self, text: str, constraints: str, result: Any, args: Sequence[Any], *, side_effects: bool) -> Any:
        kind = ir.FunctionType(result, [arg.type for arg in args])
        asm = ir.InlineAsm(kind, _escaped(text), constraints, side_effect=side_effects)
        return self.builder.call(asm, args, attrs=_CONVERGENT if side_effects else ("nounwind",))


def _argument_attributes(op: llvm.FuncOp, attributes: Mapping[str, Attribute]) -> str:
    words: list[str] = []
    for name, value in attributes.items():
        if name in _ARG_FLAGS:
            words.append(_ARG_FLAGS[name])
        elif name == "llvm.byval":
            words.append(f"byval({convert_type(value)})")
        elif name == "llvm.align" and (align := _integers(value)) is not None:
            words.append(f"align {align}")
        elif name.startswith(("llvm.", "nvvm.")):
            raise CodegenError(f"argument attribute {name} = {value} is not known", location_of(op), notes=calls_to(op))
    return " ".join(words)


def _reverse_post_order(entry: Block) -> list[Block]:
    """The blocks that can be reached, each after all blocks that dominate it."""
    order: list[Block] = []
    seen = {entry}
    stack = [(entry, iter(_successors(entry)))]
    while stack:
        block, successors = stack[-1]
        fresh = next((s for s in successors if s not in seen), None)
        if fresh is None:
            order.append(block)
            stack.pop()
        else:
            seen.add(fresh)
            stack.append((fresh, iter(_successors(fresh))))
    return order[::-1]


def _successors(block: Block) -> Sequence[Block]:
    return () if block.last_op is None else block.last_op.successors


# llvm ops


def _cast(name: str) -> Callable[[_Translation, Operation], None]:
    def convert(t: _Translation, op: Operation) -> None:
        flags: list[str] = []
        match op:
            case llvm.TruncOp() if op.overflowFlags is not None:
                flags = [flag.value for flag in op.overflowFlags.data]
            case llvm.ZExtOp() if op.non_neg is not None:
                flags = ["nneg"]
            case _:
                pass
        cast_ = CastInstrWithFlags(
            t.builder.block, name, t.values[op.operands[0]], convert_type(op.results[0].type), flags=flags
        )
        t.builder._insert(cast_)
        t.values[op.results[0]] = cast_

    return convert


def _constant(t: _Translation, op: llvm.ConstantOp) -> None:
    kind = convert_type(op.result.type)
    match op.value:
        case FloatAttr():
            value: Any = op.value.value.data
        case IntegerAttr():
            value = op.value.value.data & 1 if kind == _I1 else op.value.value.data
        case DenseIntOrFPElementsAttr():
            value = list(op.value.get_values())
        case _:
            raise CodegenError(f"{op.name} of {op.value} is not known", location_of(op), notes=calls_to(op))
    t.values[op.result] = ir.Constant(kind, value)


def _zero(t: _Translation, op: llvm.ZeroOp) -> None:
    t.values[op.res] = ir.Constant(convert_type(op.res.type), None)


def _undef(t: _Translation, op: llvm.UndefOp) -> None:
    t.values[op.res] = ir.Constant(convert_type(op.res.type), ir.Undefined)


def _poison(t: _Translation, op: nvvm.PoisonOp) -> None:
    t.values[op.res] = ir.FormattedConstant(convert_type(op.res.type), "poison")


def _address_space_cast(t: _Translation, op: nvvm.AddrSpaceCastOp) -> None:
    arg, kind = t.values[op.arg], convert_type(op.res.type)
    if (arg.type.addrspace, kind.addrspace) == (_SHARED, _CLUSTER):
        # The own CTA's shared addresses are their own cluster addresses; LLVM would go through a generic pointer.
        t.values[op.res] = t.builder.inttoptr(t.builder.ptrtoint(arg, _I32), kind)
    else:
        t.values[op.res] = t.builder.addrspacecast(arg, kind)


def _address_of(t: _Translation, op: llvm.AddressOfOp) -> None:
    # An opaque pointer: llvmlite's own value of a global insists on its pointee type.
    variable = t.llvm.get_global(op.global_name.root_reference.data)
    t.values[op.result] = ir.FormattedConstant(convert_type(op.result.type), variable.get_reference())


def _get_element_pointer(t: _Translation, op: llvm.GEPOp) -> None:
    dynamic = iter(op.ssa_indices)
    indices = [
        t.values[next(dynamic)] if index == llvm.GEP_USE_SSA_VAL else _I32(index)
        for index in op.rawConstantIndices.iter_values()
    ]
    pointer = t.builder.gep(
        t.values[op.ptr], indices, inbounds=op.inbounds is not None, source_etype=convert_type(op.elem_type)
    )
    # llvmlite gives the result of a gep the address space 0.
    pointer.type = convert_type(op.result.type)
    t.values[op.result] = pointer


def _alloca(t: _Translation, op: llvm.AllocaOp) -> None:
    slot = t.builder.alloca(convert_type(op.elem_type), size=t.values[op.size])
    slot.type = convert_type(op.res.type)
    if op.alignment is not None:
        slot.align = op.alignment.value.data
    t.values[op.res] = slot


def _load(t: _Translation, op: llvm.LoadOp) -> None:
    align = None if op.alignment is None else op.alignment.value.data
    t.values[op.dereferenced_value] = t.builder.load(
        t.values[op.ptr], align=align, typ=convert_type(op.dereferenced_value.type)
    )


def _store(t: _Translation, op: llvm.StoreOp) -> None:
    t.builder.store(
        t.values[op.value], t.values[op.ptr], align=None if op.alignment is None else op.alignment.value.data
    )


def _inline_asm(t: _Translation, op: llvm.InlineAsmOp) -> None:
    value = t.asm(
        op.asm_string.data,
        op.constraints.data,
        _VOID if op.res is None else convert_type(op.res.type),
        t.operands(op),
        side_effects=op.has_side_effects is not None,
    )
    if op.res is not None:
        t.values[op.res] = value


def _call_intrinsic(t: _Translation, op: llvm.CallIntrinsicOp) -> None:
    result = _VOID if op.ress is None else convert_type(op.ress.type)
    value = t.call(op.intrin.data, result, [t.values[arg] for arg in op.args])
    if op.ress is not None:
        t.values[op.ress] = value


def _extract_element(t: _Translation, op: nvvm.ExtractElementOp) -> None:
    t.values[op.res] = t.builder.extract_element(t.values[op.vector], t.values[op.position])


def _intrinsic(name: str) -> Callable[[_Translation, Operation], None]:
    """An op that is an LLVM intrinsic overloaded on its result type."""

    def convert(t: _Translation, op: Operation) -> None:
        kind = convert_type(op.results[0].type)
        suffix = (
            f"v{kind.count}{kind.element.intrinsic_name}" if isinstance(kind, ir.VectorType) else kind.intrinsic_name
        )
        t.values[op.results[0]] = t.call(f"{name}.{suffix}", kind, t.operands(op))

    return convert


# nvvm ops


def _nvvm(name: str) -> Callable[[_Translation, Operation], None]:
    """An op whose operands and result are those of the intrinsic ``llvm.nvvm.NAME``."""

    def convert(t: _Translation, op: Operation) -> None:
        result = convert_type(op.results[0].type) if op.results else _VOID
        value = t.call(f"llvm.nvvm.{name}", result, t.operands(op))
        if op.results:
            t.values[op.results[0]] = value

    return convert


def _barrier(t: _Translation, op: nvvm.BarrierOp) -> None:
    args = t.operands(op) or [_I32(0)]
    t.call(f"llvm.nvvm.barrier.cta.sync.aligned.{'all' if len(args) == 1 else 'count'}", _VOID, args)


def _elect_sync(t: _Translation, op: nvvm.ElectSyncOp) -> None:
    elected = t.call("llvm.nvvm.elect.sync", _ELECTED, t.operands(op) or [_I32(-1)])
    t.values[op.pred] = t.builder.extract_value(elected, 1)


def _arrive_expect_tx(t: _Translation, op: nvvm.MBarrierArriveExpectTxOp) -> None:
    t.call("llvm.nvvm.mbarrier.arrive.expect.tx.scope.cta.space.cta", _I64, t.operands(op))


_WAIT = """{
.reg .pred done;
wait_${:uid}:
mbarrier.try_wait.parity.shared.b64 done, [$0], $1, $2;
@!done bra wait_${:uid};
}"""
"""A loop in one piece: the uid keeps the label unique where LLVM duplicates the block."""


def _blocking_wait(t: _Translation, op: nvvm.MBarrierTryWaitParityOp) -> None:
    addr, phase, ticks = t.operands(op)
    t.asm(_WAIT, "r,r,r,~{memory}", _VOID, [t.builder.ptrtoint(addr, _I32), phase, ticks], side_effects=True)


def _fence_proxy(t: _Translation, op: nvvm.FenceProxyOp) -> None:
    space = "" if op.space is None else f"_{op.space.data}"
    t.call(f"llvm.nvvm.fence.proxy.{op.kind.data}{space}", _VOID, [])


def _optional(t: _Translation, value: SSAValue | None, kind: Any) -> tuple[Any, Any]:
    """An optional operand as the intrinsics want it: a value, and a flag that says whether it counts."""
    return (ir.Constant(kind, 0), _I1(0)) if value is None else (t.values[value], _I1(1))


def _tma_load(t: _Translation, op: nvvm.CpAsyncBulkTensorGlobalToSharedClusterOp) -> None:
    mask, masked = _optional(t, op.multicastMask, _I16)
    hint, hinted = _optional(t, op.l2CacheHint, _I64)
    coordinates = [t.values[c] for c in op.coordinates]
    args = [t.values[op.dstMem], t.values[op.mbar], t.values[op.tmaDescriptor], *coordinates]
    rank = f"{len(coordinates)}d"
    if op.cta_only:
        t.call(f"llvm.nvvm.cp.async.bulk.tensor.g2s.cta.tile.{rank}", _VOID, [*args, hint, hinted])
    else:
        group = _I32(0 if op.group is None else _GROUP[op.group.data])
        t.call(f"llvm.nvvm.cp.async.bulk.tensor.g2s.tile.{rank}", _VOID, [*args, mask, hint, masked, hinted, group])


def _tma_store(t: _Translation, op: nvvm.CpAsyncBulkTensorSharedCTAToGlobalOp) -> None:
    hint, hinted = _optional(t, op.l2CacheHint, _I64)
    coordinates = [t.values[c] for c in op.coordinates]
    args = [t.values[op.srcMem], t.values[op.tmaDescriptor], *coordinates, hint, hinted]
    t.call(f"llvm.nvvm.cp.async.bulk.tensor.s2g.tile.{len(coordinates)}d", _VOID, args)


def _bulk_wait(t: _Translation, op: nvvm.CpAsyncBulkWaitGroupOp) -> None:
    read = "" if op.read is None else ".read"
    t.call(f"llvm.nvvm.cp.async.bulk.wait.group{read}", _VOID, [_I32(op.group.value.data)])


def _prefetch(t: _Translation, op: nvvm.PrefetchOp) -> None:
    addr = t.values[op.addr]
    if op.in_param_space is not None:
        addr = t.builder.addrspacecast(addr, ir.PointerType(addrspace=_PARAM))
    t.call(f"llvm.nvvm.prefetch.tensormap.p{addr.type.addrspace}", _VOID, [addr])


def _stmatrix(t: _Translation, op: nvvm.StMatrixOp) -> None:
    trans = ".trans" if op.layout.data is nvvm.MMALayout.COL else ""
    t.call(f"llvm.nvvm.stmatrix.sync.aligned.m8n8.x{len(op.sources)}{trans}.b16.p3", _VOID, t.operands(op))


def _wgmma_wait(t: _Translation, op: nvvm.WgmmaWaitGroupSyncOp) -> None:
    t.call("llvm.nvvm.wgmma.wait_group.sync.aligned", _VOID, [_I64(op.group.value.data)])


_GROUP = {nvvm.CTAGroup.CTA_1: 1, nvvm.CTAGroup.CTA_2: 2}
_KIND = {kind: number for number, kind in enumerate(nvvm.Tcgen05MMAKind)}
_COLLECTOR = {op: number for number, op in enumerate(nvvm.Tcgen05MMACollectorOp)}
_LD_REGISTERS_PER_REPEAT = {nvvm.Tcgen05LdStShape.S16X128B: 2, nvvm.Tcgen05LdStShape.S16X256B: 4}


def _tcgen05_alloc(t: _Translation, op: nvvm.Tcgen05AllocOp) -> None:
    t.call(f"llvm.nvvm.tcgen05.alloc.shared.cg{_GROUP[op.group.data]}", _VOID, t.operands(op))


def _tcgen05_dealloc(t: _Translation, op: nvvm.Tcgen05DeallocOp) -> None:
    t.call(f"llvm.nvvm.tcgen05.dealloc.cg{_GROUP[op.group.data]}", _VOID, t.operands(op))


def _tcgen05_relinquish(t: _Translation, op: nvvm.Tcgen05RelinquishAllocPermitOp) -> None:
    t.call(f"llvm.nvvm.tcgen05.relinq.alloc.permit.cg{_GROUP[op.group.data]}", _VOID, [])


def _tcgen05_fence(t: _Translation, op: nvvm.Tcgen05FenceOp) -> None:
    t.call(f"llvm.nvvm.tcgen05.fence.{op.kind.data}.thread.sync", _VOID, [])


def _tcgen05_wait(t: _Translation, op: nvvm.Tcgen05WaitOp) -> None:
    t.call(f"llvm.nvvm.tcgen05.wait.{'ld' if op.kind.data is nvvm.Tcgen05Wait.LOAD else 'st'}", _VOID, [])


def _tcgen05_commit(t: _Translation, op: nvvm.Tcgen05CommitOp) -> None:
    multicast = "" if op.multicastMask is None else ".mc"
    t.call(f"llvm.nvvm.tcgen05.commit{multicast}.shared.cg{_GROUP[op.group.data]}", _VOID, t.operands(op))


def _tcgen05_ld(t: _Translation, op: nvvm.Tcgen05LdOp) -> None:
    shape = op.shape.data
    repeats = op.registers // _LD_REGISTERS_PER_REPEAT.get(shape, 1)
    name = f"llvm.nvvm.tcgen05.ld.{shape.removeprefix('shape_')}.x{repeats}"
    t.values[op.res] = t.call(name, convert_type(op.res.type), [*t.operands(op), _I1(int(op.pack is not None))])


def _tcgen05_mma(t: _Translation, op: nvvm.Tcgen05MMAOp) -> None:
    a = "tensor" if isinstance(op.matrixA.type, llvm.LLVMPointerType) else "shared"
    modifiers = [_I32(_KIND[op.kind.data]), _I32(_GROUP[op.ctaGroup.data]), _I32(_COLLECTOR[op.collectorOp.data])]
    t.call(f"llvm.nvvm.tcgen05.mma.{a}", _VOID, [*t.operands(op), *modifiers])


_CONVERTERS: dict[type[Operation], Callable[[_Translation, Any], None]] = {
    llvm.TruncOp: _cast("trunc"),
    llvm.ZExtOp: _cast("zext"),
    llvm.SExtOp: _cast("sext"),
    llvm.PtrToIntOp: _cast("ptrtoint"),
    llvm.IntToPtrOp: _cast("inttoptr"),
    llvm.BitcastOp: _cast("bitcast"),
    llvm.FPExtOp: _cast("fpext"),
    llvm.FPTruncOp: _cast("fptrunc"),
    llvm.SIToFPOp: _cast("sitofp"),
    nvvm.AddrSpaceCastOp: _address_space_cast,
    llvm.ConstantOp: _constant,
    llvm.ZeroOp: _zero,
    llvm.UndefOp: _undef,
    nvvm.PoisonOp: _poison,
    llvm.AddressOfOp: _address_of,
    llvm.GEPOp: _get_element_pointer,
    llvm.AllocaOp: _alloca,
    llvm.LoadOp: _load,
    llvm.StoreOp: _store,
    llvm.InlineAsmOp: _inline_asm,
    llvm.CallIntrinsicOp: _call_intrinsic,
    nvvm.ExtractElementOp: _extract_element,
    llvm.FAbsOp: _intrinsic("llvm.fabs"),
    llvm.FSqrtOp: _intrinsic("llvm.sqrt"),
    llvm.FExp2Op: _intrinsic("llvm.exp2"),
    llvm.FFloorOp: _intrinsic("llvm.floor"),
    llvm.FCeilOp: _intrinsic("llvm.ceil"),
    llvm.FCopySignOp: _intrinsic("llvm.copysign"),
    llvm.VectorFMaxOp: _intrinsic("llvm.maxnum"),
    llvm.VectorFMinOp: _intrinsic("llvm.minnum"),
    llvm.FMAOp: _intrinsic("llvm.fma"),
    nvvm.ThreadIdXOp: _nvvm("read.ptx.sreg.tid.x"),
    nvvm.BlockIdXOp: _nvvm("read.ptx.sreg.ctaid.x"),
    nvvm.GridDimXOp: _nvvm("read.ptx.sreg.nctaid.x"),
    nvvm.LaneIdOp: _nvvm("read.ptx.sreg.laneid"),
    nvvm.BarrierOp: _barrier,
    nvvm.SyncWarpOp: _nvvm("bar.warp.sync"),
    nvvm.ElectSyncOp: _elect_sync,
    nvvm.MBarrierInitOp: _nvvm("mbarrier.init.shared"),
    nvvm.MBarrierInvalOp: _nvvm("mbarrier.inval.shared"),
    nvvm.MBarrierArriveOp: _nvvm("mbarrier.arrive.shared"),
    nvvm.MBarrierArriveExpectTxOp: _arrive_expect_tx,
    nvvm.MBarrierTryWaitParityOp: _blocking_wait,
    nvvm.MBarrierTryWaitOp: _nvvm("mbarrier.try.wait.parity.scope.cta.space.cta"),
    nvvm.FenceMbarrierInitOp: _nvvm("fence.mbarrier_init.release.cluster"),
    nvvm.FenceProxyOp: _fence_proxy,
    nvvm.CpAsyncBulkTensorGlobalToSharedClusterOp: _tma_load,
    nvvm.CpAsyncBulkTensorSharedCTAToGlobalOp: _tma_store,
    nvvm.CpAsyncBulkCommitGroupOp: _nvvm("cp.async.bulk.commit.group"),
    nvvm.CpAsyncBulkWaitGroupOp: _bulk_wait,
    nvvm.PrefetchOp: _prefetch,
    nvvm.StMatrixOp: _stmatrix,
    nvvm.WgmmaFenceAlignedOp: _nvvm("wgmma.fence.sync.aligned"),
    nvvm.WgmmaGroupSyncAlignedOp: _nvvm("wgmma.commit_group.sync.aligned"),
    nvvm.WgmmaWaitGroupSyncOp: _wgmma_wait,
    nvvm.Tcgen05AllocOp: _tcgen05_alloc,
    nvvm.Tcgen05DeallocOp: _tcgen05_dealloc,
    nvvm.Tcgen05RelinquishAllocPermitOp: _tcgen05_relinquish,
    nvvm.Tcgen05FenceOp: _tcgen05_fence,
    nvvm.Tcgen05WaitOp: _tcgen05_wait,
    nvvm.Tcgen05CommitOp: _tcgen05_commit,
    nvvm.Tcgen05LdOp: _tcgen05_ld,
    nvvm.Tcgen05MMAOp: _tcgen05_mma,
}
"""What `convert_op` cannot say: everything with a type, pointer or attribute that llvmlite or xDSL lacks."""
