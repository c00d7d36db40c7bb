"""Functions of CUDA's device runtime that modules declare and do not define: printf, assertions and the device heap."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilec.backend.emulator.execution.lanes import Lanes
from tilec.backend.emulator.execution.printf import format_text
from tilec.backend.emulator.faults import FaultKind
from tilec.backend.emulator.memory.accesses import load
from tilec.backend.emulator.numbers.types import Values

External = Callable[[Lanes, list[Values]], Values | None]
"""Given the arguments, zero-extended to uint64, shape (lanes,) each; returns the result, if there is one, in the same form."""

_BYTE = np.dtype(np.uint8)


def read_string(lanes: Lanes, lane: int, address: int) -> bytes:
    """The bytes at a generic address up to the first zero, as the thread at position `lane` sees them."""
    one = Lanes(lanes.cta, lanes.threads[lane : lane + 1], 1, lanes.instruction)
    found = bytearray()
    while (byte := int(load(one, "generic", np.array(address + len(found), np.uint64), _BYTE)[0, 0])) != 0:
        found.append(byte)
    return bytes(found)


def _printf(lanes: Lanes, arguments: list[Values]) -> Values:
    """`vprintf(format, values)`: prints what each thread asks for, in the order of the threads; gives how many values it took."""
    formats, buffers = arguments
    results = np.zeros(lanes.count, np.uint64)
    for lane in range(lanes.count):
        if formats[lane] == 0:
            results[lane] = 2**64 - 1
            continue
        one = Lanes(lanes.cta, lanes.threads[lane : lane + 1], 1, lanes.instruction)
        place = int(buffers[lane])

        def value(width: int, one: Lanes = one) -> bytes:
            nonlocal place
            place = -(-place // width) * width
            place += width
            return load(one, "generic", np.array(place - width, np.uint64), np.dtype(f"u{width}")).tobytes()

        def string(address: int, lane: int = lane) -> bytes:
            return read_string(lanes, lane, address)

        text, taken = format_text(read_string(lanes, lane, int(formats[lane])), value, string)
        lanes.machine.statistics.printed.append(text.decode("utf-8", "replace"))
        results[lane] = taken
    return results


def _assert_fail(lanes: Lanes, arguments: list[Values]) -> None:
    """`__assertfail(condition, file, line, function, bytes of a character)`."""
    condition, file, function = (
        read_string(lanes, 0, int(arguments[i][0])).decode("utf-8", "replace") for i in (0, 1, 3)
    )
    line = int(arguments[2][0])
    lanes.fault(FaultKind.TRAP, f"{file}:{line}: {function}: assertion `{condition}` failed")


def _malloc(lanes: Lanes, arguments: list[Values]) -> Values:
    """Memory of its own for each thread, in the order of the threads."""
    memory = lanes.machine.memory
    addresses = np.empty(lanes.count, np.uint64)
    for lane, size in enumerate(arguments[0]):
        segment = memory.allocate(f"device heap of {int(size)} bytes", int(size))
        memory.heap[segment.address] = segment
        addresses[lane] = segment.address
    return addresses


def _free(lanes: Lanes, arguments: list[Values]) -> None:
    for lane, address in enumerate(arguments[0]):
        if address and not lanes.machine.memory.free(int(address)):
            lanes.fault(
                FaultKind.OUT_OF_BOUNDS, f"free of 0x{int(address):x}, which malloc has not given or is free", lane
            )


EXTERNALS: dict[str, External] = {
    "vprintf": _printf,
    "__assertfail": _assert_fail,
    "malloc": _malloc,
    "free": _free,
}
