"""wmma.load, wmma.mma and wmma.store: what is in memory before and after; the fragments between are opaque (PTX 9.7.14.4)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from taken_forms import taken, vector
from warp_kernels import BITS, code, kernel, random_matrix

from tilec.backend.emulator.faults import EmulatorFault, FaultKind
from tilec.backend.emulator.launch import OrderName, emulate

_WIDE = ((16, 16, 16), (8, 32, 16), (32, 8, 16))
SHAPES: dict[str, tuple[tuple[int, int, int], ...]] = {
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
_REGISTERS = {
    ("bf16", "a"): {16: 4, 8: 2, 32: 8}, ("bf16", "b"): {16: 4, 32: 8, 8: 2},
    ("s8", "a"): {16: 2, 8: 1, 32: 4}, ("s8", "b"): {16: 2, 32: 4, 8: 1},
}  # fmt: skip
"""By rows of A or columns of B."""
NARROW = ("s4", "u4", "b1")


def registers(kind: str, matrix: str, shape: tuple[int, int, int]) -> int:
    m, n, _ = shape
    if matrix == "c":
        return {"f16": m * n // 64, "f32": m * n // 32, "s32": m * n // 32, "f64": 2}[kind]
    if kind in ("f16", "tf32"):
        return 8 if kind == "f16" else 4
    if kind in ("f64", *NARROW):
        return 1
    return _REGISTERS["s8" if kind == "u8" else kind, matrix][m if matrix == "a" else n]


@dataclass(frozen=True)
class Case:
    """One product. Strides in elements beyond the shortest; None: the instructions name none. `c` and `d` are layouts."""

    kind: str
    shape: tuple[int, int, int]
    c_kind: str
    d_kind: str
    layouts: tuple[str, str, str, str] = ("row", "col", "row", "row")
    padding: int | None = 0
    space: str = ".global"
    operation: str = ""
    satfinite: bool = False


def to_memory(kind: str, matrix: NDArray[np.int64], by_columns: bool, stride: int) -> NDArray[np.uint8]:
    """The matrix line by line, `stride` elements apart; the gaps are all ones."""
    lines = matrix.T if by_columns else matrix
    bits = BITS[kind]
    whole = bytearray()
    for line in lines:
        value = (1 << bits * stride) - 1
        for at, element in enumerate(line):
            value &= ~(((1 << bits) - 1) << bits * at)
            value |= code(kind, int(element)) << bits * at
        whole += value.to_bytes(bits * stride // 8, "little")
    return np.frombuffer(bytes(whole), np.uint8).copy()


def from_memory(
    kind: str, memory: NDArray[np.uint8], shape: tuple[int, int], by_columns: bool, stride: int
) -> NDArray[np.int64]:
    dtype = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "s32": np.int32}[kind]
    lines, length = shape[::-1] if by_columns else shape
    found = memory.view(dtype).reshape(lines, stride)[:, :length].astype(np.int64)
    return found.T if by_columns else found


def run(
    case: Case,
    a: NDArray[np.int64],
    b: NDArray[np.int64],
    c: NDArray[np.int64],
    *,
    warps: int = 1,
    order: OrderName = "fifo",
) -> tuple[NDArray[np.int64], NDArray[np.uint8], int]:
    """D, all bytes of its memory, and its stride."""
    m, n, k = case.shape
    named = case.padding is not None
    gap = case.padding or 0
    pads = [0 if case.kind in NARROW else gap * max(128 // BITS[case.kind], 1)] * 2 + [gap * 8, gap * 8]
    if case.kind in NARROW:
        pads[:2] = [gap * 128 // BITS[case.kind]] * 2
    lengths = [
        row if layout == "row" else column
        for layout, row, column in zip(case.layouts, (k, n, n, n), (m, k, m, m), strict=True)
    ]
    strides = [length + pad for length, pad in zip(lengths, pads, strict=True)]
    kinds = [case.kind, case.kind, case.c_kind, case.d_kind]
    by_columns = [layout == "col" for layout in case.layouts]
    memory = [
        to_memory(kind, matrix, columns, stride)
        for kind, matrix, columns, stride in zip(
            kinds, (a, b, c, np.zeros((m, n), np.int64)), by_columns, strides, strict=True
        )
    ]
    counts = [registers(case.kind, "a", case.shape), registers(case.kind, "b", case.shape)]
    counts += [registers(kind, "c", case.shape) for kind in (case.c_kind, case.d_kind)]
    names = [
        "{" + ", ".join(f"{letter}{i}" for i in range(count)) + "}"
        for letter, count in zip("abcd", counts, strict=True)
    ]
    wide = 64 if case.kind == "f64" else 32
    shape = f"m{m}n{n}k{k}"
    lines = [".reg .b64 " + ", ".join(f"p{letter}" for letter in "abcd") + ";"]
    lines += [f".reg .b{wide} {name[1:-1]};" for name in names]
    lines += [f"ld.param.u64 p{letter}, [in_{letter}];" for letter in "abcd"]
    tail = [f", {stride}" if named else "" for stride in strides]
    space = case.space
    addresses = [f"[p{letter}]" for letter in "abcd"]
    for at, letter in enumerate("abc"):
        kind = kinds[at]
        lines.append(
            f"wmma.load.{letter}.sync.aligned.{case.layouts[at]}.{shape}{space}.{kind} {names[at]}, {addresses[at]}{tail[at]};"
        )
    types = (
        f"{case.d_kind}.{case.c_kind}" if case.kind == "f16" else f"{case.d_kind}.{case.kind}.{case.kind}.{case.c_kind}"
    )
    saturate = ".satfinite" if case.satfinite else ""
    lines.append(
        f"wmma.mma{case.operation}.sync.aligned.{case.layouts[0]}.{case.layouts[1]}.{shape}.{types}{saturate} "
        f"{names[3]}, {names[0]}, {names[1]}, {names[2]};"
    )
    lines.append(
        f"wmma.store.d.sync.aligned.{case.layouts[3]}.{shape}{space}.{case.d_kind} {addresses[3]}, {names[3]}{tail[3]};"
    )
    text = kernel(", ".join(f".param .u64 in_{letter}" for letter in "abcd"), "\n".join(lines))
    arguments: list[Any] = memory
    ran = emulate(text, "k", 1, 32 * warps, arguments, order=order)
    assert ran.mmas.total() == warps
    return from_memory(case.d_kind, memory[3], (m, n), by_columns[3], strides[3]), memory[3], strides[3]


def results(kind: str) -> tuple[str, ...]:
    return {"f16": ("f16", "f32"), "bf16": ("f32",), "tf32": ("f32",), "f64": ("f64",)}.get(kind, ("s32",))


CASES = [(kind, shape) for kind, shapes in SHAPES.items() for shape in shapes]


def operands(case: Case, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    m, n, k = case.shape
    rng = np.random.default_rng(seed)
    return (
        random_matrix(rng, case.kind, (m, k)),
        random_matrix(rng, case.kind, (k, n)),
        random_matrix(rng, case.c_kind, (m, n)),
    )


def check(case: Case, seed: int, *, warps: int = 1, order: OrderName = "fifo") -> None:
    a, b, c = operands(case, seed)
    if case.kind == "b1":
        left, right = a[:, :, None].astype(bool), b[None].astype(bool)
        product_ = ((left & right) if "and" in case.operation else (left ^ right)).sum(1)
    else:
        product_ = a @ b
    total = product_ + c
    if case.d_kind == "s32":
        total = np.clip(total, -(2**31), 2**31 - 1) if case.satfinite else total.astype(np.int32).astype(np.int64)
    got, memory, stride = run(case, a, b, c, warps=warps, order=order)
    np.testing.assert_array_equal(got, total)
    # The gaps between lines are left alone.
    width = BITS[case.d_kind] // 8
    lines = memory.reshape(-1, stride * width)
    length = (case.shape[0] if case.layouts[3] == "col" else case.shape[1]) * width
    assert (lines[:, length:] == 0xFF).all()


@pytest.mark.parametrize(("kind", "shape"), CASES, ids=str)
def test_every_form(kind: str, shape: tuple[int, int, int]) -> None:
    pairs = [("row", "col")] if kind in NARROW else list(product(("row", "col"), repeat=2))
    operation = ".xor.popc" if kind == "b1" else ""
    for pair, c, d, c_kind, d_kind in product(pairs, ("row", "col"), ("row", "col"), results(kind), results(kind)):
        check(Case(kind, shape, c_kind, d_kind, (*pair, c, d), operation=operation), 1)


@settings(max_examples=40, deadline=None)
@given(
    form=st.sampled_from(CASES),
    layouts=st.tuples(*(st.sampled_from(["row", "col"]) for _ in range(4))),
    padding=st.sampled_from([None, 0, 1, 3]),
    space=st.sampled_from([".global", ""]),
    seed=st.integers(0, 2**32 - 1),
    order=st.sampled_from(["fifo", "random", "adversarial"]),
    warps=st.integers(1, 3),
    data=st.data(),
)
def test_strides_and_spaces(
    form: tuple[str, tuple[int, int, int]],
    layouts: tuple[str, str, str, str],
    padding: int | None,
    space: str,
    seed: int,
    order: OrderName,
    warps: int,
    data: st.DataObject,
) -> None:
    kind, shape = form
    c_kind, d_kind = data.draw(st.sampled_from(results(kind))), data.draw(st.sampled_from(results(kind)))
    if kind in NARROW:
        layouts = ("row", "col", *layouts[2:])
    operation = data.draw(st.sampled_from([".and.popc", ".xor.popc"])) if kind == "b1" else ""
    case = Case(kind, shape, c_kind, d_kind, layouts, padding, space, operation)
    check(case, seed, warps=warps, order=order)


@pytest.mark.parametrize("kind", ["s8", "u4"])
def test_satfinite(kind: str) -> None:
    case = Case(kind, SHAPES[kind][0], "s32", "s32", satfinite=True)
    a, b, c = operands(case, 2)
    c = np.where(c < 0, -(2**31) + 3, 2**31 - 3)
    total = a @ b + c
    assert (total > 2**31 - 1).any()
    np.testing.assert_array_equal(run(case, a, b, c)[0], np.clip(total, -(2**31), 2**31 - 1))


def test_shared_memory() -> None:
    """A matrix goes to shared memory and comes back by its columns."""
    data = np.arange(256, dtype=np.float32)
    out = np.zeros(256, np.float32)
    body = """
.shared .align 32 .b8 tile[2048];
.reg .b64 pa, pd;
.reg .f32 c<8>;
ld.param.u64 pa, [in_a]; ld.param.u64 pd, [out];
wmma.load.c.sync.aligned.row.m16n16k16.global.f32 {c0, c1, c2, c3, c4, c5, c6, c7}, [pa], 16;
wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [tile], {c0, c1, c2, c3, c4, c5, c6, c7}, 20;
bar.warp.sync 0xffffffff;
wmma.load.c.sync.aligned.col.m16n16k16.shared.f32 {c0, c1, c2, c3, c4, c5, c6, c7}, [tile], 20;
wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [pd], {c0, c1, c2, c3, c4, c5, c6, c7};
"""
    emulate(kernel(".param .u64 in_a, .param .u64 out", body), "k", 1, 32, [data, out])
    np.testing.assert_array_equal(out.reshape(16, 16), data.reshape(16, 16).T)


def test_a_warp_that_is_not_whole() -> None:
    body = "setp.eq.u32 p, tid, 3;\n@p exit;\n.reg .b32 r<8>;\nwmma.mma.sync.aligned.row.col.m8n8k32.s32.s4.s4.s32 {r0, r1}, {r2}, {r3}, {r4, r5};"
    with pytest.raises(EmulatorFault) as raised:
        emulate(kernel("", body), "k", 1, 32, [])
    assert raised.value.kind is FaultKind.DIVERGENT


def _mma(kind: str, shape: tuple[int, int, int], d: str, c: str, layouts: str, before: str, after: str) -> str:
    m, n, k = shape
    double = "f64" if kind == "f64" else "b32"
    try:
        counts = [registers(x, y, shape) for x, y in ((d, "c"), (kind, "a"), (kind, "b"), (c, "c"))]
    except KeyError:
        counts = [1, 1, 1, 1]
    groups = [vector(t, n, at) for t, n, at in zip((d, double, double, c), counts, (0, 50, 60, 100), strict=True)]
    types = f"{d}.{c}" if kind == "f16" else f"{d}.{kind}.{kind}.{c}"
    return f"wmma.mma{before}.sync.aligned.{layouts}.m{m}n{n}k{k}.{types}{after} {', '.join(groups)};"


def test_forms() -> None:
    """The products that the ISA lists, and no others."""
    shapes = {shape for shapes in SHAPES.values() for shape in shapes} | {(16, 16, 4), (8, 8, 16)}
    texts: dict[str, bool] = {}
    for kind, shape, d, c in product(
        SHAPES, sorted(shapes), ("f16", "f32", "f64", "s32"), ("f16", "f32", "f64", "s32")
    ):
        for layouts, before, after in product(("row.col", "col.row"), ("", ".and.popc", ".popc"), ("", ".satfinite")):
            legal = shape in SHAPES[kind] and d in results(kind) and c in results(kind)
            legal = legal and (layouts == "row.col" or kind not in NARROW)
            legal = legal and before == (".and.popc" if kind == "b1" else "")
            legal = legal and (not after or kind in ("s8", "u8", "s4", "u4"))
            texts[_mma(kind, shape, d, c, layouts, before, after)] = legal
    assert taken(list(texts), "sm_90a") == {text for text, legal in texts.items() if legal}


def test_forms_of_loads() -> None:
    shapes = sorted({shape for shapes in SHAPES.values() for shape in shapes})
    texts: dict[str, bool] = {}
    for matrix, kind, shape, layout in product("abc", [*SHAPES, "f32", "s32"], shapes, ("row", "col")):
        m, n, k = shape
        if matrix == "c":
            legal = any(shape in s and kind in results(of) for of, s in SHAPES.items())
        else:
            legal = shape in SHAPES.get(kind, ()) and (
                kind not in NARROW or (matrix, layout) in (("a", "row"), ("b", "col"))
            )
        count = registers(kind, matrix, shape) if legal else 8
        texts[f"wmma.load.{matrix}.sync.aligned.{layout}.m{m}n{n}k{k}.{kind} {vector(kind, count)}, [q0];"] = legal
        if matrix == "c":
            texts[f"wmma.store.d.sync.aligned.{layout}.m{m}n{n}k{k}.{kind} [q0], {vector(kind, count)};"] = legal
    assert taken(list(texts), "sm_90a") == {text for text, legal in texts.items() if legal}
