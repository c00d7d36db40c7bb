"""`wgmma.mma_async`, `wgmma.fence`, `wgmma.commit_group` and `wgmma.wait_group` (PTX 9.7.15)."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilec.backend.emulator.decode import Decoder, Reader, Together, instruction
from tilec.backend.emulator.engines import AsyncWork
from tilec.backend.emulator.faults import FaultKind
from tilec.backend.emulator.lanes import Lanes, Part, Wait
from tilec.backend.emulator.matrix_layout import Descriptor, Major, chunks, decode_wgmma, gather
from tilec.backend.emulator.matrix_values import ACCUMULATORS, RAW, accumulate, products, values
from tilec.backend.emulator.ptx.syntax import Integer, Operand, Register, Vector
from tilec.backend.emulator.wgmma.shapes import THREADS, M, Shape, accumulator_place, operand_place, parse
from tilec.backend.emulator.wgmma.state import Operation, WarpGroups


@instruction("wgmma.fence")
def fence(d: Decoder) -> Together:
    """Orders accesses to registers before a wgmma: here they are in order as it is."""
    _aligned(d)
    d.finish()
    d.count(0)
    return Together(lambda lanes: None, "warp")


def _aligned(d: Decoder) -> None:
    if d.take("sync") is None or d.take("aligned") is None:
        d.unsupported(".sync.aligned is missing")


@instruction("wgmma.commit_group")
def commit_group(d: Decoder) -> Together:
    _aligned(d)
    d.finish()
    d.count(0)

    def execute(lanes: Lanes) -> None:
        state = lanes.cta.part(WarpGroups)
        for warp in lanes.warps:
            state.commit(int(warp))

    return Together(execute, "warp")


@instruction("wgmma.wait_group")
def wait_group(d: Decoder) -> Together:
    _aligned(d)
    d.finish()
    d.count(1)
    operand = d.operands[0]
    if not isinstance(operand, Integer):
        d.unsupported("a number of groups that is no constant")
    allowed = operand.value

    def execute(lanes: Lanes) -> list[Part]:
        state = lanes.cta.part(WarpGroups)

        def wait(warp: int) -> Wait:
            return Wait(
                ready=lambda: not state.pending(warp, allowed),
                describe=lambda: f"all but {allowed} of {len(state.groups[warp])} wgmma groups",
                then=lambda: state.retire(warp, allowed),
            )

        return [Part(np.flatnonzero(lanes.threads >> 5 == warp), wait(int(warp))) for warp in lanes.warps]

    return Together(execute, "warp")


@dataclass(frozen=True)
class _Form:
    """One wgmma.mma_async as written: A comes by descriptor, `a`, or from four registers of each thread."""

    shape: Shape
    name: str
    saturate: bool
    accumulators: tuple[int, ...]
    a: Reader | None
    a_registers: tuple[Reader, ...] | None
    b: Reader
    accumulate: Reader
    negate: tuple[bool, bool]
    major: tuple[Major, Major]
    operation: str | None
    opcode: str


@instruction("wgmma.mma_async")
def mma_async(d: Decoder) -> Together:
    form = _decode(d)
    inputs = d.operands[1]
    in_registers = (
        frozenset(d.slot(r) for r in d.elements(inputs) if isinstance(r, Register))
        if isinstance(inputs, Vector)
        else frozenset[int]()
    )
    owned = frozenset(form.accumulators)

    def execute(lanes: Lanes) -> None:
        cta = lanes.cta
        for first in np.unique(lanes.threads // THREADS) * THREADS:
            last = int(first) + THREADS
            part = Lanes(cta, slice(int(first), last), THREADS, lanes.instruction)
            if last > cta.threads or not cta.alive[int(first) : last].all():
                lanes.fault(FaultKind.DIVERGENT, "wgmma needs the four warps of a warpgroup; the CTA has fewer")
            work = _issue(form, part, int(first) // THREADS)
            cta.part(WarpGroups).issue(
                range(int(first) // 32, int(first) // 32 + 4), Operation(work, owned, in_registers, form.name)
            )
            lanes.machine.statistics.mmas[form.opcode] += 1

    return Together(execute, "warpgroup")


def _decode(d: Decoder) -> _Form:
    opcode = d.instruction.opcode
    _aligned(d)
    saturate = d.take("satfinite") is not None
    operation = d.take("and", "xor") if d.take("popc") else None
    if len(d.modifiers) != 4:
        d.unsupported("wgmma.mma_async takes a shape and three types")
    name = d.modifiers[0]
    shape = parse(*d.modifiers)
    if isinstance(shape, str):
        d.unsupported(shape)
    if (shape.a == "b1") != (operation is not None) or (saturate and shape.a not in ("s8", "u8")):
        d.unsupported()
    operands = list(d.operands)
    accumulators, a, b = operands[:3]
    rest = operands[3:]
    from_registers = isinstance(a, Vector)
    scales = [] if shape.integer else ["scale-a", "scale-b"]
    transposes = [] if not shape.transposable else (["trans-b"] if from_registers else ["trans-a", "trans-b"])
    if len(rest) != 1 + len(scales) + len(transposes):
        d.unsupported(f"{len(d.operands)} operands, not {4 + len(scales) + len(transposes)}")
    negate = [_immediate(d, o, {1: False, -1: True}, "1 or -1") for o in rest[1 : 1 + len(scales)]] or [False, False]
    flags = [_immediate(d, o, {0: False, 1: True}, "0 or 1") for o in rest[1 + len(scales) :]]
    major: list[Major] = ["MN" if flag else "K" for flag in flags]
    slots = [d.slot(r) for r in d.elements(accumulators) if isinstance(r, Register)]
    if len(slots) != shape.accumulators:
        d.unsupported(f"{len(slots)} accumulator registers, not {shape.accumulators}")
    if from_registers and len(d.elements(a)) != 4:
        d.unsupported(f"{len(d.elements(a))} registers of A, not 4")
    return _Form(
        shape,
        name,
        saturate,
        tuple(slots),
        None if from_registers else d.reader(a, "b64"),
        tuple(d.reader(r, "b32") for r in d.elements(a)) if from_registers else None,
        d.reader(b, "b64"),
        d.reader(rest[0], "pred"),
        (negate[0], negate[1]),
        (major[0] if len(major) == 2 else "K", major[-1] if major else "K"),
        operation,
        opcode,
    )


def _immediate(d: Decoder, operand: Operand, meanings: dict[int, bool], names: str) -> bool:
    if not isinstance(operand, Integer) or operand.value not in meanings:
        d.unsupported(f"an operand that must be {names}")
    return meanings[operand.value]


def _issue(form: _Form, lanes: Lanes, group: int) -> AsyncWork:
    """Start one wgmma of the warpgroup in `lanes`: what it reads of shared memory is claimed now, registers of A are taken now."""
    cta = lanes.cta
    shape = form.shape
    accumulates = bool(_same(form.accumulate, lanes, "scale-d"))
    b_descriptor = _descriptor(form.b, lanes, "B")
    b_chunks = chunks(b_descriptor, form.major[1], shape.n, shape.k, shape.bits)
    a = None if form.a_registers is None else _from_registers(shape, lanes, form.a_registers)
    a_chunks = None
    if form.a is not None:
        a_chunks = chunks(_descriptor(form.a, lanes, "A"), form.major[0], M, shape.k, shape.bits)

    def steps() -> Generator[None]:
        data = cta.shared.data
        left = a
        if a_chunks is not None:
            left = values(shape.a, gather(data, a_chunks, form.major[0], RAW[shape.a]))
        assert left is not None
        right = values(shape.b, gather(data, b_chunks, form.major[1], RAW[shape.b]))
        cta.shared.end_read(work)
        left = -left if form.negate[0] else left
        right = -right if form.negate[1] else right
        held = _accumulators(form, lanes) if accumulates else None
        product = products(left, right, form.operation)
        _write(form, lanes, accumulate(shape.d, product, held, saturate=form.saturate))
        return
        yield

    work = AsyncWork(
        "wgmma", cta, lanes.place(0), steps(), queue=("wgmma", cta.number, group), on_done=lanes.machine.touch
    )
    cta.shared.begin_read(work, np.unique(b_chunks))
    if a_chunks is not None:
        cta.shared.begin_read(work, np.unique(a_chunks))
    lanes.machine.engines.submit(work)
    return work


def _same(read: Reader, lanes: Lanes, name: str) -> int:
    """An operand that all threads of the warpgroup must agree on."""
    found = np.broadcast_to(read(lanes), (lanes.count,))
    if (found != found[0]).any():
        lane = int(np.flatnonzero(found != found[0])[0])
        lanes.fault(FaultKind.DIVERGENT, f"{name} differs between the threads of the warpgroup", lane)
    return int(found[0])


def _descriptor(read: Reader, lanes: Lanes, name: str) -> Descriptor:
    found = decode_wgmma(_same(read, lanes, f"the descriptor of {name}"))
    if isinstance(found, str):
        lanes.fault(FaultKind.DESCRIPTOR, f"{name}: {found}")
    return found


def _from_registers(shape: Shape, lanes: Lanes, registers: tuple[Reader, ...]) -> NDArray[np.float64]:
    """A from four registers of each thread, as numbers (64, k)."""
    held = np.stack([np.broadcast_to(r(lanes), (THREADS,)) for r in registers], axis=1)
    raw = np.ascontiguousarray(held).view(RAW[shape.a]).T
    rows, columns = operand_place(shape.bits)
    a = np.empty((M, 32 // raw.dtype.itemsize), raw.dtype)
    a[rows, columns] = raw
    return values(shape.a, a)


def _accumulators(form: _Form, lanes: Lanes) -> NDArray[np.generic]:
    """D as it is in the registers of a warpgroup: (64, n)."""
    shape, cta = form.shape, lanes.cta
    raw = np.stack([cta.registers[slot][lanes.index] for slot in form.accumulators])
    rows, columns = accumulator_place(shape.n)
    d = np.empty((M, shape.n), ACCUMULATORS[shape.d])
    d[rows, columns] = _UNPACK[shape.d](raw)
    return d


def _write(form: _Form, lanes: Lanes, d: NDArray[np.generic]) -> None:
    rows, columns = accumulator_place(form.shape.n)
    raw = _PACK[form.shape.d](d[rows, columns])
    for at, slot in enumerate(form.accumulators):
        lanes.cta.registers[slot][lanes.index] = raw[at]


def _unpack_f16(raw: NDArray[np.uint32]) -> NDArray[np.float16]:
    """Two accumulators of a thread lie in one register."""
    halves = np.empty((2 * len(raw), raw.shape[1]), np.uint16)
    halves[0::2], halves[1::2] = raw & 0xFFFF, raw >> 16
    return halves.view(np.float16)


def _pack_f16(d: NDArray[np.generic]) -> NDArray[np.uint32]:
    halves = d.view(np.uint16).astype(np.uint32)
    return halves[0::2] | halves[1::2] << np.uint32(16)


_UNPACK: dict[str, Callable[[NDArray[np.uint32]], NDArray[np.generic]]] = {
    "f16": _unpack_f16,
    "f32": lambda raw: raw.view(np.float32),
    "s32": lambda raw: raw.view(np.int32),
}
_PACK: dict[str, Callable[[NDArray[np.generic]], NDArray[np.uint32]]] = {
    "f16": _pack_f16,
    "f32": lambda d: d.view(np.uint32),
    "s32": lambda d: d.view(np.uint32),
}
