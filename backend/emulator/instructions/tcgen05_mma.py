"""`tcgen05.mma`, `tcgen05.mma.ws` and their sparse forms (PTX 9.7.16.10.9)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import numpy as np

from tilec.backend.emulator.execution.decode import Decoder, Reader
from tilec.backend.emulator.execution.lanes import Execute, Lanes
from tilec.backend.emulator.faults import FaultKind
from tilec.backend.emulator.ptx.syntax import Address, Integer, Operand, Vector
from tilec.backend.emulator.tcgen05.arguments import Arguments
from tilec.backend.emulator.tcgen05.decoding import take_group, tcgen05
from tilec.backend.emulator.tcgen05.instruction_descriptor import SCALED, InstructionDescriptor, Kind, Variant, decode
from tilec.backend.emulator.tcgen05.product import issue
from tilec.backend.emulator.tcgen05.zero_columns import zero_columns

_KINDS = ("f16", "tf32", "f8f6f4", "i8", *SCALED)
_FACTORS: dict[Kind, dict[str | None, int]] = {
    "mxf8f6f4": {None: 1, "scale_vec::1X": 1, "block32": 1},
    "mxf4": {None: 2, "scale_vec::2X": 2, "block32": 2},
    "mxf4nvf4": {"scale_vec::2X": 2, "block32": 2, "scale_vec::4X": 4, "block16": 4},
}
"""Scale factors along K (tables 56 and 57)."""
_SCALE_VECTORS = ("scale_vec::1X", "scale_vec::2X", "scale_vec::4X", "block16", "block32")
_USES = ("fill", "use", "lastuse", "discard")
_ADDRESS = 0x3FFF_FFFF
"""Of addresses of bytes in tensor memory the highest two bits may say which byte; the descriptor says it too, and counts."""


@dataclass(frozen=True)
class _Form:
    """A product as written: readers of its operands; those that it does not have are None. `shift` is scale-input-d."""

    variant: Variant
    d: Reader
    a: Reader
    a_in_tensor_memory: bool
    b: Reader
    metadata: Reader | None
    descriptor: Reader
    scales: tuple[Reader, Reader] | None
    factors: int
    kept: tuple[Reader, ...]
    accumulate: Reader
    shift: int
    zeroed: Reader | None


@tcgen05("tcgen05.mma")
def mma(d: Decoder) -> Execute:
    form = _decode(d)
    opcode = d.instruction.opcode

    def execute(lanes: Lanes) -> None:
        read = _readings(form, lanes)
        for lane in range(lanes.count):
            issue(_arguments(form, lanes, lane, read, d), lanes, lane)
            lanes.machine.statistics.mmas[opcode] += 1

    return execute


def _decode(d: Decoder) -> _Form:
    weights = d.take("ws") is not None
    sparse = d.take("sp") is not None
    group = take_group(d)
    if weights and group == 2:
        d.unsupported(".ws is for .cta_group::1")
    kind = d.take(*(f"kind::{k}" for k in _KINDS))
    if kind is None:
        d.unsupported("no .kind that the emulator knows")
    variant = Variant(cast(Kind, kind.removeprefix("kind::")), group, weights, sparse)
    scaled = variant.kind in SCALED
    if scaled and weights:
        d.unsupported(f".ws is not for .{kind}")
    factors = _take_factors(d, variant.kind) if scaled else 0
    if d.take("ashift"):
        d.unsupported("the emulator does not shift A")
    # The collector only spares reading a matrix again: no effect on results (9.7.16.10).
    d.take(*(f"collector::{b}::{use}" for b in (("b0", "b1", "b2", "b3") if weights else ("a",)) for use in _USES))
    d.finish()
    rest = list(d.operands)
    if len(rest) < 5:
        d.unsupported("operands are missing")
    target, a, b = rest[:3]
    rest = rest[3:]
    metadata = d.address(rest.pop(0)) if sparse else None
    descriptor = d.reader(rest.pop(0), "u32")
    scales = (d.address(rest.pop(0)), d.address(rest.pop(0))) if scaled and len(rest) >= 2 else None
    kept = _take_kept(d, rest, group) if not scaled and not weights else ()
    if not rest:
        d.unsupported("enable-input-d is missing")
    accumulate = d.reader(rest.pop(0), "pred")
    zeroed = d.reader(rest.pop(0), "b64") if weights and rest else None
    shift = _take_shift(d, rest) if variant.kind in ("f16", "tf32") and not weights else 0
    if rest:
        d.unsupported(f"{len(rest)} operands too many")
    in_memory = isinstance(a, Address)
    return _Form(
        variant,
        d.address(target),
        d.address(a) if in_memory else d.reader(a, "b64"),
        in_memory,
        d.reader(b, "b64"),
        metadata,
        descriptor,
        scales,
        factors,
        kept,
        accumulate,
        shift,
        zeroed,
    )


def _take_factors(d: Decoder, kind: Kind) -> int:
    if d.take("block_scale") is None:
        d.unsupported(f".block_scale is missing with .kind::{kind}")
    size = d.take(*_SCALE_VECTORS)
    if size not in _FACTORS[kind]:
        d.unsupported(f".kind::{kind} has no .{size}" if size else f".kind::{kind} needs the size of its scale vectors")
    return _FACTORS[kind][size]


def _take_kept(d: Decoder, rest: list[Operand], group: int) -> tuple[Reader, ...]:
    """disable-output-lane, if it is there."""
    if not rest or not isinstance(rest[0], Vector):
        return ()
    words = d.elements(rest.pop(0))
    if len(words) != 4 * group:
        d.unsupported(f"a mask of {len(words)} words, not {4 * group}")
    return tuple(d.reader(word, "b32") for word in words)


def _take_shift(d: Decoder, rest: list[Operand]) -> int:
    """scale-input-d, if it is there."""
    if not rest:
        return 0
    shift = rest.pop(0)
    if not isinstance(shift, Integer) or not 0 <= shift.value <= 15:
        d.unsupported("scale-input-d is a constant from 0 to 15")
    return shift.value


_Reading = Callable[[Reader, int], int]


def _readings(form: _Form, lanes: Lanes) -> _Reading:
    """Reads the value that an operand has for the thread at a position; each operand is read once for all."""
    found: dict[int, np.ndarray] = {}

    def read(reader: Reader, lane: int) -> int:
        values = found.get(id(reader))
        if values is None:
            values = found[id(reader)] = np.broadcast_to(reader(lanes), (lanes.count,))
        return int(values[lane])

    return read


def _arguments(form: _Form, lanes: Lanes, lane: int, read: _Reading, d: Decoder) -> Arguments:
    descriptor = decode(form.variant, read(form.descriptor, lane))
    if isinstance(descriptor, str):
        lanes.fault(FaultKind.DESCRIPTOR, descriptor, lane)
    _check_factors(form, descriptor, lanes, lane)
    words = [read(word, lane) for word in form.kept] + [0] * (8 - len(form.kept))
    kept = [sum(word << 32 * at for at, word in enumerate(words[4 * cta : 4 * cta + 4])) for cta in range(2)]
    zeroed = 0
    if form.zeroed is not None:
        found = zero_columns(read(form.zeroed, lane), descriptor.m, descriptor.n)
        if isinstance(found, str):
            d.unsupported(found)
        zeroed = found
    return Arguments(
        descriptor,
        d=read(form.d, lane),
        a=read(form.a, lane),
        a_in_tensor_memory=form.a_in_tensor_memory,
        b=read(form.b, lane),
        accumulate=bool(read(form.accumulate, lane)),
        shift=form.shift,
        kept=(kept[0], kept[1]),
        zeroed=zeroed,
        metadata=0 if form.metadata is None else read(form.metadata, lane) & _ADDRESS,
        scales=None
        if form.scales is None
        else (read(form.scales[0], lane) & _ADDRESS, read(form.scales[1], lane) & _ADDRESS),
        factors=form.factors,
    )


def _check_factors(form: _Form, descriptor: InstructionDescriptor, lanes: Lanes, lane: int) -> None:
    """What of the descriptor depends on the number of factors (table 57, 9.7.16.10.7.2)."""
    if descriptor.scale_type == "ue4m3" and form.factors != 4:
        lanes.fault(
            FaultKind.DESCRIPTOR,
            f"the scale factors are ue4m3 (bit 23 of the instruction descriptor is 0), which needs .scale_vec::4X; with "
            f".scale_vec::{form.factors}X they are ue8m0 (1)",
            lane,
        )
    for name, value in (("A", descriptor.a_scale_id), ("B", descriptor.b_scale_id)):
        if form.factors == 4 and value:
            lanes.fault(
                FaultKind.DESCRIPTOR,
                f"the scale factor id of {name} in the instruction descriptor is {value}; with .scale_vec::4X it is 0",
                lane,
            )
