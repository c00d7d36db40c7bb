"""wgmma.mma_async against products of integers, its operands placed by the layouts of PTX 9.7.15.5.1."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from warpgroup_kernels import (
    BITS,
    SPANS,
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

from tilec.backend.emulator.launch import OrderName

FLOAT_WIDTHS = list(range(8, 257, 8))
INTEGER_WIDTHS = [8, 16, 24, *range(32, 257, 16)]
PAIRS = [
    ("f16", "f16", "f16"),
    ("f32", "f16", "f16"),
    ("f32", "bf16", "bf16"),
    ("f32", "tf32", "tf32"),
    *((d, a, b) for d, a, b in product(("f16", "f32"), ("e4m3", "e5m2"), ("e4m3", "e5m2"))),
    *(("s32", a, b) for a, b in product(("s8", "u8"), repeat=2)),
]
_B_AT = 16384
_A, _B = k_major(0), k_major(_B_AT)


@dataclass(frozen=True)
class Case:
    """One product; `a` and `b` are tiles, `a` None for A in registers."""

    kinds: tuple[str, str, str]
    n: int = 16
    a: Tile | None = _A
    b: Tile = _B
    accumulate: bool = True
    signs: tuple[int, int] = (1, 1)
    satfinite: bool = False
    order: OrderName = "fifo"
    image_bytes: int = 32768


def multiply(case: Case, a: NDArray[np.int64], b: NDArray[np.int64], c: NDArray[np.int64]) -> NDArray[np.int64]:
    """D of one wgmma on A (64, k), B by its columns (n, k) and D (64, n)."""
    d_kind, a_kind, b_kind = case.kinds
    image = np.zeros(case.image_bytes, np.uint8)
    if case.a is not None:
        case.a.put(image, encode(a_kind, a.T if case.a.mn_major else a))
    case.b.put(image, encode(b_kind, b.T if case.b.mn_major else b))
    d = to_registers(d_kind, c)
    k = 256 // BITS[a_kind]
    tail = "yes" if case.accumulate else "no"
    if d_kind != "s32":
        tail += f", {case.signs[0]}, {case.signs[1]}"
        if BITS[a_kind] == 16:
            majors = [tile.mn_major for tile in (case.a, case.b) if tile is not None]
            tail += "".join(f", {int(major)}" for major in majors)
    saturate = ".satfinite" if case.satfinite else ""
    operation = ".and.popc" if a_kind == "b1" else ""
    opcode = f"wgmma.mma_async.sync.aligned.m64n{case.n}k{k}{saturate}.{d_kind}.{a_kind}.{b_kind}{operation}"
    first = "{a0, a1, a2, a3}" if case.a is None else "da"
    inputs = Inputs(
        image,
        d,
        a=a_registers(a_kind, a) if case.a is None else None,
        descriptors=(0 if case.a is None else case.a.descriptor, case.b.descriptor),
    )
    out, ran = run(finish(f"{opcode} {accumulators(d.shape[1])}, {first}, db, {tail};"), inputs, order=case.order)
    assert ran.mmas == {opcode: 1}
    return from_registers(d_kind, out)


def check(case: Case, seed: int = 0) -> None:
    d_kind, a_kind, b_kind = case.kinds
    rng = np.random.default_rng(seed)
    k = 256 // BITS[a_kind]
    a, b = random_matrix(rng, a_kind, (64, k)), random_matrix(rng, b_kind, (case.n, k))
    c = rng.integers(-(2**31), 2**31, (64, case.n)) if d_kind == "s32" else rng.integers(-8, 9, (64, case.n))
    total = case.signs[0] * case.signs[1] * (a @ b.T) + (c if case.accumulate else 0)
    if d_kind == "s32":
        total = np.clip(total, -(2**31), 2**31 - 1) if case.satfinite else total.astype(np.int32).astype(np.int64)
    np.testing.assert_array_equal(multiply(case, a, b, c), total)


@pytest.mark.parametrize("n", FLOAT_WIDTHS)
def test_widths_of_floats(n: int) -> None:
    check(Case(("f32", "bf16", "bf16"), n, a=k_major(0, "32B"), b=k_major(_B_AT, "32B")))


@pytest.mark.parametrize("n", INTEGER_WIDTHS)
def test_widths_of_integers(n: int) -> None:
    check(Case(("s32", "s8", "u8"), n, a=k_major(0, "32B"), b=k_major(_B_AT, "32B")))


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("from_registers", [False, True])
@pytest.mark.parametrize("kinds", [*PAIRS, ("s32", "b1", "b1")], ids="-".join)
def test_types(kinds: tuple[str, str, str], from_registers: bool, accumulate: bool) -> None:
    check(Case(kinds, a=None if from_registers else k_major(0), accumulate=accumulate))


@pytest.mark.parametrize("from_registers", [False, True])
@pytest.mark.parametrize("signs", [(1, -1), (-1, 1), (-1, -1)], ids=str)
@pytest.mark.parametrize(
    "kinds", [("f16", "f16", "f16"), ("f32", "tf32", "tf32"), ("f32", "e4m3", "e5m2")], ids="-".join
)
def test_signs(kinds: tuple[str, str, str], signs: tuple[int, int], from_registers: bool) -> None:
    check(Case(kinds, a=None if from_registers else k_major(0), signs=signs))


@pytest.mark.parametrize("kinds", [("s32", "s8", "s8"), ("s32", "u8", "u8")], ids="-".join)
def test_satfinite(kinds: tuple[str, str, str]) -> None:
    rng = np.random.default_rng(3)
    a, b = random_matrix(rng, kinds[1], (64, 32)), random_matrix(rng, kinds[2], (16, 32))
    c = np.where(rng.integers(2, size=(64, 16)), 2**31 - 9, -(2**31) + 9)
    total = a @ b.T + c
    assert (total > 2**31 - 1).any()
    case = Case(kinds, satfinite=True)
    np.testing.assert_array_equal(multiply(case, a, b, c), np.clip(total, -(2**31), 2**31 - 1))
    wrapped = multiply(replace(case, satfinite=False), a, b, c)
    np.testing.assert_array_equal(wrapped, total.astype(np.int32))


def k_major_tiles(start: int) -> st.SearchStrategy[Tile]:
    """Any swizzle, K advanced by 32 bytes inside the pattern, strides with gaps, patterns that begin at any row of 128 bytes."""

    def build(swizzle: str, advance: int, gap: int, rows: int, leading: int) -> Tile:
        span = SPANS[swizzle]
        if swizzle == "none":
            # Both halves of a row lie `leading` apart, groups of 8 rows further.
            return Tile(start + 128 * rows, 128 * leading, 128 * (leading + 1 + gap), advance=16 * advance)
        return Tile(start + 128 * rows, 16, 8 * span * (1 + gap), swizzle, advance=32 * advance % span)

    return st.builds(
        build, st.sampled_from(list(SPANS)), st.integers(0, 3), st.integers(0, 1), st.integers(0, 7), st.integers(1, 2)
    )


def mn_major_tiles(start: int) -> st.SearchStrategy[Tile]:
    def build(swizzle: str, gap: int, rows: int) -> Tile:
        span = SPANS[swizzle]
        # 16 of k are two patterns, `stride` apart; without a swizzle, eight of k `leading` apart.
        if swizzle == "none":
            return Tile(start + 128 * rows, 128 + 128 * gap, 256 + 256 * gap, mn_major=True)
        return Tile(start + 128 * rows, 16 * span * (1 + gap), 8 * span, swizzle, mn_major=True)

    return st.builds(build, st.sampled_from(list(SPANS)), st.integers(0, 1), st.integers(0, 7))


@settings(max_examples=40, deadline=None)
@given(
    kind=st.sampled_from(["f16", "bf16", "tf32", "e4m3", "s8", "b1"]),
    n=st.sampled_from([8, 24, 64]),
    a=k_major_tiles(0),
    b=k_major_tiles(_B_AT + 4096),
    seed=st.integers(0, 2**32 - 1),
)
def test_k_major_layouts(kind: str, n: int, a: Tile, b: Tile, seed: int) -> None:
    d = "s32" if kind in ("s8", "b1") else "f32"
    check(Case((d, kind, kind), n, a=a, b=b, image_bytes=40960), seed)


@settings(max_examples=40, deadline=None)
@given(
    kind=st.sampled_from(["f16", "bf16"]),
    n=st.sampled_from([8, 40, 64, 128]),
    a=st.one_of(st.none(), k_major_tiles(0), mn_major_tiles(0)),
    b=mn_major_tiles(_B_AT + 4096),
    order=st.sampled_from(["fifo", "random", "adversarial"]),
    seed=st.integers(0, 2**32 - 1),
)
def test_mn_major_layouts(kind: str, n: int, a: Tile | None, b: Tile, order: OrderName, seed: int) -> None:
    check(Case(("f32", kind, kind), n, a=a, b=b, order=order, image_bytes=40960), seed)


@pytest.mark.parametrize("order", ["fifo", "random", "adversarial"])
def test_a_chain_along_k(order: OrderName) -> None:
    """Four products of 16 of k each, the start of both operands advanced by 32 bytes inside the pattern."""
    rng = np.random.default_rng(4)
    a, b = rng.integers(-4, 5, (64, 64)), rng.integers(-4, 5, (32, 64))
    image = np.zeros(32768, np.uint8)
    tiles = k_major(0), k_major(_B_AT)
    for tile, matrix in zip(tiles, (a, b), strict=True):
        tile.put(image, encode("f16", matrix))
    lines: list[str] = []
    for step in range(4):
        flag = "no" if step == 0 else "yes"
        lines.append(
            f"wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 {accumulators(16)}, da, db, {flag}, 1, 1, 0, 0;\n"
            "add.u64 da, da, 2;\nadd.u64 db, db, 2;"
        )
    start = to_registers("f32", rng.integers(-4, 5, (64, 32)))
    inputs = Inputs(image, start, descriptors=(tiles[0].descriptor, tiles[1].descriptor))
    for seed in range(3):
        out, _ = run(finish("\n".join(lines)), inputs, order=order, seed=seed)
        np.testing.assert_array_equal(from_registers("f32", out), a @ b.T)


def test_two_warpgroups() -> None:
    """Each of them multiplies with registers of its own."""
    rng = np.random.default_rng(5)
    a, b = rng.integers(-4, 5, (2, 64, 16)), rng.integers(-4, 5, (8, 16))
    image = np.zeros(2048, np.uint8)
    tile = k_major(0)
    tile.put(image, encode("f16", b))
    inputs = Inputs(
        image,
        np.zeros((256, 4), np.uint32),
        a=np.concatenate([a_registers("f16", part) for part in a]),
        descriptors=(0, tile.descriptor),
    )
    body = finish(
        f"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {accumulators(4)}, {{a0, a1, a2, a3}}, db, no, 1, 1, 0;"
    )
    for order in ("fifo", "random", "adversarial"):
        out, ran = run(body, inputs, threads=256, order=order)
        for group in range(2):
            got = from_registers("f32", out[128 * group : 128 * group + 128])
            np.testing.assert_array_equal(got, a[group] @ b.T)
        assert ran.mmas.total() == 2
