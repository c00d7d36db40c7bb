"""The hardware suite: all cases, by family."""

from __future__ import annotations

from importlib import import_module

from suite.cases import Case

MODULES = (
    "integers", "bits", "comparisons", "floats", "halves", "conversions", "approximate", "warp", "control", "registers", "memory",
    "atomics", "barriers", "copies", "tensor_loads", "tensor_layouts", "tensor_stores", "im2col", "clusters",
    "multicast", "matrix", "fragments", "rounding", "replaced_maps", "wgmma", "system",
)  # fmt: skip


def all_cases() -> dict[str, Case]:
    """Every case by its name."""
    found: dict[str, Case] = {}
    for name in MODULES:
        for case in import_module(f"suite.{name}").cases():
            assert case.name not in found, case.name
            found[case.name] = case
    return found
