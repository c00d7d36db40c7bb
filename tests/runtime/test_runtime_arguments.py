"""Reading tensors, and the facts that follow from shape and strides."""

from __future__ import annotations

import numpy as np
import pytest
from fake_driver import DEVICE_MEMORY, FakeArray, FakeDriver, FakeTensor, FakeTorch

from tilec.backend.runtime.arguments import Argument, Facts, check_symbols, place, read
from tilec.diagnostics import TilecError

ROWS, COLUMNS = (1, 0), (0, 1)


def argument(shape: tuple[int, ...], strides: tuple[int, ...], dtype: str = "f16", address: int = 0x10000) -> Argument:
    """`strides` in elements."""
    size = 4 if dtype == "f32" else 2
    return Argument(address, shape, tuple(s * size for s in strides), dtype, 0)


def test_torch_tensors_are_read_in_place(driver: FakeDriver, torch: FakeTorch) -> None:
    got = read("A", FakeTensor((3, 8), (16, 1), "bfloat16", address=0x40, device=1), driver.device_of)
    assert got == Argument(0x40, (3, 8), (32, 2), "bf16", 1)


def test_array_interface_is_read_in_place(driver: FakeDriver) -> None:
    got = read("A", FakeArray((3, 8), None, "f32", address=DEVICE_MEMORY + 64, stream=7), driver.device_of)
    assert got == Argument(DEVICE_MEMORY + 64, (3, 8), (32, 4), "f32", 1, 7)


@pytest.mark.parametrize(
    ("tensor", "what"),
    [
        (FakeTensor((2, 2), device=None), "a torch tensor on 'cpu'"),
        (np.zeros((2, 2), np.float16), "a ndarray"),
    ],
)
def test_what_lies_in_host_memory_is_refused_by_name(
    driver: FakeDriver, torch: FakeTorch, tensor: object, what: str
) -> None:
    with pytest.raises(TilecError) as error:
        read("A", tensor, driver.device_of)
    assert str(error.value) == (
        f"error: argument A is {what}, in host memory: the kernel runs on a GPU\nhint: move it to the device"
    )


@pytest.mark.parametrize(
    ("shape", "strides", "dtype", "address", "facts"),
    [
        ((128, 64), (64, 1), "f16", 0, Facts(ROWS, 16, "grid")),
        ((128, 64), (1, 128), "f16", 0, Facts(COLUMNS, 16, "grid")),
        # A column slice keeps its pitch; its end is off the 16-byte grid.
        ((128, 470), (512, 1), "f16", 0, Facts(ROWS, 16, "free")),
        ((32, 466), (512, 1), "f32", 0, Facts(ROWS, 16, "free")),
        # Rows of 8142 bytes: 2 divides their starts.
        ((128, 4071), (4071, 1), "f16", 0, Facts(ROWS, 2, "free")),
        ((128, 1020), (1020, 1), "f16", 0, Facts(ROWS, 8, "free")),
        ((128, 1022), (1022, 1), "f16", 0, Facts(ROWS, 4, "free")),
        ((128, 65), (65, 1), "f32", 0, Facts(ROWS, 4, "free")),
        # Base addresses off by 2 and by 16 bytes.
        ((128, 64), (64, 1), "f16", 2, Facts(ROWS, 2, "free")),
        ((128, 64), (64, 1), "f16", 16, Facts(ROWS, 16, "grid")),
        # Every second row is a view; so is a broadcast row.
        ((64, 64), (128, 1), "f16", 0, Facts(ROWS, 16, "grid")),
        ((64, 64), (0, 1), "f16", 0, Facts(ROWS, 16, "grid")),
        # An extent of 1 is never stepped over: its pitch does not count, and row-major is chosen.
        ((1, 4071), (4071, 1), "f16", 0, Facts(ROWS, 16, "free")),
        ((1, 64), (-3, 1), "f16", 0, Facts(ROWS, 16, "grid")),
        ((64, 1), (1, 1), "f16", 0, Facts(ROWS, 2, "free")),
        ((64, 1), (8, 5), "f16", 0, Facts(ROWS, 16, "free")),
        # Nothing of an empty tensor is addressed.
        ((128, 0), (1, 1), "f16", 0, Facts(ROWS, 16, "grid")),
        ((0, 511), (511, 1), "f16", 2, Facts(ROWS, 16, "grid")),
        ((64,), (1,), "f16", 0, Facts((0,), 16, "grid")),
        ((63,), (1,), "f32", 8, Facts((0,), 8, "free")),
    ],
)
def test_facts(shape: tuple[int, ...], strides: tuple[int, ...], dtype: str, address: int, facts: Facts) -> None:
    assert place("A", argument(shape, strides, dtype, address)).facts == facts


def test_pitches_are_the_tensors_own_where_they_are_stepped_over() -> None:
    assert place("A", argument((128, 470), (512, 1))).pitches == (1024, 2)
    assert place("A", argument((128, 64), (1, 200))).pitches == (2, 400)
    assert place("A", argument((1, 20), (7, 1))).pitches == (48, 2)
    assert place("A", argument((0, 20), (7, 1))).pitches == (48, 2)


def test_preferred_order_is_taken_only_where_it_describes_the_tensor() -> None:
    assert place("A", argument((64, 1), (1, 1)), COLUMNS).facts.order == COLUMNS
    assert place("A", argument((64, 8), (8, 1)), COLUMNS).facts.order == ROWS


NO_STEP = "one needs stride 1\nhint: pass a contiguous copy, such as tensor.contiguous()"
TOO_LONG = "extents must be below 2^31\nhint: split the tensor: a tile's coordinates are 32-bit numbers"


@pytest.mark.parametrize(
    ("shape", "strides", "text"),
    [
        ((64, 64), (256, 2), f"argument A: no dimension is contiguous (strides 256, 2 elements): {NO_STEP}"),
        ((64,), (2,), f"argument A: no dimension is contiguous (strides 2 elements): {NO_STEP}"),
        (
            (64, 64),
            (-64, 1),
            "argument A: dimension 0 has a negative stride of -128 bytes\n"
            "hint: a view runs forward through memory: pass a copy, or the tensor before it was reversed",
        ),
        (
            (64, 2),
            (2, -1),
            "argument A: dimension 1 has a negative stride of -2 bytes\n"
            "hint: a view runs forward through memory: pass a copy, or the tensor before it was reversed",
        ),
        ((2, 1 << 31), (1 << 31, 1), f"argument A: dimension 1 has 2147483648 elements; {TOO_LONG}"),
        ((2**31 + 1,), (1,), f"argument A: dimension 0 has 2147483649 elements; {TOO_LONG}"),
    ],
)
def test_tensors_that_no_view_describes(shape: tuple[int, ...], strides: tuple[int, ...], text: str) -> None:
    with pytest.raises(TilecError) as error:
        place("A", argument(shape, strides))
    assert str(error.value) == f"error: {text}"


def test_symbols_that_disagree_name_both_arguments_and_both_values() -> None:
    a, b = argument((128, 64), (64, 1)), argument((256, 72), (72, 1))
    with pytest.raises(TilecError) as error:
        check_symbols("AB", [("M", "K"), ("N", "K")], [a, b])
    assert str(error.value) == (
        "error: arguments A and B disagree about K: dimension 1 of A has 64 elements, dimension 1 of B has 72"
    )


def test_a_symbol_twice_in_one_argument() -> None:
    check_symbols("A", [("M", "M")], [argument((64, 64), (64, 1))])
    with pytest.raises(TilecError) as error:
        check_symbols("A", [("M", "M")], [argument((64, 32), (32, 1))])
    assert str(error.value) == ("error: argument A is not square in M: dimension 0 has 64 elements, dimension 1 has 32")


def test_fixed_extents_are_checked_and_unknown_ones_are_free() -> None:
    a = argument((128, 64), (64, 1))
    check_symbols("A", [(None, 64)], [a])
    with pytest.raises(TilecError) as error:
        check_symbols("A", [(128, 32)], [a])
    assert str(error.value) == "error: argument A: dimension 1 has 64 elements; the kernel is for 32"
