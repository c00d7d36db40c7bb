"""Comparisons of all types (PTX 9.3.1, 9.7.6.1, 9.7.6.2, 9.7.7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilec.backend.emulator.execution.decode import Decoder, Reader, instruction
from tilec.backend.emulator.execution.lanes import Execute, Lanes
from tilec.backend.emulator.instructions.typed import BITS, INTEGERS, SIGNED, UNSIGNED, parts_of
from tilec.backend.emulator.numbers.types import Values, dtype_of, is_type
from tilec.backend.emulator.ptx.syntax import Pair

Compare = Callable[[Any, Any], Any]

_ORDER: dict[str, np.ufunc] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
_UNSIGNED_NAMES = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_BOOLEAN: dict[str, np.ufunc] = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}
_FLOATS = ("f16", "bf16", "f32", "f64")
_PAIRS = ("f16x2", "bf16x2")
_FLUSHED = ("f16", "f16x2", "f32")
_OPERATORS = (*_ORDER, *_UNSIGNED_NAMES, "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")


def _unordered(a: Values, b: Values) -> Any:
    return np.isnan(a) | np.isnan(b)


def _float_comparison(name: str) -> Compare:
    match name:
        case "num":
            return lambda a, b: ~_unordered(a, b)
        case "nan":
            return _unordered
        case "ne":
            return lambda a, b: (a != b) & ~_unordered(a, b)
        case _ if name in _ORDER:
            return _ORDER[name]
        case _:
            ordered = _ORDER[name[:2]]
            return lambda a, b: ordered(a, b) | _unordered(a, b)


def _widened(type: str, values: Values) -> Values:
    """Floating values with the same order, of a NumPy type; packed ones as shape (lanes or 1, 2)."""
    match type:
        case "bf16":
            return (values.astype(np.uint32) << np.uint32(16)).view(np.float32)
        case "bf16x2":
            return (parts_of(values, np.dtype(np.uint16)).astype(np.uint32) << np.uint32(16)).view(np.float32)
        case "f16x2":
            return parts_of(values, np.dtype(np.float16))
        case _:
            return values


def _flushed(values: Values) -> Values:
    """Subnormal values as zeros."""
    return np.where(np.abs(values) < np.finfo(values.dtype).tiny, values.dtype.type(0), values)


def _comparison(d: Decoder, type: str) -> Compare:
    """What the modifiers say, for operands as they are read; results of packed types have shape (lanes or 1, 2)."""
    name = d.take(*_OPERATORS)
    if name is None:
        d.unsupported("a comparison without an operator")
    flush = d.take("ftz") is not None
    if flush and type not in _FLUSHED:
        d.unsupported(f".ftz goes with .f32, .f16 and .f16x2, not with .{type}")
    if type in (*_FLOATS, *_PAIRS):
        if name in _UNSIGNED_NAMES:
            d.unsupported(f".{name} compares unsigned integers, not .{type}")
        compare = _float_comparison(name)

        def compare_floats(a: Values, b: Values) -> Any:
            a, b = _widened(type, a), _widened(type, b)
            return compare(_flushed(a), _flushed(b)) if flush else compare(a, b)

        return compare_floats
    known = {**dict.fromkeys(BITS, ("eq", "ne")), **dict.fromkeys(SIGNED, tuple(_ORDER))}
    known |= dict.fromkeys(UNSIGNED, (*_ORDER, *_UNSIGNED_NAMES))
    if name not in known.get(type, ()):
        d.unsupported(f".{name} does not compare .{type}")
    return _ORDER[_UNSIGNED_NAMES.get(name, name)]


def _take_source(d: Decoder) -> str:
    type = d.take_type()
    if type not in (*BITS, *INTEGERS, *_FLOATS, *_PAIRS):
        d.unsupported(f".{type} is no type of {d.instruction.parts[0]}")
    return type


def _joined(d: Decoder) -> tuple[np.ufunc | None, Reader | None]:
    """The Boolean operation and the predicate that a comparison is joined with."""
    name = d.take(*_BOOLEAN)
    d.finish()
    d.count(3 if name is None else 4)
    return (None, None) if name is None else (_BOOLEAN[name], d.reader(d.operands[3], "pred"))


@instruction("setp")
def setp(d: Decoder) -> Execute:
    """The second result is that of the complement; of packed types, that of the upper half."""
    type = _take_source(d)
    compare = _comparison(d, type)
    join, predicate = _joined(d)
    target = d.operands[0]
    first, second = (target.first, target.second) if isinstance(target, Pair) else (target, None)
    if second is not None and type in ("f16", "bf16"):
        d.unsupported(f"a comparison of .{type} has one result")
    write = d.writer(first, "pred")
    write_second = None if second is None else d.writer(second, "pred")
    a, b = d.reader(d.operands[1], type), d.reader(d.operands[2], type)
    if join is None and write_second is None and type not in _PAIRS:
        return lambda lanes: write(lanes, np.asarray(compare(a(lanes), b(lanes))))

    def execute(lanes: Lanes) -> None:
        found = np.asarray(compare(a(lanes), b(lanes)))
        both = (found[:, 0], found[:, 1]) if type in _PAIRS else (found, ~found)
        if join is not None and predicate is not None:
            # Either result may be the register of the predicate: compute both before writing one.
            other = predicate(lanes)
            both = np.asarray(join(both[0], other)), np.asarray(join(both[1], other))
        write(lanes, both[0])
        if write_second is not None:
            write_second(lanes, both[1])

    return execute


_RESULTS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys((*BITS, *INTEGERS, "f32", "f64"), ("u32", "s32", "f32", "f16", "bf16")),
    "f16": ("u16", "s16", "u32", "s32", "f16", "bf16"),
    "bf16": ("u16", "s16", "u32", "s32", "bf16"),
    "f16x2": ("f16x2", "u32", "s32"),
    "bf16x2": ("bf16x2", "u32", "s32"),
}
"""The result types of `set` for each source type."""

_TRUE = {"f32": 0x3F800000, "f16": 0x3C00, "f16x2": 0x3C00, "bf16": 0x3F80, "bf16x2": 0x3F80}


@instruction("set")
def set_(d: Decoder) -> Execute:
    """One, or all ones for integer results, where the comparison holds; zero elsewhere. Of packed types for each half."""
    type = _take_source(d)
    result = d.modifiers[-1] if d.modifiers else ""
    if not is_type(result) or result not in _RESULTS[type]:
        d.unsupported(f"a comparison of .{type} that has no result type, or not one of .{', .'.join(_RESULTS[type])}")
    d.modifiers.pop()
    compare = _comparison(d, type)
    join, predicate = _joined(d)
    write = d.writer(d.operands[0], result)
    a, b = d.reader(d.operands[1], type), d.reader(d.operands[2], type)
    bits = np.dtype(np.uint16) if type in _PAIRS else np.dtype(f"u{dtype_of(result).itemsize}")
    true = bits.type(_TRUE.get(result, (1 << 8 * bits.itemsize) - 1))

    def execute(lanes: Lanes) -> None:
        found = np.asarray(compare(a(lanes), b(lanes)))
        if join is not None and predicate is not None:
            other = predicate(lanes)
            found = np.asarray(join(found, other[..., None] if type in _PAIRS else other))
        values = np.where(found, true, bits.type(0))
        if type in _PAIRS:
            values = np.ascontiguousarray(values).view(np.uint32)[:, 0]
        write(lanes, values)

    return execute
