"""Conversions to and from packed and narrow floating formats (PTX 9.7.9.21). The first source goes to the highest place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from tilec.backend.emulator.execution.decode import Decoder, Reader
from tilec.backend.emulator.execution.lanes import Execute, Lanes
from tilec.backend.emulator.numbers import float_codes, floats
from tilec.backend.emulator.numbers.float_codes import encoder
from tilec.backend.emulator.numbers.narrow_floats import decode, decode_bf16
from tilec.backend.emulator.numbers.rounding import Array, Mode
from tilec.backend.emulator.numbers.types import dtype_of
from tilec.backend.emulator.ptx.syntax import Vector


@dataclass(frozen=True)
class Packed:
    """`count` numbers of `format`, each in `width` bits of a register of `register`."""

    format: str
    count: int
    width: int

    @property
    def register(self) -> str:
        return f"b{self.count * self.width}"


PACKED = {
    **{f"{f}x2": Packed(f, 2, 16) for f in ("f16", "bf16")},
    **{f"{f}x2": Packed(f, 2, 8) for f in ("e4m3", "e5m2", "e2m3", "e3m2", "ue8m0", "s2f6")},
    **{f"{f}x4": Packed(f, 4, 8) for f in ("e4m3", "e5m2", "e2m3", "e3m2")},
    "e2m1x2": Packed("e2m1", 2, 4),
    "e2m1x4": Packed("e2m1", 4, 4),
}
_WIDE = ("f16x2", "bf16x2")
_NARROW = tuple(f"{f}x2" for f in ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1"))
Encode = Callable[[Array], Array]


def convert_packed(d: Decoder, target: str, source: str) -> Execute:
    match target, source:
        case "ue8m0x2", "f32" | "bf16x2":
            return _to_scales(d, source)
        case "bf16x2", "ue8m0x2":
            _take(d, "rn")
            return _execute(d, "bf16x2", source, encoder("bf16", "rn", saturate=False))
        case "s2f6x2", _:
            return _to_fixed(d, source)
        case "bf16x2", "s2f6x2":
            return _from_fixed(d)
        case _, "f32" if target in (*_WIDE, *PACKED) and d.take("rs") is not None:
            return _stochastic(d, target)
        case _, "f32" if target in _WIDE:
            mode, finite = _take(d, "rn", "rz"), d.take("satfinite") is not None
            return _execute(d, target, source, _take_relu(d, encoder(PACKED[target].format, mode, saturate=finite)))
        case _, "f32" | "f16x2" | "bf16x2" if target in _NARROW:
            mode = _take(d, "rn")
            _take(d, "satfinite")
            return _execute(d, target, source, _take_relu(d, encoder(PACKED[target].format, mode, saturate=True)))
        case "f16x2", _ if source in _NARROW:
            return _execute(d, target, source, _take_relu(d, encoder("f16", _take(d, "rn"), saturate=False)))
        case _:
            d.unsupported(f"no conversion from .{source} to .{target}")


def _take(d: Decoder, *names: str) -> Mode:
    found = d.take(*names)
    if found is None:
        d.unsupported(f"this conversion names .{' or .'.join(names)}")
    return cast(Mode, found)


def _take_relu(d: Decoder, encode: Encode) -> Encode:
    """The encoder after .relu, if that is written: negative numbers become +0."""
    if d.take("relu") is None:
        return encode
    return lambda numbers: encode(floats.rectify(numbers))


def _unchanged(numbers: Array) -> Array:
    return numbers


def _sources(d: Decoder, source: str, count: int) -> Callable[[Lanes], list[Array]]:
    """What reads the numbers that are converted, as doubles, the highest first, from the operands behind the first."""
    if source == "f32":
        given = d.operands[1].elements if isinstance(d.operands[1], Vector) else d.operands[1 : 1 + count]
        if len(given) != count:
            d.unsupported(f"{len(given)} numbers to convert, not {count}")
        readers: list[Reader] = [d.reader(operand, "f32") for operand in given]
        return lambda lanes: [read(lanes).astype(np.float64) for read in readers]
    packed = PACKED[source]
    read = d.reader(d.operands[1], packed.register)
    return lambda lanes: _unpacked(packed, read(lanes))


def _unpacked(packed: Packed, bits: Array) -> list[Array]:
    mask, dtype = (1 << packed.width) - 1, bits.dtype.type
    fields = [bits >> dtype(packed.width * at) & dtype(mask) for at in reversed(range(packed.count))]
    match packed.format:
        case "f16":
            return [f.astype(np.uint16).view(np.float16).astype(np.float64) for f in fields]
        case "bf16":
            return [decode_bf16(f.astype(np.uint16)).astype(np.float64) for f in fields]
        case _:
            return [decode(packed.format, f) for f in fields]


def _joined(packed: Packed, codes: Sequence[Array]) -> Array:
    """Codes side by side, the first highest."""
    total = codes[0].astype(np.uint32)
    for code in codes[1:]:
        total = total << np.uint32(packed.width) | code.astype(np.uint32)
    return total.astype(dtype_of(packed.register))


def _execute(d: Decoder, target: str, source: str, encode: Encode) -> Execute:
    """Every source by the same encoder."""
    d.finish()
    packed = PACKED[target]
    d.count(1 + packed.count if source == "f32" else 2)
    write, read = d.writer(d.operands[0], packed.register), _sources(d, source, packed.count)

    return lambda lanes: write(lanes, _joined(packed, [encode(numbers) for numbers in read(lanes)]))


def _to_scales(d: Decoder, source: str) -> Execute:
    mode, finite = _take(d, "rz", "rp"), d.take("satfinite") is not None
    return _execute(d, "ue8m0x2", source, lambda n: float_codes.encode_scale(n, mode, saturate=finite))


def _stochastic(d: Decoder, target: str) -> Execute:
    """.rs: the bits of the last operand are added to those that are cut off. Of its halves, 13 or 16 bits are for each number of a
    pair; the 16 bits of a half are for both numbers of one half of a quadruple."""
    packed = PACKED[target]
    if target == "e2m1x4" or (packed.count == 2 and target not in _WIDE):
        d.unsupported(f"which random bits a number of .{target} is rounded by is not specified in words")
    finite = d.take("satfinite") is not None
    if packed.count == 4 and not finite:
        d.unsupported("this conversion names .satfinite")
    limit = _take_relu(d, _unchanged)
    d.finish()
    d.count(4 if packed.count == 2 else 3)
    write, read = d.writer(d.operands[0], packed.register), _sources(d, "f32", packed.count)
    random, bits = d.reader(d.operands[-1], "b32"), 13 if target == "f16x2" else 16
    mask = np.uint32((1 << bits) - 1)

    def execute(lanes: Lanes) -> None:
        given = random(lanes)
        halves = given >> np.uint32(16) & mask, given & mask
        codes: list[Array] = []
        for at, numbers in enumerate(read(lanes)):
            half = halves[at * 2 // packed.count]
            codes.append(float_codes.encode_stochastic(packed.format, limit(numbers), half, bits, saturate=finite))
        write(lanes, _joined(packed, codes))

    return execute


def _take_scales(d: Decoder, operands: int) -> Callable[[Lanes], list[Array]]:
    """What reads the scale factors of two numbers, the upper first: 1 unless the last operand, behind so many, has them."""
    if d.take("scaled::n2::ue8m0") is None:
        d.count(operands)
        one = np.array(1.0)
        return lambda lanes: [one, one]
    d.count(operands + 1)
    read = d.reader(d.operands[operands], "b16")
    return lambda lanes: _unpacked(PACKED["ue8m0x2"], read(lanes))


def _to_fixed(d: Decoder, source: str) -> Execute:
    """8-bit integers in units of 2**-6; a NaN becomes the largest."""
    if source not in ("f32", "bf16x2"):
        d.unsupported(f"no conversion from .{source} to .s2f6x2")
    _take(d, "rn")
    _take(d, "satfinite")
    limit, scales = _take_relu(d, _unchanged), _take_scales(d, 3 if source == "f32" else 2)
    d.finish()
    write, read = d.writer(d.operands[0], "b16"), _sources(d, source, 2)

    def code(number: Array, scale: Array) -> Array:
        units = np.rint(limit(number) / scale * 64.0)
        return np.where(np.isnan(units), 127, np.clip(units, -128, 127)).astype(np.int8).view(np.uint8)

    def execute(lanes: Lanes) -> None:
        write(lanes, _joined(PACKED["s2f6x2"], [code(n, s) for n, s in zip(read(lanes), scales(lanes), strict=True)]))

    return execute


def _from_fixed(d: Decoder) -> Execute:
    _take(d, "rn")
    encode = _take_relu(d, encoder("bf16", "rn", saturate=d.take("satfinite") is not None))
    scales = _take_scales(d, 2)
    d.finish()
    write, read = d.writer(d.operands[0], "b32"), d.reader(d.operands[1], "b16")

    def execute(lanes: Lanes) -> None:
        bits = read(lanes)
        codes: list[Array] = []
        for field, scale in zip((bits >> np.uint16(8), bits), scales(lanes), strict=True):
            number = field.astype(np.uint8).view(np.int8).astype(np.float64) / 64.0 * scale
            codes.append(encode(number))
        write(lanes, _joined(PACKED["bf16x2"], codes))

    return execute
