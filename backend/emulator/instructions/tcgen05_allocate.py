"""`tcgen05.alloc`, `tcgen05.dealloc` and `tcgen05.relinquish_alloc_permit` (PTX 9.7.16.7)."""

from __future__ import annotations

import numpy as np

from tilec.backend.emulator.execution.decode import Decoder, Together
from tilec.backend.emulator.execution.group import as_index
from tilec.backend.emulator.execution.lanes import Lanes, Part, Wait
from tilec.backend.emulator.faults import FaultKind
from tilec.backend.emulator.memory.accesses import store
from tilec.backend.emulator.tcgen05.allocator import Allocator, Request
from tilec.backend.emulator.tcgen05.decoding import each_warp, shared_value, take_aligned, take_group, tcgen05

_COUNTS = (32, 64, 128, 256, 512)


def _allocator(lanes: Lanes) -> Allocator:
    return lanes.cta.cluster.part(Allocator)


def _check_count(lanes: Lanes, count: int, lane: int) -> None:
    if count not in _COUNTS:
        lanes.fault(
            FaultKind.TENSOR_MEMORY,
            f"{count} columns of tensor memory; the number is one of {', '.join(map(str, _COUNTS))}",
            lane,
        )


def _check_peer(lanes: Lanes, group: int) -> None:
    """The other CTA of the pair must be there (9.7.16.5)."""
    if group == 2:
        lanes.cta.cluster.shared_of(lanes, lanes.cta.rank ^ 1)


@tcgen05("tcgen05.alloc")
def alloc(d: Decoder) -> Together:
    group = take_group(d)
    take_aligned(d)
    space = d.take("shared::cta")
    if d.take("b32") is None:
        d.unsupported(".b32 is missing")
    d.finish()
    d.count(2)
    address, count = d.shared_address(d.operands[0], space), d.reader(d.operands[1], "u32")

    def execute(lanes: Lanes) -> list[Part]:
        _check_peer(lanes, group)
        parts: list[Part] = []
        for _, positions in each_warp(lanes):
            first = int(positions[0])
            columns = shared_value(lanes, count, positions, "the number of columns")
            _check_count(lanes, columns, first)
            where = shared_value(lanes, address, positions, "the address")
            one = Lanes(lanes.cta, as_index(lanes.threads[positions[:1]]), 1, lanes.instruction)

            def deliver(column: int, one: Lanes = one, where: int = where) -> None:
                store(one, "shared::cta", np.array([where], np.uint64), np.array([[column]], np.uint32))

            request = Request(lanes.cta, columns, lanes.place(first), deliver)
            _allocator(lanes).allocate(request, group)
            parts.append(
                Part(
                    positions,
                    None if request.done else _wait(request, group, f"{columns} free columns of tensor memory"),
                )
            )
        return parts

    return Together(execute, "warp")


def _wait(request: Request, group: int, what: str) -> Wait:
    peer = " and for the same of its peer CTA" if group == 2 else ""
    return Wait(lambda: request.done, lambda: what + peer)


@tcgen05("tcgen05.dealloc")
def dealloc(d: Decoder) -> Together:
    group = take_group(d)
    take_aligned(d)
    if d.take("b32") is None:
        d.unsupported(".b32 is missing")
    d.finish()
    d.count(2)
    address, count = d.reader(d.operands[0], "u32"), d.reader(d.operands[1], "u32")

    def execute(lanes: Lanes) -> list[Part]:
        parts: list[Part] = []
        for _, positions in each_warp(lanes):
            first = int(positions[0])
            columns = shared_value(lanes, count, positions, "the number of columns")
            _check_count(lanes, columns, first)
            where = shared_value(lanes, address, positions, "the address in tensor memory")
            request = Request(lanes.cta, columns, lanes.place(first), first=where)
            _allocator(lanes).deallocate(request, group)
            parts.append(
                Part(positions, None if request.done else _wait(request, group, "the deallocation of tensor memory"))
            )
        return parts

    return Together(execute, "warp")


@tcgen05("tcgen05.relinquish_alloc_permit")
def relinquish_alloc_permit(d: Decoder) -> Together:
    take_group(d)
    take_aligned(d)
    d.finish()
    d.count(0)

    def execute(lanes: Lanes) -> None:
        for _, positions in each_warp(lanes):
            _allocator(lanes).relinquish(lanes.cta, lanes.place(int(positions[0])))

    return Together(execute, "warp")
