"""Tensor maps that threads change: `tensormap.replace`, `tensormap.cp_fenceproxy` and the fences of the tensormap proxy
(PTX 9.7.9.28, 9.7.13.16, 9.7.13.4)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tilec.backend.emulator.execution.decode import Decoder, Together, instruction
from tilec.backend.emulator.execution.lanes import Execute, Lanes
from tilec.backend.emulator.faults import FaultKind
from tilec.backend.emulator.instructions.fences import publish
from tilec.backend.emulator.memory import accesses
from tilec.backend.emulator.ptx.syntax import Integer
from tilec.backend.emulator.tma.descriptor import BLANK, MAP_BYTES, Descriptor, decode
from tilec.backend.emulator.tma.maps import each
from tilec.backend.emulator.tma.proxy import MapProxy

_SCOPES = ("cta", "cluster", "gpu", "sys")
_WIDE = ("global_address", "global_stride")
_ORDINALS = {"box_dim": 5, "global_dim": 5, "global_stride": 4, "element_stride": 5}
"""Fields of which a map has one for each dimension, and how many."""
_CONSTANTS = {"elemtype": 16, "interleave_layout": 3, "swizzle_mode": 5, "swizzle_atomicity": 4, "fill_mode": 2}
"""Fields whose new value is a constant, and how many values there are."""
_BYTES = np.dtype(np.uint8)

Change = Callable[[Descriptor, int], Descriptor]


@instruction("tensormap.replace")
def tensormap_replace(d: Decoder) -> Execute:
    if d.take("tile") is None:
        d.unsupported("a mode other than .tile")
    field = d.take("global_address", "rank", *_ORDINALS, *_CONSTANTS)
    if field is None:
        d.unsupported("no field that a tensor map has")
    space = d.take("global", "shared::cta") or "generic"
    type = "b64" if field in _WIDE else "b32"
    if d.take("b1024") is None or d.take(type) is None:
        d.unsupported(f"the types are .b1024 and, for .{field}, .{type}")
    d.finish()
    d.count(2 + (field in _ORDINALS))
    address, value = d.address(d.operands[0]), d.reader(d.operands[-1], type)
    change = _change(d, field)

    def execute(lanes: Lanes) -> None:
        addresses, values = address(lanes).astype(np.uint64), each(value(lanes), lanes)
        for lane, at in enumerate(each(addresses, lanes)):
            one = Lanes(lanes.cta, lanes.threads[lane : lane + 1], 1, lanes.instruction)
            where = np.array([at], np.uint64)
            _check_alignment(one, at)
            # One access of 128 bytes, in the units of 16 that memory knows.
            data = b"".join(
                accesses.load(one, space, where + np.uint64(i), _BYTES, 16).tobytes() for i in range(0, MAP_BYTES, 16)
            )
            found = decode(data) if any(data) else BLANK
            if found is None:
                one.fault(FaultKind.DESCRIPTOR, f"no tensor map at address 0x{at:x}")
            new = np.frombuffer(change(found, values[lane]).encode(), np.uint8).reshape(-1, 1, 16)
            for i, part in enumerate(new):
                accesses.store(one, space, where + np.uint64(16 * i), part)
            if (segment := MapProxy.global_at(lanes.machine, space, at)) is not None:
                MapProxy.of(lanes.machine).changed(segment, at, lanes.instruction.line)

    return execute


def _check_alignment(lanes: Lanes, address: int) -> None:
    if address % 64:
        lanes.fault(FaultKind.MISALIGNED, f"the tensor map's address 0x{address:x} is not a multiple of 64 bytes")


def _change(d: Decoder, field: str) -> Change:
    if field in _ORDINALS:
        return _change_of_dimension(d, field)
    match field:
        case "global_address":
            return lambda m, v: replace(m, address=v)
        case "rank":
            # The field counts from zero; more than eight bits do not fit.
            return lambda m, v: replace(m, rank=(v & 0xFF) + 1 & 0xFF)
        case _:
            return _change_of_constant(d, field)


def _change_of_constant(d: Decoder, field: str) -> Change:
    new = d.operands[1]
    if not isinstance(new, Integer) or not 0 <= new.value < _CONSTANTS[field]:
        d.unsupported(f"the new value of .{field} is a constant from 0 to {_CONSTANTS[field] - 1}")
    match field:
        case "elemtype":
            return lambda m, v: replace(m, element=v)
        case "interleave_layout":
            return lambda m, v: replace(m, interleave=v)
        case "swizzle_mode":
            if new.value == 4:
                d.unsupported("swizzles of 96 bytes, which sm_103a alone has")
            return lambda m, v: replace(m, swizzle_mode=v)
        case "swizzle_atomicity":
            return lambda m, v: replace(m, atomicity=v)
        case _:
            return lambda m, v: replace(m, fill=v)


def _change_of_dimension(d: Decoder, field: str) -> Change:
    ordinal = d.operands[1]
    if not isinstance(ordinal, Integer) or not 0 <= ordinal.value < _ORDINALS[field]:
        d.unsupported(f"the ordinal of .{field} is a constant from 0 to {_ORDINALS[field] - 1}")
    at = ordinal.value

    def changed(values: tuple[int, ...], value: int) -> tuple[int, ...]:
        return (*values[:at], value, *values[at + 1 :])

    match field:
        case "box_dim":
            return lambda m, v: replace(m, box=changed(m.box, min(v, 0xFFFF)))
        case "global_dim":
            return lambda m, v: replace(m, dims=changed(m.dims, v))
        case "global_stride":
            return lambda m, v: replace(m, strides=changed(m.strides, v))
        case _:
            return lambda m, v: replace(m, element_strides=changed(m.element_strides, min(v, 0xFF)))


@instruction("tensormap.cp_fenceproxy")
def tensormap_copy(d: Decoder) -> Together:
    """Copies a map from shared to global memory and releases it to the tensormap proxy: all lanes of the warp together."""
    for modifier in ("global", "shared::cta", "tensormap::generic", "release", "sync", "aligned"):
        if d.take(modifier) is None:
            d.unsupported(f"no .{modifier}")
    if d.take(*_SCOPES) is None:
        d.unsupported("no scope")
    d.finish()
    d.count(3)
    size = d.operands[2]
    if not isinstance(size, Integer) or size.value != MAP_BYTES:
        d.unsupported(f"the size is {MAP_BYTES}")
    target, source = d.address(d.operands[0]), d.address(d.operands[1])

    def execute(lanes: Lanes) -> None:
        to = np.broadcast_to(target(lanes), (lanes.count,)).astype(np.uint64)
        at = np.broadcast_to(source(lanes), (lanes.count,)).astype(np.uint64)
        for i in range(0, MAP_BYTES, 16):
            step = np.uint64(i)
            accesses.store(lanes, "global", to + step, accesses.load(lanes, "shared::cta", at + step, _BYTES, 16))
        proxy = MapProxy.of(lanes.machine)
        for address in np.unique(to).tolist():
            segment = MapProxy.global_at(lanes.machine, "global", address)
            assert segment is not None
            proxy.changed(segment, address, lanes.instruction.line)
            proxy.release(address)

    return Together(execute, "warp")


def _release(lanes: Lanes) -> None:
    publish(lanes)
    MapProxy.of(lanes.machine).release_all()


@instruction("fence.proxy.tensormap::generic")
def fence_tensormap(d: Decoder) -> Execute:
    """Release: changes of maps are ready for the tensormap proxy. Acquire: the CTA's instructions see the map as it is now."""
    semantics = d.take("acquire", "release")
    if semantics is None or d.take(*_SCOPES) is None:
        d.unsupported("the fence is .acquire or .release, with a scope")
    d.finish()
    if semantics == "release":
        d.count(0)
        return _release
    d.count(2)
    address, size = d.address(d.operands[0]), d.operands[1]
    if not isinstance(size, Integer) or size.value != MAP_BYTES:
        d.unsupported(f"the size is {MAP_BYTES}")

    def execute(lanes: Lanes) -> None:
        for at in np.unique(address(lanes)).tolist():
            MapProxy.of(lanes.machine).acquire(at, lanes.cta.number)

    return execute
