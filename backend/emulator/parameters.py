"""The arguments of a launch: host arrays in global memory, and the bytes of the kernel's parameters."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.lib.array_utils import byte_bounds
from numpy.typing import NDArray

from tilec.backend.emulator.memory.address_space import GlobalMemory, GlobalSegment, Segment
from tilec.backend.emulator.ptx.syntax import Function, Variable
from tilec.backend.emulator.tensor_map import MAP_BYTES, TensorMap
from tilec.diagnostics import SourceLocation, TilecError, kind_of

if TYPE_CHECKING:
    from tilec.backend.emulator.execution.program import Program


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
        _check_elements(array, name)
        owner = owner_of(array)
        if owner.nbytes == 0:
            return self._memory.allocate(name, 0).address
        low, high = byte_bounds(owner)
        placed = self._containing(low, high, name)
        if placed is not None:
            low = placed
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

    def _containing(self, low: int, high: int, name: str) -> int | None:
        """Where the memory begins that is placed already and holds these bytes: arrays may share memory with no common owner."""
        for start, (_, segment) in self._placed.items():
            if start <= low and high <= start + segment.size:
                return start
            if low < start + segment.size and start < high:
                raise TilecError(
                    f"the argument for {name} shares memory with the one for {segment.name.removeprefix('array ')}, but they "
                    "are not views of one array",
                    hint="make one NumPy array over all of the memory, and pass views of it",
                )
        return None

    def copy_back(self) -> None:
        """Bring what the kernel wrote back to the host."""
        for host, segment in self._placed.values():
            if segment.writable and host.flags.writeable:
                host[...] = segment.data[: segment.size]


def owner_of(array: NDArray[Any]) -> NDArray[Any]:
    """The array whose memory an array is a view of, itself if it has its own."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _check_elements(array: NDArray[Any], name: str) -> None:
    if array.dtype.hasobject:
        raise TilecError(f"the argument for {name} is an array of {array.dtype}: a device has no Python objects")
    if not array.dtype.isnative:
        raise TilecError(
            f"the argument for {name} is an array of {array.dtype}, in the byte order of another machine",
            hint="convert it: array.astype(array.dtype.newbyteorder('='))",
        )


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
    if not isinstance(cast(object, args), Sequence) or isinstance(args, str | bytes):
        raise TilecError(
            f"args is {kind_of(cast(object, args))}: it is a list with one argument for each of the kernel's parameters",
        )
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
            return _scalar(parameter, cast("np.generic[Any]", argument))
        case int() | float():
            return _number(parameter, argument)
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


def _scalar(parameter: Variable, argument: np.generic) -> bytes:
    """A NumPy scalar as it is; a whole number in a wider parameter keeps its value."""
    kind = argument.dtype.kind
    if kind not in "biufcV" or not argument.dtype.isnative:
        raise TilecError(
            f"argument for {parameter.name} is a NumPy scalar of {argument.dtype}, which kernels do not have"
        )
    if kind in "iu" and argument.nbytes < parameter.size in (2, 4, 8):
        return _number(parameter, int(cast("Any", argument)))
    return argument.tobytes()


def _number(parameter: Variable, argument: float) -> bytes:
    """A Python number as the parameter's type: a whole one for integers and bits, any for floating point."""
    size, type = parameter.size, parameter.type
    floating = ("f16", "f32", "f64") if isinstance(argument, int) else ("f16", "f32", "f64", "b16", "b32", "b64")
    if type in floating and size == int(type[1:]) // 8:
        with np.errstate(over="ignore"):
            return np.array(argument, np.float64).astype(f"f{size}").tobytes()
    if not isinstance(argument, int):
        raise TilecError(f"parameter {parameter.name} is .{type}, but the argument is {argument!r}, a float")
    if not -(1 << 8 * size) // 2 <= argument < 1 << 8 * size:
        raise TilecError(f"argument {argument} for {parameter.name} does not fit into {size} bytes")
    return (argument & ((1 << 8 * size) - 1)).to_bytes(size, "little")


def _structure(parameter: Variable, members: tuple[Any, ...], arrays: HostArrays) -> bytes:
    """A structure of members, each at the next multiple of its own size, as C lays them out."""
    data = bytearray()
    for member in members:
        if isinstance(member, int | float) and not isinstance(member, np.generic):
            raise TilecError(
                f"a member of the structure for {parameter.name} is {kind_of(member)}, whose size is unknown",
                hint="pass NumPy scalars, such as np.int32(1), in structures",
            )
        encoded = _encode(parameter, member, arrays)
        alignment = _MAP_ALIGNMENT if isinstance(member, TensorMap) else min(len(encoded), 16) or 1
        data += bytes(-len(data) % alignment) + encoded
    return bytes(data)
