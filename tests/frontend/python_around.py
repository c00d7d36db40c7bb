"""A kernel function that takes what it can from around it, and helpers that do too."""
# The extents in annotations are symbols, which linters take for forward references.
# ruff: noqa: F821
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportUnknownVariableType=false

from collections.abc import Callable
from types import ModuleType
from typing import Any

from tilec import tile
from tilec.frontend.tile import copy

config, nested = ModuleType("config"), ModuleType("nested")
vars(nested).update(COLUMNS=64)
vars(config).update(ROWS=64, UNREAD=1, nested=nested)
STEP = (64, (64, 1.5))
TYPE = tile.f16
NAME = "f16"
FLAG = True
ZERO = 0.0
NAN = float("nan")
NOTHING = None
UNREAD = 16
SIZE = 32


def inner(x, more=(1, 2)):
    return x + SIZE + len(more)


def helper(x, times=1):
    return inner(x) * times


def around(A: tile.View["M", "K"], D: tile.View["M", "K"]):
    used = (ZERO, NAN, NOTHING, FLAG)
    assert helper(3) == 37 or used
    for m, k in tile.grid(D, step=(STEP[0], config.nested.COLUMNS)):
        a = tile.smem(config.ROWS, STEP[1][0], TYPE)
        other = tile.smem(64, 64, NAME)
        copy(A[m, k], a)
        tile.copy(A[m, k], other)
        tile.copy(a, D[m, k])


def closed(rows: int) -> Callable[..., Any]:
    def kernel(A: tile.View["M", "K"], D: tile.View["M", "K"]):
        for m, k in tile.grid(D, step=(rows, min(rows, 64))):
            a = tile.smem(rows, 64, A.dtype)
            copy(A[m, k], a)
            tile.copy(a, D[m, k])

    return kernel


def of_builtins(A: tile.View["M", "K"], D: tile.View["M", "K"]):
    for _m, _k in tile.grid(D, step=(min(64, 32), 64)):
        tile.copy(tile.smem(32, 64, A.dtype), D[_m, _k])
