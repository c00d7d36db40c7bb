"""`stacksave`, `stackrestore` and `alloca` (PTX 9.7.17)."""

from __future__ import annotations

import numpy as np

from tilec.backend.emulator.execution.decode import Decoder, instruction
from tilec.backend.emulator.execution.lanes import Execute, Lanes
from tilec.backend.emulator.faults import FaultKind
from tilec.backend.emulator.memory.address_space import LOCAL_WINDOW
from tilec.backend.emulator.memory.stack import Stack
from tilec.backend.emulator.numbers.types import Values, dtype_of
from tilec.backend.emulator.ptx.syntax import Integer

_ALIGNMENT = 8
_COARSEST = 1 << 23


@instruction("stacksave")
def stacksave(d: Decoder) -> Execute:
    type = _take_type(d)
    d.count(1)
    write = d.writer(d.operands[0], type)
    return lambda lanes: write(lanes, _pointers(lanes, type))


@instruction("stackrestore")
def stackrestore(d: Decoder) -> Execute:
    type = _take_type(d)
    d.count(1)
    read = d.reader(d.operands[0], type)

    def execute(lanes: Lanes) -> None:
        pointers = np.broadcast_to(read(lanes), (lanes.count,)).astype(np.uint32).astype(np.int64)
        fits = Stack.fits(pointers)
        if not fits.all():
            lane = int(np.argmin(fits))
            lanes.fault(
                FaultKind.ILLEGAL, f"stackrestore of 0x{int(pointers[lane]):x}, which no stacksave has given", lane
            )
        lanes.cta.part(Stack).set(lanes.threads, pointers)

    return execute


@instruction("alloca")
def alloca(d: Decoder) -> Execute:
    type = _take_type(d)
    alignment = _ALIGNMENT
    if d.count(2, 3) == 3:
        given = d.operands[2]
        if not isinstance(given, Integer) or given.value & (given.value - 1) or not 0 < given.value <= _COARSEST:
            d.unsupported(f"the alignment is a constant, a power of two up to {_COARSEST}")
        alignment = max(alignment, given.value)
    write, size = d.writer(d.operands[0], type), d.reader(d.operands[1], type)

    def execute(lanes: Lanes) -> None:
        stack = lanes.cta.part(Stack)
        sizes = np.broadcast_to(size(lanes), (lanes.count,)).astype(np.int64)
        pointers = stack.allocate(lanes.threads, sizes, alignment)
        fits = Stack.fits(pointers)
        if not fits.all():
            lane = int(np.argmin(fits))
            lanes.fault(FaultKind.OUT_OF_BOUNDS, f"alloca of {int(sizes[lane])} bytes: the stack is full", lane)
        stack.set(lanes.threads, pointers)
        write(lanes, _pointers(lanes, type))

    return execute


def _take_type(d: Decoder) -> str:
    type = d.take_type()
    d.finish()
    if type not in ("u32", "u64"):
        d.unsupported("the type is .u32 or .u64")
    return type


def _pointers(lanes: Lanes, type: str) -> Values:
    """Stack pointers as local addresses."""
    pointers = lanes.cta.part(Stack).pointers[lanes.threads].astype(np.uint64)
    return (pointers | np.uint64(LOCAL_WINDOW)).astype(dtype_of(type)) if type == "u64" else pointers.astype(np.uint32)
