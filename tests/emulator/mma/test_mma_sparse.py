"""mma.sp against products of integers: a dense A with zeros, its stored half, and its metadata (PTX 9.7.14.6)."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from isa_fragments import of_a, of_b, of_c
from numpy.typing import NDArray
from warp_kernels import BITS, pack, random_matrix, run_warps, unpack

from tilec.backend.emulator.faults import EmulatorFault, FaultKind, UnsupportedInstruction

Form = tuple[int, str, str, str]
FORMS: list[Form] = [
    *((k, d, "f16", "f16") for k, d in product((16, 32), ("f16", "f32"))),
    *((k, "f32", "bf16", "bf16") for k in (16, 32)),
    *((k, "f32", "tf32", "tf32") for k in (8, 16)),
    *((64, "f32", a, b) for a, b in product(("e4m3", "e5m2"), repeat=2)),
    *((k, "s32", a, b) for k, a, b in product((32, 64), ("s8", "u8"), ("s8", "u8"))),
    *((k, "s32", a, b) for k, a, b in product((64, 128), ("s4", "u4"), ("s4", "u4"))),
]
"""k, and the types of D (and C), A and B."""
ORDERED = [(0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3)]
UNORDERED = [(low, high) for low in range(4) for high in range(4) if low != high]


def group_size(kind: str) -> int:
    """Neighbours that a code of metadata is about."""
    return {"tf32": 2, "s4": 8, "u4": 8}.get(kind, 4)


def sparse_matrix(
    rng: np.random.Generator, kind: str, k: int, pairs: list[tuple[int, int]]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """A (16, k) with zeros, what is stored of it (16, k / 2), and the codes (16, groups)."""
    size = group_size(kind)
    stored = random_matrix(rng, kind, (16, k // 2))
    dense = np.zeros((16, k), np.int64)
    codes = np.zeros((16, k // size), np.int64)
    for row in range(16):
        for group in range(k // size):
            held = stored[row, group * size // 2 : (group + 1) * size // 2]
            if size == 2:
                place = int(rng.integers(2))
                codes[row, group] = (0b0100, 0b1110)[place]
                dense[row, 2 * group + place] = held[0]
                continue
            low, high = pairs[int(rng.integers(len(pairs)))]
            codes[row, group] = low | high << 2
            share = size // 4
            for half, place in enumerate((low, high)):
                at = group * size + place * share
                dense[row, at : at + share] = held[half * share : (half + 1) * share]
    return dense, stored, codes


def metadata(codes: NDArray[np.int64], bits: int, selector: int, rng: np.random.Generator) -> NDArray[np.uint32]:
    """The word of each lane. Four lanes serve rows r and r + 8, and 1, 2 or 4 of them are asked, by the selector. Up to 8 bits a word
    holds eight codes of one row; above, four of row r in its low half and four of row r + 8 in its high half."""
    groups = codes.shape[1]
    asked = groups // 4
    words = rng.integers(0, 2**32, (32, 1), dtype=np.uint32)
    for row in range(16):
        for group in range(groups):
            if bits > 8:
                lane, at = group // 4, group % 4 + 4 * (row // 8)
            else:
                lane, at = row // 8 + 2 * (group // 8), group % 8
            word = 4 * (row % 8) + asked * selector + lane
            cleared = int(words[word, 0]) & ~(15 << 4 * at)
            words[word, 0] = cleared | int(codes[row, group]) << 4 * at
    return words


def selectors(form: Form) -> int:
    return 16 // (form[0] // group_size(form[2]))


def run(form: Form, spelling: str, selector: int, seed: int, pairs: list[tuple[int, int]]) -> None:
    k, d, a, b = form
    rng = np.random.default_rng(seed)
    dense, stored, codes = sparse_matrix(rng, a, k, pairs)
    right, c = random_matrix(rng, b, (k, 8)), random_matrix(rng, d, (16, 8))
    fragments = of_a(16, k // 2, BITS[a]), of_b(k, BITS[b]), of_c(16)
    words = [pack(x, y, *f) for x, y, f in zip((a, b, d), (stored, right, c), fragments, strict=True)]
    out = run_sparse(form, spelling, words, metadata(codes, BITS[a], selector, rng), selector)
    total = dense @ right + c
    expected = total.astype(np.int32) if d == "s32" else total
    np.testing.assert_array_equal(unpack(d, out, (16, 8), fragments[2][1]), expected)


def run_sparse(
    form: Form, spelling: str, words: list[NDArray[np.uint32]], meta: NDArray[np.uint32], selector: int
) -> NDArray[np.uint32]:
    k, d, a, b = form
    opcode = f"mma.{spelling}.sync.aligned.m16n8k{k}.row.col.{d}.{a}.{b}.{d}"
    load = ".reg .b32 meta;\nld.param.u64 base, [in3]; mad.wide.u32 base, tid, 4, base; ld.global.b32 meta, [base];"
    return run_warps(opcode, words, words[2].shape[1], tail=f", meta, {selector}", before=load, scalars=[meta])


@pytest.mark.parametrize("form", FORMS, ids=lambda f: "-".join(map(str, f)))
def test_products(form: Form) -> None:
    for selector in range(selectors(form)):
        run(form, "sp::ordered_metadata", selector, selector, ORDERED)


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(FORMS), st.integers(0, 2**32 - 1), st.data())
def test_places_in_any_order(form: Form, seed: int, data: st.DataObject) -> None:
    """Only `::ordered_metadata` asks for places that ascend."""
    run(form, "sp", data.draw(st.integers(0, selectors(form) - 1)), seed, UNORDERED)


def zeros(form: Form) -> list[NDArray[np.uint32]]:
    k, d, a, b = form
    counts = (k // 2 * 16 * BITS[a] // 1024, 8 * k * BITS[b] // 1024, 128 * BITS[d] // 1024)
    return [np.zeros((32, n), np.uint32) for n in counts]


@pytest.mark.parametrize(
    ("form", "spelling", "code", "meaningful"),
    [
        *(((32, "f32", "f16", "f16"), "sp", code, False) for code in (0b0000, 0b0101, 0b1010, 0b1111)),
        ((32, "f32", "f16", "f16"), "sp", 0b0001, True),
        ((32, "f32", "f16", "f16"), "sp::ordered_metadata", 0b0001, False),
        *(((8, "f32", "tf32", "tf32"), "sp", code, code in (0b0100, 0b1110)) for code in range(16)),
        *(((64, "s32", "s4", "s4"), "sp::ordered_metadata", code, code in (4, 8, 9, 12, 13, 14)) for code in range(16)),
    ],
)
def test_codes_without_a_meaning(form: Form, spelling: str, code: int, meaningful: bool) -> None:
    usual = 0xEEEEEEEE
    meta = np.full((32, 1), usual, np.uint32)
    # Lane 4: the first group of row 1.
    meta[4] = usual & ~15 | code
    if meaningful:
        run_sparse(form, spelling, zeros(form), meta, 0)
        return
    with pytest.raises(EmulatorFault) as raised:
        run_sparse(form, spelling, zeros(form), meta, 0)
    assert raised.value.kind is FaultKind.DESCRIPTOR
    last = group_size(form[2]) - 1
    assert f"sparsity metadata 0b{code:04b} for columns 0 to {last} of row 1 of the warp's 16 mean nothing" in str(
        raised.value
    )


def test_lanes_that_are_not_asked_may_hold_anything() -> None:
    form = (16, "f32", "f16", "f16")
    meta = np.zeros((32, 1), np.uint32)
    meta[2::4] = 0x44444444
    run_sparse(form, "sp", zeros(form), meta, 2)
    with pytest.raises(EmulatorFault):
        run_sparse(form, "sp", zeros(form), meta, 1)


@pytest.mark.parametrize("form", FORMS, ids=lambda f: "-".join(map(str, f)))
def test_selectors_that_the_shape_lacks(form: Form) -> None:
    meta = np.full((32, 1), 0x44444444, np.uint32)
    with pytest.raises(
        UnsupportedInstruction, match=f"a sparsity selector that is no constant from 0 to {selectors(form) - 1}"
    ):
        run_sparse(form, "sp", zeros(form), meta, selectors(form))
