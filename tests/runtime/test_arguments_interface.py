"""Arrays with ``__cuda_array_interface__``: all versions of the protocol, and what is no array of any."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fake_dlpack import BFLOAT, INT, Versioned
from fake_driver import DEVICE_MEMORY, FakeArray, FakeDriver

from tilec.backend.runtime.arguments import Argument, check_dtype, is_host, read, read_host
from tilec.backend.runtime.driver import DriverError
from tilec.diagnostics import TilecError

READ = "hint: pass tensors of torch, arrays of NumPy or numba-cuda, or arrays with DLPack or an array interface"


class Made:
    """An object with an interface of its own making."""

    def __init__(self, **changes: object) -> None:
        fields: dict[str, object] = {
            "shape": (3, 8),
            "typestr": "<f2",
            "data": (DEVICE_MEMORY, False),
            "version": 3,
            **changes,
        }
        self.__cuda_array_interface__ = {k: v for k, v in fields.items() if v is not ...}


def refusal(driver: FakeDriver, tensor: object) -> str:
    with pytest.raises(TilecError) as caught:
        read("A", tensor, driver.device_of)
    return str(caught.value)


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_versions(driver: FakeDriver, version: int) -> None:
    expected = Argument(DEVICE_MEMORY, (3, 8), (16, 2), "f16", 1)
    assert read("A", Made(version=version), driver.device_of) == expected
    assert read("A", Made(version=version, strides=None), driver.device_of) == expected
    assert read("A", Made(version=version, strides=(64, 2), mask=None), driver.device_of).strides == (64, 2)


@pytest.mark.parametrize("stream", [None, 1, 2, 0x7F00_0000_1230])
def test_streams(driver: FakeDriver, stream: int | None) -> None:
    """1 is the legacy default stream, 2 that of the thread; the driver has the same names for them."""
    assert read("A", Made(stream=stream), driver.device_of).producer == stream


def test_versions_before_3_know_no_stream(driver: FakeDriver) -> None:
    assert read("A", Made(version=2, stream=7), driver.device_of).producer is None


@pytest.mark.parametrize("stream", [0, -1, "main", 1.0, True])
def test_streams_that_the_protocol_forbids(driver: FakeDriver, stream: object) -> None:
    assert refusal(driver, Made(stream=stream)) == (
        f"error: argument A: its __cuda_array_interface__ names the stream {stream!r}; 1 is the default stream, None says "
        "that there is nothing to wait for"
    )


def test_read_only_arrays(driver: FakeDriver) -> None:
    assert read("A", Made(data=(DEVICE_MEMORY, True)), driver.device_of).readonly


def test_empty_arrays_need_no_address(driver: FakeDriver) -> None:
    for address in (0, None):
        got = read("A", Made(shape=(0, 8), data=(address, False)), driver.device_of)
        assert got == Argument(0, (0, 8), (16, 2), "f16", None)


def test_numbers_of_numpy_are_integers(driver: FakeDriver) -> None:
    got = read("A", Made(shape=(np.int64(3), 8), data=(np.uint64(DEVICE_MEMORY), False)), driver.device_of)
    assert got == Argument(DEVICE_MEMORY, (3, 8), (16, 2), "f16", 1)
    assert all(type(n) is int for n in (got.address, *got.shape, *got.strides))


@pytest.mark.parametrize(
    ("typestr", "dtype"),
    [
        ("<f2", "f16"),
        ("<f4", "f32"),
        ("=f4", "f32"),
        ("<f8", "float64"),
        ("|i1", "int8"),
        (">i1", "int8"),
        ("<u4", "uint32"),
        ("|b1", "bool"),
        ("<c8", "complex64"),
        (">f2", "big-endian float16"),
        (">f4", "big-endian float32"),
        ("|V8", "records of 8 bytes"),
        ("<V2", "records of 2 bytes"),
        ("|O8", "Python objects"),
        ("<M8", "datetime64"),
    ],
)
def test_elements(driver: FakeDriver, typestr: str, dtype: str) -> None:
    argument = read("A", Made(typestr=typestr), driver.device_of)
    assert argument.dtype == dtype
    if dtype not in ("f16", "f32"):
        with pytest.raises(TilecError) as caught:
            check_dtype("A", argument, "f16")
        assert str(caught.value) == (
            f"error: argument A holds {dtype}; the kernel takes f16\n"
            "hint: convert it before the call: a call copies nothing"
        )


def test_elements_that_a_typestr_cannot_name_are_asked_of_dlpack(driver: FakeDriver) -> None:
    class Both(Versioned):
        """As arrays with NumPy's extension types have it."""

        def __init__(self, typestr: str, element: tuple[int, int, int]) -> None:
            super().__init__((3, 8), address=DEVICE_MEMORY, device=(2, 1), element=element)
            self.__cuda_array_interface__ = Made(typestr=typestr, stream=5).__cuda_array_interface__

    assert read("A", Both("<V2", (BFLOAT, 16, 1)), driver.device_of).dtype == "bf16"
    # What it can name is read without a capsule.
    array = Both("<f2", (INT, 16, 1))
    assert read("A", array, driver.device_of).producer == 5
    assert array.asked == []


def test_an_interface_that_is_not_made_for_every_array(driver: FakeDriver) -> None:
    class Sometimes:
        @property
        def __cuda_array_interface__(self) -> object:
            raise RuntimeError("bfloat16 has no typestr")

    class WithDLPack(Versioned, Sometimes):
        pass

    assert refusal(driver, Sometimes()) == (
        "error: argument A cannot be shared through __cuda_array_interface__: bfloat16 has no typestr"
    )
    assert read("A", WithDLPack((3, 8), element=(BFLOAT, 16, 1)), driver.device_of).dtype == "bf16"


OWN = "argument A: its __cuda_array_interface__"
MALFORMED: list[tuple[dict[str, object], str]] = [
    ({"version": ...}, f"{OWN} has no 'version'"),
    ({"version": 4}, f"{OWN} has version 4; versions 0 to 3 are known"),
    ({"version": "3"}, f"{OWN} has a str as 'version'"),
    ({"shape": ...}, f"{OWN} has no 'shape'"),
    ({"shape": [3, 8]}, f"{OWN} has a list as 'shape'"),
    ({"shape": (3, -8)}, f"{OWN} has a negative extent in shape (3, -8)"),
    ({"shape": (3, 8.0)}, f"{OWN} has shape (3, 8.0), not a tuple of integers"),
    ({"strides": (16,)}, f"{OWN} has 1 strides for 2 dimensions"),
    ({"strides": [16, 2]}, f"{OWN} has strides [16, 2], not a tuple of integers"),
    ({"typestr": ...}, f"{OWN} has no 'typestr'"),
    ({"typestr": "float16"}, f"{OWN} has the typestr 'float16'"),
    ({"data": ...}, f"{OWN} has no 'data'"),
    ({"data": None}, f"{OWN} has None as 'data'"),
    ({"data": b"copied"}, f"{OWN} has a bytes as 'data'"),
    ({"data": (DEVICE_MEMORY,)}, f"{OWN} has data other than an address and whether it is read-only"),
    ({"data": ("0x10", False)}, f"{OWN} has data other than an address and whether it is read-only"),
    (
        {"data": (0, False)},
        "argument A has 24 elements, but its address is 0: its memory was freed or never made",
    ),
    (
        {"mask": "a mask"},
        "argument A is a masked array: masks are not supported\nhint: pass its data, with the masked elements set",
    ),
]


@pytest.mark.parametrize(("changes", "text"), MALFORMED, ids=[str(c) for c, _ in MALFORMED])
def test_malformed_interfaces(driver: FakeDriver, changes: dict[str, object], text: str) -> None:
    assert refusal(driver, Made(**changes)) == f"error: {text}"


def test_an_interface_that_is_no_dict(driver: FakeDriver) -> None:
    class NoDict:
        __cuda_array_interface__ = 3

    assert refusal(driver, NoDict()) == f"error: {OWN} is an int, not a dict"


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (None, "None"),
        (3, "an int"),
        (2.5, "a float"),
        (1j, "a complex"),
        (True, "a bool"),
        ("f16", "a str"),
        ([1.0, 2.0], "a list"),
        ((1, 2), "a tuple"),
        (b"bytes", "a bytes"),
        (bytearray(4), "a bytearray"),
        ((ctypes.c_float * 4)(), "a c_float_Array_4"),
        (len, "a builtin_function_or_method"),
        (np.float16(1), "a float16, a single number"),
        (np.ndarray, "the class ndarray"),
        (FakeArray, "the class FakeArray"),
    ],
)
def test_what_is_no_array(driver: FakeDriver, value: object, what: str) -> None:
    attempts: list[Callable[[], Any]] = [
        lambda: read("A", value, driver.device_of),
        lambda: read_host("A", value),
        lambda: is_host("A", value),
    ]
    for attempt in attempts:
        with pytest.raises(TilecError) as caught:
            attempt()
        assert str(caught.value) == f"error: argument A is {what}, not a tensor\n{READ}"


def test_memory_that_the_driver_does_not_know() -> None:
    def refuse(code: str) -> Callable[[int], int]:
        def device_of(address: int) -> int:
            raise DriverError(code, f"the CUDA driver refused cuPointerGetAttribute: {code}")

        return device_of

    for code, text in (
        (
            "CUDA_ERROR_INVALID_VALUE",
            "argument A: the CUDA driver knows no memory at 0x10000000000: it was freed, or is not a GPU's",
        ),
        # Any other reason is not the argument's.
        ("CUDA_ERROR_NO_DEVICE", "the CUDA driver refused cuPointerGetAttribute: CUDA_ERROR_NO_DEVICE"),
    ):
        with pytest.raises(TilecError) as caught:
            read("A", Made(), refuse(code))
        assert str(caught.value) == f"error: {text}"


def test_arrays_on_a_gpu_are_not_in_host_memory(driver: FakeDriver) -> None:
    assert not is_host("A", Made())
    with pytest.raises(TilecError) as caught:
        read_host("A", Made())
    assert str(caught.value) == (
        "error: argument A is a Made, on a GPU\nhint: copy it to the host, or run the kernel on the GPU"
    )


def test_mapped_memory_is_read_by_the_gpu(driver: FakeDriver) -> None:
    """As numba-cuda makes it: a NumPy array that has a device address too."""

    class Mapped(np.ndarray[Any, Any]):
        __cuda_array_interface__ = Made().__cuda_array_interface__

    mapped = np.zeros((3, 8), np.float16).view(Mapped)
    assert not is_host("A", mapped)
    assert read("A", mapped, driver.device_of).device == 1
