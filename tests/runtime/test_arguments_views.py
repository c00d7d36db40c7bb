"""Views of larger tensors: which facts they have, and which of them no kernel takes.

What is on a GPU in use is a tensor of torch on the CPU here: shapes, strides and addresses mean the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from fake_driver import DEVICE_MEMORY, FakeArray, FakeDriver

from tilec.backend.runtime.arguments import (
    Argument,
    Facts,
    check_overlap,
    check_rank,
    check_written,
    place,
    read,
    read_host,
)
from tilec.diagnostics import TilecError

torch = pytest.importorskip("torch")

ROWS, COLUMNS = (1, 0), (0, 1)


def buffer(rows: int = 64, columns: int = 128, dtype: Any = torch.float16) -> Any:
    """Zeros that start at a multiple of 256 bytes."""
    size = torch.empty(0, dtype=dtype).element_size()
    memory = torch.zeros(rows * columns * size + 256, dtype=torch.uint8)
    start = -memory.data_ptr() % 256
    return memory[start : start + rows * columns * size].view(dtype).view(rows, columns)


def refusal(attempt: Callable[[], object]) -> str:
    with pytest.raises(TilecError) as caught:
        attempt()
    return str(caught.value)


@pytest.mark.parametrize(
    ("view", "facts", "pitches"),
    [
        (lambda a: a, Facts(ROWS, 16, "grid"), (256, 2)),
        (lambda a: a.t(), Facts(COLUMNS, 16, "grid"), (2, 256)),
        (lambda a: a[:, 64:], Facts(ROWS, 16, "grid"), (256, 2)),
        (lambda a: a[:, 8:], Facts(ROWS, 16, "grid"), (256, 2)),
        (lambda a: a[:, 4:], Facts(ROWS, 8, "free"), (256, 2)),
        (lambda a: a[:, 2:], Facts(ROWS, 4, "free"), (256, 2)),
        (lambda a: a[:, 1:], Facts(ROWS, 2, "free"), (256, 2)),
        (lambda a: a[:, :100], Facts(ROWS, 16, "free"), (256, 2)),
        (lambda a: a[3:], Facts(ROWS, 16, "grid"), (256, 2)),
        (lambda a: a[::2], Facts(ROWS, 16, "grid"), (512, 2)),
        (lambda a: a[:, ::128], Facts(ROWS, 16, "free"), (256, 2)),
        (lambda a: a.t()[:, ::2], Facts(COLUMNS, 16, "grid"), (2, 512)),
        (lambda a: a[0].expand(64, 128), Facts(ROWS, 16, "grid"), (0, 2)),
        (lambda a: a.as_strided((32, 64), (8, 1)), Facts(ROWS, 16, "grid"), (16, 2)),
        (lambda a: a.as_strided((32, 64), (3, 1)), Facts(ROWS, 2, "free"), (6, 2)),
        (lambda a: a.view(-1).unfold(0, 16, 4), Facts(ROWS, 8, "free"), (8, 2)),
    ],
)
def test_slices_steps_transposes_and_windows(
    view: Callable[[Any], Any], facts: Facts, pitches: tuple[int, ...]
) -> None:
    tensor = view(buffer())
    placement = place("A", read_host("A", tensor))
    assert placement.facts == facts
    # An extent of 1 is never stepped over: a single column is a row of one element in each of its rows.
    assert tuple(p for p, n in zip(placement.pitches, tensor.shape, strict=True) if n > 1) == tuple(
        p for p, n in zip(pitches, tensor.shape, strict=True) if n > 1
    )


@pytest.mark.parametrize(
    ("view", "strides"),
    [
        (lambda a: a[:, ::2], "128, 2"),
        (lambda a: a.t()[::2], "2, 128"),
        (lambda a: a[::2, ::2], "256, 2"),
        (lambda a: a[:, 0].expand(64, 64), "0, 128"),
        (lambda a: a[0, 0].expand(64, 64), "0, 0"),
        (lambda a: a[:, 3], "128"),
    ],
)
def test_steps_in_the_fastest_dimension(view: Callable[[Any], Any], strides: str) -> None:
    argument = read_host("A", view(buffer()))
    assert refusal(lambda: place("A", argument)) == (
        f"error: argument A: no dimension is contiguous (strides {strides} elements): one needs stride 1\n"
        "hint: pass a contiguous copy, such as tensor.contiguous()"
    )


def test_a_pitch_off_the_16_byte_grid_is_another_class_and_comes_back() -> None:
    """K = 511 stored densely, of which descriptors of TMA silently read something else; in a wider buffer it is fine."""
    align = [place("A", read_host("A", buffer(128, k, torch.bfloat16))).facts.align for k in (512, 511, 512)]
    assert align == [16, 2, 16]
    padded = read_host("A", buffer(128, 512, torch.bfloat16)[:, :511])
    assert place("A", padded).facts == Facts(ROWS, 16, "free")


@pytest.mark.parametrize(
    ("dtype", "columns", "tail"),
    [
        (torch.float16, 470, "free"),
        (torch.float16, 472, "grid"),
        (torch.float32, 466, "free"),
        (torch.float32, 468, "grid"),
    ],
)
def test_a_column_slice_that_ends_between_16_byte_units_says_so(dtype: Any, columns: int, tail: str) -> None:
    """TMA clips its stores in units of 16 bytes: it would damage what lies beside the slice."""
    whole = buffer(32, 512, dtype)
    output, beside = read_host("D", whole[:, :columns]), read_host("A", whole[:, columns:])
    check_written("D", output)
    assert place("D", output).facts == Facts(ROWS, 16, tail)
    # What lies beside it is no part of it.
    check_overlap("AD", [beside, output], [1])


@pytest.mark.parametrize(("elements", "align"), [(0, 16), (1, 4), (2, 8), (4, 16)])
def test_an_offset_that_only_the_address_shows(elements: int, align: int) -> None:
    """Shapes and strides are those of an aligned tensor; the storage begins elsewhere."""
    whole = buffer(1, 1028, torch.float32)
    view = whole[0, elements : elements + 1024].view(16, 64)
    assert view.stride() == (64, 1)
    assert place("A", read_host("A", view)).facts.align == align


def test_an_offset_hidden_in_a_view_of_another_type() -> None:
    bytes_of = buffer(1, 4096, torch.uint8)
    assert place("A", read_host("A", bytes_of[0, 4:2052].view(torch.float32).view(8, 64))).facts.align == 4
    assert place("A", read_host("A", bytes_of[0, 16:2064].view(torch.float32).view(8, 64))).facts.align == 16


@pytest.mark.parametrize(
    ("argument", "text"),
    [
        (
            Argument(0x1002, (8, 8), (32, 4), "f32", 0),
            "argument A: address 0x1002 or pitch (32, 4) bytes is no multiple of the 4 bytes of one f32",
        ),
        (
            Argument(0x1000, (8, 8), (34, 4), "f32", 0),
            "argument A: address 0x1000 or pitch (34, 4) bytes is no multiple of the 4 bytes of one f32",
        ),
        (
            Argument(0x1001, (8,), (2,), "bf16", 0),
            "argument A: address 0x1001 or pitch (2,) bytes is no multiple of the 2 bytes of one bf16",
        ),
    ],
)
def test_elements_between_two_elements(argument: Argument, text: str) -> None:
    assert refusal(lambda: place("A", argument)) == f"error: {text}"


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a.as_strided((32, 64), (8, 1)),
        lambda a: a.view(-1).unfold(0, 16, 4),
        lambda a: a[0].expand(64, 128),
        lambda a: a.as_strided((64, 2), (1, 1)),
    ],
)
def test_overlapping_rows_are_read_but_not_written(view: Callable[[Any], Any]) -> None:
    argument = read_host("D", view(buffer()))
    place("D", argument)
    assert "argument D: its rows overlap" in refusal(lambda: check_written("D", argument))


def test_two_halves_of_one_buffer() -> None:
    whole = buffer()
    left, right = read_host("D", whole[:, :64]), read_host("A", whole[:, 64:])
    check_overlap("AD", [right, left], [1])
    wider = read_host("D", whole[:, :65])
    assert refusal(lambda: check_overlap("AD", [right, wider], [1])).startswith(
        "error: arguments A and D overlap, from byte 0 of A and byte 128 of D on (address 0x"
    )


@pytest.mark.parametrize(
    ("view", "wanted", "text"),
    [
        (
            lambda a: a.view(4, 16, 128),
            2,
            "argument A has 3 dimensions; the kernel takes 2\n"
            "hint: call the kernel for each A[i], or once for A.reshape(64, 128), which is a view too",
        ),
        (
            lambda a: a.view(2, 2, 16, 128),
            2,
            "argument A has 4 dimensions; the kernel takes 2\n"
            "hint: call the kernel for each A[i, j], or once for A.reshape(64, 128), which is a view too",
        ),
        (
            lambda a: a.view(4, 16, 128)[:, :8],
            2,
            "argument A has 3 dimensions; the kernel takes 2\nhint: call the kernel for each A[i]",
        ),
        (
            lambda a: a.view(4, 16, 128).transpose(0, 1),
            2,
            "argument A has 3 dimensions; the kernel takes 2\nhint: call the kernel for each A[i]",
        ),
        (
            lambda a: a.view(4, 16, 128)[:, :8][:1],
            2,
            "argument A has 3 dimensions; the kernel takes 2\n"
            "hint: call the kernel for each A[i], or once for A.reshape(8, 128), which is a view too",
        ),
        (
            lambda a: a,
            1,
            "argument A has 2 dimensions; the kernel takes 1\n"
            "hint: call the kernel for each A[i], or once for A.reshape(8192), which is a view too",
        ),
        (
            lambda a: a[:, :64],
            1,
            "argument A has 2 dimensions; the kernel takes 1\nhint: call the kernel for each A[i]",
        ),
        (
            lambda a: a[0],
            2,
            "argument A has 1 dimension; the kernel takes 2\n"
            "hint: A[None, :] is a row and A[:, None] a column: both are views",
        ),
        (lambda a: a[0, 0], 1, "argument A has 0 dimensions; the kernel takes 1\nhint: pass A.reshape(1)"),
        (lambda a: a[0, 0], 2, "argument A has 0 dimensions; the kernel takes 2\nhint: pass A.reshape(1, 1)"),
    ],
)
def test_ranks(view: Callable[[Any], Any], wanted: int, text: str) -> None:
    tensor = view(buffer())
    assert refusal(lambda: check_rank("A", read_host("A", tensor), wanted)) == f"error: {text}"
    if (said := re.search(r"\.reshape\(([^)]*)\)", text)) is not None:
        # What the hint says is no copy.
        flat = tensor.reshape([int(n) for n in said[1].split(",")])
        assert flat.data_ptr() == tensor.data_ptr() and flat.dim() == wanted


def fake(
    driver: FakeDriver, shape: tuple[int, ...], strides: tuple[int, ...] | None = None, dtype: str = "f16"
) -> Argument:
    return read("A", FakeArray(shape, strides, dtype, address=DEVICE_MEMORY), driver.device_of)


@pytest.mark.parametrize("dtype", ["f16", "f32"])
def test_tensors_beyond_4_gigabytes(driver: FakeDriver, dtype: str) -> None:
    """65536 x 65536: 2^32 elements. Products of extents and pitches have more than 32 bits."""
    size = {"f16": 2, "f32": 4}[dtype]
    dense = fake(driver, (1 << 16, 1 << 16), None, dtype)
    assert dense.strides == (size << 16, size)
    assert place("A", dense).pitches == (size << 16, size)
    assert place("A", dense).facts == Facts(ROWS, 16, "grid")
    wide = fake(driver, (3, 1 << 30), ((1 << 31) + 8, 1), dtype)
    assert place("A", wide).pitches == (size * ((1 << 31) + 8), size)
    upright = fake(driver, (1 << 16, 1 << 16), (1, 1 << 16), dtype)
    assert place("A", upright).pitches == (size, size << 16)
    last_row = fake(driver, (1 << 16, 1 << 16), (1 << 16, 1), dtype)._replace(
        address=DEVICE_MEMORY + 65535 * (size << 16), shape=(1, 1 << 16)
    )
    check_overlap("AD", [dense._replace(shape=(65535, 1 << 16)), last_row], [1])
    assert "overlap, from byte " + str(65535 * (size << 16)) in refusal(
        lambda: check_overlap("AD", [dense, last_row], [1])
    )


@pytest.mark.parametrize("extent", [1 << 31, (1 << 31) + 1, 1 << 40])
def test_extents_have_31_bits(driver: FakeDriver, extent: int) -> None:
    place("A", fake(driver, (2, (1 << 31) - 1), (1 << 31, 1)))
    for shape, strides, dim in (((2, extent), (extent, 1), 1), ((extent, 2), (2, 1), 0), ((extent,), (1,), 0)):
        argument = fake(driver, shape, strides)
        assert refusal(lambda argument=argument: place("A", argument)) == (
            f"error: argument A: dimension {dim} has {extent} elements; extents must be below 2^31\n"
            "hint: split the tensor: a tile's coordinates are 32-bit numbers"
        )


def test_a_dense_array_beyond_4_gigabytes_from_its_shape_alone(driver: FakeDriver) -> None:
    assert fake(driver, (1 << 20, 1 << 14)).strides == (1 << 15, 2)
    assert fake(driver, (3, 1 << 20, 1 << 14)).strides == (1 << 35, 1 << 15, 2)
