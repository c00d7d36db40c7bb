"""Prefetches of tensor maps and of what bulk copies read (PTX 9.7.9.15, 9.7.9.25.4.3, 9.7.9.27.1.4): no cache is emulated."""

from __future__ import annotations

from tilec.backend.emulator.execution.decode import Decoder, Reader, instruction
from tilec.backend.emulator.execution.lanes import Execute, Lanes
from tilec.backend.emulator.faults import FaultKind
from tilec.backend.emulator.instructions.tensor_copy import LOAD_MODES, map_operand, take_mode, take_rank
from tilec.backend.emulator.tma.maps import each
from tilec.backend.emulator.tma.transfer import aligned


def _nothing(lanes: Lanes) -> None:
    """A prefetch is a hint."""


@instruction("prefetch.tensormap", "prefetch.param.tensormap", "prefetch.const.tensormap")
def prefetch_map(d: Decoder) -> Execute:
    d.finish()
    d.count(1)
    d.address(d.operands[0])
    return _nothing


@instruction("cp.async.bulk.prefetch.tensor")
def prefetch_tensor(d: Decoder) -> Execute:
    """Checks the map and the coordinates, as the copy will."""
    mode = take_mode(d, *LOAD_MODES)
    rank = take_rank(d, mode)
    hint = _take_level(d)
    d.count(1 + (mode == "im2col") + hint)
    operand = map_operand(d, 0, rank, mode)
    offsets: tuple[Reader, ...] = ()
    if mode == "im2col":
        offsets = tuple(d.reader(e, "u16") for e in d.elements(d.operands[1]))
        if len(offsets) != rank - 2:
            d.unsupported(f"{len(offsets)} im2col offsets, not {rank - 2}")

    def execute(lanes: Lanes) -> None:
        operand.accesses(lanes, offsets, stored=False)

    return execute


@instruction("cp.async.bulk.prefetch")
def prefetch_bulk(d: Decoder) -> Execute:
    hint = _take_level(d)
    d.count(2 + hint)
    source, size = d.address(d.operands[0]), d.reader(d.operands[1], "u32")

    def execute(lanes: Lanes) -> None:
        for lane, (address, count) in enumerate(zip(each(source(lanes), lanes), each(size(lanes), lanes), strict=True)):
            aligned(lanes, lane, "the source", address, 16)
            if count % 16:
                lanes.fault(FaultKind.ILLEGAL, f"the size of {count} bytes is not a multiple of 16", lane)

    return execute


def _take_level(d: Decoder) -> bool:
    """Consume the modifiers of both forms. Returns whether there is a cache policy, which is read."""
    hint = d.take("L2::cache_hint") is not None
    if d.take("L2") is None or d.take("global") is None:
        d.unsupported("a bulk prefetch is .L2.global")
    d.finish()
    if hint:
        d.reader(d.operands[-1], "b64")
    return hint
