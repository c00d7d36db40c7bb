"""tcgen05.ld and tcgen05.st: all shapes, packing, and the order of both with waits."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from tilec.backend.emulator.launch import emulate
from tilec.backend.emulator.tcgen05.layouts import fragment

REGISTERS = {"32x32b": 1, "16x64b": 1, "16x32bx2": 1, "16x128b": 2, "16x256b": 4}
SPLIT = 37
"""Columns from the first to the second half of .16x32bx2."""
MOST = {"32x32b": 128, "16x64b": 128, "16x32bx2": 128, "16x128b": 64, "16x256b": 32}


def cell(shape: str, thread: int, register: int, split: int = 0) -> tuple[int, int]:
    """Lane and column, relative to the address, of a thread's register (PTX 9.7.16.2.3.1, as tables of CUTLASS have it)."""
    match shape:
        case "32x32b":
            return thread, register
        case "16x64b":
            return thread // 4 + 8 * (thread % 2), thread // 2 % 2 + 2 * register
        case "16x128b":
            return thread // 4 + 8 * (register % 2), thread % 4 + 4 * (register // 2)
        case "16x256b":
            return thread // 4 + 8 * (register // 2 % 2), register % 2 + 2 * (thread % 4) + 8 * (register // 4)
        case _:
            return thread % 16, register + (split if thread >= 16 else 0)


def kernel(
    store: str, load: str, count: int, store_lane: int, load_lane: int, *, packs: tuple[str, str] = ("", "")
) -> str:
    """Stores x128 rows of `image` first, then `count` registers of each thread by `store`; then loads by `load`."""
    names = [f"v{i}" for i in range(128)]
    vector = "{" + ", ".join(names) + "}"
    few = "{" + ", ".join(names[:count]) + "}"
    split = str(SPLIT) if "x32bx2" in store else ""
    load_split = f", {split}" if "x32bx2" in load else ""
    store_split = f"{split}, " if "x32bx2" in store else ""
    nl = "\n "
    return f"""
.version 8.6
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 image_, .param .u64 in_, .param .u64 loaded_, .param .u64 after_)
.reqntid 128
{{
 .reg .pred p;
 .reg .b32 tid, warp, lane, where, {", ".join(names)};
 .reg .b64 image, in, loaded, after, offset;
 .shared .align 4 .b32 slot;
 ld.param.u64 image, [image_];
 ld.param.u64 in, [in_];
 ld.param.u64 loaded, [loaded_];
 ld.param.u64 after, [after_];
 mov.u32 tid, %tid.x;
 shr.u32 warp, tid, 5;
 shl.b32 lane, warp, 21;
 setp.ne.u32 p, warp, 0;
 @p bra ALLOCATED;
 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 512;
ALLOCATED:
 mul.wide.u32 offset, tid, 512;
 add.u64 image, image, offset;
 add.u64 after, after, offset;
 mul.wide.u32 offset, tid, {4 * count};
 add.u64 in, in, offset;
 add.u64 loaded, loaded, offset;
 bar.sync 0;
 {nl.join(f"ld.global.b32 {name}, [image+{4 * i}];" for i, name in enumerate(names))}
 tcgen05.st.sync.aligned.32x32b.x128.b32 [lane], {vector};
 tcgen05.wait::st.sync.aligned;
 {nl.join(f"ld.global.b32 {name}, [in+{4 * i}];" for i, name in enumerate(names[:count]))}
 add.u32 where, lane, {store_lane << 16 | 3};
 tcgen05.st.sync.aligned.{store}{packs[0]}.b32 [where], {store_split}{few};
 tcgen05.wait::st.sync.aligned;
 add.u32 where, lane, {load_lane << 16 | 1};
 tcgen05.ld.sync.aligned.{load}{packs[1]}.b32 {few}, [where]{load_split};
 tcgen05.wait::ld.sync.aligned;
 {nl.join(f"st.global.b32 [loaded+{4 * i}], {name};" for i, name in enumerate(names[:count]))}
 tcgen05.ld.sync.aligned.32x32b.x128.b32 {vector}, [lane];
 tcgen05.wait::ld.sync.aligned;
 {nl.join(f"st.global.b32 [after+{4 * i}], {name};" for i, name in enumerate(names))}
 bar.sync 0;
 @p bra DONE;
 tcgen05.dealloc.cta_group::1.sync.aligned.b32 0, 512;
DONE:
 ret;
}}
"""


def expected(
    image: NDArray[np.uint32], given: NDArray[np.uint32], shape: str, store_lane: int, load_lane: int, packed: bool
) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Tensor memory after the store, and what is loaded then."""
    after, loaded = image.copy(), np.zeros_like(given)
    for thread in range(128):
        base = 32 * (thread // 32)
        for register, value in enumerate(map(int, given[thread])):
            lane, column = cell(shape, thread % 32, register)
            second = SPLIT if shape == "16x32bx2" and thread % 32 >= 16 else 0
            if packed:
                row, at = base + store_lane + lane, 3 + 2 * column + second
                after[row, at], after[row, at + 1] = value & 0xFFFF, value >> 16
            else:
                after[base + store_lane + lane, 3 + column + second] = value
    for thread in range(128):
        base = 32 * (thread // 32)
        for register in range(given.shape[1]):
            lane, column = cell(shape, thread % 32, register)
            second = SPLIT if shape == "16x32bx2" and thread % 32 >= 16 else 0
            row = after[base + load_lane + lane]
            if packed:
                at = 1 + 2 * column + second
                loaded[thread, register] = (int(row[at]) & 0xFFFF) | (int(row[at + 1]) & 0xFFFF) << 16
            else:
                loaded[thread, register] = row[1 + column + second]
    return after, loaded


CASES = [
    (shape, repeats, packed)
    for shape, registers in REGISTERS.items()
    for repeats in (1, 2, 4, 8)
    for packed in (False, True)
    if registers * repeats * (1 + packed) < 64
]
"""What fits into the columns that the kernel fills."""


@pytest.mark.parametrize(("shape", "repeats", "packed"), CASES)
def test_shapes(shape: str, repeats: int, packed: bool) -> None:
    """What a warp stores changes exactly its cells, and what it loads are its cells, at lanes and columns of its own choice."""
    rng = np.random.default_rng(8)
    count = REGISTERS[shape] * repeats
    store_lane, load_lane = (0, 0) if shape == "32x32b" else (16, 16 if repeats == 2 else 0)
    image = rng.integers(0, 2**32, (128, 128), dtype=np.uint32)
    given = rng.integers(0, 2**32, (128, count), dtype=np.uint32)
    loaded, after = np.zeros_like(given), np.zeros_like(image)
    packs = (".unpack::16b", ".pack::16b") if packed else ("", "")
    spelling = f"{shape}.x{repeats}"
    emulate(
        kernel(spelling, spelling, count, store_lane, load_lane, packs=packs),
        None,
        1,
        128,
        [image, given, loaded, after],
    )
    wanted_after, wanted_loaded = expected(image, given, shape, store_lane, load_lane, packed)
    np.testing.assert_array_equal(after, wanted_after)
    np.testing.assert_array_equal(loaded, wanted_loaded)


@pytest.mark.parametrize("shape", list(REGISTERS))
def test_the_largest_repeats(shape: str) -> None:
    """Each cell of a shape is some thread's, once."""
    repeats = MOST[shape]
    found = fragment(shape, repeats, packed=False, split=200)
    assert found.lanes.shape == (32, REGISTERS[shape] * repeats)
    cells = {
        (int(found.lanes[thread, register]), int(found.columns[thread, register]))
        for thread in range(32)
        for register in range(found.lanes.shape[1])
    }
    assert len(cells) == found.lanes.size
    assert cells == {
        cell(shape, thread, register, 200) for thread in range(32) for register in range(found.lanes.shape[1])
    }
