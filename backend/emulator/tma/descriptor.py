"""The fields of a tensor map, their rules, and the 128 bytes that hold them.

The rules are those of cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col. The bytes are an encoding of the emulator's own: a real
CUtensorMap is opaque. Dimensions are counted from the innermost, as in the driver's arrays and in PTX coordinates.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import lru_cache

from tilec.backend.emulator.tma.elements import ELEMENT_TYPES, ElementType
from tilec.backend.emulator.tma.swizzle import SWIZZLE, Swizzle, swizzle_of_fields

MAP_BYTES = 128
MAX_RANK = 5
_MAGIC = b"tilecMAP"
_LAYOUT = struct.Struct("<8sQ5Q4Q5H5B6B3h3hHH")
_CORNERS = {3: 1 << 15, 4: 1 << 7, 5: 1 << 4}
"""By rank, the limit of the corners of an im2col bounding box."""

INTERLEAVES = (None, "16B", "32B")
FILLS = ("zero", "nan")


@dataclass(frozen=True)
class Im2col:
    """The bounding box of an im2col map: corners along W, H, D (as many as the rank less 2 count), and how much one access reads."""

    lower: tuple[int, int, int]
    upper: tuple[int, int, int]
    channels: int
    pixels: int


@dataclass(frozen=True)
class Descriptor:
    """What 128 bytes of a tensor map say; `problem` tells whether it can be used.

    `address` in bytes; `dims` in elements; `strides` in bytes, of dimensions 1 and up; `box` in elements; entries from `rank` on
    do not count. `element`, `interleave`, `swizzle_mode`, `atomicity` and `fill` are the codes of `tensormap.replace`.
    """

    address: int
    element: int
    rank: int
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...]
    interleave: int = 0
    swizzle_mode: int = 0
    atomicity: int = 0
    fill: int = 0
    im2col: Im2col | None = None

    def encode(self) -> bytes:
        """The 128 bytes."""
        im2col = self.im2col or Im2col((0, 0, 0), (0, 0, 0), 0, 0)
        codes = (self.element, self.rank, self.interleave, self.swizzle_mode | self.atomicity << 4, self.fill)
        fields = _LAYOUT.pack(
            _MAGIC,
            self.address,
            *_padded(self.dims, 5),
            *_padded(self.strides, 4),
            *_padded(self.box, 5),
            *_padded(self.element_strides, 5),
            *codes,
            self.im2col is not None,
            *im2col.lower,
            *im2col.upper,
            im2col.channels,
            im2col.pixels,
        )
        return fields.ljust(MAP_BYTES, b"\0")

    @property
    def type(self) -> ElementType:
        return ELEMENT_TYPES[self.element]

    @property
    def swizzle(self) -> Swizzle:
        found = swizzle_of_fields(self.swizzle_mode, self.atomicity)
        assert found is not None
        return found

    def bytes_of(self, elements: int) -> int:
        """Bytes of so many elements in global memory."""
        return elements * self.type.bits // 8

    def stride(self, dimension: int) -> int:
        """Bytes from an element to the next along a dimension other than the innermost."""
        return self.strides[dimension - 1]

    def problem(self) -> str | None:
        """Why the driver refuses such a map; None if it does not."""
        return (
            _problem_of_kinds(self) or _problem_of_tensor(self) or _problem_of_access(self) or _problem_of_swizzle(self)
        )


def _padded(values: tuple[int, ...], count: int) -> tuple[int, ...]:
    return (*values, *(0,) * count)[:count]


def decode(data: bytes) -> Descriptor | None:
    """The descriptor in 128 bytes; None if they hold no tensor map of the emulator."""
    if not data.startswith(_MAGIC):
        return None
    values = _LAYOUT.unpack_from(data)
    address, dims, strides, box, element_strides = values[1], values[2:7], values[7:11], values[11:16], values[16:21]
    element, rank, interleave, swizzle, fill, is_im2col = values[21:27]
    im2col = Im2col(values[27:30], values[30:33], values[33], values[34]) if is_im2col else None
    return Descriptor(
        address,
        element,
        rank,
        dims,
        strides,
        box,
        element_strides,
        interleave,
        swizzle & 15,
        swizzle >> 4,
        fill,
        im2col,
    )


BLANK = Descriptor(0, 0, 1, (0,) * 5, (0,) * 4, (0,) * 5, (0,) * 5)
"""What 128 zeros are to `tensormap.replace`: kernels that make a map from nothing set each of its fields."""


def dimension(index: int) -> str:
    """A dimension in words."""
    return "the innermost dimension" if index == 0 else f"dimension {index} from the innermost"


@lru_cache(256)
def checked(data: bytes) -> tuple[Descriptor | None, str | None]:
    """The descriptor in 128 bytes, and what is wrong with it."""
    found = decode(data)
    return found, found and found.problem()


def _problem_of_kinds(d: Descriptor) -> str | None:
    if d.element >= len(ELEMENT_TYPES):
        return f"element type {d.element}: there are 0 to {len(ELEMENT_TYPES) - 1}"
    if not 1 <= d.rank <= MAX_RANK:
        return f"rank {d.rank}: a tensor map has 1 to {MAX_RANK} dimensions"
    if d.interleave >= len(INTERLEAVES):
        return f"interleave {d.interleave}: there are 0 (none), 1 (16 bytes) and 2 (32 bytes)"
    if d.rank < 3 and (d.interleave or d.im2col):
        return f"rank {d.rank}: {'an interleaved' if d.interleave else 'an im2col'} map has 3 to {MAX_RANK} dimensions"
    if swizzle_of_fields(d.swizzle_mode, d.atomicity) is None:
        return f"swizzle mode {d.swizzle_mode} does not go with swizzle atomicity {d.atomicity}"
    if d.fill >= len(FILLS):
        return f"fill mode {d.fill}: there are 0 (zero) and 1 (NaN)"
    if d.fill and not d.type.floating:
        return f"elements outside are to be NaN, but {d.type} is no floating-point type"
    return None


def _problem_of_tensor(d: Descriptor) -> str | None:
    aligned = 32 if d.interleave == 2 or d.type.padded else 16
    if d.address % aligned:
        return f"address 0x{d.address:x} of the tensor is not a multiple of {aligned} bytes"
    for i in range(d.rank):
        if not 1 <= d.dims[i] <= 1 << 32:
            return f"extent {d.dims[i]} of {dimension(i)}: it is 1 to 2^32"
    multiple = 128 if d.type.padded else 2 if d.type.packed else 1
    if d.dims[0] % multiple:
        return f"extent {d.dims[0]} of the innermost dimension: of {d.type} it is a multiple of {multiple}"
    for i in range(1, d.rank):
        if d.stride(i) % aligned or not 0 <= d.stride(i) < 1 << 40:
            return f"stride {d.stride(i)} of {dimension(i)}: it is a multiple of {aligned} bytes, below 2^40"
    return None


def _problem_of_access(d: Descriptor) -> str | None:
    for i in range(0 if d.interleave else 1, d.rank):
        if not 1 <= d.element_strides[i] <= 8:
            return f"element stride {d.element_strides[i]} of {dimension(i)}: it is 1 to 8"
    if d.im2col is not None:
        return _problem_of_im2col(d, d.im2col)
    for i in range(d.rank):
        if not 1 <= d.box[i] <= 256:
            return f"box extent {d.box[i]} along {dimension(i)}: it is 1 to 256"
    if d.type.padded and d.box[0] != 128:
        return f"box extent {d.box[0]} along the innermost dimension: of {d.type} it is 128"
    return _problem_of_width(d, d.box[0], "a box")


def _problem_of_width(d: Descriptor, inner: int, what: str) -> str | None:
    if not d.interleave and inner * d.type.bits % 128:
        return f"{what} of {inner} elements along the innermost dimension has {inner * d.type.bits / 8:g} bytes, no multiple of 16"
    width = inner * d.type.shared_bits // 8
    if not d.interleave and d.swizzle.span and width > d.swizzle.span:
        return f"{what} of {width} bytes along the innermost dimension is wider than the {d.swizzle.span} bytes of swizzle {d.swizzle}"
    return None


def _problem_of_im2col(d: Descriptor, im2col: Im2col) -> str | None:
    limit = _CORNERS[d.rank]
    for i in range(d.rank - 2):
        lower, upper = im2col.lower[i], im2col.upper[i]
        if not (-limit <= lower < limit and -limit <= upper < limit):
            return f"corners {lower} and {upper} along {dimension(i + 1)}: with rank {d.rank} they are {-limit} to {limit - 1}"
        if d.dims[i + 1] + upper - lower <= 0:
            return f"corners {lower} and {upper} leave nothing of {dimension(i + 1)}, of extent {d.dims[i + 1]}"
    if not 1 <= im2col.channels <= 256:
        return f"{im2col.channels} channels of a pixel: there are 1 to 256"
    if d.type.padded and im2col.channels != 128:
        return f"{im2col.channels} channels of a pixel: of {d.type} there are 128"
    if not 1 <= im2col.pixels <= 1024:
        return f"{im2col.pixels} pixels of a column: there are 1 to 1024"
    return _problem_of_width(d, im2col.channels, "a pixel")


def _problem_of_swizzle(d: Descriptor) -> str | None:
    if d.interleave == 2 and d.swizzle is not SWIZZLE["32B"]:
        return f"interleave of 32 bytes goes with swizzle 32B, not {d.swizzle}"
    if not d.type.padded:
        return None
    if d.type.name == "16u6_align16b" and d.interleave:
        return f"{d.type} cannot be interleaved"
    allowed = ["none", "128B", "128B_ATOM_32B", *(["128B_ATOM_64B"] if d.type.name == "16u6_align16b" else [])]
    if d.swizzle.name not in allowed:
        return f"swizzle {d.swizzle}: of {d.type} it is one of {', '.join(allowed)}"
    return None
