"""Asynchronous stores and reductions of single values, and `st.bulk` (PTX 9.7.9.12, 9.7.9.13, 9.7.13.7).

Those to shared memory of the cluster tell an mbarrier beside their target how many bytes have come. Those to global memory tell
nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from tilec.backend.emulator.execution.decode import Decoder, Reader, instruction
from tilec.backend.emulator.execution.engines import AsyncWork
from tilec.backend.emulator.execution.lanes import Execute, Lanes
from tilec.backend.emulator.faults import FaultKind
from tilec.backend.emulator.instructions.fences import publish
from tilec.backend.emulator.instructions.load_store import SCALARS, vector_elements
from tilec.backend.emulator.memory.accesses import Access, check_writable, resolve, subset
from tilec.backend.emulator.memory.address_space import GlobalSegment
from tilec.backend.emulator.memory.shared import SharedMemory
from tilec.backend.emulator.numbers import combine
from tilec.backend.emulator.numbers.combine import ELEMENTS, Combine
from tilec.backend.emulator.numbers.types import BITS, Values, bytes_of
from tilec.backend.emulator.ptx.syntax import Integer
from tilec.backend.emulator.synchronisation import mbarrier

_REDUCTIONS = {
    "inc": ("u32",),
    "dec": ("u32",),
    "min": ("u32", "s32"),
    "max": ("u32", "s32"),
    "and": ("b32",),
    "or": ("b32",),
    "xor": ("b32",),
    "add": ("u32", "s32", "u64", "s64"),
}
_Apply = Callable[[Access, NDArray[Any]], None]
"""Does to memory what the instruction says, for lanes of one segment, with their values, shape (lanes, elements)."""


@instruction("st.async")
def st_async(d: Decoder) -> Execute:
    if _is_global(d):
        d.take("global")
        type = d.take_type()
        d.finish()
        d.count(2)
        if type not in SCALARS or type == "b128":
            d.unsupported(f"no asynchronous store of .{type}")
        return _to_global(d, d.reader(d.operands[1], type), BITS[bytes_of(type) * 8], _store)
    if d.take("weak") is None:
        d.take("cluster")
    space = _take_completion(d, required=True)
    vector = d.take("v2", "v4")
    type = d.take_type()
    d.finish()
    d.count(3)
    if type not in SCALARS or bytes_of(type) not in (4, 8):
        d.unsupported(f"no asynchronous store of .{type} to shared memory")
    count = 1 if vector is None else int(vector[1:])
    readers = [d.reader(e, type) for e in vector_elements(d, d.operands[1], count)]
    return _to_shared(d, space, readers, BITS[bytes_of(type) * 8], _store, reads=False)


@instruction("red.async")
def red_async(d: Decoder) -> Execute:
    if _is_global(d):
        d.take("global")
        if d.take("add") is None:
            d.unsupported("only .add goes to global memory")
        type = d.take_type()
        d.finish()
        d.count(2)
        if type not in ("u32", "s32", "u64", "s64"):
            d.unsupported(f"no asynchronous .add of .{type}")
        operation = combine.find("add", type)
        assert operation is not None
        return _to_global(d, d.reader(d.operands[1], type), ELEMENTS[type].dtype, _reduce(operation))
    if d.take("relaxed") is None or d.take("cluster") is None:
        d.unsupported("a reduction in shared memory is .relaxed.cluster")
    space = _take_completion(d, required=False)
    op = d.take(*_REDUCTIONS)
    type = d.take_type()
    d.finish()
    d.count(3)
    operation = None if op is None or type not in _REDUCTIONS[op] else combine.find(op, type)
    if operation is None:
        d.unsupported(f"no asynchronous .{op} of .{type}")
    return _to_shared(d, space, [d.reader(d.operands[1], type)], ELEMENTS[type].dtype, _reduce(operation), reads=True)


def _is_global(d: Decoder) -> bool:
    """Consume what the forms for global memory begin with, `{.mmio}.release.scope`; False for the others."""
    mmio = d.take("mmio")
    if d.take("release") is None:
        if mmio is not None:
            d.unsupported(".mmio goes with .release")
        return False
    if d.take("cluster", "gpu", "sys") is None:
        d.unsupported("a release without a scope")
    return True


def _take_completion(d: Decoder, *, required: bool) -> str:
    """Consume the mechanism and the space; returns the latter, or "generic"."""
    if d.take("mbarrier::complete_tx::bytes") is None and required:
        d.unsupported("completion is told by .mbarrier::complete_tx::bytes")
    return d.take("shared::cluster") or "generic"


def _store(access: Access, values: NDArray[Any]) -> None:
    segment, offsets, _ = access
    segment.rows(values.dtype, values.shape[1])[offsets // (values.itemsize * values.shape[1])] = values


def _reduce(operation: Combine) -> _Apply:
    def apply(access: Access, values: NDArray[Any]) -> None:
        segment, offsets, _ = access
        memory = segment.view(values.dtype)
        for place, value in zip(offsets // values.itemsize, values[:, 0], strict=True):
            memory[place : place + 1] = operation(memory[place : place + 1], value[None])

    return apply


def _to_global(d: Decoder, read: Reader, dtype: np.dtype[Any], apply: _Apply) -> Execute:
    address = d.address(d.operands[0])

    def execute(lanes: Lanes) -> None:
        publish(lanes)
        values = _gather(lanes, [read], dtype)
        for access in resolve(lanes, "global", np.broadcast_to(address(lanes), (lanes.count,)), dtype.itemsize):
            part, written = _part(lanes, access, values)
            if not isinstance(access.segment, GlobalSegment):
                _refuse(part, "global memory", access)
            check_writable(part, access.segment, access.offsets, dtype.itemsize)
            access.segment.check_store(part, access.offsets, dtype.itemsize)
            _submit(part, lambda work, a=access, w=written: apply(a, w))

    return execute


def _to_shared(
    d: Decoder, space: str, readers: list[Reader], dtype: np.dtype[Any], apply: _Apply, *, reads: bool
) -> Execute:
    address = d.address(d.operands[0])
    barrier = d.shared_address(d.operands[2], None if space == "generic" else space)
    width = dtype.itemsize * len(readers)

    def execute(lanes: Lanes) -> None:
        values = _gather(lanes, readers, dtype)
        barriers = np.broadcast_to(barrier(lanes), (lanes.count,))
        for access in resolve(lanes, space, np.broadcast_to(address(lanes), (lanes.count,)), width):
            part, written = _part(lanes, access, values)
            shared = access.segment
            if not isinstance(shared, SharedMemory):
                _refuse(part, "shared memory of the cluster", access)
            signalled = barriers if access.positions is None else barriers[access.positions]
            _check_places(part, shared.rank, signalled, remote=reads)
            _start(part, shared, access, written, signalled)

    def _start(
        lanes: Lanes, shared: SharedMemory, access: Access, values: NDArray[Any], barriers: NDArray[np.uint64]
    ) -> None:
        owner = lanes.cta.cluster.ctas[shared.rank]

        def run(work: AsyncWork) -> None:
            apply(access, values)
            if not reads:
                shared.end_write(work)
            for place, count in zip(*np.unique(barriers & np.uint64(0xFFFFFF), return_counts=True), strict=True):
                mbarrier.find(owner, int(place), work).complete_tx(int(count) * width)

        if reads:
            shared.check_load(lanes, access.offsets, width)
            _submit(lanes, run)
            return
        _submit(lanes, run, lambda work: shared.begin_write(work, (access.offsets // width).astype(np.intp), width))

    return execute


def _gather(lanes: Lanes, readers: list[Reader], dtype: np.dtype[Any]) -> NDArray[Any]:
    values = np.empty((lanes.count, len(readers)), dtype)
    for at, read in enumerate(readers):
        values[:, at] = read(lanes).view(dtype)
    return values


def _part(lanes: Lanes, access: Access, values: NDArray[Any]) -> tuple[Lanes, NDArray[Any]]:
    positions = access.positions
    return (lanes, values) if positions is None else (subset(lanes, positions), values[positions])


def _refuse(lanes: Lanes, wanted: str, access: Access) -> NoReturn:
    lanes.fault(
        FaultKind.OUT_OF_BOUNDS, f"{lanes.instruction.opcode} at an address in {access.segment.name}, not in {wanted}"
    )


def _check_places(lanes: Lanes, rank: int, barriers: Values, *, remote: bool) -> None:
    """The mbarrier must be in the CTA of the target; that is another CTA for a reduction, and there is another one at all."""
    opcode = lanes.instruction.opcode
    if len(lanes.cta.cluster.ctas) == 1:
        lanes.fault(FaultKind.ILLEGAL, f"{opcode} in a cluster of one CTA", hint="use st.shared or red.shared there")
    if remote and rank == lanes.cta.rank:
        lanes.fault(FaultKind.ILLEGAL, f"{opcode} to the shared memory of the CTA that executes it (rank {rank})")
    ranks = barriers >> np.uint64(24) & np.uint64(0xFF)
    if (ranks != rank).any():
        lane = int(np.flatnonzero(ranks != rank)[0])
        lanes.fault(
            FaultKind.ILLEGAL,
            f"{opcode} to the CTA of rank {rank} with an mbarrier in that of rank {int(ranks[lane])}; both must be in one",
            lane,
        )


def _submit(lanes: Lanes, run: Callable[[AsyncWork], None], begin: Callable[[AsyncWork], None] | None = None) -> None:
    def steps() -> Generator[None]:
        yield
        run(work)

    work = AsyncWork(".".join(lanes.instruction.parts[:2]), lanes.cta, lanes.place(), steps())
    if begin is not None:
        begin(work)
    lanes.machine.engines.submit(work)


@instruction("st.bulk")
def st_bulk(d: Decoder) -> Execute:
    """Zeros, `size` bytes of them, a multiple of 8."""
    d.take("weak")
    space = d.take("shared::cta", "shared")
    d.finish()
    d.count(3)
    value = d.operands[2]
    if not isinstance(value, Integer) or value.value != 0:
        d.unsupported("the value is 0")
    address, size = d.shared_address(d.operands[0], space), d.reader(d.operands[1], "u64")

    def execute(lanes: Lanes) -> None:
        addresses = np.broadcast_to(address(lanes), (lanes.count,))
        sizes = np.broadcast_to(size(lanes), (lanes.count,))
        for lane in range(lanes.count):
            _fill(lanes, lane, addresses[lane], int(sizes[lane]))
        lanes.machine.touch()

    return execute


_MOST = 1 << 24


def _fill(lanes: Lanes, lane: int, address: np.uint64, size: int) -> None:
    if size % 8 or size > _MOST:
        lanes.fault(FaultKind.ILLEGAL, f"st.bulk of {size} bytes; the size is a multiple of 8 up to {_MOST}", lane)
    if size == 0:
        return
    one = subset(lanes, np.array([lane]))
    last = np.array([address + np.uint64(size - 8)])
    resolve(one, "shared::cta", np.array([address]), 8)
    [access] = resolve(one, "shared::cta", last, 8)
    offsets = np.arange(int(access.offsets[0]) - size + 8, int(access.offsets[0]) + 8, 8, dtype=np.int64)
    writer = subset(lanes, np.full(len(offsets), lane))
    access.segment.check_store(writer, offsets, 8)
    access.segment.data[offsets[0] : offsets[0] + size] = 0
