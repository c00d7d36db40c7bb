"""A kernel function that takes what it can from around it, for the tests of the front end."""
# The extents in annotations are symbols, which linters take for forward references.
# ruff: noqa: F821
# pyright: reportUndefinedVariable=false, reportInvalidTypeForm=false, reportUnknownMemberType=false

from types import ModuleType

import tilec
from tilec import tile
from tilec.frontend.tile import copy


def _module(rows: int) -> ModuleType:
    module, nested = ModuleType("config"), ModuleType("nested")
    vars(nested).update(COLUMNS=64)
    vars(module).update(ROWS=rows, UNREAD=1, nested=nested)
    return module


config, other_config = _module(64), _module(16)
STEP = (64, 64)
NAMED = "f16"
TYPE = tile.f16
SYMBOL = "M"
UNREAD = 16


@tilec.jit
def reads_everything(A: tile.View[SYMBOL, "K"]):
    D = tile.empty(SYMBOL, "K", dtype=NAMED)
    for m, k in tile.grid(D, step=STEP):
        unused = tile.smem(config.ROWS, config.nested.COLUMNS, TYPE)  # noqa: F841
        a = tile.smem(64, 64, A.dtype)
        copy(A[m, k], a)
        acc = tile.acc(64, 64)
        copy(acc, D[m, k])
    return D


@tilec.jit
def has_defaults(A: tile.View["M", "K"], rows: tilec.constexpr = 2 * UNREAD, *, columns: tilec.constexpr = UNREAD):
    D = tile.empty("M", "K", dtype=A.dtype)
    for m, k in tile.grid(D, step=(rows, columns)):
        a = tile.smem(rows, columns, A.dtype)
        copy(A[m, k], a)
        copy(a, D[m, k])
    return D
