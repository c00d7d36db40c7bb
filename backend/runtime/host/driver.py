"""Addresses of the four functions of the CUDA driver that a warm call needs."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

from tilec.backend.runtime.host.unavailable import HostUnavailable


@dataclass(frozen=True)
class DriverFunctions:
    """Addresses of cuLaunchKernelEx, cuCtxGetCurrent, cuCtxPushCurrent and cuCtxPopCurrent."""

    launch_kernel: int
    get_context: int
    push_context: int
    pop_context: int


def driver_functions() -> DriverFunctions:
    """Those of the installed driver. Raises HostUnavailable where there is none, or one older than CUDA 12."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
        names = ("cuLaunchKernelEx", "cuCtxGetCurrent", "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2")
        return DriverFunctions(*(address_of(library[name]) for name in names))
    except (OSError, AttributeError) as error:
        raise HostUnavailable(f"the CUDA driver cannot be called: {error}") from error


def address_of(function: object) -> int:
    """Of a function that ctypes knows."""
    address = ctypes.cast(function, ctypes.c_void_p).value  # type: ignore[arg-type]
    assert address is not None
    return address
