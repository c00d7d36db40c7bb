"""Tensors of a call, read without copying, and the facts that pick the variant of a kernel.

torch tensors, numba-cuda device arrays and everything else with ``__cuda_array_interface__`` or DLPack are read. From
shape and strides follow the facts of a view's type: which dimension is fastest, what divides the base address and every
pitch, and whether the innermost extent keeps to the 16-byte grid.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tilec.diagnostics import TilecError

ELEMENT_BYTES = {"f16": 2, "bf16": 2, "f32": 4}
MAX_EXTENT = 1 << 31
"""TMA coordinates are signed 32-bit numbers."""
ALIGNMENTS = (16, 8, 4, 2)
LEGACY_STREAM = 1
"""The driver's explicit name of the legacy default stream, as the array interfaces write it."""


class Argument(NamedTuple):
    """One tensor on a device.

    `shape` in elements, `strides` in bytes. `dtype` is the view's name where views have that type, else the library's.
    `device` is None for an empty array that does not say where it is. `producer` is a stream on which the tensor may still
    be written; `readonly` forbids to use it as an output.
    """

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    device: int | None
    producer: int | None = None
    readonly: bool = False

    @property
    def element_bytes(self) -> int:
        return ELEMENT_BYTES[self.dtype]


@dataclass(frozen=True)
class Facts:
    """The class of tensors that a variant is compiled for; the facts of `!tile.view`.

    `order`: dimensions, fastest first; `align`: bytes that divide base address and every pitch; `tail`: "grid" when the
    innermost extent is a multiple of 16 bytes, else "free".
    """

    order: tuple[int, ...]
    align: int
    tail: str


@dataclass(frozen=True)
class Placement:
    """How a tensor lies in memory: its facts, and the distance in bytes between neighbours along each dimension."""

    facts: Facts
    pitches: tuple[int, ...]


def read(name: str, tensor: object, device_of: Callable[[int], int]) -> Argument:
    """Read one tensor; `device_of` asks the driver which device holds an address.

    Raises TilecError, naming the argument, for what is no tensor on a device.
    """
    if is_torch(tensor):
        return _read_torch(name, tensor)
    interface = getattr(tensor, "__cuda_array_interface__", None)
    if interface is not None:
        return _read_array_interface(name, interface, device_of)
    if hasattr(tensor, "__dlpack__") and hasattr(tensor, "__dlpack_device__"):
        return _read_dlpack(name, tensor)
    raise TilecError(
        f"argument {name} is a {type(tensor).__name__}, not a tensor",
        hint="pass torch tensors, numba-cuda device arrays, or arrays with __cuda_array_interface__ or DLPack",
    )


def identity(name: str, tensor: Any, device_of: Callable[[int], int]) -> Hashable:
    """Equal for tensors that `read` reads alike; for torch tensors cheaper than to read them."""
    if is_torch(tensor):
        return tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, tensor.get_device()
    return read(name, tensor, device_of)


def is_torch(tensor: object) -> bool:
    torch = imported("torch")
    return torch is not None and isinstance(tensor, torch.Tensor)


def imported(module: str) -> Any:
    """A module that somebody has imported already, or None: whose tensors could there be otherwise?"""
    return sys.modules.get(module)


def _host(name: str, what: str) -> TilecError:
    return TilecError(
        f"argument {name} is {what}, in host memory: the kernel runs on a GPU", hint="move it to the device"
    )


_torch_dtypes: dict[Any, str] = {}


def _read_torch(name: str, tensor: Any) -> Argument:
    if not tensor.is_cuda:
        raise _host(name, f"a torch tensor on '{tensor.device}'")
    dtype = _torch_dtypes.get(tensor.dtype)
    if dtype is None:
        full = str(tensor.dtype).removeprefix("torch.")
        dtype = _torch_dtypes[tensor.dtype] = {"float16": "f16", "bfloat16": "bf16", "float32": "f32"}.get(full, full)
    size: int = tensor.element_size()
    strides: tuple[int, ...] = tuple(s * size for s in tensor.stride())
    return Argument(tensor.data_ptr(), tuple(tensor.shape), strides, dtype, tensor.get_device())


def _read_array_interface(name: str, interface: Any, device_of: Callable[[int], int]) -> Argument:
    """https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html, versions 2 and 3."""
    if interface.get("mask") is not None:
        raise TilecError(f"argument {name} is a masked array: masks are not supported")
    typestr: str = interface["typestr"]
    size = int(typestr[2:])
    shape = tuple(int(n) for n in interface["shape"])
    strides = interface.get("strides")
    address, readonly = interface["data"]
    return Argument(
        address=address or 0,
        shape=shape,
        strides=_contiguous(shape, size) if strides is None else tuple(int(s) for s in strides),
        dtype={"<f2": "f16", "<f4": "f32"}.get(typestr, typestr),
        device=device_of(address) if address else None,
        producer=interface.get("stream"),
        readonly=bool(readonly),
    )


def _contiguous(shape: Sequence[int], size: int) -> tuple[int, ...]:
    strides: list[int] = []
    for extent in reversed(shape):
        strides.insert(0, size)
        size *= max(extent, 1)
    return tuple(strides)


class _DLTensor(ctypes.Structure):
    """`DLTensor` of dlpack.h, with which every version of the capsule's struct that we ask for begins."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


_DL_CUDA, _DL_CUDA_MANAGED = 2, 13
_DL_DTYPES = {(2, 16): "f16", (4, 16): "bf16", (2, 32): "f32"}


def _read_dlpack(name: str, tensor: Any) -> Argument:
    device_type, device = tensor.__dlpack_device__()
    if int(device_type) not in (_DL_CUDA, _DL_CUDA_MANAGED):
        raise _host(name, f"a {type(tensor).__name__}")
    # The producer makes its data ready on the legacy stream; the launch waits for that one if it uses another. The
    # capsule is given back unconsumed: the tensor itself stays the owner.
    capsule = tensor.__dlpack__(stream=LEGACY_STREAM)
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    managed = ctypes.cast(get_pointer(capsule, b"dltensor"), ctypes.POINTER(_DLTensor)).contents
    shape = tuple(managed.shape[i] for i in range(managed.ndim))
    size = managed.bits // 8
    strides = (
        tuple(managed.strides[i] * size for i in range(managed.ndim)) if managed.strides else _contiguous(shape, size)
    )
    dtype = _DL_DTYPES.get((managed.code, managed.bits), f"DLPack type {managed.code} of {managed.bits} bits")
    return Argument((managed.data or 0) + managed.byte_offset, shape, strides, dtype, int(device), LEGACY_STREAM)


def place(name: str, argument: Argument, preferred: tuple[int, ...] | None = None) -> Placement:
    """The facts of a tensor of rank 1 or 2.

    Where more than one order describes it (an extent of 1), `preferred` is chosen if it is one of them, else row-major.
    An empty tensor has the best facts: nothing of it is ever addressed. Raises TilecError for a tensor that no view
    describes: no dimension with stride 1, a negative stride, an extent of 2^31 or more.
    """
    shape, strides, size = argument.shape, argument.strides, argument.element_bytes
    for dim, (extent, stride) in enumerate(zip(shape, strides, strict=True)):
        if extent >= MAX_EXTENT:
            raise TilecError(
                f"argument {name}: dimension {dim} has {extent} elements; extents must be below 2^31",
                hint="split the tensor: a tile's coordinates are 32-bit numbers",
            )
        if extent > 1 and stride < 0:
            raise TilecError(f"argument {name}: dimension {dim} has a negative stride of {stride} bytes")
    row_major = tuple(reversed(range(len(shape))))
    orders = [row_major] if len(shape) == 1 else [row_major, row_major[::-1]]
    if preferred is not None:
        orders.insert(0, preferred)
    if 0 in shape:
        return Placement(Facts(orders[0], 16, "grid"), _canonical_pitches(shape, size, orders[0]))
    fitting = next((o for o in orders if shape[o[0]] == 1 or strides[o[0]] == size), None)
    if fitting is None:
        elements = ", ".join(f"{s / size:g}" for s in strides)
        raise TilecError(
            f"argument {name}: no dimension is contiguous (strides {elements} elements): one needs stride 1",
            hint="pass a contiguous copy, such as tensor.contiguous()",
        )
    # A pitch that is never stepped over is free to be what TMA likes best.
    canonical = _canonical_pitches(shape, size, fitting)
    pitches = tuple(canonical[d] if d == fitting[0] or shape[d] == 1 else strides[d] for d in range(len(shape)))
    steps = [argument.address, *(pitches[d] for d in fitting[1:])]
    align = next((a for a in ALIGNMENTS if all(s % a == 0 for s in steps)), 1)
    if align < size:
        raise TilecError(
            f"argument {name}: address 0x{argument.address:x} or pitch {pitches} bytes is no multiple of the "
            f"{size} bytes of one {argument.dtype}"
        )
    on_grid = align == ALIGNMENTS[0] and shape[fitting[0]] * size % ALIGNMENTS[0] == 0
    return Placement(Facts(fitting, align, "grid" if on_grid else "free"), pitches)


def _canonical_pitches(shape: Sequence[int], size: int, order: Sequence[int]) -> tuple[int, ...]:
    """Pitches in bytes of an array whose rows are padded to 16 bytes."""
    row_bytes = -(-max(shape[order[0]], 1) * size // 16) * 16
    return tuple(size if d == order[0] else row_bytes for d in range(len(shape)))


def check_symbols(
    names: Sequence[str], dims: Sequence[Sequence[int | str | None]], arguments: Sequence[Argument]
) -> None:
    """Check that each extent is what the view's type says, and that equal symbols are equal extents."""
    seen: dict[str, tuple[str, int, int]] = {}
    for name, wanted, argument in zip(names, dims, arguments, strict=True):
        for dim, (want, extent) in enumerate(zip(wanted, argument.shape, strict=True)):
            if isinstance(want, int) and extent != want:
                raise TilecError(f"argument {name}: dimension {dim} has {extent} elements; the kernel is for {want}")
            if not isinstance(want, str):
                continue
            first, first_dim, first_extent = seen.setdefault(want, (name, dim, extent))
            if extent != first_extent:
                raise TilecError(
                    f"arguments {first} and {name} disagree about {want}: dimension {first_dim} of {first} has "
                    f"{first_extent} elements, dimension {dim} of {name} has {extent}"
                )
