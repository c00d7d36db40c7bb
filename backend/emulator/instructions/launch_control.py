"""Control of launches: `griddepcontrol` (PTX 9.7.13.13) and `clusterlaunchcontrol` (9.7.13.17, 9.7.13.18)."""

from __future__ import annotations

from collections.abc import Generator

import numpy as np
from numpy.typing import NDArray

from tilec.backend.emulator.execution.cta import Cta
from tilec.backend.emulator.execution.decode import Decoder, instruction
from tilec.backend.emulator.execution.engines import AsyncWork
from tilec.backend.emulator.execution.lanes import Execute, Lanes
from tilec.backend.emulator.execution.machine import Machine
from tilec.backend.emulator.faults import FaultKind
from tilec.backend.emulator.numbers.types import Values
from tilec.backend.emulator.synchronisation.mbarrier import find

_RESPONSE_BYTES = 16
_OFFSET = 0xFFFFFF
_CANCELED = 1 << 63
_CANCELED_BIT = np.uint64(_CANCELED)
_LOW = np.uint64(0xFFFFFFFF)


@instruction("griddepcontrol")
def griddepcontrol(d: Decoder) -> Execute:
    """A launch on its own depends on no other, and none on it: there is nothing to wait for or to start."""
    if d.take("launch_dependents", "wait") is None:
        d.unsupported("griddepcontrol is .launch_dependents or .wait")
    d.finish()
    d.count(0)
    return lambda lanes: None


class _Refusals:
    """Whether threads of a CTA have seen a request fail: after that, another is undefined."""

    def __init__(self, cta: Cta) -> None:
        self.seen = False

    def at_exit(self) -> None:
        """Nothing is left behind."""


@instruction("clusterlaunchcontrol.try_cancel")
def try_cancel(d: Decoder) -> Execute:
    """Asks for a cluster that has not started. The response and 16 bytes for the mbarrier come asynchronously."""
    _check_target(d)
    if d.take("async") is None or d.take("mbarrier::complete_tx::bytes") is None:
        d.unsupported("try_cancel is .async.mbarrier::complete_tx::bytes")
    space = d.take("shared::cta")
    multicast = d.take("multicast::cluster::all") is not None
    if d.take_type() != "b128":
        d.unsupported("the response is .b128")
    d.finish()
    d.count(2)
    read_response, read_barrier = (d.shared_address(operand, space) for operand in d.operands)

    def execute(lanes: Lanes) -> None:
        responses = np.broadcast_to(read_response(lanes), (lanes.count,))
        barriers = np.broadcast_to(read_barrier(lanes), (lanes.count,))
        for lane in range(lanes.count):
            _request(lanes, lane, int(responses[lane]), int(barriers[lane]), multicast=multicast)

    return execute


def _check_target(d: Decoder) -> None:
    target = d.program.module.target
    if int("".join(c for c in target if c.isdigit()) or 0) < 100:
        d.unsupported(f"clusterlaunchcontrol needs sm_100, not {target}")


def _request(lanes: Lanes, lane: int, response: int, barrier: int, *, multicast: bool) -> None:
    cta = lanes.cta
    if cta.part(_Refusals).seen:
        lanes.fault(
            FaultKind.ILLEGAL,
            "the CTA asks for another cluster to cancel although it has seen a request fail",
            lane,
            "stop asking after the first response that is not canceled",
        )
    for what, address in (("response", response), ("mbarrier", barrier)):
        if address >> 24 != cta.rank:
            lanes.fault(
                FaultKind.OUT_OF_BOUNDS, f"the {what} at 0x{address:x} does not lie in shared memory of the CTA", lane
            )
    if response % _RESPONSE_BYTES:
        lanes.fault(
            FaultKind.MISALIGNED, f"a response at 0x{response:x}, which is not a multiple of {_RESPONSE_BYTES}", lane
        )
    targets = cta.cluster.ctas if multicast else [cta]
    for target in targets:
        if target.exited:
            lanes.fault(
                FaultKind.ILLEGAL,
                f"a request with .multicast::cluster::all, but the CTA of rank {target.rank} has exited",
                lane,
            )
    work = AsyncWork("clusterlaunchcontrol.try_cancel", cta, lanes.place(lane), _nothing())
    work.steps = _respond(work, lanes.machine, targets, response & _OFFSET, barrier & _OFFSET)
    unit: NDArray[np.intp] = np.array([(response & _OFFSET) // _RESPONSE_BYTES], np.intp)
    for target in targets:
        target.shared.begin_write(work, unit)
    lanes.machine.engines.submit(work)


def _nothing() -> Generator[None]:
    yield from ()


def _respond(work: AsyncWork, machine: Machine, targets: list[Cta], response: int, barrier: int) -> Generator[None]:
    """Take a cluster from those that wait, then write to one CTA after another."""
    words = np.zeros(2, np.uint64)
    if machine.waiting:
        number = machine.waiting.pop(machine.order.start_next(len(machine.waiting)))
        x, y, z = _first_cta(machine, number)
        words[:] = x | y << 32, z | _CANCELED
    yield
    for target in targets:
        target.shared.data[response : response + _RESPONSE_BYTES] = words.view(np.uint8)
        target.shared.end_write(work)
        find(target, barrier, work).complete_tx(_RESPONSE_BYTES)
        yield


def _first_cta(machine: Machine, number: int) -> tuple[int, int, int]:
    """The index of the first CTA of a cluster."""
    across, down, _ = machine.clusters
    index = number % across, number // across % down, number // (across * down)
    x, y, z = (i * size for i, size in zip(index, machine.cluster, strict=True))
    return x, y, z


@instruction("clusterlaunchcontrol.query_cancel.is_canceled")
def is_canceled(d: Decoder) -> Execute:
    _check_target(d)
    if d.take_type() != "b128" or d.take_type() != "pred":
        d.unsupported("is_canceled is .pred.b128")
    d.finish()
    d.count(2)
    write, read = d.writer(d.operands[0], "pred"), d.reader(d.operands[1], "b128")

    def execute(lanes: Lanes) -> None:
        canceled = _canceled(read(lanes))
        if not canceled.all():
            lanes.cta.part(_Refusals).seen = True
        write(lanes, canceled)

    return execute


def _canceled(response: Values) -> NDArray[np.bool_]:
    return (response[..., 1] & _CANCELED_BIT) != 0


@instruction(
    "clusterlaunchcontrol.query_cancel.get_first_ctaid",
    *(f"clusterlaunchcontrol.query_cancel.get_first_ctaid::{axis}" for axis in "xyz"),
)
def first_ctaid(d: Decoder) -> Execute:
    """The index of the first CTA of the canceled cluster, all of it or along one axis."""
    _check_target(d)
    axis = d.instruction.parts[2].removeprefix("get_first_ctaid").removeprefix("::")
    if d.take_type() != "b128" or d.take_type() != "b32" or (d.take("v4") is None) != bool(axis):
        d.unsupported("get_first_ctaid is .v4.b32.b128, and along an axis .b32.b128")
    d.finish()
    d.count(2)
    results = d.elements(d.operands[0])
    if len(results) != (1 if axis else 4):
        d.unsupported("not the results that this instruction has")
    writers = [d.writer(result, "b32") for result in results]
    read = d.reader(d.operands[1], "b128")

    def execute(lanes: Lanes) -> None:
        response = np.broadcast_to(read(lanes), (lanes.count, 2))
        failed = ~_canceled(response)
        if failed.any():
            lanes.fault(
                FaultKind.ILLEGAL,
                "the first CTA is asked of a response that says that no cluster was canceled",
                int(np.argmax(failed)),
                "ask is_canceled first",
            )
        low, high = response[:, 0], response[:, 1]
        z = high & ~_CANCELED_BIT & _LOW
        unspecified = np.full(lanes.count, lanes.machine.garbage() & 0xFFFFFFFF, np.uint64)
        values = [low & _LOW, low >> np.uint64(32), z, unspecified]
        for write, value in zip(writers, values["xyz".index(axis) :] if axis else values, strict=False):
            write(lanes, value.astype(np.uint32))

    return execute
