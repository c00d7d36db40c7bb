"""The hand-written kernels of tests/data/kernels: how to launch each, and what it must leave behind, by NumPy alone.

Some show instructions and store no result, or start from memory that something else must have filled; those are completed here
by a few lines in their text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from foreign.cases import Array, Launch, Result, integers
from foreign.formats import E4M3, decode, to_bf16

import tilec

DATA = Path(__file__).resolve().parents[2] / "data" / "kernels"

STORE_TILE = """
  .reg .b32 i, v, from; .reg .b64 to, off;
  ld.param.u64 to, [out];  cvta.to.global.u64 to, to;
  mul.wide.u32 off, rank, 8192;  add.u64 to, to, off;
  mov.u32 i, %tid.x;  shl.b32 i, i, 2;
COPY: add.u32 from, dst, i;  ld.shared.b32 v, [from];
  cvt.u64.u32 off, i;  add.u64 off, to, off;  st.global.b32 [off], v;
  add.u32 i, i, 128;  setp.lt.u32 p, i, 8192;
  @p bra COPY;
"""
"""Stores the tile of each CTA of 03."""

STORE_ROWS = """
  .reg .b32 i; .reg .b64 off;
  ld.param.u64 h, [out];  cvta.to.global.u64 h, h;
  shl.b32 i, w, 5;  add.u32 i, i, l;  add.u32 i, i, c;  mul.wide.u32 off, i, 1024;  add.u64 h, h, off;
  mov.u32 i, 0;
ROWS:
  tcgen05.ld.sync.aligned.32x32b.x4.b32 {%x0, %x1, %x2, %x3}, [ta];
  tcgen05.wait::ld.sync.aligned;
  st.global.v4.b32 [h], {%x0, %x1, %x2, %x3};
  add.u32 ta, ta, 4;  add.u64 h, h, 16;  add.u32 i, i, 1;  setp.lt.u32 p, i, 64;
  @p bra ROWS;
"""
"""Stores all of the accumulator of 06, a row to a thread."""

FILL_MAP = """
  .reg .pred few, more; .reg .b32 i, q<4>, to; .reg .b64 from, off;
  mov.u32 i, %tid.x;  setp.lt.u32 few, i, 8;  mul.wide.u32 off, i, 16;  add.u64 from, g, off;
  shl.b32 to, i, 4;  add.u32 to, to, sm;
  @few ld.global.v4.b32 {q0, q1, q2, q3}, [from];
  @few st.shared.v4.b32 [to], {q0, q1, q2, q3};
  ld.param.u64 from, [data];  cvta.to.global.u64 from, from;  add.u64 from, from, off;
  shl.b32 to, i, 4;  add.u32 to, to, s;
TILE:
  ld.global.v4.b32 {q0, q1, q2, q3}, [from];
  st.shared.v4.b32 [to], {q0, q1, q2, q3};
  add.u64 from, from, 512;  add.u32 to, to, 512;  add.u32 i, i, 32;  setp.lt.u32 more, i, {chunks};
  @more bra TILE;
  fence.proxy.async.shared::cta;
  bar.warp.sync 0xffffffff;
"""
"""Fills the tensor map of 09 from global memory, and the tile that it adds."""


@dataclass(frozen=True)
class Kernel:
    """A kernel of a file, as it is or completed, with one way to launch it."""

    name: str
    file: str
    entry: str
    make: Callable[[np.random.Generator], Launch]
    complete: Callable[[str], str] = lambda text: text

    def launch(self) -> Launch:
        """The launch, with the same random numbers each time."""
        return self.make(np.random.default_rng(sum(self.name.encode())))

    def text(self) -> str:
        return self.complete((DATA / self.file).read_text())


def inserted(text: str, before: str, lines: str) -> str:
    """The text with lines added before the first line that begins with `before`."""
    at = text.index("\n  " + before)
    return text[:at] + "\n" + lines.strip("\n") + text[at:]


def with_parameter(text: str, parameter: str) -> str:
    """The text with one more parameter of 64 bits."""
    return text.replace(")\n.reqntid", f", .param .u64 {parameter})\n.reqntid", 1)


def mbarrier(random: np.random.Generator) -> Launch:
    """Parity 0: threads wait for the phase that thread 0 completes. There is no result but that all threads arrive."""
    return Launch([np.uint32(0)], [], block=(128, 1, 1))


def tma_copy(random: np.random.Generator) -> Launch:
    """A box of 64 x 64 at (8, 16) of a matrix of 70 x 72: what lies outside of it is neither read nor written."""
    x = random.integers(0, 1 << 16, (70, 72)).astype(np.uint16)
    y = random.integers(0, 1 << 16, x.shape).astype(np.uint16)
    expected = y.copy()
    expected[16:70, 8:72] = x[16:70, 8:72]
    maps = [tilec.TensorMap(array, (64, 64), dtype="bf16") for array in (x, y)]
    return Launch([*maps, np.uint32(8), np.uint32(16)], [Result(y, expected)], dynamic_smem=8192)


def multicast(random: np.random.Generator) -> Launch:
    """Both CTAs of each cluster get the box at (64, 8)."""
    x = random.integers(0, 1 << 16, (80, 128)).astype(np.uint16)
    out = np.zeros((2, 64, 64), np.uint16)
    arguments = [tilec.TensorMap(x, (64, 64), None), np.uint32(64), np.uint32(8), out]
    # The box is 128 bytes wide, so that its rows lie in shared memory one behind the other.
    return Launch(arguments, [Result(out, np.stack([x[8:72, 64:]] * 2))], (2, 1, 1), (32, 1, 1), (2, 1, 1), 8192)


def product(random: np.random.Generator, m: int, n: int, box: int, ctas: int = 1) -> Launch:
    """D = A B^T with K = 64, of whole numbers."""
    a, b = integers(random, (m, 64), np.float32), integers(random, (n, 64), np.float32)
    d = np.zeros((m, n), np.float32)
    maps = [tilec.TensorMap(to_bf16(x), (box, 64), dtype="bf16") for x in (a, b)]
    return Launch([*maps, d], [Result(d, a @ b.T)], (ctas, 1, 1), (128, 1, 1), (ctas, 1, 1), 32 * 1024)


def launch_control(random: np.random.Generator) -> Launch:
    """Each of the 32 threads adds the number of each tile once, whichever CTA takes it."""
    out = np.zeros(1, np.uint32)
    return Launch([out], [Result(out, np.array([32 * sum(range(9))], np.uint32))], (9, 1, 1), (32, 1, 1))


def swizzled_32(rows: Array) -> Array:
    """Rows of 32 bytes in SWIZZLE_32B: the two halves of rows 4 to 7 of each 8 change places."""
    halves = rows.reshape(-1, 2, 16).copy()
    upper = np.arange(len(rows)) % 8 >= 4
    halves[upper] = halves[upper][:, ::-1]
    return halves.reshape(rows.shape)


E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def e2m1(rows: Array) -> Array:
    """Two values to a byte, the first in the low half."""
    codes = np.stack([rows & 15, rows >> 4], -1).reshape(len(rows), -1)
    return np.where(codes & 8, -1.0, 1.0) * E2M1[codes & 7]


def block_scaled(random: np.random.Generator) -> Launch:
    """Three products of the same bytes. The bytes are such that all sums are exact in f32."""
    numbers = np.array([0x38, 0x40, 0xB8, 0xC4, 0x00, 0x30], np.uint8)
    a, b = random.choice(numbers, (128, 32)), random.choice(numbers, (8, 32))
    factors = random.choice(np.array([0x76, 0x78, 0x7A, 0x7B], np.uint8), (32, 16))
    halves = integers(random, (8, 16), np.float16, -2, 3)
    parts = (swizzled_32(a), swizzled_32(b), factors, swizzled_32(halves.view(np.uint8)))
    image = np.concatenate([p.ravel() for p in parts])
    # Row r of A has the four factors in word r / 32 of row r % 32; B has 8 rows, so that its words are the first.
    of_a = factors.reshape(32, 4, 4).transpose(1, 0, 2).reshape(128, 4)
    of_b = factors[:8, :4]
    by_powers = 2.0 ** (of_a[:, :1].astype(float) - 127), 2.0 ** (of_b[:, :1].astype(float) - 127)
    first = (decode(a, E4M3) * by_powers[0]) @ (decode(b, E4M3) * by_powers[1]).T
    by_fours = [np.repeat(decode(of, E4M3), 16, axis=1) for of in (of_a, of_b)]
    second = (e2m1(a) * by_fours[0]) @ (e2m1(b) * by_fours[1]).T
    # A of the last product is what two copies put side by side, the same in each 32 lanes: 8 columns of two f16.
    row = np.concatenate([factors, factors], 1).view(np.float16).astype(np.float64)
    third = np.tile(row, (4, 1)) @ halves.astype(np.float64).T
    out = np.zeros((3, 128, 8), np.float32)
    padded = np.zeros(5120, np.uint8)
    padded[: len(image)] = image
    return Launch([padded, out], [Result(out, np.stack([first, second, third]).astype(np.float32))], block=(128, 1, 1))


def reduction(random: np.random.Generator) -> Launch:
    """Adds a tile of 16 x 32 floats at (4, 2) of an array that the kernel puts into the map, which was one of another array."""
    total, tile = integers(random, (20, 40), np.float32), integers(random, (16, 32), np.float32)
    expected = total.copy()
    expected[2:18, 4:36] += tile
    elsewhere = tilec.TensorMap(np.zeros_like(total), (16, 32), None).encode(1 << 20)
    held = np.frombuffer(elsewhere, np.uint8).copy()
    return Launch([held, total, np.uint32(4), np.uint32(2), tile], [Result(total, expected)], dynamic_smem=tile.nbytes)


def _multicast(text: str) -> str:
    wait = text.index("@!p bra W;")
    return with_parameter(text[:wait] + inserted(text[wait:], "barrier.cluster.arrive", STORE_TILE), "out")


def _all_rows(text: str) -> str:
    """In place of the store of one element, which all threads make to one address."""
    head, tail = text.split("  ld.param.u64 h, [out];", 1)
    return head + STORE_ROWS.lstrip("\n") + tail.split("\n", 1)[1]


def _filled(text: str) -> str:
    return with_parameter(inserted(text, "elect.sync", FILL_MAP.replace("{chunks}", "128")), "data")


KERNELS = [
    Kernel("mbarrier", "01_mbarrier.ptx", "mbar", mbarrier),
    Kernel("tma_copy", "02_tma_load_store.ptx", "copy", tma_copy),
    Kernel("multicast", "03_tma_multicast_cluster.ptx", "mc", multicast, _multicast),
    Kernel("wgmma", "04_wgmma_64x64x64_bf16.ptx", "wg", lambda random: product(random, 64, 64, 64)),
    Kernel("tcgen05", "05_tcgen05_128x128x64_bf16.ptx", "umma", lambda random: product(random, 128, 128, 128)),
    Kernel(
        "tcgen05_pair",
        "06_tcgen05_2cta_256x256x64.ptx",
        "umma2",
        lambda random: product(random, 256, 256, 128, 2),
        _all_rows,
    ),
    Kernel("launch_control", "07_clc_pdl.ptx", "clc", launch_control),
    Kernel("block_scaled", "08_completed.ptx", "bs", block_scaled),
    Kernel("reduction", "09_tma_reduce_tensormap.ptx", "red", reduction, _filled),
]


def run(text: str, launch: Launch, order: Any, seed: int = 0, file: str = "<ptx>") -> tilec.Emulation:
    """Emulates a launch; its results are not checked."""
    return tilec.emulate(
        text,
        None,
        launch.grid,
        launch.block,
        launch.arguments,
        cluster=launch.cluster,
        dynamic_smem=launch.dynamic_smem,
        order=order,
        seed=seed,
        file=file,
    )
