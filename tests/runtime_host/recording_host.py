"""A host without torch and without a GPU: tensors that are made up, and a driver that writes down what it is asked."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tilec.backend.runtime.host import Host, HostLauncher, LaunchEntry
from tilec.backend.runtime.host.driver import DriverFunctions, address_of
from tilec.backend.runtime.host.layout import ClusterAttribute, Config, View
from tilec.backend.runtime.host.machine_code import MappedCode, machine_code, map_code
from tilec.backend.runtime.host.tensors import TensorLibrary

CUDA, CPU = 2, 1
F16, F32, COMPLEX64 = 0x01_10_02, 0x01_20_02, 0x01_40_05
_mapped: list[MappedCode] = []


def mapped_code() -> MappedCode:
    """The launcher's code, compiled once for all tests."""
    if not _mapped:
        _mapped.append(map_code(machine_code(lambda name: None, lambda name, code: None)))
    return _mapped[0]


@dataclass(eq=False)
class FakeTensor:
    """What DLPack tells of a tensor. Without strides it is contiguous."""

    address: int = 0x1000
    shape: tuple[int, ...] = (64, 32)
    strides: tuple[int, ...] | None = (32, 1)
    dtype: int = F16
    device: tuple[int, int] = (CUDA, 0)
    offset: int = 0
    requires_grad: Any = False
    negative: bool = False
    described: bool = True

    def __post_init__(self) -> None:
        self._shape = (ctypes.c_int64 * max(1, len(self.shape)))(*self.shape)
        self._strides = None if self.strides is None else (ctypes.c_int64 * max(1, len(self.shape)))(*self.strides)

    def is_neg(self) -> bool:
        return self.negative

    def view(self) -> View:
        strides = None if self._strides is None else ctypes.addressof(self._strides)
        kind, index = self.device
        return View(
            self.address,
            kind | index << 32,
            len(self.shape),
            self.dtype,
            ctypes.addressof(self._shape),
            strides,
            self.offset,
        )


class FakeParameter(FakeTensor):
    pass


class FakeSubclass(FakeTensor):
    pass


@dataclass(frozen=True)
class Launched:
    """One call of cuLaunchKernelEx."""

    function: int
    parameters: int
    ctas: tuple[int, int, int]
    threads: tuple[int, int, int]
    smem_bytes: int
    stream: int
    cluster: tuple[int, int, int] | None
    context: int


@dataclass
class RecordingDriver:
    """The driver and the streams of torch. `statuses` are those of the next calls of a function, by its name."""

    context: int = 0xC0
    current_streams: dict[int, int] = field(default_factory=lambda: {0: 0x70})
    statuses: dict[str, int] = field(default_factory=dict[str, int])
    launches: list[Launched] = field(default_factory=list[Launched])
    calls: list[str] = field(default_factory=list[str])
    during_launch: Callable[[], object] = lambda: None

    def __post_init__(self) -> None:
        self._stack: list[int] = []
        pointer, status = ctypes.c_void_p, ctypes.c_int
        # Called without the lock, but for the first two.
        self._functions = (
            ctypes.PYFUNCTYPE(status, ctypes.py_object, ctypes.POINTER(View))(self._view),
            ctypes.PYFUNCTYPE(status, status, status, ctypes.POINTER(pointer))(self._stream),
            ctypes.CFUNCTYPE(status, ctypes.POINTER(Config), pointer, pointer, pointer)(self._launch),
            ctypes.CFUNCTYPE(status, ctypes.POINTER(pointer))(self._get),
            ctypes.CFUNCTYPE(status, pointer)(self._push),
            ctypes.CFUNCTYPE(status, ctypes.POINTER(pointer))(self._pop),
        )
        view, stream, *driver = (address_of(f) for f in self._functions)
        tensors = TensorLibrary(FakeTensor, FakeParameter, FakeTensor.is_neg, view, stream, None)
        self.host = Host(mapped_code(), tensors, DriverFunctions(*driver))

    def launcher(
        self,
        inputs: int,
        outputs: int,
        miss: Callable[..., object],
        error: Callable[[int, LaunchEntry], object] = lambda status, launch: None,
        capacity: int = 1024,
    ) -> HostLauncher:
        launcher = HostLauncher(inputs, outputs, miss, error, self.host, capacity)
        launcher._recorder = self  # type: ignore[attr-defined]  # keeps the functions
        return launcher

    def _view(self, tensor: FakeTensor, out: Any) -> int:
        if not tensor.described:
            return -1
        out[0] = tensor.view()
        return 0

    def _stream(self, kind: int, index: int, out: Any) -> int:
        if kind != CUDA or index not in self.current_streams:
            return -1
        out[0] = self.current_streams[index]
        return 0

    def _launch(self, config: Any, function: int | None, parameters: int, extra: int | None) -> int:
        assert extra is None
        self.calls.append("launch")
        self.during_launch()
        c = config[0]
        cluster = None
        if c.attribute_count:
            assert c.attribute_count == 1
            attribute = ClusterAttribute.from_address(c.attributes)
            assert attribute.id == 4
            cluster = (attribute.x, attribute.y, attribute.z)
        self.launches.append(
            Launched(
                function or 0,
                parameters,
                (c.grid_x, c.grid_y, c.grid_z),
                (c.block_x, c.block_y, c.block_z),
                c.smem_bytes,
                c.stream or 0,
                cluster,
                self.context,
            )
        )
        return self.statuses.pop("launch", 0)

    def _get(self, out: Any) -> int:
        out[0] = self.context
        return self.statuses.pop("get", 0)

    def _push(self, context: int | None) -> int:
        self.calls.append("push")
        status = self.statuses.pop("push", 0)
        if status == 0:
            self._stack.append(self.context)
            self.context = context or 0
        return status

    def _pop(self, out: Any) -> int:
        self.calls.append("pop")
        out[0] = self.context
        self.context = self._stack.pop()
        return self.statuses.pop("pop", 0)


def entry(
    function: int = 0xF0, ctas: int = 12, context: int = 0xC0, cluster: int = 1, owner: object = None
) -> LaunchEntry:
    return LaunchEntry(function, context, ctas, 128, 4096, 0x9000, owner, cluster)


@dataclass
class Misses:
    """A callable that writes down its calls."""

    calls: list[tuple[tuple[object, ...], dict[str, object]]] = field(default_factory=list[Any])
    result: object = "miss"

    def __call__(self, *arguments: object, **keywords: object) -> object:
        self.calls.append((arguments, keywords))
        if isinstance(self.result, Exception):
            raise self.result
        return self.result
