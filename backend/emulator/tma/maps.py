"""Tensor maps as instructions find them: 128 bytes at a generic address (PTX 5.5.8)."""

from __future__ import annotations

import numpy as np

from tilec.backend.emulator.execution.lanes import Lanes
from tilec.backend.emulator.faults import FaultKind
from tilec.backend.emulator.memory.address_space import LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW, Segment
from tilec.backend.emulator.tma.descriptor import MAP_BYTES, Descriptor, checked
from tilec.backend.emulator.tma.proxy import MapProxy

_ALIGNMENT = 64
_BY_VALUE = "declare the map a __grid_constant__ parameter, or keep it in global or constant memory"


def map_at(lanes: Lanes, lane: int, address: int) -> Descriptor:
    """The tensor map that an instruction names. Faults if there is none, or one that cannot be used."""
    if address % _ALIGNMENT:
        lanes.fault(
            FaultKind.MISALIGNED,
            f"the tensor map's address 0x{address:x} is not a multiple of {_ALIGNMENT} bytes",
            lane,
        )
    segment, offset = _memory_of(lanes, lane, address)
    MapProxy.of(lanes.machine).check_use(lanes, lane, address)
    return usable(
        lanes, lane, segment.data[offset : offset + MAP_BYTES].tobytes(), f"at address 0x{address:x}, in {segment.name}"
    )


def usable(lanes: Lanes, lane: int, data: bytes, where: str) -> Descriptor:
    """The tensor map in 128 bytes, checked."""
    descriptor, problem = checked(data)
    if descriptor is None:
        lanes.fault(
            FaultKind.DESCRIPTOR, f"no tensor map {where}", lane, "pass a tilec.TensorMap as the kernel's parameter"
        )
    if problem is not None:
        lanes.fault(FaultKind.DESCRIPTOR, f"the tensor map {where} is not valid: {problem}", lane)
    return descriptor


def _memory_of(lanes: Lanes, lane: int, address: int) -> tuple[Segment, int]:
    window = address >> 32 << 32
    if window == PARAM_WINDOW:
        parameters, offset = lanes.machine.parameters, address - PARAM_WINDOW
        if offset + MAP_BYTES <= parameters.size:
            return parameters, offset
    elif window in (LOCAL_WINDOW, SHARED_WINDOW):
        place = "local" if window == LOCAL_WINDOW else "shared"
        lanes.fault(
            FaultKind.DESCRIPTOR,
            f"the tensor map's address 0x{address:x} lies in {place} memory, which TMA does not read",
            lane,
            _BY_VALUE,
        )
    elif (found := lanes.machine.memory.find(address, MAP_BYTES)) is not None:
        return found
    lanes.fault(
        FaultKind.OUT_OF_BOUNDS,
        f"the {MAP_BYTES} bytes of a tensor map at address 0x{address:x} are in no memory",
        lane,
    )


def each(values: np.ndarray, lanes: Lanes) -> list[int]:
    """An operand's values, one for each lane."""
    return np.broadcast_to(values, (lanes.count,)).tolist()
