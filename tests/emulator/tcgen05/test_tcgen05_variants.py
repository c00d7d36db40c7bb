"""What tcgen05.mma can do to a product: A in tensor memory, masks, scaling, negation, saturation, no accumulation, several in a row."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from tensor_operands import (
    accumulate,
    accumulator_cell,
    instruction_descriptor,
    matrix_descriptor,
    put_k_major,
    random_cells,
    random_matrix,
    row_bytes,
)
from tensor_rig import BASE, move, run

A_START, B_START = 0x400, 0x400 + 32 * 1024
A_COLUMN, D_COLUMN = 256, 0


def _image(rng: np.random.Generator, group: int) -> NDArray[np.uint8]:
    return rng.integers(0, 256, (group, 64 * 1024), dtype=np.uint8)


def _put(image: NDArray[np.uint8], start: int, rows: NDArray[np.uint8]) -> int:
    put_k_major(image, BASE, start, rows, "32B", 256)
    return matrix_descriptor(start, "32B", 16, 256)


def _operands(
    rng: np.random.Generator, image: NDArray[np.uint8], a: str, b: str, m: int, n: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], str]:
    """A and B in shared memory, their values, and the text that puts their descriptors into d0 and d1."""
    group = len(image)
    k = {"f16": 16, "bf16": 16, "tf32": 8}.get(a, 32)
    a_codes, a_values = random_matrix(rng, a, (m, k))
    b_codes, b_values = random_matrix(rng, b, (n, k))
    text = ""
    for cta in range(group):
        rows, columns = m // group, n // group
        first = _put(image[cta], A_START, row_bytes(a_codes[rows * cta : rows * (cta + 1)], a))
        second = _put(image[cta], B_START, row_bytes(b_codes[columns * cta : columns * (cta + 1)], b))
        text = move("d0", first) + move("d1", second)
    return a_values, b_values, text


@pytest.mark.parametrize(
    ("kind", "type", "m", "group", "weights", "half"),
    [
        ("f16", "f16", 128, 1, False, 0),
        ("f16", "bf16", 64, 1, False, 0),
        ("f16", "bf16", 64, 1, False, 16),
        ("tf32", "tf32", 128, 1, False, 0),
        ("i8", "s8", 128, 1, False, 0),
        ("f8f6f4", "e4m3", 128, 1, False, 0),
        ("f8f6f4", "e2m1", 128, 1, False, 0),
        ("f8f6f4", "e3m2", 128, 1, False, 0),
        ("f16", "f16", 64, 1, True, 0),
        ("f16", "f16", 32, 1, True, 0),
        ("f16", "f16", 256, 2, False, 0),
        ("f16", "f16", 128, 2, False, 0),
    ],
)
def test_a_in_tensor_memory(kind: str, type: str, m: int, group: int, weights: bool, half: int) -> None:
    """Row m of A lies in the lanes of row m of D, K packed in 8 columns; narrow codes have a byte each, e2m1 in its middle."""
    rng = np.random.default_rng(1)
    image, n = _image(rng, group), 64
    _, b, text = _operands(rng, image, type, type, m, n)
    codes, a = random_matrix(rng, type, (m, {"f16": 16, "bf16": 16, "tf32": 8}.get(type, 32)))
    held = (codes << 2).astype(np.uint8) if type == "e2m1" else codes
    words = np.ascontiguousarray(held).view(np.uint32)
    d = "s32" if kind == "i8" else "f32"
    tensor = random_cells(rng, d, (group, 128, 320))
    for column in range(n):
        rows = np.arange(m)
        at = accumulator_cell(group, m, n, rows, np.full(m, column), weights=weights, half=half // 16)
        for k in range(8):
            tensor[at[0], at[1], A_COLUMN + k] = words[:, k]
    body = (
        text
        + move("t0", half << 16 | D_COLUMN)
        + move("t1", half << 16 | A_COLUMN)
        + move("t2", instruction_descriptor(m, n, type, type, d))
        + f"tcgen05.mma{'.ws' if weights else ''}.cta_group::{group}.kind::{kind} [t0], [t1], d1, t2, yes;\n"
    )
    found = run(body, image, tensor).tensor
    at = accumulator_cell(group, m, n, np.arange(m)[:, None], np.arange(n)[None, :], weights=weights, half=half // 16)
    expected = tensor.copy()
    expected[at] = accumulate(d, a @ b.T, tensor[at])
    np.testing.assert_array_equal(found, expected)


def _single(
    extra: str,
    *,
    kind: str = "f16",
    type: str = "f16",
    d: str = "f32",
    enable: str = "yes",
    group: int = 1,
    m: int = 128,
    bits: int = 0,
    before: str = "",
) -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.float64]]:
    """One product onto column 0, n = 32. Returns tensor memory before and after, and A B."""
    rng = np.random.default_rng(2)
    image = _image(rng, group)
    a, b, text = _operands(rng, image, type, type, m, 32)
    tensor = random_cells(rng, d, (group, 128, 32))
    body = (
        text
        + before
        + move("t0", 0)
        + move("t2", instruction_descriptor(m, 32, type, type, d) | bits)
        + f"tcgen05.mma.cta_group::{group}.kind::{kind} [t0], d0, d1, t2, {extra.format(enable=enable)};\n"
    )
    return tensor, run(body, image, tensor).tensor, a @ b.T


def test_without_accumulation() -> None:
    _, after, product = _single("{enable}", enable="no")
    np.testing.assert_array_equal(after[0], product.astype(np.float32).view(np.uint32))


def test_enable_as_a_constant() -> None:
    before, after, product = _single("1")
    np.testing.assert_array_equal(after[0], accumulate("f32", product, before[0]))


@pytest.mark.parametrize("shift", [0, 1, 15])
def test_scale_input_d(shift: int) -> None:
    """D is scaled by 2^-shift before the sum."""
    before, after, product = _single(f"yes, {shift}")
    expected = (before[0].view(np.float32).astype(np.float64) / 2**shift + product).astype(np.float32)
    np.testing.assert_array_equal(after[0].view(np.float32), expected)


def test_scale_input_d_of_halves() -> None:
    before, after, product = _single("yes, 3", d="f16")
    held = before[0].astype(np.uint16).view(np.float16).astype(np.float64)
    with np.errstate(over="ignore"):
        expected = (held / 8 + product).astype(np.float16).view(np.uint16).astype(np.uint32)
    np.testing.assert_array_equal(after[0], expected)


def test_disabled_lanes_keep_what_they_hold() -> None:
    masks = [0x80000001, 0, 0xFFFFFFFF, 0x00FF00FF]
    declare = "".join(move(f"t{3 + i}", mask) for i, mask in enumerate(masks))
    before, after, product = _single("{{t3, t4, t5, t6}}, {enable}", before=declare)
    expected = accumulate("f32", product, before[0])
    for lane in range(128):
        if masks[lane // 32] >> lane % 32 & 1:
            expected[lane] = before[0][lane]
    np.testing.assert_array_equal(after[0], expected)


def test_disabled_lanes_of_a_pair() -> None:
    """The first four words are of the even CTA, the others of the odd one."""
    masks = [0, 1, 0, 0, 0xFFFF0000, 0, 0, 3]
    declare = ".reg .b32 m<8>;\n" + "".join(move(f"m{i}", mask) for i, mask in enumerate(masks))
    names = ", ".join(f"m{i}" for i in range(8))
    before, after, product = _single(f"{{{{{names}}}}}, yes", before=declare, group=2, m=256)
    for cta in range(2):
        expected = accumulate("f32", product[128 * cta : 128 * (cta + 1)], before[cta])
        for lane in range(128):
            if masks[4 * cta + lane // 32] >> lane % 32 & 1:
                expected[lane] = before[cta][lane]
        np.testing.assert_array_equal(after[cta], expected)


@pytest.mark.parametrize(("a", "b"), [(1, 0), (0, 1), (1, 1)])
def test_negated_operands(a: int, b: int) -> None:
    before, after, product = _single("yes", bits=a << 13 | b << 14)
    np.testing.assert_array_equal(after[0], accumulate("f32", product * (-1) ** (a + b), before[0]))


@pytest.mark.parametrize("saturate", [False, True])
def test_integers_wrap_or_saturate(saturate: bool) -> None:
    before, after, product = _single("yes", kind="i8", type="s8", d="s32", bits=saturate << 3)
    np.testing.assert_array_equal(after[0], accumulate("s32", product, before[0], saturate=saturate))


@pytest.mark.parametrize("saturate", [False, True])
def test_integers_at_their_limits(saturate: bool) -> None:
    """All of A is 127 and B 127: each sum of 32 products lifts 2^31 - 1 over the limit."""
    image = np.full((1, 64 * 1024), 127, np.uint8)
    tensor = np.full((1, 128, 32), 0x7FFFFFFF, np.uint32)
    text = move("d0", matrix_descriptor(A_START, "32B", 16, 256)) + move(
        "d1", matrix_descriptor(B_START, "32B", 16, 256)
    )
    bits = instruction_descriptor(128, 32, "s8", "s8", "s32", saturate=saturate)
    body = text + move("t0", 0) + move("t2", bits) + "tcgen05.mma.cta_group::1.kind::i8 [t0], d0, d1, t2, yes;\n"
    wanted = 0x7FFFFFFF if saturate else (0x7FFFFFFF + 32 * 127 * 127) & 0xFFFFFFFF
    assert (run(body, image, tensor).tensor == wanted).all()


@pytest.mark.parametrize("use", ["fill", "use", "lastuse", "discard"])
def test_collectors_change_nothing(use: str) -> None:
    rng = np.random.default_rng(3)
    image = _image(rng, 1)
    a, b, text = _operands(rng, image, "f16", "f16", 128, 32)
    tensor = random_cells(rng, "f32", (1, 128, 32))
    bits = instruction_descriptor(128, 32, "f16", "f16")
    opcode = f"tcgen05.mma.cta_group::1.kind::f16.collector::a::{use}"
    done = run(text + move("t0", 0) + move("t2", bits) + f"{opcode} [t0], d0, d1, t2, yes;\n", image, tensor)
    np.testing.assert_array_equal(done.tensor[0], accumulate("f32", a @ b.T, tensor[0]))
    assert done.emulation.mmas == {opcode: 1}


@pytest.mark.parametrize("order", ["fifo", "random", "adversarial"])
def test_products_on_one_accumulator_are_in_order(order: str) -> None:
    """The second product accumulates onto the first, in every order of engines, for one CTA and for a pair."""
    for group, m in ((1, 128), (2, 256)):
        rng = np.random.default_rng(4)
        image = _image(rng, group)
        a, b, text = _operands(rng, image, "f16", "f16", m, 32)
        tensor = random_cells(rng, "f32", (group, 128, 32))
        bits = instruction_descriptor(m, 32, "f16", "f16")
        product = f"tcgen05.mma.cta_group::{group}.kind::f16 [t0], d0, d1, t2, "
        body = text + move("t0", 0) + move("t2", bits) + f"{product} no;\n{product} yes;\n"
        found = run(body, image, tensor, order=order).tensor  # type: ignore[arg-type]
        expected = (2 * (a @ b.T)).astype(np.float32).view(np.uint32).reshape(group, 128, 32)
        np.testing.assert_array_equal(found, expected)


def _mask(descriptor: tuple[int, int, int, int], n: int, m: int) -> list[int]:
    """The zero-column mask as the examples of PTX 9.7.16.4.3 read: runs of 1 (skip + 1) and of 0 (use + 1)."""
    start, first, skip, use = descriptor
    width = n * m // 128
    stream: list[int] = []
    bit = first
    while len(stream) < start + width:
        stream += [bit] * ((skip if bit else use) + 1)
        bit = 1 - bit
    return stream[start : start + width] * (128 // m)


@pytest.mark.parametrize(("m", "descriptor"), [(128, (0, 0, 2, 3)), (64, (1, 1, 2, 3)), (32, (2, 0, 2, 3))])
def test_zero_columns(m: int, descriptor: tuple[int, int, int, int]) -> None:
    rng = np.random.default_rng(5)
    image, n = _image(rng, 1), 64
    a, b, text = _operands(rng, image, "f16", "f16", m, n)
    tensor = random_cells(rng, "f32", (1, 128, 64))
    start, first, skip, use = descriptor
    parts = 128 // m
    mask = sum(start << 8 * i | first << (32 + i) for i in range(parts)) | 1 << 39 | skip << 40 | use << 48
    body = (
        text + move("d2", mask) + move("t0", 0) + move("t2", instruction_descriptor(m, n, "f16", "f16"))
        + "tcgen05.mma.ws.cta_group::1.kind::f16.collector::b1::fill [t0], d0, d1, t2, no, d2;\n"
    )  # fmt: skip
    found = run(body, image, tensor).tensor
    product = a @ np.where(np.array(_mask(descriptor, n, m))[:, None], 0.0, b).T
    at = accumulator_cell(1, m, n, np.arange(m)[:, None], np.arange(n)[None, :], weights=True)
    expected = tensor.copy()
    expected[at] = (product + 0.0).astype(np.float32).view(np.uint32)
    np.testing.assert_array_equal(found.view(np.float32) + 0, expected.view(np.float32) + 0)
