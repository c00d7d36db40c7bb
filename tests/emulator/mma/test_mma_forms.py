"""The forms of mma and mma.sp that sm_90a and sm_100a have (PTX 9.7.14.5.14, 9.7.14.6.3), and no others: they agree with ptxas 13.0, but
for forms with s4 and `.and` or `.xor`, which ptxas takes and the ISA does not know."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from taken_forms import taken, vector
from warp_kernels import BITS, run_warps

from tilec.backend.emulator.faults import UnsupportedInstruction

_KINDS = [*BITS, "e3m2"]
_WIDTH = {**BITS, "e3m2": 8}
_ACCUMULATORS = ("f16", "f32", "f64", "s32")
_SHAPES = [(m, k) for m in (8, 16) for k in (4, 8, 16, 32, 64, 128, 256)]
_INTEGER = (("s8", "u8"), ("s4", "u4"))

Form = tuple[int, int, str, str, str, str]
"""m, k, types of D, A, B and C."""


def _all() -> list[Form]:
    return [
        (m, k, d, a, b, c)
        for (m, k), a, b, d, c in product(_SHAPES, _KINDS, _KINDS, _ACCUMULATORS, _ACCUMULATORS)
        if _WIDTH[a] == _WIDTH[b] and (a == b or d == c)
    ]


def _dense() -> set[Form]:
    legal: set[Form] = {(16, k, d, "f16", "f16", d) for k in (8, 16) for d in ("f16", "f32")}
    legal |= {(8, 4, d, "f16", "f16", c) for d, c in (("f16", "f16"), ("f32", "f16"), ("f32", "f32"))}
    legal |= {(16, k, "f32", "bf16", "bf16", "f32") for k in (8, 16)}
    legal |= {(16, k, "f32", "tf32", "tf32", "f32") for k in (4, 8)}
    for k, d, a, b in product((16, 32), ("f16", "f32"), ("e4m3", "e5m2"), ("e4m3", "e5m2")):
        legal.add((16, k, d, a, b, d))
    legal |= {(m, k, "f64", "f64", "f64", "f64") for m, k in ((8, 4), (16, 4), (16, 8), (16, 16))}
    for kinds, shapes in zip(_INTEGER, (((8, 16), (16, 16), (16, 32)), ((8, 32), (16, 32), (16, 64))), strict=True):
        legal |= {(m, k, "s32", a, b, "s32") for (m, k), a, b in product(shapes, kinds, kinds)}
    return legal


def _sparse() -> set[Form]:
    legal: set[Form] = {(16, k, d, "f16", "f16", d) for k in (16, 32) for d in ("f16", "f32")}
    legal |= {(16, k, "f32", "bf16", "bf16", "f32") for k in (16, 32)}
    legal |= {(16, k, "f32", "tf32", "tf32", "f32") for k in (8, 16)}
    legal |= {(16, 64, "f32", a, b, "f32") for a, b in product(("e4m3", "e5m2"), repeat=2)}
    for kinds, depths in zip(_INTEGER, ((32, 64), (64, 128)), strict=True):
        legal |= {(16, k, "s32", a, b, "s32") for k, a, b in product(depths, kinds, kinds)}
    return legal


def _registers(elements: int, kind: str) -> int:
    return max(elements * _WIDTH[kind] // 32 // (64 if kind == "f64" else 32), 1)


def _spelled(form: Form, *, head: str = "mma", layout: str = ".row.col", middle: str = "", end: str = "") -> str:
    m, k, d, a, b, c = form
    sparse = ".sp" in head
    counts = [
        _registers(n, kind) for n, kind in ((m * 8, d), (m * k // (2 if sparse else 1), a), (8 * k, b), (m * 8, c))
    ]
    if (m, k, a, b) == (8, 4, "f16", "f16"):
        counts = [{"f16": 4, "f32": 8}.get(d, 1), 2, 2, {"f16": 4, "f32": 8}.get(c, 1)]
    d64 = {"f64": "f64"}
    groups = [
        vector(d, counts[0]),
        vector(d64.get(a, "b32"), counts[1], 20),
        vector(d64.get(b, "b32"), counts[2], 60),
        vector(c, counts[3], 100),
    ]
    tail = ", r299, 0" if sparse else ""
    return f"{head}.sync.aligned.m{m}n8k{k}{layout}{middle}.{d}.{a}.{b}.{c}{end} {', '.join(groups)}{tail};"


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize(
    ("head", "legal"),
    [("mma", _dense()), ("mma.sp", _sparse()), ("mma.sp::ordered_metadata", _sparse())],
    ids=["dense", "sparse", "ordered"],
)
def test_shapes_and_types(head: str, legal: set[Form], target: str) -> None:
    texts = {_spelled(form, head=head): form for form in _all()}
    assert {texts[text] for text in taken(list(texts), target)} == legal


def test_single_bits_need_their_operation() -> None:
    shapes = [(8, 128), (16, 128), (16, 256)]
    forms: list[Form] = [(m, k, "s32", kind, kind, "s32") for m, k in _SHAPES for kind in ("b1", "s4", "u8")]
    ends = ("", ".and.popc", ".xor.popc", ".and", ".popc")
    texts = {_spelled(form, end=end): (form, end) for form in forms for end in ends}
    expected = {((m, k, "s32", "b1", "b1", "s32"), end) for m, k in shapes for end in (".and.popc", ".xor.popc")}
    expected |= {(form, "") for form in forms if form in _dense()}
    assert {texts[text] for text in taken(list(texts), "sm_90a")} == expected


@pytest.mark.parametrize("head", ["mma", "mma.sp"])
def test_satfinite_is_of_integers(head: str) -> None:
    legal = _dense() if head == "mma" else _sparse()
    texts = {_spelled(form, head=head, middle=".satfinite"): form for form in legal}
    assert {texts[text] for text in taken(list(texts), "sm_90a")} == {form for form in legal if form[2] == "s32"}


def test_only_quads_have_other_layouts() -> None:
    texts = {
        _spelled(form, layout=layout): form
        for form in _dense()
        for layout in (".row.row", ".col.col", ".col.row", ".row")
    }
    found = {texts[text] for text in taken(list(texts), "sm_90a")}
    assert found == {form for form in _dense() if (form[0], form[1], form[3]) == (8, 4, "f16")}


def test_rounding_is_of_doubles() -> None:
    texts = {_spelled(form, middle=".rn"): form for form in _dense()}
    assert {texts[text] for text in taken(list(texts), "sm_90a")} == {form for form in _dense() if form[2] == "f64"}


@pytest.mark.parametrize(
    "opcode",
    [
        "mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e4m3.e3m2.f32",
        "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32.e4m3.e4m3.f32.ue8m0",
        "mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.kind::f8f6f4.f32.e4m3.e4m3.f32",
    ],
)
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_kinds_stop_by_name(opcode: str, target: str) -> None:
    kind = next(part for part in opcode.split(".") if part.startswith("kind"))
    words = [np.zeros((32, n), np.uint32) for n in (4, 2, 4)]
    with pytest.raises(UnsupportedInstruction, match=f".{kind} does not exist on sm_90a and sm_100a, but on sm_120a"):
        run_warps(opcode, words, 4, target=target)


@pytest.mark.parametrize(("at", "name"), [(0, "D"), (1, "A"), (2, "B"), (3, "C")])
def test_numbers_of_registers(at: int, name: str) -> None:
    counts = [4, 4, 2, 4]
    text = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {};"
    assert taken([text.format(", ".join(vector("b32", n) for n in counts))], "sm_90a")
    counts[at] += 1
    assert not taken([text.format(", ".join(vector("b32", n) for n in counts))], "sm_90a")
