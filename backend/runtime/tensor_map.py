"""Tensor maps: what the TMA engine is told about a tensor in global memory (``cuTensorMapEncodeTiled``).

Everything that the driver or the hardware would refuse, or would accept and get wrong, is checked here first, in words that
name the argument, its dimension and its bytes. Sources: the CUDA driver API (the rules of `cuTensorMapEncodeTiled`), the
measurements quoted at each rule.
"""

# No postponed annotations: those of a record are read, and making them from text costs more than all else in here.

import struct
import threading
from collections.abc import Callable
from typing import NamedTuple

from tilec.backend.abi import TensorMapParam
from tilec.backend.runtime.arguments import Argument, Placement
from tilec.diagnostics import TilecError

MAP_BYTES = 128
GRID_BYTES = 16
"""Base addresses, pitches, inner boxes and the inner extents of stores keep to this grid."""
MAX_PITCH = 1 << 40
MAX_BOX = 256
_DATA_TYPES = {"f16": 6, "bf16": 9, "f32": 7}
"""CUtensorMapDataType."""
_SWIZZLES = {16: 0, 32: 1, 64: 2, 128: 3}
"""CUtensorMapSwizzle by the bytes of a swizzled row; 16 is none."""
_L2_PROMOTION_128B, _L2_PROMOTION_256B = 2, 3
_SMALL_TENSOR_FIX = (13, 2)
"""First driver that encodes tensors below `_SMALL_TENSOR_BYTES` correctly for Blackwell."""
_SMALL_TENSOR_BYTES = 128 * 1024
_SMALL_TENSOR_BIT = 1 << 21


class MapFields(NamedTuple):
    """Arguments of ``cuTensorMapEncodeTiled``, fastest dimension first.

    `extents` and `box` in elements, `pitches` in bytes without that of dimension 0. The enumerations are the driver's.
    """

    address: int
    extents: tuple[int, ...]
    pitches: tuple[int, ...]
    box: tuple[int, ...]
    data_type: int
    swizzle: int
    l2_promotion: int


def map_fields(
    name: str, parameter: TensorMapParam, argument: Argument, placement: Placement, *, stored: bool, spare: int
) -> MapFields:
    """The fields of the map of argument `name`; `stored` if the kernel writes through it.

    An empty tensor gets the map of one element at `spare`, an aligned address of device memory: the kernel never copies
    through it (it has no tile to copy), and an extent of 0 cannot be encoded. Raises TilecError for a tensor that TMA
    cannot address.
    """
    size = argument.element_bytes
    inner_bytes = parameter.box[0] * size
    if any(not 1 <= b <= MAX_BOX for b in parameter.box) or inner_bytes % GRID_BYTES or inner_bytes > _span(parameter):
        raise TilecError(
            f"argument {name}: a box of {'x'.join(map(str, parameter.box))} {argument.dtype} with swizzle "
            f"{parameter.swizzle} is none that TMA can copy: 1 to {MAX_BOX} elements each, the inner one a multiple of "
            f"{GRID_BYTES} bytes and within the swizzle's row"
        )
    address, extents = argument.address, tuple(argument.shape[d] for d in parameter.order)
    pitches = tuple(placement.pitches[d] for d in parameter.order[1:])
    if 0 in extents:
        address, extents = spare, (1,) * len(extents)
        pitches = (GRID_BYTES,) * len(pitches)
    if address % GRID_BYTES:
        raise TilecError(
            f"argument {name} starts at 0x{address:x}, which is {address % GRID_BYTES} bytes past a multiple of "
            f"{GRID_BYTES}: TMA needs a base address that is a multiple of {GRID_BYTES} bytes",
            hint="start the view elsewhere, or copy it with .clone()",
        )
    for dim, pitch in zip(parameter.order[1:], pitches, strict=True):
        if pitch % GRID_BYTES or pitch >= MAX_PITCH:
            raise TilecError(
                f"argument {name}: the pitch of dimension {dim} is {pitch} bytes; TMA needs a multiple of {GRID_BYTES} "
                f"bytes below 2^40",
                hint=f"pad the rows to a multiple of {GRID_BYTES // size} elements",
            )
    # A store clips in units of 16 bytes: with an inner extent between them it would write past the edge of the tensor.
    if stored and extents[0] * size % GRID_BYTES and 0 not in argument.shape:
        raise TilecError(
            f"argument {name}: dimension {parameter.order[0]} has {extents[0] * size} bytes; a TMA store needs a "
            f"multiple of {GRID_BYTES} bytes, or it writes past the edge"
        )
    # With rows off the 128-byte grid every promoted 256-byte line would touch two rows of cache lines.
    promotion = _L2_PROMOTION_128B if any(p % 128 for p in pitches) else _L2_PROMOTION_256B
    return MapFields(
        address=address,
        extents=extents,
        pitches=pitches,
        box=parameter.box,
        data_type=_DATA_TYPES[parameter.dtype],
        swizzle=_SWIZZLES[parameter.swizzle],
        l2_promotion=promotion,
    )


def _span(parameter: TensorMapParam) -> int:
    """Bytes that the inner dimension of a box may have: the swizzle's row, or what 256 elements have without one."""
    return parameter.swizzle if parameter.swizzle > GRID_BYTES else MAX_BOX * 16


def fix_small_tensor(encoded: bytes, fields: MapFields, driver_version: tuple[int, int]) -> bytes:
    """Undo a fault of drivers before 13.2, which mark small tensors as large; Hopper ignores the bit.

    As CUTLASS does (`copy_traits_sm90_tma.hpp`): clear bit 21 of the second 64-bit word when the tensor spans less than
    128 KiB.
    """
    element_bytes = {6: 2, 9: 2, 7: 4}[fields.data_type]
    strides = (element_bytes, *fields.pitches)
    span = sum((e - 1) * s for e, s in zip(fields.extents, strides, strict=True)) + element_bytes
    if driver_version >= _SMALL_TENSOR_FIX or span >= _SMALL_TENSOR_BYTES:
        return encoded
    words = list(struct.unpack("<16Q", encoded))
    words[1] &= ~_SMALL_TENSOR_BIT
    return struct.pack("<16Q", *words)


class MapCache:
    """Encoded maps by device and by everything that went into them: one is encoded again exactly when a field changed.

    A map holds no memory alive; equal fields give equal maps whichever tensor had them.
    """

    def __init__(self, encode: Callable[[MapFields], bytes], capacity: int = 1024) -> None:
        self._encode = encode
        self._capacity = capacity
        self._lock = threading.RLock()
        self._maps: dict[tuple[int, MapFields], bytes] = {}

    def get(self, device: int, fields: MapFields) -> bytes:
        """The map; `device`'s context is current."""
        encoded = self._maps.get((device, fields))
        if encoded is None:
            encoded = self._encode(fields)
            with self._lock:
                if len(self._maps) >= self._capacity:
                    self._maps.clear()
                self._maps[device, fields] = encoded
        return encoded
