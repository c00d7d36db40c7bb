"""Loads through tensor maps: ranks, edges, fills, interleaved layouts."""

from __future__ import annotations

from suite.cases import Case
from suite.kernels import Body, case
from suite.tensors import BLOCK, Tensor, load, store


def cases() -> list[Case]:
    return [*_ranks(), *_edges(), *_fills(), *_interleaves(), _prefetch()]


def _ranks() -> list[Case]:
    return [
        load("load_1d", Tensor("u2", (200,), (64,)), [(0,), (64,), (192,), (-8,), (400,), (-64,)]),
        load("load_2d", Tensor("u4", (24, 40), (8, 16)), [(0, 0), (4, 3), (32, 20), (-8, -5), (12, 30), (40, 2), (-16, 1)]),
        load("load_3d", Tensor("u1", (6, 9, 64), (2, 4, 32)), [(0, 0, 0), (16, 3, 2), (48, 7, 5), (-16, -1, -1), (0, 9, 0)]),
        load("load_4d", Tensor("f2", (3, 4, 5, 16), (2, 2, 3, 8)), [(0, 0, 0, 0), (8, 2, 1, 1), (8, 4, 3, 2), (-8, -1, -1, -1), (16, 0, 0, 0)]),
        load("load_5d", Tensor("f4", (2, 3, 3, 4, 8), (2, 2, 1, 3, 4)), [(0, 0, 0, 0, 0), (4, 1, 2, 1, 1), (4, 3, -1, 2, -1), (0, 0, 0, 0, 5)]),
        load("load_f64", Tensor("f8", (7, 12), (4, 8)), [(0, 0), (4, 3), (-2, 5)]),
        load("load_u64", Tensor("u8", (7, 12), (4, 8)), [(0, 0), (8, 3)]),
        load("load_s32", Tensor("i4", (7, 12), (4, 8)), [(0, 0), (8, 5)]),
        load("load_s64", Tensor("i8", (7, 12), (4, 8)), [(2, 1), (8, 5)]),
    ]  # fmt: skip


def _edges() -> list[Case]:
    return [
        load("load_wide_box", Tensor("u2", (3, 16), (32, 64)), [(0, 0), (-8, -3)]),
        load("load_off_grid_u1", Tensor("u1", (10, 82), (4, 32), held=(10, 96)), [(64, 0), (80, 8), (48, 6)]),
        load("load_off_grid_u2", Tensor("u2", (10, 43), (4, 16), held=(10, 48)), [(32, 0), (40, 8), (24, 6)]),
        load("load_off_grid_f4", Tensor("f4", (10, 18), (4, 8), held=(10, 20)), [(16, 0), (12, 8)]),
        load(
            "load_padded_pitch",
            Tensor("u2", (5, 4, 32), (2, 2, 16), held=(5, 6, 48)),
            [(0, 0, 0), (16, 3, 4), (24, -1, 2)],
        ),
        load("load_largest_box", Tensor("u1", (256, 16), (256, 16)), [(0, 0)]),
        load("load_zero_pitch", Tensor("u4", (8, 16), (4, 8), strides=(0,)), [(0, 0), (8, 3), (0, 6)]),
        load("load_overlapping_rows", Tensor("u4", (8, 16), (4, 8), strides=(32,)), [(0, 0), (8, 3), (0, 6)]),
        load("load_single_elements", Tensor("u4", (1, 1, 4), (1, 1, 4)), [(0, 0, 0), (4, 0, 0), (0, 1, 0)]),
    ]


def _fills() -> list[Case]:
    starts = [(0, 0), (8, -3), (-8, 2), (16, 0)]
    elements = [("f2", None), ("f4", None), ("f8", None), ("u2", "bf16"), ("f4", "tf32"), ("f4", "f32_ftz")]
    return [
        load(f"load_nan_{element or dtype}", Tensor(dtype, (6, 16), (8, 8), oob="nan", element=element), starts)
        for dtype, element in elements
    ]


def _interleaves() -> list[Case]:
    return [
        load("load_interleave_16B", Tensor("f2", (3, 4, 6, 8), (2, 2, 3, 8), interleave="16B"), [(0, 0, 0, 0), (0, 1, 2, 1), (0, 4, 3, 2)], family="tensor_interleave"),
        load("load_interleave_16B_3d", Tensor("f2", (4, 6, 8), (2, 3, 8), interleave="16B"), [(0, 0, 0), (0, 4, 3), (0, -1, -1)], family="tensor_interleave"),
        load("load_interleave_32B", Tensor("f2", (3, 4, 6, 16), (2, 2, 4, 16), "32B", interleave="32B"), [(0, 0, 0, 0), (0, 3, 2, 1)], family="tensor_interleave"),
        store("store_interleave_16B", Tensor("f2", (4, 6, 8), (2, 3, 8), interleave="16B"), [(0, 0, 0), (0, 4, 3)], family="tensor_interleave"),
        load("load_interleave_16B_swizzle", Tensor("f2", (4, 6, 16), (2, 8, 8), "64B", interleave="16B"), [(0, 0, 0), (8, 2, 1)], family="tensor_interleave"),
    ]  # fmt: skip


def _prefetch() -> Case:
    body = Body(BLOCK)
    body(
        "setp.eq.u32 p0, tid, 0;",
        "@p0 prefetch.tensormap [tensor];",
        "@p0 cp.async.bulk.prefetch.tensor.2d.L2.global.tile [tensor, {0, 0}];",
    )
    body.out("tid")
    return case("prefetch", "tensor_load", body, [Tensor("u4", (8, 16), (4, 8)).input()], block=BLOCK)
