"""Instruction descriptors: the 32 bits that say shapes and types of a tcgen05.mma (PTX 9.7.16.4.2, tables 39, 42-44, 51, 52)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Literal

Kind = Literal["f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4", "mxf4nvf4"]
SCALED: tuple[Kind, ...] = ("mxf8f6f4", "mxf4", "mxf4nvf4")

_EIGHT_BIT_FLOATS = {0: "e4m3", 1: "e5m2", 3: "e2m3", 4: "e3m2", 5: "e2m1"}
_OPERANDS: dict[Kind, dict[int, str]] = {
    "f16": {0: "f16", 1: "bf16"},
    "tf32": {2: "tf32"},
    "f8f6f4": _EIGHT_BIT_FLOATS,
    "i8": {0: "u8", 1: "s8"},
    "mxf8f6f4": _EIGHT_BIT_FLOATS,
    "mxf4": {1: "e2m1"},
    "mxf4nvf4": {1: "e2m1"},
}
_RESULTS: dict[Kind, dict[int, str]] = {
    "f16": {0: "f16", 1: "f32"},
    "tf32": {1: "f32"},
    "f8f6f4": {0: "f16", 1: "f32"},
    "i8": {2: "s32"},
}
_K: dict[Kind, int] = {"f16": 16, "tf32": 8, "f8f6f4": 32, "i8": 32, "mxf8f6f4": 32, "mxf4": 64, "mxf4nvf4": 64}
_NARROW = ("e2m3", "e3m2", "e2m1")
_FOUR_BIT: tuple[Kind, ...] = ("mxf4", "mxf4nvf4")


@dataclass(frozen=True)
class Variant:
    """What the opcode says: kind, weight-stationary (`.ws`), sparse A (`.sp`), and the number of CTAs."""

    kind: Kind
    group: Literal[1, 2] = 1
    weights: bool = False
    sparse: bool = False


@dataclass(frozen=True)
class InstructionDescriptor:
    """One product D[m, n] = A[m, k] B[k, n] (+ D). `k` counts elements of B; a sparse A has half as many. `scale_type` and the
    ids of the scale factors only of block-scaled kinds."""

    variant: Variant
    m: int
    n: int
    k: int
    a: str
    b: str
    d: str
    a_negated: bool
    b_negated: bool
    a_transposed: bool
    b_transposed: bool
    saturate: bool
    selector: int
    scale_type: str = ""
    a_scale_id: int = 0
    b_scale_id: int = 0


class _Refused(Exception):
    """What is wrong with a descriptor."""


@lru_cache(maxsize=256)
def decode(variant: Variant, bits: int) -> InstructionDescriptor | str:
    """The descriptor, or what is wrong with it: the field, its value, and what it may be."""
    try:
        found = _decode_scaled(variant, bits) if variant.kind in SCALED else _decode(variant, bits)
        _check_shape(found)
    except _Refused as refused:
        return f"instruction descriptor 0x{bits:08x} of kind::{variant.kind}: {refused}"
    return found


def _decode(variant: Variant, bits: int) -> InstructionDescriptor:
    kind = variant.kind
    _reserved(bits, (6, 23, 29))
    integer = kind == "i8"
    if bits >> 3 & 1 and not integer:
        raise _Refused("saturation (bit 3) is for integers")
    if bits >> 13 & 3 and integer:
        raise _Refused("integers cannot be negated (bits 13-14 must be 0)")
    _check_sparsity(variant, bits)
    selector = bits & 3
    if selector and variant.sparse and kind in ("i8", "f8f6f4"):
        raise _Refused(f"the sparsity selector (bits 0-1) is {selector}; it must be 0")
    d = _field("the type of D", "4-5", bits >> 4 & 3, _RESULTS[kind])
    a = _field("the type of A", "7-9", bits >> 7 & 7, _OPERANDS[kind])
    b = _field("the type of B", "10-12", bits >> 10 & 7, _OPERANDS[kind])
    if d == "f16" and "bf16" in (a, b):
        raise _Refused("D is f16, but A and B are not (it is f32 for bf16)")
    return InstructionDescriptor(
        variant,
        m=(bits >> 24 & 31) << 4,
        n=(bits >> 17 & 63) << 3,
        k=_K[kind] * (2 if variant.sparse else 1),
        a=a,
        b=b,
        d=d,
        a_negated=bool(bits >> 13 & 1),
        b_negated=bool(bits >> 14 & 1),
        a_transposed=bool(bits >> 15 & 1),
        b_transposed=bool(bits >> 16 & 1),
        saturate=bool(bits >> 3 & 1),
        selector=selector,
    )


def _decode_scaled(variant: Variant, bits: int) -> InstructionDescriptor:
    kind = variant.kind
    four = kind in _FOUR_BIT
    if four and bits >> 31:
        raise _Refused("K = 96 (bit 31) is for sm_103a")
    _reserved(bits, (0, 1, 3, 6, *((12,) if four else ()), 24, 25, 26, 31))
    _check_sparsity(variant, bits)
    if four and bits >> 15 & 3:
        raise _Refused("A and B cannot be transposed (bits 15-16 must be 0)")
    scales = {"mxf8f6f4": {1: "ue8m0"}, "mxf4": {1: "ue8m0"}, "mxf4nvf4": {0: "ue4m3", 1: "ue8m0"}}[kind]
    ids = (0, 2) if four else (0, 1, 2, 3)
    b_scale_id, a_scale_id = bits >> 4 & 3, bits >> 29 & 3
    for name, where, value in (("B", "4-5", b_scale_id), ("A", "29-30", a_scale_id)):
        if value not in ids:
            raise _Refused(f"the scale factor id of {name} (bits {where}) is {value}; it is one of {_listed(ids)}")
    return InstructionDescriptor(
        variant,
        m=(bits >> 27 & 3) << 7,
        n=(bits >> 17 & 63) << 3,
        k=_K[kind] * (2 if variant.sparse else 1),
        a=_field("the type of A", "7-9", bits >> 7 & 7, _OPERANDS[kind]),
        b=_field("the type of B", "10-11" if four else "10-12", bits >> 10 & (3 if four else 7), _OPERANDS[kind]),
        d="f32",
        a_negated=bool(bits >> 13 & 1),
        b_negated=bool(bits >> 14 & 1),
        a_transposed=bool(bits >> 15 & 1),
        b_transposed=bool(bits >> 16 & 1),
        saturate=False,
        selector=0,
        scale_type=_field("the type of the scale factors", "23", bits >> 23 & 1, scales),
        a_scale_id=a_scale_id,
        b_scale_id=b_scale_id,
    )


def _reserved(bits: int, where: tuple[int, ...]) -> None:
    wrong = [str(b) for b in where if bits >> b & 1]
    if wrong:
        raise _Refused(f"reserved bits must be 0, but set are {', '.join(wrong)}")


def _field(name: str, where: str, value: int, meanings: dict[int, str]) -> str:
    found = meanings.get(value)
    if found is None:
        raise _Refused(
            f"{name} (bits {where}) is {value}; it is one of {', '.join(f'{v} ({m})' for v, m in meanings.items())}"
        )
    return found


def _check_sparsity(variant: Variant, bits: int) -> None:
    if bool(bits >> 2 & 1) != variant.sparse:
        says = "sparse, but the instruction is not" if bits >> 2 & 1 else "dense, but the instruction is not (.sp)"
        raise _Refused(f"bit 2 says that A is {says}")


def _check_shape(d: InstructionDescriptor) -> None:
    variant = d.variant
    for name, transposed, type in (("A", d.a_transposed, d.a), ("B", d.b_transposed, d.b)):
        if transposed and type in _NARROW:
            raise _Refused(f"{name} is {type}, which cannot be transposed (bits 15-16)")
    rows = _rows(variant)
    if d.m not in rows:
        raise _Refused(f"M is {d.m}; it is one of {_listed(rows)} with {_called(variant)}")
    columns = _columns(variant, d.b_transposed and d.b in ("e4m3", "e5m2", "u8", "s8"))
    if d.n not in columns:
        raise _Refused(f"N is {d.n}; it is one of {_listed(columns)} with {_called(variant)}")


def _rows(variant: Variant) -> tuple[int, ...]:
    if variant.weights:
        return 32, 64, 128
    if variant.kind in SCALED:
        return (128,) if variant.group == 1 else (256,) if variant.sparse else (128, 256)
    return (64, 128) if variant.group == 1 else (128, 256)


def _columns(variant: Variant, transposed_bytes: bool) -> tuple[int, ...]:
    if variant.weights:
        return (64, 128) if variant.sparse else (64, 128, 256)
    if variant.kind == "i8":
        steps = (8, 16, 24, *range(32, 257, 16)) if variant.group == 1 else tuple(range(32, 257, 32))
    else:
        steps = tuple(range(8, 257, 8)) if variant.group == 1 else tuple(range(16, 257, 16))
    return tuple(n for n in steps if not transposed_bytes or n % (16 * variant.group) == 0)


def _called(variant: Variant) -> str:
    return f"{'.ws ' if variant.weights else ''}{'.sp ' if variant.sparse else ''}cta_group::{variant.group}"


def _listed(numbers: tuple[int, ...]) -> str:
    """Numbers in words; a long progression by its ends and step."""
    if len(numbers) > 5 and len({b - a for a, b in pairwise(numbers)}) == 1:
        return f"{numbers[0]}, {numbers[1]}, ... {numbers[-1]}"
    return ", ".join(map(str, numbers))
