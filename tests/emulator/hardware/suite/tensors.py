"""Copies through tensor maps: ranks, edges, swizzles, strides, fills, stores and reductions.

A load kernel fills its shared memory with a pattern, loads one box, waits with a bound and dumps all of the memory, for each
start coordinate in turn (innermost first, as PTX writes them). A store kernel sends a box of known bytes to each coordinate;
the tensor's array is what is recorded. Inner coordinates keep to 16 bytes: others fault.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from suite.cases import Array, Case, MapArgument
from suite.kernels import Body, Input, case, words
from suite.steps import barrier, dump, fill, fill_from, wait
from suite.values import operand

BLOCK = 128
Coordinates = tuple[int, ...]


@dataclass(frozen=True)
class Tensor:
    """What a map is made over: outermost dimension first; `shape` within an array of `held` elements a dimension."""

    dtype: str
    shape: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: str | None = None
    held: tuple[int, ...] | None = None
    oob: str = "zero"
    interleave: str | None = None
    element_strides: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None
    element: str | None = None
    """The element type if NumPy does not have it."""

    @property
    def box_bytes(self) -> int:
        steps = self.element_strides or (1,) * len(self.box)
        counted = [-(-b // s) for b, s in zip(self.box[:-1], steps[:-1], strict=True)]
        return prod(counted) * self.box[-1] * np.dtype(self.dtype).itemsize

    def argument(self, rng: np.random.Generator) -> MapArgument:
        held = self.held or self.shape
        dtype = np.dtype(self.dtype)
        kind = {"f": "f", "u": "i", "i": "i"}[dtype.kind] + str(8 * dtype.itemsize)
        if self.element is not None:
            values: Array = operand("bf16" if self.element == "bf16" else "f32", 2, prod(held), rng)
        elif kind in ("i8", "i16"):
            values = rng.integers(0, 256, prod(held) * dtype.itemsize, dtype=np.uint8)
        else:
            values = operand(kind, 2, prod(held), rng)
        return MapArgument(
            array=values.view(dtype).reshape(held),
            box=self.box,
            swizzle=self.swizzle,
            strides=self.strides,
            oob=self.oob,
            interleave=self.interleave,
            element_strides=self.element_strides,
            shape=None if held == self.shape else self.shape,
            dtype=self.element,
        )

    def input(self) -> Input:
        return "map tensor", self.argument


def rounded(size: int) -> int:
    return -(-size // (4 * BLOCK)) * 4 * BLOCK


def load(
    name: str,
    tensor: Tensor,
    starts: Sequence[Coordinates],
    *,
    room: int = 0,
    offset: int = 0,
    family: str = "tensor_load",
) -> Case:
    """`room`: bytes of shared memory to dump if not the box's; `offset`: of the destination from a 1024-byte boundary."""
    size = rounded(max(room, tensor.box_bytes) + offset)
    rank = len(tensor.shape)
    body = Body(BLOCK)
    body(
        f".shared .align 1024 .b8 tile[{size}];",
        ".shared .align 8 .b64 bar;",
        "mov.u32 r1, tile;",
        f"add.u32 r2, r1, {offset};",
    )
    barrier(body, "bar")
    for i, start in enumerate(starts):
        fill(body, "tile", size, BLOCK)
        at = ", ".join(map(str, start))
        body(f"@p29 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {tensor.box_bytes};")
        body(
            f"@p29 cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [r2], [tensor, {{{at}}}], [bar];"
        )
        wait(body, "bar", i & 1)
        body.out("r301")
        dump(body, "tile", size, BLOCK)
    return case(name, family, body, [tensor.input()], block=BLOCK)


def store(
    name: str,
    tensor: Tensor,
    starts: Sequence[Coordinates],
    *,
    operation: str = "",
    room: int = 0,
    offset: int = 0,
    family: str = "tensor_store",
) -> Case:
    size = rounded(max(room, tensor.box_bytes) + offset)
    rank = len(tensor.shape)
    body = Body(BLOCK)
    body(
        f".shared .align 1024 .b8 tile[{size}];",
        "setp.eq.u32 p0, tid, 0;",
        "mov.u32 r1, tile;",
        f"add.u32 r2, r1, {offset};",
    )
    fill_from(body, "tile", size, BLOCK)
    spelling = (
        f"cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.{operation}.tile"
        if operation
        else f"cp.async.bulk.tensor.{rank}d.global.shared::cta.tile"
    )
    for start in starts:
        body(f"@p0 {spelling}.bulk_group [tensor, {{{', '.join(map(str, start))}}}], [r2];")
        body("@p0 cp.async.bulk.commit_group;", "@p0 cp.async.bulk.wait_group 0;")
    body.out("tid")
    dtype = np.dtype(tensor.dtype)
    kind = tensor.element or {"f": "f", "u": "i", "i": "i"}[dtype.kind] + str(8 * dtype.itemsize)

    def data(rng: np.random.Generator) -> Array:
        return operand(kind, 0, size // dtype.itemsize, rng)

    return case(
        name, family, body, [tensor.input(), ("ptr data", data if operation else words(size, "u1"))], block=BLOCK
    )
