"""Arrays in host memory: the facts that they would have on a GPU, and memory that is shared."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_dlpack import CPU, CUDA, Versioned
from fake_driver import FakeArray, FakeTensor, FakeTorch

from tilec.backend.runtime.arguments import (
    Argument,
    Facts,
    check_dtype,
    check_rank,
    check_written,
    host_array,
    is_host,
    place,
    read_host,
    where,
)
from tilec.diagnostics import TilecError

ROWS, COLUMNS = (1, 0), (0, 1)


def refusal(attempt: Callable[[], object]) -> str:
    with pytest.raises(TilecError) as caught:
        attempt()
    return str(caught.value)


def memory() -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.arange(96, dtype=np.float32).reshape(8, 12)


VIEWS: dict[str, Callable[[Any], Any]] = {
    "whole": lambda a: a,
    "transposed": lambda a: a.T,
    "columns": lambda a: a[:, 3:7],
    "rows": lambda a: a[2:5],
    "every second row": lambda a: a[::2],
    "one row": lambda a: a[3],
    "one element": lambda a: a[3:4, 5:6],
    "broadcast rows": lambda a: np.broadcast_to(a[0], (5, 12)),
    "windows": lambda a: np.lib.stride_tricks.sliding_window_view(a.reshape(-1), 8),
    "empty": lambda a: a[:, :0],
    "every second column": lambda a: a[:, ::2],
    "reversed": lambda a: a[::-1],
    "three dimensions": lambda a: a.reshape(2, 4, 12),
    "no dimension": lambda a: a[0, 0, ...],
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_numpy_arrays_are_shared_as_they_are(view: Callable[[Any], Any]) -> None:
    base = memory()
    array = view(base)
    argument = read_host("A", array)
    assert argument == Argument(
        array.ctypes.data, array.shape, array.strides, "f32", None, None, not array.flags.writeable
    )
    shared = host_array("A", array)
    assert (shared.shape, shared.dtype) == (array.shape, array.dtype)
    assert shared.flags.writeable == array.flags.writeable
    if array.size:
        assert shared.strides == array.strides
        assert shared.ctypes.data == array.ctypes.data
        base[:] = -base
        assert np.array_equal(shared, array)


@pytest.mark.parametrize(
    ("view", "facts"),
    [
        ("whole", Facts(ROWS, 16, "grid")),
        ("transposed", Facts(COLUMNS, 16, "grid")),
        ("columns", Facts(ROWS, 4, "free")),
        ("broadcast rows", Facts(ROWS, 16, "grid")),
        ("every second row", Facts(ROWS, 16, "grid")),
        ("one row", Facts((0,), 16, "grid")),
        ("windows", Facts(ROWS, 4, "free")),
    ],
)
def test_facts_are_those_of_a_gpu(view: str, facts: Facts) -> None:
    base = np.zeros(100, np.float32)
    # NumPy's memory starts at multiples of 16 bytes, but does not promise it.
    base = base[-base.ctypes.data % 16 // 4 :][:96].reshape(8, 12)
    assert place("A", read_host("A", VIEWS[view](base))).facts == facts


@pytest.mark.parametrize(
    ("view", "text"),
    [
        (
            "every second column",
            "argument A: no dimension is contiguous (strides 12, 2 elements): one needs stride 1\n"
            "hint: pass a contiguous copy, such as tensor.contiguous()",
        ),
        (
            "reversed",
            "argument A: dimension 0 has a negative stride of -48 bytes\n"
            "hint: a view runs forward through memory: pass a copy, or the tensor before it was reversed",
        ),
        (
            "no dimension",
            "argument A has 0 dimensions; the kernel takes 1\nhint: pass A.reshape(1)",
        ),
        (
            "three dimensions",
            "argument A has 3 dimensions; the kernel takes 2\n"
            "hint: call the kernel for each A[i], or once for A.reshape(8, 12), which is a view too",
        ),
    ],
)
def test_views_that_are_refused_as_on_a_gpu(view: str, text: str) -> None:
    argument = read_host("A", VIEWS[view](memory()))
    assert refusal(lambda: place("A", argument)) == f"error: {text}"


def test_a_repeated_column_is_a_view_if_its_elements_are_neighbours() -> None:
    column = np.broadcast_to(np.zeros((8, 1), np.float16), (8, 64))
    assert place("A", read_host("A", column)).pitches == (2, 0)
    argument = read_host("A", np.broadcast_to(np.zeros((8, 4), np.float16)[:, :1], (8, 64)))
    assert refusal(lambda: place("A", argument)) == (
        "error: argument A: no dimension is contiguous (strides 4, 0 elements): one needs stride 1\n"
        "hint: pass a contiguous copy, such as tensor.contiguous()"
    )


@pytest.mark.parametrize(
    ("array", "dtype"),
    [
        (np.zeros((2, 2), np.float16), "f16"),
        (np.zeros((2, 2), np.float32), "f32"),
        (np.zeros((2, 2)), "float64"),
        (np.zeros((2, 2), np.int8), "int8"),
        (np.zeros((2, 2), np.bool_), "bool"),
        (np.zeros((2, 2), np.complex64), "complex64"),
        (np.zeros((2, 2), object), "Python objects"),
        (np.zeros((2, 2), [("a", np.float16), ("b", np.float16)]), "records of 4 bytes"),
        (np.zeros((2, 2), "V2"), "records of 2 bytes"),
        (np.zeros((2, 2), ">f2"), "big-endian float16"),
        (np.zeros((2, 2), ">f4"), "big-endian float32"),
        (np.zeros((2, 2), "U3"), "text"),
    ],
)
def test_elements(array: Any, dtype: str) -> None:
    argument = read_host("A", array)
    assert argument.dtype == dtype
    if dtype not in ("f16", "f32"):
        expected = (
            f"error: argument A holds {dtype}; a view holds f16, bf16 or f32\n"
            "hint: convert it before the call: a call copies nothing"
        )
        for attempt in (
            lambda: check_dtype("A", argument),
            lambda: place("A", argument),
            lambda: host_array("A", array),
        ):
            assert refusal(attempt) == expected


def test_bfloat16_of_ml_dtypes() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    array = np.array([[1.0, -2.0]], ml_dtypes.bfloat16)
    assert read_host("A", array).dtype == "bf16"
    shared = host_array("A", array)
    assert shared.dtype == np.uint16
    assert shared.tolist() == [[0x3F80, 0xC000]]
    assert np.shares_memory(shared, array.view(np.uint16))
    assert read_host("A", np.zeros((2, 2), ml_dtypes.float8_e4m3fn)).dtype == "float8_e4m3fn"


def test_masked_arrays_are_refused() -> None:
    assert refusal(lambda: read_host("A", np.ma.zeros((2, 2)))) == (
        "error: argument A is a masked array: masks are not supported\nhint: pass A.filled(0), or A.data"
    )


@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_a_matrix_is_an_array_of_rank_2() -> None:
    matrix = np.matrix(memory())
    shared = host_array("A", matrix)
    assert type(shared) is np.ndarray
    assert np.shares_memory(shared, matrix)


def test_mapped_files_are_inputs_and_if_writable_outputs(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    memory().tofile(path)
    weights = np.memmap(path, np.float32, "r", shape=(8, 12))
    argument = read_host("A", weights)
    place("A", argument)
    assert np.array_equal(host_array("A", weights), memory())
    assert refusal(lambda: check_written("A", argument)) == (
        "error: argument A is read-only; the kernel writes it\nhint: pass an output of its own"
    )
    output = np.memmap(path, np.float32, "r+", shape=(8, 12))
    check_written("A", read_host("A", output))
    host_array("A", output)[0, 0] = 77
    output.flush()
    assert np.fromfile(path, np.float32)[0] == 77


def test_read_only_arrays_are_inputs() -> None:
    array = memory()
    array.flags.writeable = False
    assert read_host("A", array).readonly
    with pytest.raises(ValueError, match="read-only"):
        host_array("A", array)[0, 0] = 1


def test_broadcast_rows_are_inputs_never_outputs() -> None:
    rows = np.lib.stride_tricks.as_strided(memory(), (5, 12), (0, 4))
    argument = read_host("A", rows)
    assert place("A", argument).pitches == (0, 4)
    assert refusal(lambda: check_written("A", argument)) == (
        "error: argument A: its rows overlap (pitch 0 bytes, rows of 48 bytes), so the kernel cannot write it\n"
        "hint: pass an output whose elements each have memory of their own"
    )


def test_the_array_holds_its_owner() -> None:
    array = memory()
    before = sys.getrefcount(array)
    shared = host_array("A", array)
    assert sys.getrefcount(array) == before + 1
    del shared
    assert sys.getrefcount(array) == before


def test_objects_with_an_array_interface() -> None:
    class Holder:
        def __init__(self, array: Any) -> None:
            self.array = array
            self.__array_interface__ = array.__array_interface__

    base = memory()
    assert is_host("A", Holder(base))
    assert read_host("A", Holder(base[:, 2:])) == read_host("A", base[:, 2:])
    assert np.shares_memory(host_array("A", Holder(base)), base)


def test_an_interface_with_a_copy_of_the_data_is_refused() -> None:
    """As images of PIL have it."""

    class Image:
        __array_interface__ = {"version": 3, "shape": (2, 2), "typestr": "<f4", "data": bytes(16)}  # noqa: RUF012

    assert refusal(lambda: read_host("A", Image())) == (
        "error: argument A: its __array_interface__ has a bytes as 'data'"
    )


def test_where_all_are() -> None:
    host, gpu = np.zeros((2, 2), np.float16), FakeArray((2, 2))
    assert where("AB", [host, host]) == "host"
    assert where("AB", [gpu, gpu]) == "device"
    assert where("", []) == "device"
    assert where("AB", [Versioned((2, 2), device=(CPU, 0)), host]) == "host"
    assert where("AB", [Versioned((2, 2)), gpu]) == "device"


def test_arguments_in_different_places(torch: FakeTorch) -> None:
    host = np.zeros((2, 2), np.float16)
    on_two = FakeTensor((2, 2), device=2)
    for tensors, text in (
        ([on_two, host], "arguments A and B are in different places: A on GPU 2, B in host memory"),
        ([host, on_two], "arguments A and B are in different places: A in host memory, B on GPU 2"),
        ([on_two, on_two, host], "arguments A and C are in different places: A on GPU 2, C in host memory"),
        (
            [host, Versioned((2, 2), device=(CUDA, 1))],
            "arguments A and B are in different places: A in host memory, B on GPU 1",
        ),
        (
            [FakeArray((2, 2)), FakeTensor((2, 2), device=None)],
            "arguments A and B are in different places: A on a GPU, B in host memory",
        ),
    ):
        host_name = text.split(" in host memory")[0][-1]
        assert refusal(lambda tensors=tensors: where("ABC"[: len(tensors)], tensors)) == (
            f"error: {text}\nhint: move {host_name} to the GPU, or the others to the host: a call copies nothing"
        )


def test_where_names_what_is_no_tensor() -> None:
    assert refusal(lambda: where("AB", [np.zeros(2), "text"])).startswith("error: argument B is a str, not a tensor\n")


def test_ranks_on_the_host() -> None:
    check_rank("A", read_host("A", memory()), 2)
