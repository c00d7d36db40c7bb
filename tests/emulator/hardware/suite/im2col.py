"""Loads and stores through im2col maps: filters with padding, strides and dilation over one, two and three dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from suite.cases import Array, Case, Im2col, MapArgument
from suite.kernels import Body, case, words
from suite.steps import barrier, dump, fill, fill_from, wait
from suite.tensors import BLOCK, rounded


@dataclass(frozen=True)
class Images:
    """A tensor of (N, [[D,] H,] W, C) 16-bit elements and how columns of pixels are taken from it."""

    shape: tuple[int, ...]
    columns: Im2col
    swizzle: str | None = None
    element_strides: tuple[int, ...] | None = None

    @property
    def bytes(self) -> int:
        return 2 * self.columns.channels * self.columns.pixels

    def argument(self, rng: np.random.Generator) -> MapArgument:
        values: Array = rng.integers(1, 2**16, self.shape, dtype=np.uint16)
        return MapArgument(values, (), self.swizzle, element_strides=self.element_strides, im2col=self.columns)


def cases() -> list[Case]:
    row = Images((3, 10, 16), Im2col((-1,), (-1,), 16, 12))
    plane = Images((2, 6, 7, 16), Im2col((-1, -1), (-1, -1), 16, 20), "32B")
    wide = Images((2, 6, 7, 64), Im2col((0, 0), (-2, -2), 64, 16), "128B")
    strided = Images((2, 9, 8, 16), Im2col((-1, -1), (-1, -1), 8, 20), element_strides=(1, 2, 2, 1))
    volume = Images((2, 4, 5, 5, 8), Im2col((-1, 0, -1), (-1, 0, -1), 8, 40))
    inside = Images((2, 6, 7, 16), Im2col((0, 0), (0, 0), 16, 20), "32B")
    return [
        _load("im2col_3d", row, [((0, -1, 0), (0,)), ((0, -1, 0), (2,)), ((0, 3, 1), (1,)), ((0, 5, 2), (0,))]),
        _load("im2col_4d", plane, [((0, -1, -1, 0), (0, 0)), ((0, -1, -1, 0), (1, 2)), ((0, 2, 3, 1), (2, 1))]),
        _load("im2col_4d_wide", wide, [((0, 0, 0, 0), (0, 0)), ((0, 1, 2, 0), (2, 2)), ((0, 3, 3, 1), (1, 0))]),
        _load(
            "im2col_4d_strided", strided, [((0, -1, -1, 0), (0, 0)), ((8, -1, -1, 0), (1, 1)), ((0, 1, 3, 1), (2, 0))]
        ),
        _load("im2col_5d", volume, [((0, -1, 0, -1, 0), (0, 0, 0)), ((0, 0, 2, 1, 0), (2, 0, 1))]),
        _store("im2col_store", inside, [(0, 0, 0, 0), (0, 2, 3, 1)]),
    ]


def _load(name: str, images: Images, starts: Sequence[tuple[Sequence[int], Sequence[int]]]) -> Case:
    size = rounded(images.bytes)
    rank = len(images.shape)
    body = Body(BLOCK)
    body(f".shared .align 1024 .b8 tile[{size}];", ".shared .align 8 .b64 bar;", "mov.u32 r1, tile;")
    barrier(body, "bar")
    spelling = f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
    for i, (start, offsets) in enumerate(starts):
        fill(body, "tile", size, BLOCK)
        at, moved = ", ".join(map(str, start)), ", ".join(map(str, offsets))
        body(f"@p29 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {images.bytes};")
        body(f"@p29 {spelling} [r1], [tensor, {{{at}}}], [bar], {{{moved}}};")
        wait(body, "bar", i & 1)
        body.out("r301")
        dump(body, "tile", size, BLOCK)
    return case(name, "tensor_im2col", body, [("map tensor", images.argument)], block=BLOCK)


def _store(name: str, images: Images, starts: Sequence[Sequence[int]]) -> Case:
    size = rounded(images.bytes)
    rank = len(images.shape)
    body = Body(BLOCK)
    body(f".shared .align 1024 .b8 tile[{size}];", "setp.eq.u32 p0, tid, 0;", "mov.u32 r1, tile;")
    fill_from(body, "tile", size, BLOCK)
    for start in starts:
        spelling = f"cp.async.bulk.tensor.{rank}d.global.shared::cta.im2col_no_offs.bulk_group"
        body(f"@p0 {spelling} [tensor, {{{', '.join(map(str, start))}}}], [r1];")
        body("@p0 cp.async.bulk.commit_group;", "@p0 cp.async.bulk.wait_group 0;")
    body.out("tid")
    inputs = [("map tensor", images.argument), ("ptr data", words(size, "u1"))]
    return case(name, "tensor_im2col_store", body, inputs, block=BLOCK)
