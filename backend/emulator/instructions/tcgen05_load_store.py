"""`tcgen05.ld`, `tcgen05.st` and `tcgen05.wait` (PTX 9.7.16.8): a warp's registers and its 32 lanes of tensor memory.

Data moves at once. Until the wait that covers it an access counts as under way, so that the tensor core must not touch its cells;
a load also completes when one of its registers is used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilec.backend.emulator.execution.decode import Decoder, Reader, Together
from tilec.backend.emulator.execution.lanes import Lanes
from tilec.backend.emulator.faults import FaultKind
from tilec.backend.emulator.ptx.syntax import Integer, Operand, Register
from tilec.backend.emulator.tcgen05.decoding import each_warp, shared_value, take_aligned, tcgen05
from tilec.backend.emulator.tcgen05.layouts import MOST_REPEATS, REGISTERS_OF_ONE, Fragment, fragment
from tilec.backend.emulator.tcgen05.loaded_registers import LoadedRegisters
from tilec.backend.emulator.tcgen05.region import Region
from tilec.backend.emulator.tcgen05.tensor_memory import Access, Engine, TensorMemory


@dataclass(frozen=True)
class _Form:
    """A load or store as written. `registers` are the elements of its vector operand."""

    name: str
    fragment: Fragment
    address: Reader
    registers: tuple[Operand, ...]


def _decode(d: Decoder, packing: str, *, stores: bool) -> _Form:
    take_aligned(d)
    shape = d.take(*REGISTERS_OF_ONE)
    if shape is None:
        d.unsupported("no shape that the emulator knows")
    repeat = d.take(*(f"x{1 << n}" for n in range(8)))
    if repeat is None or (repeats := int(repeat[1:])) > MOST_REPEATS[shape]:
        d.unsupported(f"a shape of .{shape} is repeated .x1 to .x{MOST_REPEATS[shape]}")
    packed = d.take(packing) is not None
    if d.take("b32") is None:
        d.unsupported(".b32 is missing")
    d.finish()
    d.count(3 if shape == "16x32bx2" else 2)
    split = 0
    operands = list(d.operands)
    if shape == "16x32bx2":
        half = operands.pop(1 if stores else 2)
        if not isinstance(half, Integer):
            d.unsupported("an offset of the second half that is no constant")
        split = half.value
    address, vector = operands if stores else reversed(operands)
    registers = d.elements(vector)
    if len(registers) != (needed := REGISTERS_OF_ONE[shape] * repeats):
        d.unsupported(f"{len(registers)} registers, not {needed}")
    name = "tcgen05.st" if stores else "tcgen05.ld"
    return _Form(name, fragment(shape, repeats, packed, split), d.address(address), registers)


def _place(form: _Form, lanes: Lanes, warp: int, positions: NDArray[np.intp]) -> tuple[int, int, Region]:
    """Lane and column of the address, and the cells; faults for lanes that are another warp's (9.7.16.8.1)."""
    address = shared_value(lanes, form.address, positions, "the address in tensor memory")
    lane, column = address >> 16, address & 0xFFFF
    lowest = 32 * (warp % 4)
    height = form.fragment.lane_set.bit_length()
    if lane % 16 or not lowest <= lane <= lowest + 32 - height:
        lanes.fault(
            FaultKind.TENSOR_MEMORY,
            f"{form.name} of warp {warp} at lanes {lane}-{lane + height - 1} of tensor memory; a warp with that number reaches lanes "
            f"{lowest}-{lowest + 31}, from a multiple of 16 on",
            int(positions[0]),
        )
    return lane, column, Region(form.fragment.lane_set << lane, form.fragment.column_set << column)


@tcgen05("tcgen05.ld")
def ld(d: Decoder) -> Together:
    if d.take("red"):
        d.unsupported("loads with a reduction are not for sm_100a")
    form = _decode(d, "pack::16b", stores=False)
    writers = [d.writer(r, "b32") for r in form.registers]
    slots = frozenset(d.slot(r) for r in form.registers if isinstance(r, Register))

    def execute(lanes: Lanes) -> None:
        memory = lanes.cta.part(TensorMemory)
        values = np.empty((len(writers), lanes.count), np.uint32)
        for warp, positions in each_warp(lanes):
            lane, column, region = _place(form, lanes, warp, positions)
            memory.check_load(region, form.name, lanes.place(int(positions[0])))
            values[:, positions] = _gather(form.fragment, memory.cells, lane, column)[:, lanes.threads[positions] & 31]
            place = lanes.place(int(positions[0]))
            memory.begin(Access(Engine.LOAD, region, False, place, warp, registers=slots))
        LoadedRegisters(memory).watch()
        for write, row in zip(writers, values, strict=True):
            write(lanes, row)

    return Together(execute, "warp")


def _gather(f: Fragment, cells: NDArray[np.uint32], lane: int, column: int) -> NDArray[np.uint32]:
    """Values by (register, thread)."""
    lanes, columns = f.lanes.T + lane, f.columns.T + column
    if not f.packed:
        return cells[lanes, columns]
    return cells[lanes, columns] & np.uint32(0xFFFF) | cells[lanes, columns + 1] << np.uint32(16)


@tcgen05("tcgen05.st")
def st(d: Decoder) -> Together:
    form = _decode(d, "unpack::16b", stores=True)
    readers = [d.reader(r, "b32") for r in form.registers]

    def execute(lanes: Lanes) -> None:
        memory = lanes.cta.part(TensorMemory)
        values = np.stack([np.broadcast_to(read(lanes), (lanes.count,)) for read in readers], axis=1)
        for warp, positions in each_warp(lanes):
            lane, column, region = _place(form, lanes, warp, positions)
            memory.check_store(region, form.name, lanes.place(int(positions[0])))
            _scatter(form.fragment, memory.cells, lane, column, lanes.threads[positions] & 31, values[positions])
            memory.begin(Access(Engine.STORE, region, True, lanes.place(int(positions[0])), warp))

    return Together(execute, "warp")


def _scatter(
    f: Fragment,
    cells: NDArray[np.uint32],
    lane: int,
    column: int,
    threads: NDArray[np.intp],
    values: NDArray[np.uint32],
) -> None:
    lanes, columns = f.lanes[threads] + lane, f.columns[threads] + column
    if f.packed:
        cells[lanes, columns] = values & np.uint32(0xFFFF)
        cells[lanes, columns + 1] = values >> np.uint32(16)
    else:
        cells[lanes, columns] = values


def _wait(engine: Engine) -> Callable[[Decoder], Together]:
    def build(d: Decoder) -> Together:
        take_aligned(d)
        d.finish()
        d.count(0)

        def execute(lanes: Lanes) -> None:
            lanes.cta.part(TensorMemory).end_of_warp(engine, {warp for warp, _ in each_warp(lanes)})

        return Together(execute, "warp")

    return build


tcgen05("tcgen05.wait::ld")(_wait(Engine.LOAD))
tcgen05("tcgen05.wait::st")(_wait(Engine.STORE))
