"""Tensor maps: how TMA sees an array. The host's side; tma/descriptor.py has what the kernel's parameter holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilec.backend.emulator.tma.descriptor import FILLS, INTERLEAVES, MAP_BYTES, MAX_RANK, Descriptor, Im2col
from tilec.backend.emulator.tma.elements import ELEMENT_TYPE, ELEMENT_TYPES, ElementType
from tilec.backend.emulator.tma.swizzle import SWIZZLE
from tilec.backend.emulator.whole_numbers import whole, wholes
from tilec.diagnostics import TilecError, did_you_mean, kind_of

__all__ = ["MAP_BYTES", "TensorMap"]

_OF_ARRAY = {
    "bool": "u8",
    "uint8": "u8",
    "int8": "u8",
    "uint16": "u16",
    "int16": "u16",
    "uint32": "u32",
    "int32": "s32",
    "uint64": "u64",
    "int64": "s64",
    "float16": "f16",
    "float32": "f32",
    "float64": "f64",
    "bfloat16": "bf16",
}
_HELD_AS: dict[str, tuple[str, ...]] = {
    "bf16": ("uint16", "int16", "bfloat16"),
    "tf32": ("float32", "uint32", "int32"),
    "f32_ftz": ("float32", "uint32", "int32"),
    "tf32_ftz": ("float32", "uint32", "int32"),
    "16u4_align8b": ("uint8", "int8"),
    "16u4_align16b": ("uint8", "int8"),
    "16u6_align16b": ("uint8", "int8"),
}


@dataclass(frozen=True, eq=False)
class TensorMap:
    """A tensor map over `array`, for a kernel's parameter (cuTensorMapEncodeTiled).

    `box`, `strides` and `element_strides` have the array's own order, outermost first: `box` in elements, 1 to 256 along each
    dimension; `strides` in bytes (None: the array's), the innermost one the size of an element, or left out. `swizzle`: "none"
    (or None), "32B", "64B", "128B", "128B_ATOM_32B", "128B_ATOM_32B_FLIP_8B" or "128B_ATOM_64B". `oob`: what elements outside of
    the array become, "zero" or "nan". `interleave`: None, "16B" or "32B". `dtype`: an element type that NumPy does not have:
    "bf16", "tf32", "f32_ftz", "tf32_ftz", or a packed one, "16u4_align8b", "16u4_align16b" or "16u6_align16b" over an array of
    bytes, where box and extents count packed values.

    Raises TilecError for what the driver refuses.
    """

    array: NDArray[Any]
    box: Sequence[int]
    swizzle: str | None = "128B"
    strides: Sequence[int] | None = None
    oob: str = "zero"
    interleave: str | None = None
    element_strides: Sequence[int] | None = None
    dtype: str | None = None
    _im2col: Im2col | None = None

    def __post_init__(self) -> None:
        _check_array(self.array)
        problem = self._descriptor(0).problem()
        if problem is not None:
            raise TilecError(f"no tensor map: {problem}")

    @classmethod
    def im2col(
        cls,
        array: NDArray[Any],
        *,
        lower: Sequence[int],
        upper: Sequence[int],
        channels: int,
        pixels: int,
        swizzle: str | None = "128B",
        strides: Sequence[int] | None = None,
        oob: str = "zero",
        interleave: str | None = None,
        element_strides: Sequence[int] | None = None,
        dtype: str | None = None,
    ) -> TensorMap:
        """A map for im2col accesses (cuTensorMapEncodeIm2col) over an array (N, D, H, W, C), or without D, or without D and H.

        `lower` and `upper` are the corners of the bounding box, offsets from the array's first and last pixel, outermost first,
        (D, H, W) as far as the array has them; `channels` of a pixel and `pixels` of a column are read by one access.
        """
        _check_array(array)
        inner = array.ndim - 2
        lower, upper = wholes("no tensor map: lower", lower), wholes("no tensor map: upper", upper)
        for name, corner in (("lower", lower), ("upper", upper)):
            if len(corner) != inner:
                raise TilecError(
                    f"no tensor map: {name} has {len(corner)} entries; an array of rank {array.ndim} has {max(inner, 0)}"
                )
        corners = Im2col(
            _corner(lower),
            _corner(upper),
            whole("no tensor map: channels", channels),
            whole("no tensor map: pixels", pixels),
        )
        box = (1,) * array.ndim
        return cls(array, box, swizzle, strides, oob, interleave, element_strides, dtype, corners)

    def encode(self, address: int) -> bytes:
        """The 128 bytes of the map for the array at `address` of global memory. Raises TilecError if it is not aligned."""
        descriptor = self._descriptor(address)
        problem = descriptor.problem()
        if problem is not None:
            raise TilecError(f"no tensor map: {problem}", hint="a view that starts within an array starts on 16 bytes")
        return descriptor.encode()

    def _descriptor(self, address: int) -> Descriptor:
        array, rank = self.array, self.array.ndim
        if not 1 <= rank <= MAX_RANK:
            raise TilecError(f"no tensor map: the array has {rank} dimensions; a tensor map has 1 to {MAX_RANK}")
        element = self._element()
        dims = list(array.shape[::-1])
        dims[0] = dims[0] * array.itemsize * 8 // element.bits
        swizzle = SWIZZLE.get(self.swizzle or "none")
        if swizzle is None:
            raise TilecError(
                f"no tensor map: swizzle {self.swizzle!r}", hint=did_you_mean(str(self.swizzle), list(SWIZZLE))
            )
        return Descriptor(
            address=address,
            element=ELEMENT_TYPES.index(element),
            rank=rank,
            dims=tuple(dims),
            strides=self._outer_strides(),
            box=self._per_dimension("box", self.box),
            element_strides=self._per_dimension("element_strides", self.element_strides or (1,) * rank),
            interleave=_code("interleave", self.interleave, INTERLEAVES),
            swizzle_mode=swizzle.code,
            atomicity=swizzle.atom,
            fill=_code("oob", self.oob, FILLS),
            im2col=self._im2col,
        )

    def _element(self) -> ElementType:
        name = self.array.dtype.name
        if self.dtype is not None and self.dtype != _OF_ARRAY.get(name):
            held = _HELD_AS.get(str(self.dtype))
            if held is None:
                raise TilecError(
                    f"no tensor map: dtype {self.dtype!r}", hint=did_you_mean(str(self.dtype), list(_HELD_AS))
                )
            if name not in held:
                raise TilecError(
                    f"no tensor map: elements of {self.dtype} are held in an array of {held[0]}, not of {name}"
                )
            return ELEMENT_TYPE[self.dtype]
        if name.startswith("float8") and self.array.itemsize == 1:
            return ELEMENT_TYPE["u8"]
        if name not in _OF_ARRAY:
            raise TilecError(f"no tensor map: TMA knows no elements of {name}")
        return ELEMENT_TYPE[_OF_ARRAY[name]]

    def _outer_strides(self) -> tuple[int, ...]:
        """Bytes, of all dimensions but the innermost, which must be contiguous."""
        array, rank = self.array, self.array.ndim
        strides = array.strides if self.strides is None else wholes("no tensor map: strides", self.strides)
        if len(strides) not in (rank, rank - 1):
            raise TilecError(f"no tensor map: {len(strides)} strides for an array of rank {rank}")
        chosen = self.strides is not None or (array.size > 0 and array.shape[-1] > 1)
        if len(strides) == rank and strides[-1] != array.itemsize and chosen:
            raise TilecError(
                f"no tensor map: the innermost dimension has a stride of {strides[-1]} bytes, but elements have {array.itemsize}",
                hint="TMA needs contiguous elements along the innermost dimension",
            )
        return strides[rank - 2 :: -1] if rank > 1 else ()

    def _per_dimension(self, name: str, values: Sequence[int]) -> tuple[int, ...]:
        given = wholes(f"no tensor map: {name}", values)
        if len(given) != self.array.ndim:
            raise TilecError(f"no tensor map: {name} has {len(given)} entries for an array of rank {self.array.ndim}")
        return given[::-1]


def _check_array(array: object) -> None:
    if not isinstance(array, np.ndarray):
        raise TilecError(f"no tensor map: the array is {kind_of(array)}, not a NumPy array")


def _code(name: str, value: str | None, known: Sequence[str | None]) -> int:
    wanted = None if name == "interleave" and value == "none" else value
    if wanted not in known:
        raise TilecError(f"no tensor map: {name} {value!r}: it is one of {', '.join(repr(k) for k in known)}")
    return known.index(wanted)


def _corner(outermost_first: Sequence[int]) -> tuple[int, int, int]:
    w, h, d = (*reversed(outermost_first), 0, 0, 0)[:3]
    return w, h, d
