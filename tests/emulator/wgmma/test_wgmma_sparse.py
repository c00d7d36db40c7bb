"""wgmma.mma_async.sp against products of integers: a dense A with zeros, its stored half, and its metadata (PTX 9.7.15.6)."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from warpgroup_kernels import (
    BITS,
    Inputs,
    Tile,
    a_registers,
    accumulators,
    encode,
    finish,
    from_registers,
    k_major,
    random_matrix,
    run,
    to_registers,
)

from tilec.backend.emulator.faults import EmulatorFault, FaultKind, UnsupportedInstruction

KINDS = [
    ("f16", "f16", "f16"),
    ("f32", "f16", "f16"),
    ("f32", "bf16", "bf16"),
    ("f32", "tf32", "tf32"),
    *((d, a, b) for d, a, b in product(("f16", "f32"), ("e4m3", "e5m2"), ("e4m3", "e5m2"))),
    *(("s32", a, b) for a, b in product(("s8", "u8"), repeat=2)),
]
_B_AT = 16384
_PAIRS = [(low, high) for low in range(4) for high in range(4) if low != high]


def selectors(kind: str) -> range:
    """Of 16 and 32 bits two of four lanes give metadata; of 8 bits all do."""
    return range(1 if BITS[kind] == 8 else 2)


def sparse_matrix(
    rng: np.random.Generator, kind: str, selector: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint32]]:
    """A (64, k) with zeros, what is stored of it (64, k / 2), and the metadata of the 128 threads."""
    k = 512 // BITS[kind]
    stored = random_matrix(rng, kind, (64, k // 2))
    dense = np.zeros((64, k), np.int64)
    words = [int(x) for x in rng.integers(0, 2**32, 128)]
    size = 2 if kind == "tf32" else 4
    for row in range(64):
        for group in range(k // size):
            if size == 2:
                place = int(rng.integers(2))
                code = (0b0100, 0b1110)[place]
                dense[row, 2 * group + place] = stored[row, group]
            else:
                low, high = _PAIRS[int(rng.integers(len(_PAIRS)))]
                code = low | high << 2
                dense[row, 4 * group + low], dense[row, 4 * group + high] = stored[row, 2 * group : 2 * group + 2]
            # Warp w has rows 16 w on; four of its lanes serve rows r and r + 8.
            four = 32 * (row // 16) + 4 * (row % 8)
            lower = row % 16 // 8
            if BITS[kind] == 8:
                thread, at = four + lower + 2 * (group // 8), group % 8
            else:
                thread, at = four + 2 * selector + group // 4, group % 4 + 4 * lower
            words[thread] = words[thread] & ~(15 << 4 * at) | code << 4 * at
    return dense, stored, np.array(words, np.uint32)


def check(
    kinds: tuple[str, str, str],
    selector: int,
    *,
    n: int = 16,
    a: Tile | None,
    b: Tile,
    accumulate: bool = True,
    signs: tuple[int, int] = (1, 1),
    seed: int = 0,
) -> None:
    d_kind, a_kind, b_kind = kinds
    rng = np.random.default_rng(seed)
    dense, stored, meta = sparse_matrix(rng, a_kind, selector)
    right, c = random_matrix(rng, b_kind, (n, dense.shape[1])), rng.integers(-8, 9, (64, n))
    image = np.zeros(49152, np.uint8)
    if a is not None:
        a.put(image, encode(a_kind, stored.T if a.mn_major else stored))
    b.put(image, encode(b_kind, right.T if b.mn_major else right))
    start = to_registers(d_kind, c)
    tail = "yes" if accumulate else "no"
    if d_kind != "s32":
        tail += f", {signs[0]}, {signs[1]}"
        if BITS[a_kind] == 16:
            tail += "".join(f", {int(tile.mn_major)}" for tile in (a, b) if tile is not None)
    opcode = f"wgmma.mma_async.sp.sync.aligned.m64n{n}k{dense.shape[1]}.{d_kind}.{a_kind}.{b_kind}"
    first = "{a0, a1, a2, a3}" if a is None else "da"
    inputs = Inputs(
        image,
        start,
        a=a_registers(a_kind, stored) if a is None else None,
        meta=meta,
        descriptors=(0 if a is None else a.descriptor, b.descriptor),
    )
    body = finish(f"{opcode} {accumulators(start.shape[1])}, {first}, db, meta, {selector}, {tail};")
    out, _ = run(body, inputs)
    total = signs[0] * signs[1] * (dense @ right.T) + (c if accumulate else 0)
    np.testing.assert_array_equal(from_registers(d_kind, out), total)


@pytest.mark.parametrize("from_registers_", [False, True])
@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
def test_types(kinds: tuple[str, str, str], from_registers_: bool) -> None:
    for selector in selectors(kinds[1]):
        tile = None if from_registers_ else k_major(0)
        check(kinds, selector, a=tile, b=k_major(_B_AT), accumulate=bool(selector), seed=selector)


@settings(max_examples=15, deadline=None)
@given(
    kinds=st.sampled_from(KINDS),
    n=st.sampled_from([8, 24, 96, 256]),
    swizzle=st.sampled_from(["64B", "128B"]),
    signs=st.tuples(st.sampled_from([1, -1]), st.sampled_from([1, -1])),
    seed=st.integers(0, 2**32 - 1),
    data=st.data(),
)
def test_shapes(
    kinds: tuple[str, str, str], n: int, swizzle: str, signs: tuple[int, int], seed: int, data: st.DataObject
) -> None:
    """A takes 32 bytes of a row and may begin inside the pattern; B takes 64."""
    advance = data.draw(st.sampled_from([0, 32]))
    selector = data.draw(st.sampled_from(list(selectors(kinds[1]))))
    a = data.draw(st.one_of(st.none(), st.just(k_major(0, swizzle, advance))))
    b = k_major(_B_AT, swizzle)
    check(kinds, selector, n=n, a=a, b=b, signs=signs if kinds[0] != "s32" else (1, 1), seed=seed)


@pytest.mark.parametrize("a_is_transposed", [False, True])
def test_mn_major(a_is_transposed: bool) -> None:
    """16 of k of A are stored, in two patterns; 32 of B in four."""
    a = Tile(0, 2048, 1024, "128B", mn_major=True) if a_is_transposed else None
    b = Tile(_B_AT, 4096, 1024, "128B", mn_major=True)
    check(("f32", "f16", "f16"), 1, n=64, a=a, b=b)


def _run_code(code: int, kind: str, opcode: str) -> None:
    meta = np.full(128, 0xEEEEEEEE, np.uint32)
    meta[32 + 4] = 0xEEEEEEE0 | code
    image = np.zeros(4096, np.uint8)
    body = finish(f"{opcode} {accumulators(4)}, {{a0, a1, a2, a3}}, db, meta, 0, no{'' if kind == 's8' else ', 1, 1'};")
    run(body, Inputs(image, np.zeros((128, 4), np.uint32), meta=meta, descriptors=(0, k_major(0, "64B").descriptor)))


@pytest.mark.parametrize("code", range(16))
def test_codes_without_a_meaning(code: int) -> None:
    """Two equal places of four, or anything but 0100 and 1110 where one of two is stored (PTX 9.7.15.6.1)."""
    for kind, opcode in (
        ("s8", "wgmma.mma_async.sp.sync.aligned.m64n8k64.s32.s8.s8"),
        ("tf32", "wgmma.mma_async.sp.sync.aligned.m64n8k16.f32.tf32.tf32"),
    ):
        if code in (0b0100, 0b1110) if kind == "tf32" else code & 3 != code >> 2:
            _run_code(code, kind, opcode)
            continue
        with pytest.raises(EmulatorFault) as raised:
            _run_code(code, kind, opcode)
        assert raised.value.kind is FaultKind.DESCRIPTOR
        columns = "0 to 1" if kind == "tf32" else "0 to 3"
        assert f"sparsity metadata 0b{code:04b} for columns {columns} of row 1 of the warp's 16" in str(raised.value)
        assert "thread (32, 0, 0)" in str(raised.value)


@pytest.mark.parametrize(
    ("kind", "shape", "count"), [("f16", "k32", 2), ("tf32", "k16", 2), ("s8", "k64", 1), ("e4m3", "k64", 1)]
)
def test_selectors_that_the_shape_lacks(kind: str, shape: str, count: int) -> None:
    d = "s32" if kind == "s8" else "f32"
    tail = {"f16": ", 1, 1, 0", "tf32": ", 1, 1", "s8": "", "e4m3": ", 1, 1"}[kind]
    body = finish(
        f"wgmma.mma_async.sp.sync.aligned.m64n8{shape}.{d}.{kind}.{kind} {accumulators(4)}, {{a0, a1, a2, a3}}, db, meta, "
        f"{count}, no{tail};"
    )
    with pytest.raises(UnsupportedInstruction, match=f"a sparsity selector that is no constant from 0 to {count - 1}"):
        run(body, Inputs(np.zeros(2048, np.uint8), np.zeros((128, 4), np.uint32)))
