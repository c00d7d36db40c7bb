"""Stores and reductions through tensor maps, and what the ISA leaves open."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from suite.cases import Case
from suite.tensors import Tensor, load, store


def cases() -> list[Case]:
    return [*_stores(), *_reductions(), *_unspecified(), *_negative()]


def _stores() -> list[Case]:
    return [
        store("store_1d", Tensor("u2", (200,), (64,)), [(0,), (64,), (160,)]),
        store("store_2d", Tensor("u4", (24, 40), (8, 16)), [(0, 0), (24, 10), (32, 20)]),
        store("store_3d", Tensor("u1", (6, 9, 64), (2, 4, 32)), [(0, 0, 0), (48, 7, 5)]),
        store("store_4d", Tensor("f2", (3, 4, 5, 16), (2, 2, 3, 8)), [(0, 0, 0, 0), (8, 4, 3, 2)]),
        store("store_5d", Tensor("f4", (2, 3, 3, 4, 8), (2, 2, 1, 3, 4)), [(0, 0, 0, 0, 0), (4, 3, 1, 2, 1)]),
        store("store_off_grid_u1", Tensor("u1", (10, 82), (4, 32), held=(10, 128)), [(64, 0), (80, 8)]),
        store("store_off_grid_u2", Tensor("u2", (10, 43), (4, 16), held=(10, 64)), [(32, 0), (40, 8)]),
        store("store_off_grid_f4", Tensor("f4", (10, 18), (4, 8), held=(10, 32)), [(16, 0), (12, 8)]),
        store("store_wide_box", Tensor("u2", (3, 16), (32, 64)), [(0, 0)]),
        store("store_outside", Tensor("u4", (8, 8), (8, 8)), [(8, 0), (0, 8)]),
        store("store_padded_pitch", Tensor("u2", (5, 4, 32), (2, 3, 16), held=(5, 6, 48)), [(0, 0, 0), (24, 2, 4)]),
    ]  # fmt: skip


def _reductions() -> list[Case]:
    built: list[Case] = []
    operations = {
        "u4": "add min max inc dec and or xor", "i4": "add min max", "u8": "add min max and or xor", "i8": "min max",
        "f2": "add min max", "f4": "add",
    }  # fmt: skip
    for dtype, names in operations.items():
        for op in names.split():
            inner = 32 // np.dtype(dtype).itemsize
            built.append(
                store(
                    f"reduce_{dtype}_{op}",
                    Tensor(dtype, (10, 2 * inner), (8, inner)),
                    [(0, 0), (inner + inner // 2, 4)],
                    operation=op,
                    family="tensor_reduce",
                )
            )
    for op in ("add", "min", "max"):
        tensor = Tensor("u2", (10, 32), (8, 16), element="bf16")
        built.append(store(f"reduce_bf16_{op}", tensor, [(0, 0), (24, 4)], operation=op, family="tensor_reduce"))
    built.append(
        store(
            "reduce_swizzled",
            Tensor("u4", (20, 32), (16, 32), "128B"),
            [(0, 2)],
            operation="add",
            family="tensor_reduce",
        )
    )
    return built


def _negative() -> list[Case]:
    """The ISA wants store coordinates of 0 or more."""
    tensor = Tensor("u4", (8, 16), (4, 8))
    stored = [
        store("store_negative", tensor, [(-4, -2), (4, -1)], family="tensor_forbidden"),
        store("store_negative_far", tensor, [(-8, 0), (0, -4), (-2147483648, 0)], family="tensor_forbidden"),
    ]
    return [replace(case, forbidden=True) for case in stored]


def _unspecified() -> list[Case]:
    """What the ISA leaves open and hardware decides."""
    return [
        load(
            "load_far_away",
            Tensor("u4", (8, 8), (8, 8)),
            [(2147483640, 0), (-2147483648, 0), (0, 2147483647), (0, -2147483648)],
            family="tensor_unspecified",
        ),
        store(
            "reduce_off_grid_u2",
            Tensor("f2", (6, 43), (4, 16), held=(6, 64)),
            [(32, 0), (40, 4)],
            operation="add",
            family="tensor_unspecified",
        ),
        store(
            "reduce_off_grid_u4",
            Tensor("u4", (6, 18), (4, 8), held=(6, 32)),
            [(16, 0), (12, 4)],
            operation="add",
            family="tensor_unspecified",
        ),
    ]
