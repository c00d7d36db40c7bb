"""`tcgen05.cp`: shared memory to tensor memory, beside the threads (PTX 9.7.16.9). `tcgen05.shift` is not executed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from tilec.backend.emulator.execution.decode import Decoder
from tilec.backend.emulator.execution.engines import AsyncWork
from tilec.backend.emulator.execution.lanes import Execute, Lanes
from tilec.backend.emulator.faults import FaultKind
from tilec.backend.emulator.matrices.layout import chunks, decode_tcgen05, gather
from tilec.backend.emulator.tcgen05.decoding import take_group, tcgen05
from tilec.backend.emulator.tcgen05.operands import nibbles, sixes
from tilec.backend.emulator.tcgen05.pipeline import Operation, Pipeline, once, pair_of, queue_of
from tilec.backend.emulator.tcgen05.region import Region, bits
from tilec.backend.emulator.tcgen05.tensor_memory import Access, Engine, TensorMemory

_NAME = "tcgen05.cp"


@dataclass(frozen=True)
class _Shape:
    """`rows` of `size` bytes are copied; row r goes to each of the lanes `first` + `lanes[...][r]` that `copies` list."""

    rows: int
    size: int
    copies: tuple[tuple[int, ...], ...]

    @property
    def lane_set(self) -> int:
        return sum({1 << lane for copy in self.copies for lane in copy})


def _run(first: int, count: int) -> tuple[int, ...]:
    return tuple(range(first, first + count))


_SHAPES: dict[tuple[str, str | None], _Shape] = {
    ("128x256b", None): _Shape(128, 32, (_run(0, 128),)),
    ("128x128b", None): _Shape(128, 16, (_run(0, 128),)),
    ("4x256b", None): _Shape(4, 32, ((0, 32, 64, 96),)),
    ("64x128b", "warpx2::02_13"): _Shape(64, 16, (_run(0, 64), _run(64, 64))),
    ("64x128b", "warpx2::01_23"): _Shape(64, 16, (_run(0, 32) + _run(64, 32), _run(32, 32) + _run(96, 32))),
    ("32x128b", "warpx4"): _Shape(32, 16, tuple(_run(32 * w, 32) for w in range(4))),
}


@tcgen05("tcgen05.shift")
def shift(d: Decoder) -> NoReturn:
    d.unsupported("the emulator does not shift rows of tensor memory")


@tcgen05("tcgen05.cp")
def cp(d: Decoder) -> Execute:
    group = take_group(d)
    name = d.take(*{shape for shape, _ in _SHAPES})
    shape = _SHAPES.get((name or "", d.take(*{m for _, m in _SHAPES if m})))
    if shape is None:
        d.unsupported("no shape with that multicast")
    source = d.take("b6x16_p32", "b4x16_p64")
    if (d.take("b8x16") is None) != (source is None):
        d.unsupported("a conversion names both .b8x16 and its source")
    d.finish()
    d.count(2)
    address, descriptor = d.address(d.operands[0]), d.reader(d.operands[1], "b64")

    def execute(lanes: Lanes) -> None:
        addresses = np.broadcast_to(address(lanes), (lanes.count,))
        descriptors = np.broadcast_to(descriptor(lanes), (lanes.count,))
        for lane in range(lanes.count):
            _issue(shape, source, group, lanes, lane, int(addresses[lane]), int(descriptors[lane]))

    return execute


def _issue(
    shape: _Shape, source: str | None, group: int, lanes: Lanes, lane: int, address: int, descriptor: int
) -> None:
    found = decode_tcgen05(descriptor)
    if isinstance(found, str):
        lanes.fault(FaultKind.DESCRIPTOR, found, lane)
    first, column = address >> 16, address & 0xFFFF
    if (shape.lane_set << first).bit_length() > 128:
        lanes.fault(
            FaultKind.TENSOR_MEMORY, f"{_NAME} to lane {first} of tensor memory on reaches over its 128 lanes", lane
        )
    place = lanes.place(lane)
    ctas = pair_of(lanes, group)
    where = chunks(found, "K", shape.rows, shape.size, 8)
    region = Region(shape.lane_set << first, bits(column, shape.size // 4))

    def copy() -> None:
        for cta in ctas:
            rows = gather(cta.shared.data, where, "K", np.dtype(np.uint8))
            words = np.ascontiguousarray(_converted(rows, source)).view(np.uint32)
            cells = cta.part(TensorMemory).cells
            for copy in shape.copies:
                cells[np.array(copy) + first, column : column + words.shape[1]] = words

    work = AsyncWork(_NAME, lanes.cta, place, once(copy), queue_of(lanes.cta, group))
    accesses: list[tuple[TensorMemory, Access]] = []
    for cta in ctas:
        memory = cta.part(TensorMemory)
        memory.check_engine_writes(region, None, _NAME, place)
        cta.shared.begin_read(work, where.ravel())
        accesses.append((memory, Access(Engine.COPY, region, True, place)))
    for memory, access in accesses:
        memory.begin(access)
    operation = Operation(work, tuple(cta.shared for cta in ctas), tuple(accesses))
    lanes.cta.part(Pipeline).add(int(lanes.threads[lane]), operation)
    lanes.machine.engines.submit(work)


def _converted(rows: NDArray[np.uint8], source: str | None) -> NDArray[np.uint8]:
    """Rows with 16 narrow codes and padding in each 16 bytes, as 16 bytes: 6 bits in the low bits, 4 bits in the middle."""
    if source is None:
        return rows
    sixteens = rows.reshape(-1, 16)
    codes = sixes(sixteens[:, :12]) if source == "b6x16_p32" else nibbles(sixteens[:, :8]) << np.uint8(2)
    return codes.reshape(rows.shape)
