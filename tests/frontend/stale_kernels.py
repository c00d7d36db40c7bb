"""Kernels that copy by tiles of 64 rows; of 32 after `change`, which gives new values to names that reach helpers by others."""
# The extents in annotations are symbols, which linters take for forward references.
# ruff: noqa: F821
# pyright: basic, reportUndefinedVariable=false

from collections.abc import Callable
from types import ModuleType
from typing import Any

from stale_library import apply, apply_again, call_in, move, rows_in

import tilec
from tilec import tile


def double(x):
    return 2 * x


def same(x):
    return x


@tilec.jit
def double_kernel(x):
    return 2 * x


@tilec.jit
def same_kernel(x):
    return x


def _module(rows: int, scaled: Callable[..., Any]) -> ModuleType:
    made = ModuleType("settings")
    vars(made).update(ROWS=rows, scaled=scaled)
    return made


scale: Any = double
jitted: Any = double_kernel
settings: Any = _module(64, double)
hook: Any = None
present: Any = settings
BEFORE: dict[str, Any] = {
    "scale": scale,
    "jitted": jitted,
    "settings": settings,
    "hook": hook,
    "present": present,
}
AFTER: dict[str, Any] = {
    "scale": same,
    "jitted": same_kernel,
    "settings": _module(32, same),
    "hook": double,
    "present": None,
}


@tilec.jit
def of_a_function(A: tile.View["M", "K"]):
    D = tile.empty("M", "K", dtype=A.dtype)
    move(A, D, apply(scale, 32))
    return D


@tilec.jit
def of_a_function_handed_on(A: tile.View["M", "K"]):
    D = tile.empty("M", "K", dtype=A.dtype)
    move(A, D, apply_again(scale, 32))
    return D


@tilec.jit
def of_a_kernel(A: tile.View["M", "K"]):
    D = tile.empty("M", "K", dtype=A.dtype)
    move(A, D, apply(jitted, 32))
    return D


@tilec.jit
def of_a_module(A: tile.View["M", "K"]):
    D = tile.empty("M", "K", dtype=A.dtype)
    move(A, D, rows_in(settings))
    return D


@tilec.jit
def of_a_module_with_functions(A: tile.View["M", "K"]):
    D = tile.empty("M", "K", dtype=A.dtype)
    move(A, D, call_in(settings, 32))
    return D


@tilec.jit
def of_a_tuple(A: tile.View["M", "K"]):
    D = tile.empty("M", "K", dtype=A.dtype)
    functions = (scale, settings)
    move(A, D, apply(functions[0], 32))
    return D


def chosen():
    return scale


@tilec.jit
def of_a_function_that_is_returned(A: tile.View["M", "K"]):
    D = tile.empty("M", "K", dtype=A.dtype)
    move(A, D, apply_again(chosen(), 32))
    return D


@tilec.jit
def of_a_hook(A: tile.View["M", "K"]):
    D = tile.empty("M", "K", dtype=A.dtype)
    move(A, D, 64 if hook is None else 32)
    return D


@tilec.jit
def of_what_is_there(A: tile.View["M", "K"]):
    D = tile.empty("M", "K", dtype=A.dtype)
    move(A, D, 32 if present is None else 64)
    return D


KERNELS = (
    of_a_function,
    of_a_function_handed_on,
    of_a_kernel,
    of_a_module,
    of_a_module_with_functions,
    of_a_tuple,
    of_a_function_that_is_returned,
    of_a_hook,
    of_what_is_there,
)


def change(to: dict[str, Any]) -> None:
    globals().update(to)


# Kernels of one text that differ in what they are made with


def of_a_closure(function: Callable[..., Any]) -> tilec.JitFunction:
    @tilec.jit
    def closed(A: tile.View["M", "K"]):
        D = tile.empty("M", "K", dtype=A.dtype)
        move(A, D, apply(function, 32))
        return D

    return closed


def of_an_extent(columns: int) -> tilec.JitFunction:
    @tilec.jit
    def fixed(A: tile.View["M", columns]):
        D = tile.empty("M", A.shape[1], dtype=A.dtype)
        move(A, D, 64)
        return D

    return fixed


def of_facts(align: int) -> tilec.JitFunction:
    around = tile.facts(align=align)

    @tilec.jit
    def aligned(A: tile.View["M", "K", around]):
        D = tile.empty("M", "K", dtype=A.dtype)
        move(A, D, 64)
        return D

    return aligned


MADE: tuple[tuple[Callable[..., tilec.JitFunction], Any, Any], ...] = (
    (of_a_closure, double, same),
    (of_an_extent, 256, 128),
    (of_facts, 16, 8),
)
"""What makes them, with which value, and with which other one."""
