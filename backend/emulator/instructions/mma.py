"""`mma.sync` (PTX 9.7.14.5.14): products of small matrices in the registers of a warp."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilec.backend.emulator.decode import Decoder, Reader, Together, Writer, instruction
from tilec.backend.emulator.lanes import Lanes
from tilec.backend.emulator.matrix_values import ACCUMULATORS, BITS, RAW, accumulate, fused_doubles, products, values
from tilec.backend.emulator.mma.fragments import QUADS, Fragment, accumulator, operand_a, operand_b
from tilec.backend.emulator.mma.registers import check_whole, read, write

_FLOATS = {("f16", "f16"), ("f32", "f32")}
_SHAPES: dict[str, dict[tuple[int, int, int], set[tuple[str, str]]]] = {
    "f16": {(16, 8, 8): _FLOATS, (16, 8, 16): _FLOATS},
    "bf16": {(16, 8, 8): {("f32", "f32")}, (16, 8, 16): {("f32", "f32")}},
    "tf32": {(16, 8, 4): {("f32", "f32")}, (16, 8, 8): {("f32", "f32")}},
    "e4m3": {(16, 8, 16): _FLOATS, (16, 8, 32): _FLOATS},
    "f64": {s: {("f64", "f64")} for s in ((8, 8, 4), (16, 8, 4), (16, 8, 8), (16, 8, 16))},
    "s8": {s: {("s32", "s32")} for s in ((8, 8, 16), (16, 8, 16), (16, 8, 32))},
    "s4": {s: {("s32", "s32")} for s in ((8, 8, 32), (16, 8, 32), (16, 8, 64))},
    "b1": {s: {("s32", "s32")} for s in ((8, 8, 128), (16, 8, 128), (16, 8, 256))},
}
"""By type of A, or of its family: shapes (m, n, k), and the types of D and C."""
_FAMILY = {"e5m2": "e4m3", "u8": "s8", "u4": "s4"}


@dataclass(frozen=True)
class _Form:
    """One mma: types, fragments, and the registers of its operands. `matrices`: products of one instruction."""

    types: tuple[str, str, str, str]
    fragments: tuple[Fragment, Fragment, Fragment, Fragment]
    extents: tuple[int, int, int]
    d: list[Writer]
    a: list[Reader]
    b: list[Reader]
    c: list[Reader]
    saturate: bool
    operation: str | None
    opcode: str
    quads: bool


@instruction("mma.sync")
def mma(d: Decoder) -> Together:
    form = _decode(d)

    def execute(lanes: Lanes) -> None:
        check_whole(lanes)
        lanes.machine.statistics.mmas[form.opcode] += lanes.count // 32
        if form.quads:
            _multiply_quads(form, lanes)
        else:
            _multiply(form, lanes)

    return Together(execute, "warp")


def _decode(d: Decoder) -> _Form:
    opcode = d.instruction.opcode
    if d.take("aligned") is None:
        d.unsupported(".aligned is missing")
    saturate = d.take("satfinite") is not None
    operation = d.take("and", "xor") if d.take("popc") else None
    layouts = d.take("row", "col"), d.take("row", "col")
    d.take("rn")
    d.count(4)
    if len(d.modifiers) != 5 or None in layouts:
        d.unsupported("the emulator knows mma with a shape, two layouts and four types")
    shape, dt, at, bt, ct = d.modifiers
    found = re.fullmatch(r"m(\d+)n(\d+)k(\d+)", shape)
    extents = (0, 0, 0) if found is None else (int(found[1]), int(found[2]), int(found[3]))
    quads = extents == (8, 8, 4) and at == bt == "f16"
    if quads:
        _check_quads(d, dt, ct)
    else:
        _check_shape(d, extents, (dt, at, bt, ct), layouts)
    integer = _FAMILY.get(at, at) in ("s8", "s4")
    if (saturate and not integer) or (at == "b1") != (operation is not None):
        d.unsupported()
    m, n, k = extents
    if quads:
        a, b = QUADS.operand_a(str(layouts[0])), QUADS.operand_b(str(layouts[1]))
        c, result = QUADS.accumulator(ct), QUADS.accumulator(dt)
    else:
        a, b = operand_a(m, k, BITS[at]), operand_b(n, k, BITS[bt])
        c = result = accumulator(m, n)
    wide = "b64" if at == "f64" else "b32"
    registers = [d.elements(o) for o in d.operands]
    bits = [ACCUMULATORS[dt].itemsize * 8, BITS[at], BITS[bt], ACCUMULATORS[ct].itemsize * 8]
    for name, held, width, fragment in zip("DABC", registers, bits, (result, a, b, c), strict=True):
        needed = fragment[0].shape[1] * width // (64 if at == "f64" else 32)
        if len(held) != needed:
            d.unsupported(f"{len(held)} registers of {name}, not {needed}")
    return _Form(
        (dt, at, bt, ct),
        (result, a, b, c),
        extents,
        [d.writer(r, wide) for r in registers[0]],
        [d.reader(r, wide) for r in registers[1]],
        [d.reader(r, wide) for r in registers[2]],
        [d.reader(r, wide) for r in registers[3]],
        saturate,
        operation,
        opcode,
        quads,
    )


def _check_shape(
    d: Decoder, extents: tuple[int, int, int], types: tuple[str, str, str, str], layouts: tuple[str | None, str | None]
) -> None:
    dt, at, bt, ct = types
    family = _FAMILY.get(at, at)
    allowed = _SHAPES.get(family, {}).get(extents)
    mixed = family in ("e4m3", "s8", "s4")
    if allowed is None or (dt, ct) not in allowed or layouts != ("row", "col"):
        d.unsupported()
    if at != bt and not (mixed and _FAMILY.get(bt, bt) == family):
        d.unsupported()


def _check_quads(d: Decoder, dt: str, ct: str) -> None:
    # D of f16 with C of f32 is no form.
    if dt not in ("f16", "f32") or ct not in ("f16", "f32") or (dt, ct) == ("f16", "f32"):
        d.unsupported()


def _codes(lanes: Lanes, readers: list[Reader], type: str) -> NDArray[np.float64]:
    """The numbers in the registers of each lane: shape (warps, 32, elements)."""
    return values(type, read(lanes, readers, RAW[type]))


def _place(elements: NDArray[np.generic], fragment: Fragment, shape: tuple[int, int]) -> NDArray[np.float64]:
    """Elements of a warp's lanes at their places: (warps, rows, columns)."""
    matrix = np.empty((len(elements), *shape), np.float64)
    matrix[:, fragment[0], fragment[1]] = elements
    return matrix


def _multiply(form: _Form, lanes: Lanes) -> None:
    m, n, k = form.extents
    dt, at, bt, ct = form.types
    result, fa, fb, fc = form.fragments
    a = _place(_codes(lanes, form.a, at), fa, (m, k))
    b = _place(_codes(lanes, form.b, bt), fb, (n, k))
    c = np.empty((len(a), m, n), ACCUMULATORS[ct])
    c[:, fc[0], fc[1]] = read(lanes, form.c, ACCUMULATORS[ct])
    if dt == "f64":
        total = fused_doubles(a, b, c)
    else:
        total = accumulate(dt, products(a, b, form.operation), c, saturate=form.saturate)
    write(lanes, form.d, total[:, result[0], result[1]])


def _multiply_quads(form: _Form, lanes: Lanes) -> None:
    """Four products of 8x8x4, each by the eight lanes of one quad pair."""
    dt, at, bt, ct = form.types
    elements = [_codes(lanes, form.a, at), _codes(lanes, form.b, bt), read(lanes, form.c, ACCUMULATORS[ct])]
    result = form.fragments[0]
    out = np.empty((lanes.count // 32, 32, 8), ACCUMULATORS[dt])
    for quad in range(4):
        mine = QUADS.of == quad
        a, b, c = (
            _place(e[:, mine], (f[0][mine], f[1][mine]), shape)
            for e, f, shape in zip(elements, form.fragments[1:], ((8, 4), (8, 4), (8, 8)), strict=True)
        )
        total = accumulate(dt, products(a, b), c)
        out[:, mine] = total[:, result[0][mine], result[1][mine]]
    write(lanes, form.d, out)
