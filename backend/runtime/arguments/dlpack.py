"""Arrays that hand out DLPack capsules (https://dmlc.github.io/dlpack/latest/).

The capsule is never consumed: it goes back with the producer's own destructor, which frees what the producer made for it.
The array itself stays the owner of the memory for as long as the caller holds it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, TypeVar

from tilec.backend.runtime.arguments.argument import (
    VIEW_NAMES,
    Argument,
    check_has_memory,
    contiguous_strides,
    imported,
)
from tilec.diagnostics import TilecError, one_line

_T = TypeVar("_T")
_CPU, _CUDA, _CUDA_HOST, _CUDA_MANAGED = 1, 2, 3, 13
_OTHER_DEVICES = {
    4: "OpenCL",
    7: "Vulkan",
    8: "Metal",
    10: "ROCm",
    11: "ROCm's host memory",
    14: "oneAPI",
    15: "WebGPU",
}
_MAJOR, _MINOR = 1, 0
_READ_ONLY, _COPIED = 1, 2
_CODES = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex"}
_WHOLE_CODES = {
    6: "bool",
    8: "float8_e4m3",
    10: "float8_e4m3fn",
    12: "float8_e5m2",
    14: "float8_e8m0fnu",
    17: "float4_e2m1fn",
}


class _Tensor(ctypes.Structure):
    """`DLTensor` of dlpack.h."""

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


class _Versioned(ctypes.Structure):
    """`DLManagedTensorVersioned`; its elder `DLManagedTensor` begins with the `DLTensor`."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def speaks_dlpack(tensor: object) -> bool:
    return hasattr(tensor, "__dlpack__") and hasattr(tensor, "__dlpack_device__")


def dlpack_device(name: str, tensor: Any) -> int | None:
    """The GPU on which an array says that it lies, None for host memory.

    Raises TilecError for memory that neither a CUDA GPU nor the CPU reads.
    """
    kind, device = _asked(name, tensor.__dlpack_device__)
    if int(kind) in (_CUDA, _CUDA_MANAGED):
        return int(device)
    if int(kind) not in (_CPU, _CUDA_HOST):
        where = _OTHER_DEVICES.get(int(kind), f"DLPack device type {int(kind)}")
        raise TilecError(
            f"argument {name} is a {type(tensor).__name__} on {where}, where no kernel runs",
            hint="pass tensors on a CUDA GPU, or tensors on the CPU",
        )
    return None


def read_dlpack(name: str, tensor: Any, stream: int) -> Argument:
    """An array with DLPack, on a GPU or in host memory.

    On a GPU the producer makes its data ready on `stream`; a launch in another one has to wait for that.
    """
    device = dlpack_device(name, tensor)
    capsule = _capsule(name, tensor, {} if device is None else {"stream": stream})
    flags = 0
    if _is_valid(capsule, b"dltensor_versioned"):
        managed = ctypes.cast(_pointer_of(capsule, b"dltensor_versioned"), ctypes.POINTER(_Versioned)).contents
        if managed.major != _MAJOR:
            raise TilecError(
                f"argument {name} speaks DLPack {managed.major}.{managed.minor}; version {_MAJOR} is known"
            )
        flags, found = managed.flags, managed.tensor
    elif _is_valid(capsule, b"dltensor"):
        found = ctypes.cast(_pointer_of(capsule, b"dltensor"), ctypes.POINTER(_Tensor)).contents
    else:
        raise TilecError(f"argument {name} is a {type(tensor).__name__} whose __dlpack__ gives no DLPack tensor")
    if flags & _COPIED:
        raise TilecError(
            f"argument {name} is a {type(tensor).__name__} that DLPack shares only as a copy",
            hint="pass that copy itself",
        )
    dtype, size = _element(found)
    shape = tuple(found.shape[i] for i in range(found.ndim))
    # Strides are in elements; those of a dense array may be left out.
    strides = (
        tuple(found.strides[i] * size for i in range(found.ndim)) if found.strides else contiguous_strides(shape, size)
    )
    address = found.data + found.byte_offset if found.data else 0
    return check_has_memory(
        name,
        Argument(
            address,
            shape,
            strides,
            dtype,
            device,
            None if device is None else stream,
            bool(flags & _READ_ONLY) or _is_jax(tensor),
        ),
    )


def _capsule(name: str, tensor: Any, stream: dict[str, int]) -> object:
    """A capsule of the newest kind that the producer makes; its own reason where it makes none."""

    def ask() -> object:
        try:
            return tensor.__dlpack__(**stream, max_version=(_MAJOR, _MINOR), copy=False)
        except TypeError:  # a producer older than DLPack 1.0
            return tensor.__dlpack__(**stream)

    return _asked(name, ask)


def _asked(name: str, ask: Callable[[], _T]) -> _T:
    try:
        return ask()
    except Exception as error:
        raise TilecError(f"argument {name} cannot be shared through DLPack: {one_line(error)}") from error


def _element(tensor: _Tensor) -> tuple[str, int]:
    """The name of a type of elements, and its bytes (of types below a byte, those of a whole one)."""
    if tensor.code in _CODES:
        full = f"{_CODES[tensor.code]}{tensor.bits}"
    else:
        full = _WHOLE_CODES.get(tensor.code, f"DLPack type {tensor.code} of {tensor.bits} bits")
    if tensor.lanes != 1:
        full = f"vectors of {tensor.lanes} {full}"
    return VIEW_NAMES.get(full, full), -(-tensor.bits * tensor.lanes // 8)


def _is_jax(tensor: object) -> bool:
    """Arrays of JAX never change, which their capsules do not say."""
    jax = imported("jax")
    return jax is not None and isinstance(tensor, jax.Array)
