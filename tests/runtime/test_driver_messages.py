"""The real driver's client over bindings that refuse: what a user reads, the log of the driver's own compiler included."""

from __future__ import annotations

import sys
from enum import IntEnum
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from fake_driver import FakeTensor, FakeTorch
from gemm_text import gemm

import tilec
from tilec.backend.runtime.driver import CudaDriver, DriverError
from tilec.diagnostics import TilecError, collect


class Status(IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_NO_DEVICE = 100
    CUDA_ERROR_NO_BINARY_FOR_GPU = 209
    CUDA_ERROR_INVALID_PTX = 218
    CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222


class Options(IntEnum):
    CU_JIT_ERROR_LOG_BUFFER = 5
    CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6


class Attributes(IntEnum):
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76


class Bindings(ModuleType):
    """``cuda.bindings.driver``, as far as loading goes. `loads`: how loading ends, and what is written in its log."""

    CUjit_option = Options
    CUdevice_attribute = Attributes

    def __init__(self) -> None:
        super().__init__("cuda.bindings.driver")
        self.loads: tuple[Status, bytes] = (Status.CUDA_ERROR_INVALID_PTX, b"")
        self.init = Status.CUDA_SUCCESS
        self.images: list[bytes] = []
        self.contexts: list[int] = []

    def cuInit(self, flags: int) -> tuple[Status]:
        return (self.init,)

    def cuDriverGetVersion(self) -> tuple[Status, int]:
        return Status.CUDA_SUCCESS, 12080

    def cuDeviceGet(self, ordinal: int) -> tuple[Status, int]:
        return Status.CUDA_SUCCESS, ordinal

    def cuDeviceGetAttribute(self, attribute: Attributes, device: int) -> tuple[Status, int]:
        return Status.CUDA_SUCCESS, {16: 132, 75: 9, 76: 0}[attribute]

    def cuDevicePrimaryCtxRetain(self, device: int) -> tuple[Status, int]:
        return Status.CUDA_SUCCESS, 1000 + device

    def cuCtxGetCurrent(self) -> tuple[Status, int]:
        return Status.CUDA_SUCCESS, self.contexts[-1] if self.contexts else 0

    def cuCtxPushCurrent(self, context: int) -> tuple[Status]:
        self.contexts.append(context)
        return (Status.CUDA_SUCCESS,)

    def cuCtxPopCurrent(self) -> tuple[Status, int]:
        return Status.CUDA_SUCCESS, self.contexts.pop()

    def cuModuleLoadDataEx(
        self, image: bytes, count: int, options: list[Options], values: list[Any]
    ) -> tuple[Any, ...]:
        status, log = self.loads
        self.images.append(image)
        assert count == 2 and self.contexts
        buffer, size = (values[options.index(option)] for option in Options)
        assert len(buffer) == size
        buffer[: len(log)] = log
        return (status, None) if status is not Status.CUDA_SUCCESS else (status, "module")

    def cuModuleGetFunction(self, module: str, name: bytes) -> tuple[Status, str]:
        return Status.CUDA_SUCCESS, f"{module}.{name.decode()}"


@pytest.fixture
def bindings(monkeypatch: pytest.MonkeyPatch) -> Bindings:
    made = Bindings()
    package = SimpleNamespace(driver=made)
    monkeypatch.setitem(sys.modules, "cuda", ModuleType("cuda"))
    monkeypatch.setitem(sys.modules, "cuda.bindings", package)  # pyright: ignore[reportArgumentType]
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", made)
    return made


LOG = b"ptxas application ptx input, line 9; fatal   : Unsupported .version 8.7; current version is '8.4'"
REFUSED: dict[str, tuple[Status, bytes, str]] = {
    "with a log": (
        Status.CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
        LOG,
        "error: the CUDA driver refused cuModuleLoadDataEx: CUDA_ERROR_UNSUPPORTED_PTX_VERSION\n"
        f"{LOG.decode()}\n"
        "hint: install ptxas (pip install 'tilec[ptxas]'), so that PTX need not be loaded",
    ),
    "with lines of log": (
        Status.CUDA_ERROR_INVALID_PTX,
        b"line 1\nline 2\n",
        "error: the CUDA driver refused cuModuleLoadDataEx: CUDA_ERROR_INVALID_PTX\nline 1\nline 2",
    ),
    "without a word": (
        Status.CUDA_ERROR_INVALID_PTX,
        b"",
        "error: the CUDA driver refused cuModuleLoadDataEx: CUDA_ERROR_INVALID_PTX",
    ),
    "in no encoding": (
        Status.CUDA_ERROR_INVALID_PTX,
        b"no \xff\0rest of an earlier log",
        "error: the CUDA driver refused cuModuleLoadDataEx: CUDA_ERROR_INVALID_PTX\nno \N{REPLACEMENT CHARACTER}",
    ),
    "code of another GPU": (
        Status.CUDA_ERROR_NO_BINARY_FOR_GPU,
        b"",
        "error: the CUDA driver refused cuModuleLoadDataEx: CUDA_ERROR_NO_BINARY_FOR_GPU\n"
        "hint: the kernel was compiled for another GPU: leave out target=",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_said_of_code_that_does_not_load(bindings: Bindings, case: str) -> None:
    status, log, expected = REFUSED[case]
    bindings.loads = status, log
    driver = CudaDriver()
    with driver.current(0), pytest.raises(DriverError) as caught:
        driver.load(b".version 8.7", "gemm")
    assert str(caught.value) == expected
    assert caught.value.code == status.name
    assert bindings.contexts == []


def test_a_call_whose_code_does_not_load(bindings: Bindings, torch: FakeTorch, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole way. What was current stays so, and the next call tries again."""
    monkeypatch.setattr("tilec.backend.ptxas.find_ptxas", lambda: None)
    bindings.loads = Status.CUDA_ERROR_UNSUPPORTED_PTX_VERSION, LOG
    bindings.contexts.append(77)
    tensors = [FakeTensor(s, address=0x400000 * (i + 1)) for i, s in enumerate(((128, 64), (128, 64), (128, 128)))]
    with collect():
        run = tilec.compile(gemm(), driver=CudaDriver())
        for _ in range(2):
            with pytest.raises(TilecError) as caught:
                run(*tensors)
            assert str(caught.value) == REFUSED["with a log"][2]
    assert bindings.contexts == [77]
    ptx = run.variant(*tensors).asm["ptx"]
    assert bindings.images == [ptx.encode() + b"\0"] * 2


def test_code_that_loads(bindings: Bindings) -> None:
    bindings.loads = Status.CUDA_SUCCESS, b"a note that nobody asked for"
    driver = CudaDriver()
    with driver.current(0):
        assert driver.load(b"machine code", "gemm") == "module.gemm"


def test_the_drivers_version(bindings: Bindings) -> None:
    assert CudaDriver().version() == (12, 8)


def test_no_gpu(bindings: Bindings) -> None:
    bindings.init = Status.CUDA_ERROR_NO_DEVICE
    with pytest.raises(DriverError) as caught:
        CudaDriver()
    assert str(caught.value) == (
        "error: the CUDA driver refused cuInit: CUDA_ERROR_NO_DEVICE\nhint: run on a machine with a GPU"
    )


def test_no_bindings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("cuda", "cuda.bindings", "cuda.bindings.driver"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(TilecError) as caught:
        CudaDriver()
    assert str(caught.value).startswith("error: launching a kernel needs the CUDA bindings: ")
    assert str(caught.value).endswith("\nhint: pip install 'tilec[gpu]'")
