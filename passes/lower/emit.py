"""A thin builder of llvm operations: appends to the current block, gives every operation the current source location.

A kernel is a thousand operations of half a dozen kinds. Those are made with `Operation.create`, from properties that all of a
kind share: what an operation's own constructor does with its arguments is most of the time that a lowering takes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TypeVar

from xdsl.dialects import llvm
from xdsl.dialects.builtin import (
    DenseArrayBase,
    FloatAttr,
    IntAttr,
    IntegerAttr,
    IntegerType,
    LocationAttr,
    UnknownLoc,
    VectorType,
    f32,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.utils.hints import isa

from tilec.dialects.nvvm import AddrSpaceCastOp, ExtractElementOp

i16 = IntegerType(16)
PTR = llvm.LLVMPointerType()
PTR_GLOBAL = llvm.LLVMPointerType(IntAttr(1))
PTR_SHARED = llvm.LLVMPointerType(IntAttr(3))
PTR_TENSOR = llvm.LLVMPointerType(IntAttr(6))
PTR_CLUSTER = llvm.LLVMPointerType(IntAttr(7))

_OpT = TypeVar("_OpT", bound=Operation)
_Int = SSAValue | int
_BYTE = IntegerType(8)
_WRAPS: Mapping[str, Attribute] = {"overflowFlags": IntegerAttr(0, 32)}
_PLAIN: Mapping[str, Attribute] = {}


@cache
def _access(alignment: int) -> Mapping[str, Attribute]:
    """The properties of an ordinary load or store, aligned to so many bytes."""
    return {"ordering": IntegerAttr(0, i64), "alignment": IntegerAttr(alignment, i64)}


@cache
def _index(index: int) -> Mapping[str, Attribute]:
    """The properties of a `getelementptr` over bytes with one index."""
    return {
        "rawConstantIndices": DenseArrayBase.from_list(i32, [index]),
        "elem_type": _BYTE,
        "noWrapFlags": IntegerAttr(0, 32),
    }


@cache
def _position(index: int) -> Mapping[str, Attribute]:
    return {"position": DenseArrayBase.from_list(i64, [index])}


@cache
def _predicate(name: str) -> Mapping[str, Attribute]:
    return {"predicate": IntegerAttr(llvm.ICmpPredicateFlag(name).to_int(), i64)}


def integer_bytes(size: int) -> Attribute:
    """The integer (or vector of i32) type that moves `size` bytes at once."""
    return {2: i16, 4: i32, 8: VectorType(i32, [2]), 16: VectorType(i32, [4])}[size]


class Emitter:
    """Builds one function. Arithmetic is on i32 unless an operand is i64; Python ints become constants of that type."""

    def __init__(self, entry: Block, region: Region):
        self.region = region
        self.entry = entry
        self.block = entry
        self.location: LocationAttr = UnknownLoc()
        self._constants: dict[tuple[str, Attribute], SSAValue] = {}
        self._last_constant: Operation | None = None

    # Blocks

    def new_block(self, *types: Attribute) -> Block:
        """A block behind all others, with arguments of these types."""
        block = Block(arg_types=types)
        self.region.add_block(block)
        return block

    def at(self, block: Block) -> None:
        self.block = block

    def add(self, op: _OpT) -> _OpT:
        op.location = self.location
        self.block.add_op(op)
        return op

    def _make(
        self, kind: type[Operation], operands: Sequence[SSAValue], type: Attribute, properties: Mapping[str, Attribute]
    ) -> SSAValue:
        """Append an operation with one result, and give that."""
        op = kind.create(operands=operands, result_types=(type,), properties=properties, location=self.location)
        self.block.add_op(op)
        return op.results[0]

    def branch(self, target: Block, *values: SSAValue) -> None:
        self.add(llvm.BrOp(target, *values))

    def branch_if(self, condition: SSAValue, then: Block, otherwise: Block) -> None:
        self.add(llvm.CondBrOp(condition, then, [], otherwise, []))

    def when(self, condition: SSAValue, body: Callable[[], None]) -> None:
        """`if (condition) { body }`"""
        then, after = self.new_block(), self.new_block()
        self.branch_if(condition, then, after)
        self.at(then)
        body()
        self.branch(after)
        self.at(after)

    def loop(self, start: SSAValue, end: _Int, step: _Int, body: Callable[[SSAValue], None]) -> None:
        """`for (i = start; i < end; i += step) body(i)`, unsigned."""
        head, inside, after = self.new_block(i32), self.new_block(), self.new_block()
        self.branch(head, start)
        self.at(head)
        i = head.args[0]
        self.branch_if(self.compare("ult", i, end), inside, after)
        self.at(inside)
        body(i)
        self.branch(head, self.plus(i, step))
        self.at(after)

    # Constants

    def constant(self, value: int | float, type: Attribute) -> SSAValue:
        """A constant, made once for the whole function at its head."""
        key = (repr(value), type)  # repr: -0.0 and 0.0 are equal
        if (known := self._constants.get(key)) is not None:
            return known
        if isa(type, IntegerType):
            attribute = IntegerAttr(int(value), type)
        else:
            assert type == f32
            attribute = FloatAttr(value, f32)
        op = llvm.ConstantOp(attribute, type)
        op.location = self.location
        if self._last_constant is None:
            first = self.entry.first_op
            if first is None:
                self.entry.add_op(op)
            else:
                self.entry.insert_op_before(op, first)
        else:
            self.entry.insert_op_after(op, self._last_constant)
        self._last_constant = op
        self._constants[key] = op.result
        return op.result

    def int32(self, value: int) -> SSAValue:
        return self.constant(value, i32)

    def boolean(self, value: bool) -> SSAValue:
        return self.constant(int(value), i1)

    def _pair(self, a: _Int, b: _Int) -> tuple[SSAValue, SSAValue]:
        type = a.type if isinstance(a, SSAValue) else b.type if isinstance(b, SSAValue) else i32
        return (
            a if isinstance(a, SSAValue) else self.constant(a, type),
            b if isinstance(b, SSAValue) else self.constant(b, type),
        )

    # Arithmetic

    def _binary(
        self, kind: type[Operation], a: _Int, b: _Int, properties: Mapping[str, Attribute] = _PLAIN
    ) -> SSAValue:
        x, y = self._pair(a, b)
        return self._make(kind, (x, y), x.type, properties)

    def plus(self, a: _Int, b: _Int) -> SSAValue:
        if isinstance(b, int) and b == 0 and isinstance(a, SSAValue):
            return a
        return self._binary(llvm.AddOp, a, b, _WRAPS)

    def minus(self, a: _Int, b: _Int) -> SSAValue:
        return self._binary(llvm.SubOp, a, b, _WRAPS)

    def times(self, a: _Int, b: _Int) -> SSAValue:
        if isinstance(b, int) and b == 1 and isinstance(a, SSAValue):
            return a
        return self._binary(llvm.MulOp, a, b, _WRAPS)

    def divided(self, a: _Int, b: _Int) -> SSAValue:
        return self._binary(llvm.UDivOp, a, b)

    def modulo(self, a: _Int, b: _Int) -> SSAValue:
        return self._binary(llvm.URemOp, a, b)

    def ceil_divided(self, a: SSAValue, b: _Int) -> SSAValue:
        """a / b rounded up, without overflow for any a."""
        return self.plus(self.divided(a, b), self.extended(self.compare("ne", self.modulo(a, b), 0)))

    def bits_and(self, a: _Int, b: _Int) -> SSAValue:
        return self._binary(llvm.AndOp, a, b)

    def bits_or(self, a: _Int, b: _Int) -> SSAValue:
        return self._binary(llvm.OrOp, a, b)

    def bits_xor(self, a: _Int, b: _Int) -> SSAValue:
        return self._binary(llvm.XOrOp, a, b)

    def shifted_left(self, a: _Int, b: _Int) -> SSAValue:
        return self._binary(llvm.ShlOp, a, b, _WRAPS)

    def shifted_right(self, a: _Int, b: _Int) -> SSAValue:
        return self._binary(llvm.LShrOp, a, b)

    def compare(self, predicate: str, a: _Int, b: _Int) -> SSAValue:
        """`predicate` as llvm.icmp spells it: eq, ne, ult, ule, ..."""
        return self._make(llvm.ICmpOp, self._pair(a, b), i1, _predicate(predicate))

    def select(self, condition: SSAValue, a: _Int, b: _Int) -> SSAValue:
        return self.add(llvm.SelectOp(condition, *self._pair(a, b))).res

    def minimum(self, a: _Int, b: _Int) -> SSAValue:
        x, y = self._pair(a, b)
        return self.select(self.compare("ult", x, y), x, y)

    # Conversions

    def extended(self, value: SSAValue, type: Attribute = i32) -> SSAValue:
        """Zero-extended."""
        return value if value.type == type else self.add(llvm.ZExtOp(value, type)).results[0]

    def sign_extended(self, value: SSAValue) -> SSAValue:
        """To i32."""
        return value if value.type == i32 else self.add(llvm.SExtOp(value, i32)).results[0]

    def truncated(self, value: SSAValue, type: Attribute) -> SSAValue:
        return self.add(llvm.TruncOp(value, type)).results[0]

    def bitcast(self, value: SSAValue, type: Attribute) -> SSAValue:
        return value if value.type == type else self.add(llvm.BitcastOp(value, type)).results[0]

    def int_to_pointer(self, value: SSAValue, type: llvm.LLVMPointerType) -> SSAValue:
        return self.add(llvm.IntToPtrOp.create(operands=[value], result_types=[type])).output

    def pointer_to_int(self, pointer: SSAValue, type: Attribute = i32) -> SSAValue:
        return self.add(llvm.PtrToIntOp(pointer, type)).results[0]

    def address_space(self, pointer: SSAValue, type: llvm.LLVMPointerType) -> SSAValue:
        return self.add(AddrSpaceCastOp(pointer, type)).res

    # Memory

    def offset(self, pointer: SSAValue, bytes: _Int) -> SSAValue:
        """`pointer` plus so many bytes."""
        assert isinstance(pointer.type, llvm.LLVMPointerType)
        if isinstance(bytes, int):
            return self._make(llvm.GEPOp, (pointer,), pointer.type, _index(bytes))
        return self._make(llvm.GEPOp, (pointer, bytes), pointer.type, _index(llvm.GEP_USE_SSA_VAL))

    def load(self, pointer: SSAValue, type: Attribute, alignment: int) -> SSAValue:
        return self._make(llvm.LoadOp, (pointer,), type, _access(alignment))

    def store(self, value: SSAValue, pointer: SSAValue, alignment: int) -> None:
        op = llvm.StoreOp.create(operands=(value, pointer), properties=_access(alignment), location=self.location)
        self.block.add_op(op)

    # Aggregates

    def element(self, vector: SSAValue, index: int) -> SSAValue:
        return self.add(ExtractElementOp(vector, self.int32(index))).res

    def vector(self, elements: Sequence[SSAValue]) -> SSAValue:
        """A vector of i32 from its elements."""
        type = VectorType(i32, [len(elements)])
        value = self.add(llvm.UndefOp(type)).results[0]
        for index, element in enumerate(elements):
            value = self.add(llvm.InsertElementOp(value, element, self.int32(index))).results[0]
        return value

    def member(self, aggregate: SSAValue, index: int, type: Attribute) -> SSAValue:
        return self._make(llvm.ExtractValueOp, (aggregate,), type, _position(index))

    def asm(
        self, text: str, constraints: str, operands: Sequence[SSAValue], result: Attribute | None, *, effects: bool
    ) -> SSAValue | None:
        """Inline PTX; `effects` keeps it where it is."""
        op = llvm.InlineAsmOp(
            text, constraints, operands, None if result is None else [result], has_side_effects=effects
        )
        self.add(op)
        return op.res
