"""Hints to caches (PTX 9.7.9.15 to 9.7.9.18): prefetches, priorities and policies, which change no value, and `discard`, which does."""

from __future__ import annotations

import numpy as np

from tilec.backend.emulator.execution.decode import Decoder, Reader, instruction
from tilec.backend.emulator.execution.lanes import Execute, Lanes
from tilec.backend.emulator.faults import FaultKind
from tilec.backend.emulator.instructions.load_store import state_space
from tilec.backend.emulator.memory.accesses import resolve, store
from tilec.backend.emulator.ptx.syntax import Integer, Operand

_PRIORITIES = ("L2::evict_last", "L2::evict_normal", "L2::evict_first", "L2::evict_unchanged")
_SECONDARY = ("L2::evict_first", "L2::evict_unchanged")
_LINE = 128


def _nothing(lanes: Lanes) -> None:
    """A hint: whatever the address, no fault follows."""


@instruction("prefetch", "prefetchu")
def prefetch(d: Decoder) -> Execute:
    if d.instruction.parts[0] == "prefetchu":
        level = d.take("L1")
    elif d.take("tensormap") is not None:
        d.take("const", "param", "param::entry")
        level = "tensormap"
    else:
        d.take("global", "local")
        level = d.take("L1", "L2", "L2::evict_last", "L2::evict_normal")
    d.finish()
    d.count(1)
    if level is None:
        d.unsupported("no level of cache")
    d.address(d.operands[0])
    return _nothing


@instruction("applypriority")
def applypriority(d: Decoder) -> Execute:
    space = d.take("global")
    if d.take("L2::evict_normal") is None:
        d.unsupported("the priority is .L2::evict_normal")
    d.finish()
    d.count(2)
    _check_line(d, d.operands[1])
    where, address = state_space(d, space, d.operands[0]), d.address(d.operands[0])

    def execute(lanes: Lanes) -> None:
        _check_addresses(lanes, where, address)

    return execute


@instruction("discard")
def discard(d: Decoder) -> Execute:
    """The bytes hold indeterminate values afterwards: here a pattern that no program can take for its own."""
    space = d.take("global")
    if d.take("L2") is None:
        d.unsupported("the level is .L2")
    d.finish()
    d.count(2)
    _check_line(d, d.operands[1])
    where, address = state_space(d, space, d.operands[0]), d.address(d.operands[0])

    def execute(lanes: Lanes) -> None:
        addresses = _check_addresses(lanes, where, address)
        garbage = np.full((lanes.count, 2), lanes.machine.garbage(), np.uint64)
        for part in range(0, _LINE, 16):
            store(lanes, where, addresses + np.uint64(part), garbage)

    return execute


def _check_line(d: Decoder, size: Operand) -> None:
    if not isinstance(size, Integer) or size.value != _LINE:
        d.unsupported(f"the size is {_LINE}")


def _check_addresses(lanes: Lanes, space: str, address: Reader) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """The addresses, one for each lane, after a fault for those that are not those of lines in memory."""
    addresses = np.broadcast_to(address(lanes), (lanes.count,))
    off = addresses % np.uint64(_LINE)
    if off.any():
        lane = int(np.flatnonzero(off)[0])
        lanes.fault(
            FaultKind.MISALIGNED,
            f"{lanes.instruction.parts[0]} of {_LINE} bytes at address 0x{int(addresses[lane]):x}: the address is "
            f"{int(off[lane])} bytes behind a multiple of {_LINE}",
            lane,
        )
    resolve(lanes, space, addresses, 1)
    resolve(lanes, space, addresses + np.uint64(_LINE - 1), 1)
    return addresses


@instruction("createpolicy")
def createpolicy(d: Decoder) -> Execute:
    """The policy is opaque, and only a hint: any value does."""
    form = d.take("range", "fractional", "cvt")
    if form == "cvt":
        if d.take("L2") is None:
            d.unsupported("the level is .L2")
    else:
        if form == "range":
            d.take("global")
        if d.take(*_PRIORITIES) is None:
            d.unsupported("no primary priority")
        d.take(*_SECONDARY)
    if d.take_type() != "b64":
        d.unsupported("a policy is .b64")
    d.finish()
    match form:
        case "range":
            d.count(4)
            d.address(d.operands[1])
            d.reader(d.operands[2], "u32")
            d.reader(d.operands[3], "u32")
        case "fractional":
            if d.count(1, 2) == 2:
                d.reader(d.operands[1], "f32")
        case "cvt":
            d.count(2)
            d.reader(d.operands[1], "b64")
        case _:
            d.unsupported("a form that the emulator does not know")
    write = d.writer(d.operands[0], "b64")
    policy = np.array(0x10F0000000000000, np.uint64)
    return lambda lanes: write(lanes, policy)
