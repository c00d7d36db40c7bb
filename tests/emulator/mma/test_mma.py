"""mma.sync against products of integers, with the fragments as the ISA writes them (PTX 9.7.14.5)."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from isa_fragments import of_a, of_b, of_c
from numpy.typing import NDArray
from warp_kernels import BITS, Place, kernel, pack, random_matrix, run_warps, unpack

from tilec.backend.emulator.faults import EmulatorFault, FaultKind
from tilec.backend.emulator.launch import OrderName, emulate

FORMS = [
    *((m, k, d, "f16", "f16") for (m, k), d in product(((16, 8), (16, 16)), ("f16", "f32"))),
    *((16, k, "f32", "bf16", "bf16") for k in (8, 16)),
    *((16, k, "f32", "tf32", "tf32") for k in (4, 8)),
    *((16, k, d, a, b) for k, d, a, b in product((16, 32), ("f16", "f32"), ("e4m3", "e5m2"), ("e4m3", "e5m2"))),
    *((m, k, "f64", "f64", "f64") for m, k in ((8, 4), (16, 4), (16, 8), (16, 16))),
    *((m, k, "s32", a, b) for (m, k), a, b in product(((8, 16), (16, 16), (16, 32)), ("s8", "u8"), ("s8", "u8"))),
    *((m, k, "s32", a, b) for (m, k), a, b in product(((8, 32), (16, 32), (16, 64)), ("s4", "u4"), ("s4", "u4"))),
    *((m, k, "s32", "b1", "b1") for m, k in ((8, 128), (16, 128), (16, 256))),
]
"""m, k, and the types of D (and C), A and B."""


def run(
    form: tuple[int, int, str, str, str],
    matrices: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
    *,
    satfinite: bool = False,
    operation: str = "",
    order: OrderName = "fifo",
) -> NDArray[np.int64]:
    m, k, d, a, b = form
    fragments = of_a(m, k, BITS[a]), of_b(k, BITS[b]), of_c(m)
    words = [pack(kind, matrix, *f) for kind, matrix, f in zip((a, b, d), matrices, fragments, strict=True)]
    opcode = f"mma.sync.aligned.m{m}n8k{k}.row.col{'.satfinite' if satfinite else ''}.{d}.{a}.{b}.{d}{operation}"
    out = run_warps(opcode, words, words[2].shape[1], wide=a == "f64", order=order)
    return unpack(d, out, (m, 8), fragments[2][1])


def operands(form: tuple[int, int, str, str, str], seed: int) -> tuple[NDArray[np.int64], ...]:
    m, k, d, a, b = form
    rng = np.random.default_rng(seed)
    return random_matrix(rng, a, (m, k)), random_matrix(rng, b, (k, 8)), random_matrix(rng, d, (m, 8))


def wrapped(total: NDArray[np.int64], d: str) -> NDArray[np.int64]:
    return total.astype(np.int32).astype(np.int64) if d == "s32" else total


@pytest.mark.parametrize("form", [f for f in FORMS if f[3] != "b1"], ids=lambda f: "-".join(map(str, f)))
def test_products(form: tuple[int, int, str, str, str]) -> None:
    a, b, c = operands(form, 1)
    np.testing.assert_array_equal(run(form, (a, b, c)), wrapped(a @ b + c, form[2]))


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from([f for f in FORMS if f[3] != "b1"]),
    st.integers(0, 2**32 - 1),
    st.sampled_from(["random", "adversarial"]),
)
def test_products_in_any_order(form: tuple[int, int, str, str, str], seed: int, order: OrderName) -> None:
    a, b, c = operands(form, seed)
    np.testing.assert_array_equal(run(form, (a, b, c), order=order), wrapped(a @ b + c, form[2]))


@pytest.mark.parametrize("operation", ["and", "xor"])
@pytest.mark.parametrize("form", [f for f in FORMS if f[3] == "b1"], ids=lambda f: f"{f[0]}x{f[1]}")
def test_single_bits(form: tuple[int, int, str, str, str], operation: str) -> None:
    a, b, c = operands(form, 2)
    left, right = a[:, :, None].astype(bool), b[None, :, :].astype(bool)
    count = ((left & right) if operation == "and" else (left ^ right)).sum(1)
    np.testing.assert_array_equal(run(form, (a, b, c), operation=f".{operation}.popc"), wrapped(count + c, "s32"))


@pytest.mark.parametrize("form", [f for f in FORMS if f[3] in ("s8", "u4")], ids=lambda f: "-".join(map(str, f)))
def test_satfinite(form: tuple[int, int, str, str, str]) -> None:
    a, b, c = operands(form, 3)
    c = np.where(c < 0, -(2**31) + 5, 2**31 - 5)
    total = a @ b + c
    assert (total > 2**31 - 1).any() or (total < -(2**31)).any()
    np.testing.assert_array_equal(run(form, (a, b, c), satfinite=True), np.clip(total, -(2**31), 2**31 - 1))
    np.testing.assert_array_equal(run(form, (a, b, c)), wrapped(total, "s32"))


@pytest.mark.parametrize("layouts", list(product(("row", "col"), repeat=2)), ids="-".join)
@pytest.mark.parametrize("types", [("f16", "f16"), ("f32", "f16"), ("f32", "f32")], ids="-".join)
def test_quads(layouts: tuple[str, str], types: tuple[str, str]) -> None:
    """m8n8k4 of f16: lanes 4 q to 4 q + 3 and 16 more hold product q (PTX 9.7.14.5.1)."""
    dt, ct = types
    rng = np.random.default_rng(4)
    a, b = rng.integers(-4, 5, (4, 8, 4)), rng.integers(-4, 5, (4, 4, 8))
    c = rng.integers(-4, 5, (4, 8, 8))

    def low(lane: int) -> int:
        return 0 if lane < 16 else 4

    def a_place(lane: int, i: int) -> tuple[int, int]:
        return (lane % 4 + low(lane), i) if layouts[0] == "row" else (i % 4 + low(lane), lane % 4)

    def b_place(lane: int, i: int) -> tuple[int, int]:
        return (lane % 4, i + low(lane)) if layouts[1] == "row" else (i, lane % 4 + low(lane))

    def c_place(kind: str, lane: int, i: int) -> tuple[int, int]:
        if kind == "f16":
            return lane % 4 + low(lane), i
        return (lane & 1) + (i & 2) + low(lane), (i & 4) + (lane & 2) + (i & 1)

    def words(kind: str, matrices: NDArray[np.int64], count: int, place: Place) -> NDArray[np.uint32]:
        whole = [pack(kind, matrix, count, place) for matrix in matrices]
        return np.stack([whole[lane % 16 // 4][lane] for lane in range(32)])

    inputs = [
        words("f16", a, 4, a_place),
        words("f16", b, 4, b_place),
        words(ct, c, 8, lambda lane, i: c_place(ct, lane, i)),
    ]
    opcode = f"mma.sync.aligned.m8n8k4.{layouts[0]}.{layouts[1]}.{dt}.f16.f16.{ct}"
    held = run_warps(opcode, inputs, 4 if dt == "f16" else 8).view(np.float16 if dt == "f16" else np.float32)
    for lane in range(32):
        quad = lane % 16 // 4
        expected = a[quad] @ b[quad] + c[quad]
        for i in range(8):
            assert held[lane, i] == expected[c_place(dt, lane, i)], (lane, i)


def test_each_warp_multiplies_its_own() -> None:
    form = (16, 16, "f32", "f16", "f16")
    sets = [operands(form, seed) for seed in range(3)]
    fragments = of_a(16, 16, 16), of_b(16, 16), of_c(16)
    words = [
        np.concatenate([pack(kind, matrices[at], *fragments[at]) for matrices in sets])
        for at, kind in enumerate(("f16", "f16", "f32"))
    ]
    for order in ("fifo", "random", "adversarial"):
        out = run_warps("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", words, 4, order=order)
        for warp, (a, b, c) in enumerate(sets):
            got = unpack("f32", out[32 * warp : 32 * warp + 32], (16, 8), fragments[2][1])
            np.testing.assert_array_equal(got, a @ b + c)


def test_a_nan_is_the_one_that_the_tensor_core_gives() -> None:
    nan = np.full((32, 4), 0x7E017E01, np.uint32)
    one = np.full((32, 2), 0x3C003C00, np.uint32)
    opcode = "mma.sync.aligned.m16n8k16.row.col.{0}.f16.f16.{0}"
    assert (run_warps(opcode.format("f32"), [nan, one, np.zeros((32, 4), np.uint32)], 4) == 0x7FFFFFFF).all()
    assert (run_warps(opcode.format("f16"), [nan, one, np.zeros((32, 2), np.uint32)], 2) == 0x7FFF7FFF).all()


def test_a_warp_that_is_not_whole() -> None:
    words = [np.zeros((32, n), np.uint32) for n in (4, 2, 4)]
    with pytest.raises(EmulatorFault) as raised:
        run_warps(
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
            words,
            4,
            before="setp.eq.u32 p, tid, 7;\n@p exit;",
        )
    assert raised.value.kind is FaultKind.DIVERGENT
    assert "needs all 32 threads of the warp, and some have exited" in str(raised.value)


def test_products_are_counted() -> None:
    body = ".reg .b32 r<20>;\nmma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {r0, r1, r2, r3}, {r4, r5}, {r6}, {r7, r8, r9, r10};"
    ran = emulate(kernel("", body), "k", 2, 96, [])
    assert ran.mmas == {"mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32": 6}
