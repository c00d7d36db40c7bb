"""Boxes in global memory and their rows in shared memory, against a model that goes element by element."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tensor_model import SPANS, held_at, load, store

from tilec.backend.emulator.tensor_map import TensorMap
from tilec.backend.emulator.tma.access import TensorAccess, access_of
from tilec.backend.emulator.tma.descriptor import Descriptor, decode
from tilec.backend.emulator.tma.placement import place
from tilec.backend.emulator.tma.swizzle import SWIZZLE

_ADDRESS = 1 << 40
_DTYPES = ("uint8", "uint16", "float16", "uint32", "float32", "float64", "int64")


def descriptor_of(map: TensorMap) -> Descriptor:
    found = decode(map.encode(_ADDRESS))
    assert found is not None
    return found


@dataclass
class Tile:
    """A tensor with rows padded to 16 bytes, a box of it, and where it goes. `start` is innermost first."""

    held: NDArray[Any]
    array: NDArray[Any]
    box: tuple[int, ...]
    steps: tuple[int, ...] | None
    swizzle: str
    start: tuple[int, ...]
    offset: int

    @property
    def shared_bytes(self) -> int:
        return (
            self.offset
            + int(np.prod(self.box[:-1])) * max(SPANS[self.swizzle], self.box[-1] * self.array.itemsize)
            + 1024
        )

    def access(self, *, stored: bool) -> TensorAccess:
        map = TensorMap(self.array, self.box, self.swizzle, element_strides=self.steps)
        found = access_of(descriptor_of(map), "tile", self.array.ndim, self.start, (), stored=stored)
        assert isinstance(found, TensorAccess), found
        return found


@st.composite
def tiles(draw: st.DrawFn, *, stored: bool) -> Tile:
    dtype = np.dtype(draw(st.sampled_from(_DTYPES)))
    grid = 16 // dtype.itemsize
    rank = draw(st.integers(1, 5))
    shape = (*(draw(st.integers(1, 5)) for _ in range(rank - 1)), draw(st.integers(1, 5 * grid)))
    held_shape = (*shape[:-1], -(-shape[-1] // grid) * grid + grid)
    seed = draw(st.integers(0, 1000))
    raw = np.random.default_rng(seed).integers(0, 256, int(np.prod(held_shape)) * dtype.itemsize, np.uint8)
    held = raw.view(dtype).reshape(held_shape)
    swizzle = draw(st.sampled_from(list(SPANS)))
    widest = (SPANS[swizzle] or 64) // 16
    box = (*(draw(st.integers(1, 4)) for _ in range(rank - 1)), draw(st.integers(1, widest)) * grid)
    steps = (*(draw(st.integers(1, 3)) for _ in range(rank - 1)), 5) if draw(st.booleans()) else None
    low = 0 if stored else -4
    start = (draw(st.integers(low, 6)) * grid, *(draw(st.integers(low, 6)) for _ in range(rank - 1)))
    return Tile(held, held[..., : shape[-1]], box, steps, swizzle, start, draw(st.integers(0, 9)) * 128)


@settings(deadline=None, max_examples=150)
@given(tiles(stored=False))
def test_a_load_brings_what_the_model_brings(tile: Tile) -> None:
    expected = np.full(tile.shared_bytes, 0xEE, np.uint8)
    reported = load(tile.array, tile.box, tile.start, tile.swizzle, tile.offset, expected, tile.steps)
    access = tile.access(stored=False)
    data = access.filled()
    memory = tile.held.reshape(-1).view(np.uint8)
    for box in access.boxes:
        if not box.empty:
            access.within(data, box)[...] = box.view(memory, box.address - _ADDRESS)
    found = np.full(-(-tile.shared_bytes // 16) * 16, 0xEE, np.uint8)
    place(tile.offset, access.rows, access.row_bytes, SWIZZLE[tile.swizzle]).write(found, access.unpacked(data))
    assert found[: tile.shared_bytes].tobytes() == expected.tobytes()
    assert access.transferred == reported


@settings(deadline=None, max_examples=150)
@given(tiles(stored=True))
def test_a_store_writes_what_the_model_writes(tile: Tile) -> None:
    size = -(-tile.shared_bytes // 16) * 16
    shared = np.random.default_rng(1).integers(0, 256, size, np.uint8)
    expected = tile.held.reshape(-1).view(np.uint8).copy()
    store(
        expected,
        tile.array.shape,
        tile.array.strides,
        tile.box,
        tile.start,
        tile.swizzle,
        tile.offset,
        shared,
        tile.steps,
    )
    access = tile.access(stored=True)
    data = access.packed(place(tile.offset, access.rows, access.row_bytes, SWIZZLE[tile.swizzle]).read(shared))
    memory = tile.held.reshape(-1).view(np.uint8).copy()
    for box in access.boxes:
        if not box.empty:
            box.view(memory, box.address - _ADDRESS)[...] = access.within(data, box)
    assert memory.tobytes() == expected.tobytes()


@pytest.mark.parametrize("swizzle", list(SPANS))
@pytest.mark.parametrize("offset", [0, 128, 640, 1024, 3968])
def test_units_lie_where_the_tables_of_the_isa_put_them(swizzle: str, offset: int) -> None:
    width = SPANS[swizzle] or 128
    data = np.arange(20 * width, dtype=np.uint32).astype(np.uint8)
    shared = np.zeros(8192, np.uint8)
    place(offset, 20, width, SWIZZLE[swizzle]).write(shared, data)
    assert [shared[held_at(offset + i, swizzle)] for i in range(len(data))] == data.tolist()
    assert place(offset, 20, width, SWIZZLE[swizzle]).read(shared).reshape(-1).tolist() == data.tolist()


def test_row_5_column_40_of_a_bf16_tile_with_128_bytes_a_row() -> None:
    units = place(0, 8, 128, SWIZZLE["128B"]).units
    assert units[5 * 8 + 40 * 2 // 16] * 16 == 640


@pytest.mark.parametrize(
    ("dtype", "column", "allowed"),
    [
        ("uint8", 3, False),
        ("uint8", 8, False),
        ("uint8", 16, True),
        ("uint16", 4, False),
        ("uint16", 5, False),
        ("uint16", -3, False),
        ("uint16", -8, True),
        ("uint16", 8, True),
        ("uint32", 1, False),
        ("uint32", 4, True),
    ],
)
def test_inner_start_coordinates_must_be_multiples_of_16_bytes(dtype: str, column: int, allowed: bool) -> None:
    descriptor = descriptor_of(TensorMap(np.zeros((8, 64), dtype), (4, 16), "none"))
    found = access_of(descriptor, "tile", 2, (column, -3), (), stored=False)
    assert isinstance(found, TensorAccess) == allowed


@pytest.mark.parametrize("pitch", [(64, 16), (0, 16), (32, 256), (256, 64), (64, 64), (64, 128), (128, 64)])
def test_boxes_know_whether_they_overlap(pitch: tuple[int, int]) -> None:
    map = TensorMap(np.zeros((4, 4, 16), np.float32), (2, 2, 16), "none", strides=pitch)
    access = access_of(descriptor_of(map), "tile", 3, (0, 0, 0), (), stored=True)
    assert isinstance(access, TensorAccess)
    places = [a * pitch[0] + b * pitch[1] + c for a in range(2) for b in range(2) for c in range(64)]
    assert access.boxes[0].overlaps == (len(set(places)) < len(places))


@given(st.integers(-300, 300), st.integers(-300, 300))
def test_a_box_outside_of_the_tensor_is_empty(column: int, row: int) -> None:
    descriptor = descriptor_of(TensorMap(np.zeros((9, 16), np.uint8), (4, 16), "none"))
    access = access_of(descriptor, "tile", 2, (column * 16, row), (), stored=False)
    assert isinstance(access, TensorAccess)
    assert access.boxes[0].empty == (column != 0 or not -4 < row < 9)
    assert access.transferred == 64
