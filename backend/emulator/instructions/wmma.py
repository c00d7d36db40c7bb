"""`wmma.load`, `wmma.mma` and `wmma.store` (PTX 9.7.14.4): products of matrices in opaque fragments.

Which element lies in which register of which lane is not specified; here a lane has as many neighbours of a row (of a column for
matrices stored by columns: never seen by a program) as its registers take, and a matrix that is smaller than the registers is
held more than once, as on hardware.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilec.backend.emulator.execution.decode import Decoder, Reader, Together, instruction
from tilec.backend.emulator.execution.lanes import Lanes
from tilec.backend.emulator.matrices.values import ACCUMULATORS, BITS, RAW, accumulate, fused_doubles, products, values
from tilec.backend.emulator.memory.accesses import load, store
from tilec.backend.emulator.mma.registers import check_whole, read, write
from tilec.backend.emulator.ptx.syntax import Operand

_SPACES = ("global", "shared", "shared::cta")
_WIDE = ((16, 16, 16), (8, 32, 16), (32, 8, 16))
_SHAPES: dict[str, tuple[tuple[int, int, int], ...]] = {
    "f16": _WIDE,
    "bf16": _WIDE,
    "s8": _WIDE,
    "u8": _WIDE,
    "tf32": ((16, 16, 8),),
    "f64": ((8, 8, 4),),
    "s4": ((8, 8, 32),),
    "u4": ((8, 8, 32),),
    "b1": ((8, 8, 128),),
}
"""Shapes (m, n, k) by the type of A."""
_INTEGERS = ("s8", "u8", "s4", "u4")
_RESULTS = {"f16": ("f16", "f32"), "bf16": ("f32",), "tf32": ("f32",), "f64": ("f64",)}
"""Types of C and D by the type of A; of integers s32."""


@dataclass(frozen=True)
class _Fragment:
    """A matrix, `rows` x `columns` of elements of `type`; `registers` of `width` bits in each lane hold it."""

    type: str
    rows: int
    columns: int
    registers: int
    width: int

    @property
    def bits(self) -> int:
        return ACCUMULATORS[self.type].itemsize * 8 if self.type in ("f32", "s32") else BITS[self.type]

    @property
    def held(self) -> int:
        """Different elements of a lane."""
        return self.rows * self.columns // 32

    @property
    def copies(self) -> int:
        """How often a lane holds each of them."""
        return self.registers * self.width // (self.held * self.bits)


def _fragment(matrix: str, type: str, shape: tuple[int, int, int]) -> _Fragment:
    m, n, k = shape
    if matrix in ("c", "d"):
        registers = m * n // 32 // (2 if type == "f16" else 1)
        return _Fragment(type, m, n, registers, 64 if type == "f64" else 32)
    rows, columns = (m, k) if matrix == "a" else (k, n)
    width = 64 if type == "f64" else 32
    # Of f16, a fragment has eight registers whatever the shape (PTX 9.7.14.4.1).
    registers = 8 if type == "f16" else max(rows * columns * BITS[type] // width // 32, 1)
    return _Fragment(type, rows, columns, registers, width)


def _shape(d: Decoder) -> tuple[int, int, int]:
    for at, modifier in enumerate(d.modifiers):
        if found := re.fullmatch(r"m(\d+)n(\d+)k(\d+)", modifier):
            del d.modifiers[at]
            return int(found[1]), int(found[2]), int(found[3])
    d.unsupported("wmma without a shape")


def _sync_aligned(d: Decoder) -> None:
    if d.take("sync") is None or d.take("aligned") is None:
        d.unsupported(".sync.aligned is missing")


def _check(d: Decoder, type: str, shape: tuple[int, int, int]) -> None:
    if shape not in _SHAPES.get(type, ()):
        d.unsupported()


def _check_accumulator(d: Decoder, type: str, shape: tuple[int, int, int]) -> None:
    """C and D of a type exist in the shapes of some A."""
    if not any(shape in shapes and type in _RESULTS.get(a, ("s32",)) for a, shapes in _SHAPES.items()):
        d.unsupported()


@lru_cache(maxsize=64)
def _words(fragment: _Fragment, by_columns: bool) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Line (row, or column of a matrix stored `by_columns`) and place in it, in elements, of each word of a lane: shape (32, words). A
    word is what one access reads: an element, or 32 bits of smaller ones."""
    lines, length = (fragment.columns, fragment.rows) if by_columns else (fragment.rows, fragment.columns)
    per = 1 if fragment.bits >= 8 else 32 // fragment.bits
    words = np.arange(lines * length // per).reshape(32, -1)
    return words * per // length, words * per % length


def _addresses(
    lanes: Lanes, fragment: _Fragment, by_columns: bool, base: Reader, stride: Reader | None
) -> NDArray[np.uint64]:
    """Addresses of the words of each lane: shape (lanes, words)."""
    line, place = _words(fragment, by_columns)
    pitch = np.array(fragment.rows if by_columns else fragment.columns, np.int64)
    if stride is not None:
        pitch = stride(lanes).astype(np.int64)
    start = np.broadcast_to(base(lanes), (lanes.count,)).astype(np.int64)
    warps = lanes.count // 32
    elements = np.tile(line, (warps, 1)) * np.broadcast_to(pitch, (lanes.count,))[:, None] + np.tile(place, (warps, 1))
    return (start[:, None] + elements * fragment.bits // 8).astype(np.uint64)


def _raw(fragment: _Fragment) -> np.dtype[np.generic]:
    """What one word is in memory."""
    if fragment.type in ("f32", "s32"):
        return np.dtype(np.uint32)
    return np.dtype(np.uint32) if fragment.bits < 8 else np.dtype(f"u{fragment.bits // 8}")


@instruction("wmma.load")
def wmma_load(d: Decoder) -> Together:
    matrix = d.take("a", "b", "c")
    _sync_aligned(d)
    layout, shape, space = d.take("row", "col"), _shape(d), d.take(*_SPACES) or "generic"
    type = d.modifiers.pop() if d.modifiers else ""
    d.finish()
    if matrix is None or layout is None:
        d.unsupported()
    if matrix != "c":
        _check(d, type, shape)
        if BITS[type] < 8 and (matrix, layout) not in (("a", "row"), ("b", "col")):
            d.unsupported("of less than a byte A lies by rows and B by columns")
    else:
        _check_accumulator(d, type, shape)
    d.count(2, 3)
    fragment = _fragment(matrix, type, shape)
    results = d.elements(d.operands[0])
    _check_registers(d, results, fragment)
    wide = f"b{fragment.width}"
    writers = [d.writer(r, wide) for r in results]
    base = d.address(d.operands[1])
    stride = d.reader(d.operands[2], "u32") if len(d.operands) == 3 else None

    def execute(lanes: Lanes) -> None:
        check_whole(lanes)
        addresses = _addresses(lanes, fragment, layout == "col", base, stride)
        dtype = _raw(fragment)
        columns = [load(lanes, space, addresses[:, at], dtype)[:, 0] for at in range(addresses.shape[1])]
        words = _by_rows(fragment, np.stack(columns, axis=1), layout == "col")
        write(lanes, writers, np.tile(words, (1, fragment.copies)))

    return Together(execute, "warp")


def _by_rows(fragment: _Fragment, words: NDArray[np.generic], by_columns: bool) -> NDArray[np.generic]:
    """Words of the lanes of a matrix that was stored by columns, as if it were stored by rows; sub-byte types never are."""
    if not by_columns or fragment.bits < 8:
        return words
    matrix = words.reshape(-1, fragment.columns, fragment.rows).swapaxes(1, 2)
    return np.ascontiguousarray(matrix).reshape(words.shape)


def _check_registers(d: Decoder, operands: tuple[Operand, ...], fragment: _Fragment) -> None:
    if len(operands) != fragment.registers:
        d.unsupported(f"{len(operands)} registers, not {fragment.registers}")


@instruction("wmma.store")
def wmma_store(d: Decoder) -> Together:
    if d.take("d") is None:
        d.unsupported()
    _sync_aligned(d)
    layout, shape, space = d.take("row", "col"), _shape(d), d.take(*_SPACES) or "generic"
    type = d.modifiers.pop() if d.modifiers else ""
    d.finish()
    if layout is None:
        d.unsupported()
    _check_accumulator(d, type, shape)
    d.count(2, 3)
    fragment = _fragment("d", type, shape)
    sources = d.elements(d.operands[1])
    _check_registers(d, sources, fragment)
    readers = [d.reader(r, f"b{fragment.width}") for r in sources]
    base = d.address(d.operands[0])
    stride = d.reader(d.operands[2], "u32") if len(d.operands) == 3 else None

    def execute(lanes: Lanes) -> None:
        check_whole(lanes)
        words = read(lanes, readers, _raw(fragment)).reshape(lanes.count, -1)
        if layout == "col":
            matrix = words.reshape(-1, fragment.rows, fragment.columns).swapaxes(1, 2)
            words = np.ascontiguousarray(matrix).reshape(words.shape)
        addresses = _addresses(lanes, fragment, layout == "col", base, stride)
        for at in range(addresses.shape[1]):
            store(lanes, space, addresses[:, at], np.ascontiguousarray(words[:, at : at + 1]))

    return Together(execute, "warp")


@instruction("wmma.mma")
def wmma_mma(d: Decoder) -> Together:
    opcode = d.instruction.opcode
    saturate = d.take("satfinite") is not None
    operation = d.take("and", "xor")
    if (d.take("popc") is None) != (operation is None):
        d.unsupported(".and or .xor goes with .popc")
    _sync_aligned(d)
    layouts = d.take("row", "col"), d.take("row", "col")
    rounded = d.take("rn") is not None
    shape = _shape(d)
    if None in layouts or len(d.modifiers) not in (2, 4):
        d.unsupported()
    # Of f16 only D and C are named.
    dt, at, bt, ct = d.modifiers if len(d.modifiers) == 4 else (d.modifiers[0], "f16", "f16", d.modifiers[1])
    _check(d, at, shape)
    allowed = _RESULTS.get(at, ("s32",))
    if at != bt or dt not in allowed or ct not in allowed or (at == "b1") != (operation is not None):
        d.unsupported()
    if (BITS[at] < 8 and layouts != ("row", "col")) or (saturate and at not in _INTEGERS) or (rounded and at != "f64"):
        d.unsupported()
    d.count(4)
    fragments = [_fragment(name, type, shape) for name, type in zip("dabc", (dt, at, bt, ct), strict=True)]
    for operand, fragment in zip(d.operands, fragments, strict=True):
        _check_registers(d, d.elements(operand), fragment)
    wide = f"b{fragments[1].width}"
    writers = [d.writer(r, wide) for r in d.elements(d.operands[0])]
    readers = [[d.reader(r, wide) for r in d.elements(operand)] for operand in d.operands[1:]]

    def execute(lanes: Lanes) -> None:
        check_whole(lanes)
        lanes.machine.statistics.mmas[opcode] += lanes.count // 32
        a = values(at, _matrix(lanes, fragments[1], readers[0], RAW[at]))
        b = _matrix_b(lanes, fragments[2], readers[1], bt)
        c = _matrix(lanes, fragments[3], readers[2], ACCUMULATORS[ct])
        if dt == "f64":
            total = fused_doubles(a, b, c)
        else:
            total = accumulate(dt, products(a, b, operation), c, saturate=saturate)
        write(lanes, writers, total.reshape(lanes.count // 32, 32, -1))

    return Together(execute, "warp")


def _matrix(lanes: Lanes, fragment: _Fragment, readers: list[Reader], raw: np.dtype[Any]) -> NDArray[Any]:
    """A fragment as a matrix of each warp, by rows: (warps, rows, columns), of less than a byte (warps, rows, bytes)."""
    held = read(lanes, readers, raw)
    once = held[:, :, : held.shape[2] // fragment.copies]
    return np.ascontiguousarray(once).reshape(len(held), fragment.rows, -1)


def _matrix_b(lanes: Lanes, fragment: _Fragment, readers: list[Reader], type: str) -> NDArray[np.float64]:
    """B by its columns: (warps, n, k). Of less than a byte it lies by columns already."""
    if fragment.bits < 8:
        by_columns = _Fragment(fragment.type, fragment.columns, fragment.rows, fragment.registers, fragment.width)
        return values(type, _matrix(lanes, by_columns, readers, RAW[type]))
    return values(type, _matrix(lanes, fragment, readers, RAW[type])).swapaxes(1, 2)
