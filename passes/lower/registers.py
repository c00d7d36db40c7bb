"""Register tiles: element-wise operations, and their way to and from shared memory."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from xdsl.dialects import llvm
from xdsl.dialects.builtin import StringAttr, VectorType, f16, f32, i32
from xdsl.ir import Operation, SSAValue

from tilec.diagnostics import fail
from tilec.dialects.tile import (
    BF16,
    F16,
    F32,
    AddOp,
    BroadcastOp,
    CastOp,
    DType,
    LoadOp,
    MaxOp,
    MulOp,
    RegType,
    SmemType,
    SplatOp,
    StoreOp,
    SubOp,
)
from tilec.passes.lower.emit import Emitter, i16
from tilec.passes.lower.fragment import Fragment, Run
from tilec.passes.lower.kernel import KernelLowering, RegTile, SmemTile

_PACK = {F16: "cvt.rn.f16x2.f32 $0, $1, $2;", BF16: "cvt.rn.bf16x2.f32 $0, $1, $2;"}
"""PTX ISA 9.7.9.21: the first operand becomes the upper half."""

_HIGH_HALF = -65536  # 0xffff0000


def reg_type(value: SSAValue) -> RegType:
    assert isinstance(value.type, RegType)
    return value.type


# Conversions between words and f32 elements


def _pack(e: Emitter, dtype: DType, low: SSAValue, high: SSAValue) -> SSAValue:
    word = e.asm(_PACK[dtype], "=r,f,f", [high, low], i32, effects=False)
    assert word is not None
    return word


def _unpack(e: Emitter, dtype: DType, word: SSAValue) -> tuple[SSAValue, SSAValue]:
    if dtype == BF16:
        # A bf16 is the upper half of an f32.
        return e.bitcast(e.shifted_left(word, 16), f32), e.bitcast(e.bits_and(word, _HIGH_HALF), f32)

    def half(bits: SSAValue) -> SSAValue:
        return e.add(llvm.FPExtOp(e.bitcast(e.truncated(bits, i16), f16), f32)).results[0]

    return half(word), half(e.shifted_right(word, 16))


def to_floats(e: Emitter, dtype: DType, words: Sequence[SSAValue]) -> list[SSAValue]:
    """The elements as f32, exact."""
    if dtype == F32:
        return list(words)
    return [value for word in words for value in _unpack(e, dtype, word)]


def from_floats(e: Emitter, dtype: DType, values: Sequence[SSAValue]) -> tuple[SSAValue, ...]:
    """f32 elements rounded to nearest even, as words of `dtype`."""
    if dtype == F32:
        return tuple(values)
    return tuple(_pack(e, dtype, low, high) for low, high in zip(values[::2], values[1::2], strict=True))


def constant_word(dtype: DType, value: float) -> int | float:
    """The bits of one word that holds `value` everywhere (the value itself for f32)."""
    if dtype == F32:
        return value
    if dtype == F16:
        (bits,) = struct.unpack("<H", struct.pack("<e", value))
    else:
        (single,) = struct.unpack("<I", struct.pack("<f", value))
        bits = (single + 0x7FFF + ((single >> 16) & 1)) >> 16 & 0xFFFF
    word = bits << 16 | bits
    return word - (1 << 32) if word >> 31 else word


# Element-wise operations


def lower_splat(k: KernelLowering, fragment: Fragment, op: SplatOp) -> None:
    type = reg_type(op.res)
    word = k.e.constant(constant_word(type.dtype, op.value), f32 if type.dtype == F32 else i32)
    k.values[op.res] = RegTile((word,) * fragment.words(type))


def lower_cast(k: KernelLowering, op: CastOp) -> None:
    source, dest = reg_type(op.value), reg_type(op.res)
    words = k.reg(op.value).words
    if source.dtype != dest.dtype:
        # Both types list a thread's elements in the same order, so only the words change.
        words = from_floats(k.e, dest.dtype, to_floats(k.e, source.dtype, words))
    k.values[op.res] = RegTile(words)


def lower_broadcast(k: KernelLowering, fragment: Fragment, op: BroadcastOp) -> None:
    source, dest = reg_type(op.value), reg_type(op.res)
    per_run = fragment.vector(dest) * dest.dtype.bytes // 4
    row = k.reg(op.value).words
    starts = {run.column: run.element * source.dtype.bytes // 4 for run in fragment.runs(source)}
    words: list[SSAValue] = []
    for run in fragment.runs(dest):
        start = starts[run.column]
        words += row[start : start + per_run]
    k.values[op.res] = RegTile(tuple(words))


def _float_op(make: Callable[[SSAValue, SSAValue], Operation]) -> Callable[[Emitter, SSAValue, SSAValue], SSAValue]:
    return lambda e, a, b: e.add(make(a, b)).results[0]


def _maximum(e: Emitter, a: SSAValue, b: SSAValue) -> SSAValue:
    op = llvm.CallIntrinsicOp(StringAttr("llvm.maxnum.f32"), [a, b], [f32])
    return e.add(op).results[0]


_BINARY: dict[type[Operation], Callable[[Emitter, SSAValue, SSAValue], SSAValue]] = {
    AddOp: _float_op(llvm.FAddOp),
    SubOp: _float_op(llvm.FSubOp),
    MulOp: _float_op(llvm.FMulOp),
    MaxOp: _maximum,
}


def lower_binary(k: KernelLowering, op: Operation) -> None:
    """In f32 and rounded: for one operation that is the correctly rounded result in f16 and bf16 too."""
    dtype = reg_type(op.results[0]).dtype
    compute = _BINARY[type(op)]
    operands = [to_floats(k.e, dtype, k.reg(v).words) for v in op.operands]
    results = [compute(k.e, a, b) for a, b in zip(*operands, strict=True)]
    k.values[op.results[0]] = RegTile(from_floats(k.e, dtype, results))


# Shared memory


class _Address:
    """Addresses of a thread's runs in a shared tile: what depends on the thread is computed once."""

    def __init__(self, k: KernelLowering, fragment: Fragment, tile: SmemTile):
        self.k = k
        self.layout = tile.type.layout
        self.base = k.smem_pointer(tile.offset)
        self.rank = len(tile.type.shape)
        self.row_is_slow = self.rank == 1 or tile.type.order[0] == 1
        self.row = fragment.row(k)
        self.column = fragment.column(k)
        e, layout = k.e, self.layout
        column = e.times(self.column, layout.element_bytes)
        self.whole_runs = self.row_is_slow and (
            self.rank == 1 or layout.swizzle > 16 or 8 * layout.element_bytes == 16 or fragment.whole_rows
        )
        """Whether a run lies side by side inside one 16-byte unit at an address that `vector` can compute."""
        if self.rank == 1:
            self.thread_part = column
        elif self.whole_runs:
            # Constant row steps are multiples of 8, the period of the swizzle: its XOR depends on the thread alone. The
            # thread's own column may reach the second unit of its 8 columns (f32).
            rows = e.times(self.row, layout.swizzle)
            self.thread_part = e.plus(rows, e.bits_and(column, 15))
            self.xor = e.bits_xor(e.bits_and(e.shifted_right(rows, 3), layout.swizzle - 16), e.bits_and(column, 16))

    def vector(self, run: Run) -> SSAValue:
        """Pointer to a whole run."""
        e, layout = self.k.e, self.layout
        bytes = run.column * layout.element_bytes
        if self.rank == 1:
            return e.offset(self.base, e.plus(self.thread_part, bytes))
        block, inside = divmod(bytes, layout.swizzle)
        constant = block * layout.block_bytes + run.row * layout.swizzle
        return e.offset(self.base, e.plus(e.plus(self.thread_part, constant), e.bits_xor(self.xor, inside)))

    def element(self, run: Run, index: int) -> SSAValue:
        """Pointer to one element, in any layout."""
        e, layout = self.k.e, self.layout
        row, column = e.plus(self.row, run.row), e.plus(self.column, run.column + index)
        fast, slow = (column, row) if self.row_is_slow else (row, column)
        fast = e.times(fast, layout.element_bytes)
        block = e.times(e.divided(fast, layout.swizzle), layout.block_bytes)
        linear = e.plus(e.plus(block, e.times(slow, layout.swizzle)), e.modulo(fast, layout.swizzle))
        xor = e.bits_and(e.shifted_right(linear, 3), layout.swizzle - 16)
        return e.offset(self.base, e.bits_xor(linear, xor))


def _split(e: Emitter, word: SSAValue) -> tuple[SSAValue, SSAValue]:
    return e.truncated(word, i16), e.truncated(e.shifted_right(word, 16), i16)


def lower_store(k: KernelLowering, fragment: Fragment, op: StoreOp) -> None:
    type = reg_type(op.value)
    words = k.reg(op.value).words
    tile = k.smem(op.dest)

    def body() -> None:
        e = k.e
        address = _Address(k, fragment, tile)
        per_run = fragment.vector(type) * type.dtype.bytes // 4
        for run in fragment.runs(type):
            start = run.element * type.dtype.bytes // 4
            mine = [e.bitcast(w, i32) for w in words[start : start + per_run]]
            if address.whole_runs:
                e.store(mine[0] if per_run == 1 else e.vector(mine), address.vector(run), 4 * per_run)
            elif type.dtype.bytes == 4:
                for index, word in enumerate(mine):
                    e.store(word, address.element(run, index), 4)
            else:
                for index, half in enumerate(h for word in mine for h in _split(e, word)):
                    e.store(half, address.element(run, index), 2)

    active = fragment.active(k)
    if active is None:
        body()
    else:
        k.e.when(active, body)


def lower_load(k: KernelLowering, fragment: Fragment, op: LoadOp) -> None:
    type = reg_type(op.res)
    if not isinstance(op.source.type, SmemType):
        fail(op, "tile.load of an accumulator is synchronous (L0)", hint="run `tma` or `threads` first")
    e = k.e
    address = _Address(k, fragment, k.smem(op.source))
    per_run = fragment.vector(type) * type.dtype.bytes // 4
    word = f32 if type.dtype == F32 else i32
    words: list[SSAValue] = []
    for run in fragment.runs(type):
        if address.whole_runs:
            if per_run == 1:
                words.append(e.load(address.vector(run), word, 4))
            else:
                vector = e.load(address.vector(run), VectorType(i32, [per_run]), 4 * per_run)
                words += [e.bitcast(e.element(vector, i), word) for i in range(per_run)]
        elif type.dtype == F32:
            words += [e.load(address.element(run, i), f32, 4) for i in range(per_run)]
        else:
            for i in range(per_run):
                low, high = (e.extended(e.load(address.element(run, 2 * i + half), i16, 2)) for half in (0, 1))
                words.append(e.bits_or(low, e.shifted_left(high, 16)))
    k.values[op.res] = RegTile(tuple(words))
