"""All passes by name. A pass' module is imported when the pass is asked for, so that listing names costs nothing."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from xdsl.passes import ModulePass

PassFactory = Callable[[], "type[ModulePass]"]


def _lazy(module: str, name: str) -> PassFactory:
    def load() -> type[ModulePass]:
        return cast("type[ModulePass]", getattr(import_module(module), name))

    return load


PASSES: dict[str, PassFactory] = {
    "target": _lazy("tilec.passes.set_target", "SetTarget"),
    "retile": _lazy("tilec.passes.retile", "Retile"),
    "tma": _lazy("tilec.passes.tma", "Tma"),
    "threads": _lazy("tilec.passes.threads", "Threads"),
    "pipeline": _lazy("tilec.passes.pipeline", "Pipeline"),
    "persistent": _lazy("tilec.passes.persistent", "Persistent"),
    "check-protocol": _lazy("tilec.passes.check_protocol", "CheckProtocol"),
    "lower": _lazy("tilec.passes.lower", "Lower"),
    "canonicalize": _lazy("xdsl.transforms.canonicalize", "CanonicalizePass"),
    "cse": _lazy("xdsl.transforms.common_subexpression_elimination", "CommonSubexpressionElimination"),
    "dce": _lazy("xdsl.transforms.dead_code_elimination", "DeadCodeElimination"),
}


# What xDSL's docstrings do not say in one line.
_SUMMARIES = {
    "canonicalize": "Simplify operations, fold constants (xDSL's).",
    "cse": "Compute equal values once (xDSL's).",
    "dce": "Remove what has no use and no effect (xDSL's).",
}


def summary(name: str) -> str:
    """What a pass does, in a line: the first of its docstring."""
    return _SUMMARIES.get(name) or (PASSES[name]().__doc__ or "").strip().split("\n")[0]
