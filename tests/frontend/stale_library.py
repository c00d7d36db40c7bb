"""Helpers that are given what they use, beside values of the same names that they must not be confused with."""
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false

from types import ModuleType

from tilec import tile


def scale(x):
    return 4 * x


def apply(function, x):
    return function(x)


def apply_again(given, x):
    return apply(given, x)


def rows_in(module):
    return module.ROWS


def call_in(module, x):
    return module.scaled(x)


settings = ModuleType("another")
vars(settings).update(ROWS=128, scaled=scale)


def move(A, D, rows):
    for m, k in tile.grid(D, step=(rows, 64)):
        a = tile.smem(rows, 64, A.dtype)
        tile.copy(A[m, k], a)
        tile.copy(a, D[m, k])
