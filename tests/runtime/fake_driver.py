"""A CUDA driver that only writes down what it is asked for, and tensors that lie nowhere."""

from __future__ import annotations

import ctypes
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from tilec.backend.runtime.driver import DriverError, LaunchShape
from tilec.backend.runtime.tensor_map import MAP_BYTES, MapFields

DEVICE_MEMORY = 1 << 40
"""Addresses of device d are d * DEVICE_MEMORY and up."""


@dataclass(frozen=True)
class Launched:
    """One launch: where, and the bytes of its parameters as the driver would copy them."""

    device: int
    function: object
    shape: LaunchShape
    stream: int
    parameters: tuple[bytes, ...]
    addresses: tuple[int, ...]


@dataclass
class FakeDriver:
    """`sizes`: bytes of each parameter, which a real driver reads from the kernel's code."""

    cuda: tuple[int, int] = (13, 0)
    capabilities: tuple[tuple[int, int], ...] = ((9, 0), (9, 0))
    sms: int = 132
    ctas_per_sm: int = 1
    sizes: Sequence[int] = ()
    refusal: str | None = None
    stack: list[int] = field(default_factory=lambda: list[int]())
    encoded: list[MapFields] = field(default_factory=lambda: list[MapFields]())
    loaded: list[tuple[int, bytes]] = field(default_factory=lambda: list[tuple[int, bytes]]())
    launched: list[Launched] = field(default_factory=lambda: list[Launched]())
    ordered: list[tuple[int, int]] = field(default_factory=lambda: list[tuple[int, int]]())
    reserved: list[int] = field(default_factory=lambda: list[int]())

    def version(self) -> tuple[int, int]:
        return self.cuda

    def capability(self, device: int) -> tuple[int, int]:
        return self.capabilities[device]

    def multiprocessors(self, device: int) -> int:
        return self.sms

    def device_of(self, address: int) -> int:
        return address // DEVICE_MEMORY

    @contextmanager
    def current(self, device: int) -> Generator[None]:
        self.stack.append(device)
        try:
            yield
        finally:
            self.stack.pop()

    def load(self, image: bytes, entry: str) -> object:
        self.loaded.append((self.stack[-1], image))
        return f"{entry}#{len(self.loaded)}"

    def reserve_smem(self, function: object, size: int) -> None:
        assert self.stack
        self.reserved.append(size)

    def occupancy(self, function: object, threads: int, smem_bytes: int) -> int:
        return self.ctas_per_sm

    def encode(self, fields: MapFields) -> bytes:
        self.encoded.append(fields)
        return len(self.encoded).to_bytes(2, "little") * (MAP_BYTES // 2)

    def launch(self, function: object, shape: LaunchShape, stream: int, parameters: int) -> None:
        if self.refusal is not None:
            raise DriverError(self.refusal, f"the CUDA driver refused cuLaunchKernel: {self.refusal}")
        pointers = ctypes.cast(parameters, ctypes.POINTER(ctypes.c_void_p))
        addresses = tuple(pointers[i] or 0 for i in range(len(self.sizes)))
        values = tuple(ctypes.string_at(a, size) for a, size in zip(addresses, self.sizes, strict=True))
        self.launched.append(Launched(self.stack[-1], function, shape, stream, values, addresses))

    def order(self, after: int, before: int) -> None:
        self.ordered.append((after, before))


_TYPESTR = {"f16": ("<f2", 2), "f32": ("<f4", 4), "i8": ("|i1", 1)}


class FakeArray:
    """What numba-cuda and cupy give: ``__cuda_array_interface__``. `strides` in elements."""

    def __init__(
        self,
        shape: tuple[int, ...],
        strides: tuple[int, ...] | None = None,
        dtype: str = "f16",
        *,
        address: int = 0x10000,
        stream: int | None = None,
        readonly: bool = False,
        mask: object = None,
    ) -> None:
        typestr, size = _TYPESTR[dtype]
        self.shape = shape
        self.__cuda_array_interface__: dict[str, Any] = {
            "shape": shape,
            "strides": None if strides is None else tuple(s * size for s in strides),
            "typestr": typestr,
            "data": (address, readonly),
            "version": 3,
            "stream": stream,
            "mask": mask,
        }


class FakeStorage:
    """The part of `torch.UntypedStorage` that is read."""

    def __init__(self, size: int) -> None:
        self._size = size

    def nbytes(self) -> int:
        return self._size


class FakeTensor:
    """The part of `torch.Tensor` that is read; as large as its elements need."""

    is_nested = is_quantized = requires_grad = False
    layout = "torch.strided"

    def __init__(
        self,
        shape: tuple[int, ...],
        strides: tuple[int, ...] | None = None,
        dtype: str = "float16",
        *,
        address: int = 0x10000,
        device: int | None = 0,
    ) -> None:
        contiguous = tuple(_product(shape[i + 1 :]) for i in range(len(shape)))
        self.shape = shape
        self.dtype = f"torch.{dtype}"
        self.is_cuda = device is not None
        self.device = "cpu" if device is None else f"cuda:{device}"
        self._strides = contiguous if strides is None else strides
        self._address = address
        self._device = device

    def data_ptr(self) -> int:
        return self._address

    def stride(self) -> tuple[int, ...]:
        return self._strides

    def element_size(self) -> int:
        return 4 if "32" in self.dtype else 2

    def get_device(self) -> int:
        return -1 if self._device is None else self._device

    def is_neg(self) -> bool:
        return False

    def is_conj(self) -> bool:
        return False

    def storage_offset(self) -> int:
        return 0

    def untyped_storage(self) -> FakeStorage:
        steps = sum((n - 1) * s for n, s in zip(self.shape, self._strides, strict=True))
        return FakeStorage((steps + 1) * self.element_size())


def _product(numbers: Sequence[int]) -> int:
    result = 1
    for n in numbers:
        result *= max(n, 1)
    return result


class FakeTorch:
    """The module `torch`, as far as the runtime looks at it."""

    Tensor = FakeTensor
    float16, bfloat16, float32 = "torch.float16", "torch.bfloat16", "torch.float32"
    strided = "torch.strided"

    def __init__(self) -> None:
        self.streams: dict[int, int] = {}
        self.made: list[FakeTensor] = []
        self._C = self

    def is_grad_enabled(self) -> bool:
        return True

    def _cuda_getCurrentRawStream(self, device: int) -> int:
        return self.streams.get(device, 0)

    def empty(self, shape: tuple[int, ...], *, dtype: str, device: str) -> FakeTensor:
        index = None if device == "cpu" else int(device.removeprefix("cuda:"))
        self.made.append(FakeTensor(shape, None, dtype.removeprefix("torch."), address=0x900000, device=index))
        return self.made[-1]


def install_torch(monkeypatch: pytest.MonkeyPatch) -> FakeTorch:
    """Let the runtime see a torch."""
    torch = FakeTorch()
    monkeypatch.setitem(__import__("sys").modules, "torch", torch)
    return torch
