"""The arguments of a launch: host arrays in global memory, and the bytes of the kernel's parameters."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.lib.array_utils import byte_bounds
from numpy.typing import NDArray

from tilec.backend.emulator.memory import GlobalMemory, GlobalSegment, Segment
from tilec.backend.emulator.ptx.syntax import Function, Variable
from tilec.backend.emulator.tensor_map import MAP_BYTES, TensorMap
from tilec.diagnostics import SourceLocation, TilecError

if TYPE_CHECKING:
    from tilec.backend.emulator.program import Program


_MAP_ALIGNMENT = 64
"""Of a tensor map in a structure."""


class HostArrays:
    """Host arrays in global memory. Views of one array share its memory there as they do here."""

    def __init__(self, memory: GlobalMemory) -> None:
        self._memory = memory
        self._placed: dict[int, tuple[NDArray[np.uint8], GlobalSegment]] = {}
        self._owners: list[Any] = []

    def address(self, array: NDArray[Any], name: str) -> int:
        """The device address of the first element of an array; its memory is copied there at the first call."""
        owner = array
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        if owner.nbytes == 0:
            return self._memory.allocate(name, 0).address
        low, high = byte_bounds(owner)
        found = self._placed.get(low)
        if found is None:
            host = _bytes_at(owner, low, high - low)
            segment = self._memory.allocate(f"array {name}", high - low, writable=array.flags.writeable)
            segment.data[: segment.size] = host
            found = self._placed[low] = host, segment
            self._owners.append(owner)
        segment = found[1]
        segment.writable = segment.writable or array.flags.writeable
        return segment.address + array.ctypes.data - low

    def copy_back(self) -> None:
        """Bring what the kernel wrote back to the host."""
        for host, segment in self._placed.values():
            if segment.writable and host.flags.writeable:
                host[...] = segment.data[: segment.size]


def _bytes_at(owner: NDArray[Any], address: int, size: int) -> NDArray[np.uint8]:
    """The memory of an array, gaps between its elements included, as bytes."""
    if owner.flags.c_contiguous:
        return owner.reshape(-1).view(np.uint8)
    if owner.flags.f_contiguous:
        return owner.T.reshape(-1).view(np.uint8)
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))


def encode_parameters(
    kernel: Function, program: Program, args: Sequence[Any], arrays: HostArrays, parameters: Segment
) -> None:
    """Write the arguments of a launch as the kernel's parameters, each at its place. Raises TilecError for what does not fit."""
    formal = [p for p in kernel.parameters if isinstance(p, Variable)]
    if len(formal) != len(args):
        raise TilecError(
            f"kernel {kernel.name} has {len(formal)} parameters, not {len(args)}: {', '.join(p.name for p in formal)}",
            SourceLocation(program.module.file, max(kernel.line, 1), 1),
        )
    for parameter, argument in zip(formal, args, strict=True):
        data = _encode(parameter, argument, arrays)
        if len(data) > parameter.size:
            raise TilecError(
                f"parameter {parameter.name} has {parameter.size} bytes, but the argument {len(data)}",
                SourceLocation(program.module.file, max(parameter.line, kernel.line, 1), 1),
            )
        address = program.address(parameter)
        assert address is not None
        offset = address & 0xFFFFFFFF
        parameters.data[offset : offset + len(data)] = np.frombuffer(data, np.uint8)


def _encode(parameter: Variable, argument: Any, arrays: HostArrays) -> bytes:
    match argument:
        case TensorMap():
            if parameter.size < MAP_BYTES:
                raise TilecError(f"parameter {parameter.name} has {parameter.size} bytes; a tensor map has {MAP_BYTES}")
            return argument.encode(arrays.address(argument.array, parameter.name))
        case np.ndarray():
            return arrays.address(cast("NDArray[Any]", argument), parameter.name).to_bytes(8, "little")
        case np.generic():
            return argument.tobytes()
        case bool() | int():
            return (argument & ((1 << 8 * parameter.size) - 1)).to_bytes(parameter.size, "little")
        case float():
            return np.array(argument, f"f{parameter.size}").tobytes()
        case bytes():
            return argument
        case tuple():
            return _structure(parameter, cast("tuple[Any, ...]", argument), arrays)
        case None:
            return bytes(8)
        case _:
            raise TilecError(
                f"argument for {parameter.name} is a {type(argument).__name__}",
                hint="pass NumPy arrays, NumPy scalars, tilec.TensorMap, and tuples of these or bytes for structures",
            )


def _structure(parameter: Variable, members: tuple[Any, ...], arrays: HostArrays) -> bytes:
    """A structure of members, each at the next multiple of its own size, as C lays them out."""
    data = bytearray()
    for member in members:
        encoded = _encode(parameter, member, arrays)
        alignment = _MAP_ALIGNMENT if isinstance(member, TensorMap) else min(len(encoded), 16) or 1
        data += bytes(-len(data) % alignment) + encoded
    return bytes(data)
