"""Arrays with DLPack: every field of dlpack.h that matters, and that nothing is freed twice or never."""

from __future__ import annotations

import gc
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fake_dlpack import (
    BFLOAT,
    BOOL,
    COMPLEX,
    COPIED,
    CPU,
    CUDA,
    CUDA_HOST,
    CUDA_MANAGED,
    FLOAT,
    INT,
    METAL,
    READ_ONLY,
    Unversioned,
    Versioned,
)

from tilec.backend.runtime.arguments import Argument, check_dtype, host_array, is_host, read, read_host
from tilec.diagnostics import TilecError

PRODUCERS = pytest.mark.parametrize("producer", [Unversioned, Versioned])


def nowhere(address: int) -> int:
    raise AssertionError("DLPack says itself on which device it is")


def refusal(tensor: object) -> str:
    with pytest.raises(TilecError) as caught:
        read("A", tensor, nowhere)
    return str(caught.value)


@PRODUCERS
@pytest.mark.parametrize(
    ("shape", "strides", "steps"),
    [
        ((3, 8), (16, 1), (32, 2)),
        ((3, 8), None, (16, 2)),
        ((8,), None, (2,)),
        ((), None, ()),
        ((0, 8), None, (16, 2)),
        ((2, 3, 4), None, (24, 8, 2)),
        ((4, 8), (-8, 1), (-16, 2)),
    ],
)
def test_shapes_and_strides(
    producer: type[Unversioned], shape: tuple[int, ...], strides: tuple[int, ...] | None, steps: tuple[int, ...]
) -> None:
    array = producer(shape, strides, device=(CUDA, 1))
    assert read("A", array, nowhere) == Argument(0x10000, shape, steps, "f16", 1, 1)


@PRODUCERS
@pytest.mark.parametrize(
    ("element", "dtype"),
    [
        ((FLOAT, 16, 1), "f16"),
        ((BFLOAT, 16, 1), "bf16"),
        ((FLOAT, 32, 1), "f32"),
        ((FLOAT, 64, 1), "float64"),
        ((INT, 8, 1), "int8"),
        ((COMPLEX, 64, 1), "complex64"),
        ((BOOL, 8, 1), "bool"),
        ((FLOAT, 16, 2), "vectors of 2 float16"),
        ((10, 8, 1), "float8_e4m3fn"),
        ((99, 8, 1), "DLPack type 99 of 8 bits"),
    ],
)
def test_elements(producer: type[Unversioned], element: tuple[int, int, int], dtype: str) -> None:
    argument = read("A", producer((4, 4), element=element), nowhere)
    assert argument.dtype == dtype
    if dtype not in ("f16", "bf16", "f32"):
        with pytest.raises(TilecError) as caught:
            check_dtype("A", argument)
        assert str(caught.value) == (
            f"error: argument A holds {dtype}; a view holds f16, bf16 or f32\n"
            "hint: convert it before the call: a call copies nothing"
        )


@PRODUCERS
def test_the_byte_offset_counts(producer: type[Unversioned]) -> None:
    assert read("A", producer((4, 4), address=0x1000, byte_offset=0x40), nowhere).address == 0x1040


@PRODUCERS
def test_managed_memory_is_on_the_device_that_the_producer_names(producer: type[Unversioned]) -> None:
    assert read("A", producer((4, 4), device=(CUDA_MANAGED, 3)), nowhere).device == 3


def test_the_flag_of_a_read_only_array() -> None:
    assert read("A", Versioned((4, 4), flags=READ_ONLY), nowhere).readonly
    assert not read("A", Versioned((4, 4)), nowhere).readonly


def test_arrays_of_jax_are_read_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(Array=Versioned))  # pyright: ignore[reportArgumentType]
    assert read("A", Versioned((4, 4)), nowhere).readonly
    assert not read("A", Unversioned((4, 4)), nowhere).readonly


def test_the_producer_is_asked_for_no_copy_and_makes_its_data_ready_on_our_stream() -> None:
    array = Versioned((4, 4))
    assert [read("A", array, nowhere, s).producer for s in (77, 0)] == [77, 1]
    assert array.asked == [{"stream": s, "max_version": (1, 0), "copy": False} for s in (77, 1)]


def test_older_producers_are_asked_for_what_they_know() -> None:
    array = Unversioned((4, 4))
    read("A", array, nowhere, 77)
    assert array.asked == [{"stream": 77}]


@PRODUCERS
@pytest.mark.parametrize("device", [CPU, CUDA_HOST])
def test_host_memory_has_no_stream(producer: type[Unversioned], device: int) -> None:
    array = producer((4, 4), (8, 1), device=(device, 0))
    assert is_host("A", array)
    assert read_host("A", array) == Argument(0x10000, (4, 4), (16, 2), "f16", None, None)
    assert [asked["stream"] for asked in array.asked] == [None]


@PRODUCERS
def test_every_capsule_is_freed_once(producer: type[Unversioned]) -> None:
    array = producer((4, 4))
    for times in (1, 2, 3):
        read("A", array, nowhere)
        gc.collect()
        assert array.freed == times


@pytest.mark.parametrize(
    "array",
    [
        Versioned((4, 4), flags=COPIED),
        Versioned((4, 4), version=(2, 0)),
        Versioned((4, 4), address=0),
        Unversioned((4, 4), address=0),
    ],
)
def test_the_capsule_of_a_refused_array_is_freed_once(array: Unversioned) -> None:
    refusal(array)
    gc.collect()
    assert array.freed == len(array.asked) == 1


def test_nothing_is_kept_of_a_real_producer() -> None:
    array = np.zeros((4, 4), np.float32)
    before = sys.getrefcount(array)

    class OnDevice:
        def __dlpack_device__(self) -> tuple[int, int]:
            return CUDA, 0

        def __dlpack__(self, *, stream: int) -> Any:
            return array.__dlpack__()

    for _ in range(10):
        assert read("A", OnDevice(), nowhere).address == array.ctypes.data
    assert sys.getrefcount(array) == before


class Refusing(Versioned):
    """A producer that gives no capsule."""

    def __init__(self, answer: object) -> None:
        super().__init__((4, 4))
        self._answer = answer

    def __dlpack__(self, **_: object) -> object:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


def test_a_consumed_capsule_is_no_tensor() -> None:
    array = Versioned((4, 4))
    used = array.capsule(b"used_dltensor", 1)
    for answer in (used, None, 3):
        assert refusal(Refusing(answer)) == "error: argument A is a Refusing whose __dlpack__ gives no DLPack tensor"
    del used
    assert array.freed == 0


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (
            Refusing(BufferError("Can't export tensors that require gradient,\nuse tensor.detach()")),
            "argument A cannot be shared through DLPack: Can't export tensors that require gradient, use tensor.detach()",
        ),
        (Refusing(TypeError("no such keyword")), "argument A cannot be shared through DLPack: no such keyword"),
        (Refusing(RuntimeError()), "argument A cannot be shared through DLPack: RuntimeError"),
        (
            Versioned((4, 4), flags=COPIED),
            "argument A is a Versioned that DLPack shares only as a copy\nhint: pass that copy itself",
        ),
        (Versioned((4, 4), version=(2, 1)), "argument A speaks DLPack 2.1; version 1 is known"),
        (
            Versioned((4, 4), address=0, byte_offset=64),
            "argument A has 16 elements, but its address is 0: its memory was freed or never made",
        ),
        (
            Versioned((4, 4), device=(METAL, 0)),
            "argument A is a Versioned on Metal, where no kernel runs\n"
            "hint: pass tensors on a CUDA GPU, or tensors on the CPU",
        ),
        (
            Versioned((4, 4), device=(99, 0)),
            "argument A is a Versioned on DLPack device type 99, where no kernel runs\n"
            "hint: pass tensors on a CUDA GPU, or tensors on the CPU",
        ),
        (
            Versioned((4, 4), device=(CPU, 0)),
            "argument A is a Versioned, in host memory: the kernel runs on a GPU\nhint: move it to the device",
        ),
    ],
)
def test_refusals(array: object, text: str) -> None:
    assert refusal(array) == f"error: {text}"


def test_host_memory_is_shared_in_place_and_held() -> None:
    memory = np.arange(12, dtype=np.float32).reshape(3, 4)

    class Elsewhere:
        """What is neither NumPy's nor torch's; `bfloat16` is unknown to NumPy."""

        def __dlpack_device__(self) -> tuple[int, int]:
            return memory.__dlpack_device__()

        def __dlpack__(self, **asked: Any) -> Any:
            return memory[:, 1:].__dlpack__(**asked)

    owner = Elsewhere()
    shared = host_array("A", owner)
    holders = sys.getrefcount(owner)
    assert np.shares_memory(shared, memory)
    shared[1, 0] = -7
    assert memory[1, 1] == -7
    assert (shared.shape, shared.strides, shared.dtype) == ((3, 3), (16, 4), np.float32)
    del shared
    assert sys.getrefcount(owner) == holders - 1


def test_bits_of_bf16_are_shared() -> None:
    bits = np.array([[0x3F80, 0xC000]], np.uint16)
    array = Versioned((1, 2), address=bits.ctypes.data, device=(CPU, 0), element=(BFLOAT, 16, 1))
    assert read_host("A", array).dtype == "bf16"
    shared = host_array("A", array)
    assert shared.dtype == np.uint16 and np.shares_memory(shared, bits)
    assert shared.tolist() == bits.tolist()


def test_a_read_only_array_is_shared_as_one() -> None:
    memory = np.zeros((2, 2), np.float32)
    array = Versioned((2, 2), address=memory.ctypes.data, device=(CPU, 0), element=(FLOAT, 32, 1), flags=READ_ONLY)
    assert not host_array("A", array).flags.writeable
