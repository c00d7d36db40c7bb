"""Addresses of the state spaces (PTX 9.7.9.19, 9.7.9.20, 9.7.9.23, 9.7.9.24): `cvta`, `isspacep`, `mapa`, `getctarank`.

Global and constant addresses are generic ones. Those of the other spaces are the lower half of a generic address, whose upper
half is the window of the space.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilec.backend.emulator.execution.decode import Decoder, Reader, instruction
from tilec.backend.emulator.execution.lanes import Execute, Lanes
from tilec.backend.emulator.faults import FaultKind
from tilec.backend.emulator.memory.address_space import LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW
from tilec.backend.emulator.numbers.types import Values, dtype_of
from tilec.backend.emulator.ptx.syntax import Address, Operand, Symbol

_WINDOWS = {
    "shared": SHARED_WINDOW,
    "shared::cta": SHARED_WINDOW,
    "shared::cluster": SHARED_WINDOW,
    "local": LOCAL_WINDOW,
    "param": PARAM_WINDOW,
    "param::entry": PARAM_WINDOW,
}
_SPACES = ("const", "global", *_WINDOWS)
_LOW = np.uint64(0xFFFFFFFF)
_OFFSET = np.uint64(0xFFFFFF)
_UPPER = np.uint64(32)


def _operand(d: Decoder, operand: Operand, type: str) -> Reader:
    """An address as an operand without brackets: a register, or a variable plus an offset."""
    return d.address(operand) if isinstance(operand, Address) else d.reader(operand, type)


@instruction("cvta")
def cvta(d: Decoder) -> Execute:
    to = d.take("to")
    space = d.take(*_SPACES)
    type = d.take_type()
    d.finish()
    d.count(2)
    if space is None or type != "u64":
        d.unsupported("addresses have 64 bits")
    write, read = d.writer(d.operands[0], type), _operand(d, d.operands[1], type)
    window = _WINDOWS.get(space)
    if window is None:
        return lambda lanes: write(lanes, read(lanes))
    if to is not None:
        return lambda lanes: write(lanes, read(lanes) & _LOW)
    upper = np.uint64(window)
    return lambda lanes: write(lanes, read(lanes) & _LOW | upper)


@instruction("isspacep")
def isspacep(d: Decoder) -> Execute:
    space = d.take(*_SPACES)
    d.finish()
    d.count(2)
    if space is None:
        d.unsupported("no state space")
    write, read = d.writer(d.operands[0], "pred"), _operand(d, d.operands[1], "u64")
    return lambda lanes: write(lanes, _lies_in(lanes, read(lanes), space))


def _lies_in(lanes: Lanes, addresses: Values, space: str) -> NDArray[np.bool_]:
    match space:
        case "global":
            # The window of the kernel's parameters lies in that of global memory.
            return _is_global(lanes, addresses, constant=False) | _in(addresses, PARAM_WINDOW)
        case "const":
            return _is_global(lanes, addresses, constant=True)
        case "shared" | "shared::cta":
            return _in(addresses, SHARED_WINDOW) & (_rank(addresses) == lanes.cta.rank)
        case "shared::cluster":
            return _in(addresses, SHARED_WINDOW) & (_rank(addresses) < len(lanes.cta.cluster.ctas))
        case _:
            return _in(addresses, _WINDOWS[space])


def _in(addresses: Values, window: int) -> NDArray[np.bool_]:
    return np.asarray(addresses >> _UPPER == np.uint64(window >> 32))


def _rank(addresses: Values) -> NDArray[np.uint64]:
    return addresses >> np.uint64(24) & np.uint64(0xFF)


def _is_global(lanes: Lanes, addresses: Values, *, constant: bool) -> NDArray[np.bool_]:
    windows = np.atleast_1d(addresses >> _UPPER)
    memory = lanes.machine.memory
    inside = np.empty(windows.shape, np.bool_)
    for window in np.unique(windows):
        segment = memory.window(int(window))
        inside[windows == window] = segment is not None and segment.constant == constant
    return inside.reshape(np.shape(addresses))


@instruction("mapa")
def mapa(d: Decoder) -> Execute:
    space = d.take("shared::cluster")
    type = d.take_type()
    d.finish()
    d.count(3)
    if type not in ("u32", "u64") or (space is None and type == "u32"):
        d.unsupported("generic addresses have 64 bits")
    write, read = d.writer(d.operands[0], type), _shared(d, d.operands[1], space, type)
    rank = d.reader(d.operands[2], "u32")
    window = np.uint64(0 if space is not None else SHARED_WINDOW)

    def execute(lanes: Lanes) -> None:
        ranks = rank(lanes)
        size = len(lanes.cta.cluster.ctas)
        if int(np.max(ranks)) >= size:
            lane = int(np.argmax(np.broadcast_to(ranks, (lanes.count,)) >= size))
            bad = int(np.broadcast_to(ranks, (lanes.count,))[lane])
            lanes.fault(FaultKind.OUT_OF_BOUNDS, f"mapa to the CTA of rank {bad}, but the cluster has {size}", lane)
        mapped = read(lanes) & _OFFSET | ranks.astype(np.uint64) << np.uint64(24) | window
        write(lanes, mapped.astype(dtype_of(type)))

    return execute


@instruction("getctarank")
def getctarank(d: Decoder) -> Execute:
    space = d.take("shared::cluster")
    type = d.take_type()
    d.finish()
    d.count(2)
    if type not in ("u32", "u64") or (space is None and type == "u32"):
        d.unsupported("generic addresses have 64 bits")
    write, read = d.writer(d.operands[0], "u32"), _shared(d, d.operands[1], space, type)
    return lambda lanes: write(lanes, _rank(read(lanes)).astype(np.uint32))


def _shared(d: Decoder, operand: Operand, space: str | None, type: str) -> Reader:
    """A shared address as uint64, from one of its own space or a generic one; faults for a generic one of other memory."""
    given = _operand(d, operand, type)
    symbol = operand.base if isinstance(operand, Address) else operand
    if space is not None or isinstance(symbol, Symbol):
        return lambda lanes: given(lanes).astype(np.uint64)

    def read(lanes: Lanes) -> Values:
        addresses = given(lanes)
        outside = addresses >> _UPPER != np.uint64(SHARED_WINDOW >> 32)
        if outside.any():
            lane = int(np.argmax(np.broadcast_to(outside, (lanes.count,))))
            address = int(np.broadcast_to(addresses, (lanes.count,))[lane])
            lanes.fault(
                FaultKind.OUT_OF_BOUNDS,
                f"{lanes.instruction.opcode} of address 0x{address:x}, which does not lie in shared memory",
                lane,
            )
        return addresses & _LOW

    return read
