"""Producers of DLPack capsules, written from dlpack.h, that count what is freed."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

CPU, CUDA, CUDA_HOST, METAL, CUDA_MANAGED = 1, 2, 3, 8, 13
INT, FLOAT, BFLOAT, COMPLEX, BOOL = 0, 2, 4, 5, 6
READ_ONLY, COPIED = 1, 2

_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)
# A capsule that is being freed must not be held by a new reference: here it is an address.
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_Destructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
_kept: list[object] = []
"""A capsule may outlive its producer, and needs its destructor and its name then."""


class Managed(ctypes.Structure):
    """`DLManagedTensorVersioned` up to and with its tensor; unversioned capsules point at `data`."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    )


class Unversioned:
    """A producer from before DLPack 1.0: an array at `address`, `strides` in elements or NULL."""

    def __init__(
        self,
        shape: Sequence[int],
        strides: Sequence[int] | None = None,
        *,
        address: int = 0x10000,
        device: tuple[int, int] = (CUDA, 0),
        element: tuple[int, int, int] = (FLOAT, 16, 1),
        byte_offset: int = 0,
        flags: int = 0,
        version: tuple[int, int] = (1, 0),
    ) -> None:
        self.device, self.freed = device, 0
        self.asked: list[dict[str, Any]] = []
        self._shape = (ctypes.c_int64 * len(shape))(*shape)
        self._strides = None if strides is None else (ctypes.c_int64 * len(strides))(*strides)
        self.managed = Managed(
            *version,
            flags=flags,
            data=address,
            device_type=device[0],
            device_id=device[1],
            ndim=len(shape),
            code=element[0],
            bits=element[1],
            lanes=element[2],
            shape=ctypes.addressof(self._shape),
            strides=None if self._strides is None else ctypes.addressof(self._strides),
            byte_offset=byte_offset,
        )
        self._destructor = _Destructor(self._destroy)
        _kept.append(self._destructor)

    def _destroy(self, capsule: int) -> None:
        """What producers do with a capsule that nobody consumed: call the deleter."""
        if _is_valid(capsule, b"dltensor") or _is_valid(capsule, b"dltensor_versioned"):
            self.freed += 1

    def capsule(self, name: bytes, address: int) -> object:
        _kept.append(name)
        return _new(address, name, ctypes.cast(self._destructor, ctypes.c_void_p))

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, *, stream: int | None = None) -> object:
        self.asked.append({"stream": stream})
        return self.capsule(b"dltensor", ctypes.addressof(self.managed) + Managed.data.offset)


class Versioned(Unversioned):
    """A producer of DLPack 1.0 and later."""

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        self.asked.append({"stream": stream, "max_version": max_version, "copy": copy})
        return self.capsule(b"dltensor_versioned", ctypes.addressof(self.managed))
