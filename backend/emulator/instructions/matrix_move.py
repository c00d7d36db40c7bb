"""`ldmatrix`, `stmatrix` and `movmatrix` (PTX 9.7.14.5.15 to 9.7.14.5.17): matrices between shared memory and registers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilec.backend.emulator.execution.decode import Decoder, Reader, Together, instruction
from tilec.backend.emulator.execution.lanes import Lanes
from tilec.backend.emulator.memory.accesses import load, store
from tilec.backend.emulator.mma.registers import check_whole, read, write

_NUMBERS = {"x1": 1, "x2": 2, "x4": 4}
_U16, _U8 = np.dtype(np.uint16), np.dtype(np.uint8)


def _space(d: Decoder) -> str:
    return d.take("shared", "shared::cta") or "generic"


def _sync_aligned(d: Decoder) -> None:
    if d.take("sync") is None or d.take("aligned") is None:
        d.unsupported(".sync.aligned is missing")


def _suppliers(lanes: Lanes, rows: int) -> Lanes:
    """The lanes whose addresses count: the first `rows` of each warp."""
    threads = lanes.threads.reshape(-1, 32)[:, :rows].ravel()
    return Lanes(lanes.cta, threads, len(threads), lanes.instruction)


@instruction("ldmatrix")
def ldmatrix(d: Decoder) -> Together:
    """Rows of 16 bytes, whose addresses the first lanes supply."""
    _sync_aligned(d)
    space, number, transposed = _space(d), _NUMBERS.get(d.take(*_NUMBERS) or "", 0), d.take("trans") is not None
    shape, type = d.take("m8n8", "m16n16", "m8n16"), d.take("b16", "b8")
    packed = d.take("b6x16_p32", "b4x16_p64") if shape != "m8n8" and d.take("b8x16") else None
    d.finish()
    d.count(2)
    legal = {
        "m8n8": number > 0 and type == "b16",
        "m16n16": number in (1, 2) and transposed and (type == "b8" or packed is not None),
        "m8n16": number > 0 and not transposed and packed is not None,
    }
    if shape is None or not legal[shape]:
        d.unsupported()
    target = _chip(d) if shape != "m8n8" else None
    if target is not None:
        d.unsupported(f"ldmatrix.{shape} does not exist on {target}")
    results = d.elements(d.operands[0])
    registers = number * (2 if shape == "m16n16" else 1)
    if len(results) != registers:
        d.unsupported(f"{len(results)} registers, not {registers}")
    writers = [d.writer(r, "b32") for r in results]
    address = d.address(d.operands[1])

    def execute(lanes: Lanes) -> None:
        check_whole(lanes)
        rows = (16 if shape == "m16n16" else 8) * number
        found = _rows(lanes, space, address, rows, packed)
        if shape == "m8n8":
            matrices = found.view(_U16).reshape(-1, number, 8, 8)
            matrices = np.swapaxes(matrices, 2, 3) if transposed else matrices
            # Lane t gets row t / 4, elements 2 (t % 4) and the next, of each matrix.
            write(lanes, writers, matrices.reshape(-1, number, 32, 2).swapaxes(1, 2))
        elif shape == "m16n16":
            matrices = found.reshape(-1, number, 16, 16).swapaxes(2, 3)
            # Lane t gets four neighbours of row t / 4, and of the row 8 below.
            write(lanes, writers, matrices.reshape(-1, number, 2, 32, 4).transpose(0, 3, 1, 2, 4))
        else:
            write(lanes, writers, found.reshape(-1, number, 32, 4).swapaxes(1, 2))

    return Together(execute, "warp")


def _chip(d: Decoder) -> str | None:
    """The target's name where it lacks the 8-bit forms, which are sm_100a's."""
    target = d.program.module.target
    return target if target.startswith(("sm_90", "sm_8", "sm_7")) else None


def _rows(lanes: Lanes, space: str, address: Reader, rows: int, packed: str | None) -> NDArray[np.uint8]:
    """The rows that the first lanes point at: (rows, 16) bytes. Packed elements of 4 or 6 bits become bytes, padding is left out
    (PTX 9.7.14.5.15)."""
    suppliers = _suppliers(lanes, rows)
    found = load(suppliers, space, address(suppliers), _U8, 16)
    if packed is None:
        return found
    bits = 4 if packed.startswith("b4") else 6
    streams = np.unpackbits(found[:, : 2 * bits], axis=1, bitorder="little").reshape(len(found), 16, bits)
    weights = (1 << np.arange(bits)).astype(np.uint8)
    return (streams * weights).sum(axis=2, dtype=np.uint8)


@instruction("stmatrix")
def stmatrix(d: Decoder) -> Together:
    _sync_aligned(d)
    space, number, transposed = _space(d), _NUMBERS.get(d.take(*_NUMBERS) or "", 0), d.take("trans") is not None
    shape, type = d.take("m8n8", "m16n8"), d.take("b16", "b8")
    d.finish()
    d.count(2)
    if not number or (shape, type) not in (("m8n8", "b16"), ("m16n8", "b8")) or (shape == "m16n8" and not transposed):
        d.unsupported()
    if shape == "m16n8" and (target := _chip(d)) is not None:
        d.unsupported(f"stmatrix.m16n8 does not exist on {target}")
    address = d.address(d.operands[0])
    elements = d.elements(d.operands[1])
    if len(elements) != number:
        d.unsupported(f"{len(elements)} registers, not {number}")
    readers = [d.reader(r, "b32") for r in elements]

    def execute(lanes: Lanes) -> None:
        check_whole(lanes)
        suppliers = _suppliers(lanes, 8 * number)
        if shape == "m8n8":
            held = read(lanes, readers, _U16).reshape(-1, 32, number, 2)
            matrices = held.swapaxes(1, 2).reshape(-1, number, 8, 8)
            matrices = np.swapaxes(matrices, 2, 3) if transposed else matrices
            rows = np.ascontiguousarray(matrices).reshape(-1, 8)
        else:
            # A 16x8 matrix, of which memory holds the columns: lane t has rows 4 (t % 4) to +3 of column t / 4.
            held = read(lanes, readers, _U8).reshape(-1, 32, number, 4)
            rows = np.ascontiguousarray(held.swapaxes(1, 2)).reshape(-1, 16)
        store(suppliers, space, address(suppliers), rows)

    return Together(execute, "warp")


@instruction("movmatrix")
def movmatrix(d: Decoder) -> Together:
    """The transpose of an 8x8 matrix of 16-bit elements across the registers of a warp."""
    _sync_aligned(d)
    if d.take("m8n8") is None or d.take("trans") is None or d.take("b16") is None:
        d.unsupported()
    d.finish()
    d.count(2)
    writer, reader = d.writer(d.operands[0], "b32"), d.reader(d.operands[1], "b32")

    def execute(lanes: Lanes) -> None:
        check_whole(lanes)
        matrices = read(lanes, [reader], _U16).reshape(-1, 8, 8)
        write(lanes, [writer], matrices.swapaxes(1, 2).reshape(-1, 32, 2))

    return Together(execute, "warp")
