"""A compiled kernel on the emulator: its own PTX, launched on NumPy arrays as a GPU would launch it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.lib.array_utils import byte_bounds

from tilec.backend.abi import ExtentParam, KernelABI, Param, PitchParam, PointerParam, TensorMapParam
from tilec.backend.emulator.launch import Emulation, OrderName, emulate
from tilec.backend.emulator.parameters import owner_of
from tilec.backend.emulator.tensor_map import TensorMap
from tilec.backend.reference import Array, round_bf16
from tilec.backend.runtime.arguments import Argument, place
from tilec.backend.runtime.launch import check_assumptions, count_ctas
from tilec.backend.target import TARGETS
from tilec.diagnostics import TilecError, kind_of

_HELD = {"f16": np.dtype(np.float16), "f32": np.dtype(np.float32), "bf16": np.dtype(np.float32)}
"""What holds the elements of a view on the host."""
_SWIZZLES = {16: None, 32: "32B", 64: "64B", 128: "128B"}


def emulate_kernel(
    abi: KernelABI,
    ptx: str,
    arrays: Sequence[Array],
    *,
    max_ctas: int | None = None,
    order: OrderName = "fifo",
    seed: int = 0,
    file: str = "<ptx>",
) -> Emulation | None:
    """Run a kernel on one array for each view, outputs in place; None if there is no tile, so that nothing is launched.

    Views of bf16 are arrays of float32 that hold bf16 values. `max_ctas` bounds the grid of a persistent kernel, which is by
    default what a device of the target holds. Raises TilecError for arrays that a launch would refuse.
    """
    device = [on_device(view.name, array, view.dtype) for array, view in zip(arrays, abi.views, strict=True)]
    arguments = [argument_of(array, view.dtype) for array, view in zip(device, abi.views, strict=True)]
    placements = [place(v.name, a, v.order) for v, a in zip(abi.views, arguments, strict=True)]
    check_assumptions(abi, arguments)
    chip = TARGETS[abi.target]
    resident = chip.sm_count
    shape = () if abi.grid is None else arguments[abi.grid.view].shape
    ctas = count_ctas(abi.grid, shape, resident, max_ctas)
    if not ctas:
        return None

    def value(parameter: Param) -> Any:
        array = device[parameter.view]
        match parameter:
            case TensorMapParam():
                return _tensor_map(parameter, array)
            case PointerParam():
                return array
            case ExtentParam():
                return np.uint32(array.shape[parameter.dim])
            case PitchParam():
                return np.uint64(placements[parameter.view].pitches[parameter.dim])

    found = emulate(
        ptx,
        abi.name,
        ctas,
        abi.threads,
        [value(p) for p in abi.params],
        dynamic_smem=abi.smem_bytes,
        target=abi.target,
        order=order,
        seed=seed,
        file=file,
    )
    for index in abi.outputs:
        if abi.views[index].dtype == "bf16":
            array, bits = arrays[index], device[index]
            written = bits != on_device(abi.views[index].name, array, "bf16")
            array[written] = (bits[written].astype(np.uint32) << 16).view(np.float32)
    return found


def on_device(name: str, array: object, dtype: str) -> Array:
    """A NumPy array as a device holds a view of `dtype`: of bf16, which is float32 on the host, the bits. Raises TilecError for
    anything else."""
    if not isinstance(array, np.ndarray):
        raise TilecError(
            f"argument {name} is {kind_of(array)}: the emulator takes NumPy arrays",
            hint="for a torch tensor on the CPU, tensor.numpy() shares its memory",
        )
    found = cast("Array", array)
    if found.dtype != _HELD[dtype]:
        raise TilecError(f"argument {name} is an array of {found.dtype}; a view of {dtype} is one of {_HELD[dtype]}")
    if dtype != "bf16":
        return found
    bits = np.empty_like(found, np.uint16)
    bits[...] = round_bf16(found).view(np.uint32) >> 16
    return bits


def argument_of(array: Array, dtype: str) -> Argument:
    """What a launch knows of an array on the device. One that owns its memory starts at an address as aligned as a device's."""
    owner = owner_of(array)
    offset = array.ctypes.data - byte_bounds(owner)[0] if owner.size else 0
    return Argument(offset, array.shape, array.strides, dtype, 0)


def _tensor_map(parameter: TensorMapParam, array: Array) -> TensorMap:
    """Maps list their fastest dimension first, arrays last. An empty view gets the map of one element, which nothing uses."""
    outermost_first = array.transpose(parameter.order[::-1])
    if array.size == 0:
        outermost_first = np.zeros((1,) * array.ndim, array.dtype)
    return TensorMap(
        outermost_first,
        box=parameter.box[::-1],
        swizzle=_SWIZZLES[parameter.swizzle],
        strides=_strides(outermost_first),
        dtype="bf16" if parameter.dtype == "bf16" else None,
    )


def _strides(array: Array) -> tuple[int, ...]:
    """Of a dimension that is never stepped over, what TMA likes best."""
    return tuple(
        s if extent > 1 or at == array.ndim - 1 else -(-max(array.itemsize, 1) // 16) * 16
        for at, (s, extent) in enumerate(zip(array.strides, array.shape, strict=True))
    )
