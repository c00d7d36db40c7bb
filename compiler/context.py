"""The dialects that a tile program may use."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import cast

from xdsl.context import Context
from xdsl.ir import Dialect

_DIALECTS = {
    "builtin": ("xdsl.dialects.builtin", "Builtin"),
    "arith": ("xdsl.dialects.arith", "Arith"),
    "scf": ("xdsl.dialects.scf", "Scf"),
    "cf": ("xdsl.dialects.cf", "Cf"),
    "func": ("xdsl.dialects.func", "Func"),
    "llvm": ("tilec.dialects.nvvm", "LLVM"),
    "tile": ("tilec.dialects.tile", "Tile"),
    "nvvm": ("tilec.dialects.nvvm", "NVVM"),
}


def make_context() -> Context:
    """A context that knows the dialects of `tilec`."""
    context = Context()
    register_dialects(context)
    return context


def register_dialects(context: Context) -> None:
    """Register all dialects of `tilec` by name; a dialect's module is imported at its first use."""
    for name, (module, attribute) in _DIALECTS.items():
        context.register_dialect(name, _lazy(module, attribute))


def _lazy(module: str, attribute: str) -> Callable[[], Dialect]:
    return lambda: cast(Dialect, getattr(import_module(module), attribute))
