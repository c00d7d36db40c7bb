"""Arrays that tell of themselves in a dict: ``__cuda_array_interface__`` on a GPU, ``__array_interface__`` in host memory.

https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html (versions 0 to 3) and
https://numpy.org/doc/stable/reference/arrays.interface.html (version 3): but for the stream, one form.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from operator import index
from typing import Any, Literal, cast

from tilec.backend.runtime.arguments.argument import Argument, check_has_memory, contiguous_strides
from tilec.diagnostics import TilecError, kind_of

CUDA, HOST = "__cuda_array_interface__", "__array_interface__"
Protocol = Literal["__cuda_array_interface__", "__array_interface__"]
_NEWEST = 3
_VIEW_TYPES = {"float16": "f16", "float32": "f32"}
_KINDS = {"f": "float", "i": "int", "u": "uint", "c": "complex"}
_OTHER_KINDS = {"b": "bool", "O": "Python objects", "M": "datetime64", "m": "timedelta64", "S": "bytes", "U": "text"}


def read_cuda_array(name: str, interface: object, device_of: Callable[[int], int]) -> Argument:
    """What a ``__cuda_array_interface__`` tells; `device_of` asks the driver which device holds an address."""
    fields = _fields(name, CUDA, interface)
    stream = fields.get("stream")
    # Versions before 3 say nothing of streams.
    if stream is not None and fields["version"] >= 3 and (type(stream) is not int or stream <= 0):
        raise _malformed(
            name,
            CUDA,
            f"names the stream {stream!r}; 1 is the default stream, None says that there is nothing to wait for",
        )
    argument = _read(name, CUDA, fields)
    return argument._replace(
        device=_device(name, argument, device_of), producer=stream if fields["version"] >= 3 else None
    )


def _device(name: str, argument: Argument, device_of: Callable[[int], int]) -> int | None:
    if not argument.address:
        return None
    try:
        return device_of(argument.address)
    except TilecError as error:
        if getattr(error, "code", None) != "CUDA_ERROR_INVALID_VALUE":
            raise
        raise TilecError(
            f"argument {name}: the CUDA driver knows no memory at 0x{argument.address:x}: it was freed, or is not a GPU's"
        ) from error


def read_host_array(name: str, interface: object) -> Argument:
    """What an ``__array_interface__`` tells."""
    return _read(name, HOST, _fields(name, HOST, interface))


def _malformed(name: str, protocol: Protocol, what: str) -> TilecError:
    return TilecError(f"argument {name}: its {protocol} {what}")


def _fields(name: str, protocol: Protocol, interface: object) -> dict[str, Any]:
    if not isinstance(interface, dict):
        raise _malformed(name, protocol, f"is {kind_of(interface)}, not a dict")
    fields = cast("dict[str, Any]", interface)
    for key, kind in (("version", int), ("shape", tuple), ("typestr", str), ("data", tuple)):
        if not isinstance(fields.get(key), kind):
            what = f"has {kind_of(fields[key])} as '{key}'" if key in fields else f"has no '{key}'"
            raise _malformed(name, protocol, what)
    if not 0 <= fields["version"] <= _NEWEST:
        raise _malformed(name, protocol, f"has version {fields['version']}; versions 0 to {_NEWEST} are known")
    if fields.get("mask") is not None:
        raise TilecError(
            f"argument {name} is a masked array: masks are not supported",
            hint="pass its data, with the masked elements set",
        )
    return fields


def _read(name: str, protocol: Protocol, fields: dict[str, Any]) -> Argument:
    strides, data = fields.get("strides"), fields["data"]
    shape = _integers(name, protocol, "shape", fields["shape"])
    if shape and min(shape) < 0:
        raise _malformed(name, protocol, f"has a negative extent in shape {shape}")
    element = _element(fields["typestr"])
    if element is None:
        raise _malformed(name, protocol, f"has the typestr {fields['typestr']!r}")
    dtype, size = element
    steps = contiguous_strides(shape, size) if strides is None else _integers(name, protocol, "strides", strides)
    if len(steps) != len(shape):
        raise _malformed(name, protocol, f"has {len(steps)} strides for {len(shape)} dimensions")
    try:
        address, readonly = index(data[0] or 0), bool(data[1])
    except (TypeError, LookupError):
        raise _malformed(name, protocol, "has data other than an address and whether it is read-only") from None
    return check_has_memory(name, Argument(address, shape, steps, dtype, None, None, readonly))


def _integers(name: str, protocol: Protocol, key: str, numbers: Any) -> tuple[int, ...]:
    try:
        if isinstance(numbers, tuple):
            return tuple(map(index, cast("tuple[Any, ...]", numbers)))
    except TypeError:
        pass
    raise _malformed(name, protocol, f"has {key} {numbers!r}, not a tuple of integers")


@cache
def _element(typestr: str) -> tuple[str, int] | None:
    """The name of a type of elements, and its bytes; None for what is no typestr."""
    parts = re.fullmatch(r"([<>|=])([A-Za-z])(\d*)", typestr)
    if parts is None:
        return None
    order, kind, size = parts[1], parts[2], int(parts[3] or 0)
    full = f"{_KINDS[kind]}{8 * size}" if kind in _KINDS else _OTHER_KINDS.get(kind, f"records of {size} bytes")
    if order == ">" and size > 1:
        return f"big-endian {full}", size
    return _VIEW_TYPES.get(full, full), size
