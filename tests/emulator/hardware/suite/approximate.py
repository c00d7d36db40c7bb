"""Approximate functions: results within the error that the ISA states, special values bit for bit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from suite.cases import Array, Bound, Case
from suite.kernels import Form, forms, table


def cases() -> list[Case]:
    double = [(form, Bound("f64", 2.0**33)) for form in forms("b64", 1, "rcp.approx.ftz.f64 rsqrt.approx.ftz.f64")]
    double += [(form, Bound("f64", 2.0**33)) for form in forms("b64", 1, "rsqrt.approx.f64")]
    built = [
        _case("approximate_f32", ("f32", "f32"), _single(2.0**-20), values=_arguments),
        # Beyond pi the ISA states no error of sin and cos: they stay within -1 and 1.
        _case("approximate_f32_special", ("f32", "f32"), _single(2.0)),
        *(_case(f"approximate_{t}", (t,), _half(t)) for t in ("f16", "f16x2", "bf16", "bf16x2")),
        _case("approximate_f64", ("f64",), double),
    ]
    return built


def _single(wave: float) -> list[tuple[Form, Bound]]:
    """f32; `wave` is the absolute error allowed to sin and cos."""
    entries: list[tuple[Form, Bound]] = []
    for ftz in ("", ".ftz"):
        for spelling, operands, bound in (
            ("div.approx", 2, Bound("f32", 2)),
            ("div.full", 2, Bound("f32", 2)),
            ("rcp.approx", 1, Bound("f32", 2)),
            ("rsqrt.approx", 1, Bound("f32", 2)),
            ("sqrt.approx", 1, Bound("f32", 2)),
            ("ex2.approx", 1, Bound("f32", 4)),
            ("lg2.approx", 1, Bound("f32", 4, 2.0**-20)),
            ("sin.approx", 1, Bound("f32", 0, wave)),
            ("cos.approx", 1, Bound("f32", 0, wave)),
        ):
            entries += [(form, bound) for form in forms("b32", operands, f"{spelling}{ftz}.f32")]
    return [*entries, *((form, Bound("f32", 2**13)) for form in forms("b32", 1, "tanh.approx.f32"))]


def _half(kind: str) -> list[tuple[Form, Bound]]:
    width = "b32" if kind.endswith("x2") else "b16"
    brain = kind.startswith("b")
    tanh = [(form, Bound(kind, 1, 2.0**-8 if brain else 2.0**-10)) for form in forms(width, 1, f"tanh.approx.{kind}")]
    power = forms(width, 1, f"ex2.approx{'.ftz' if brain else ''}.{kind}")
    return [*tanh, *((form, Bound(kind, 3)) for form in power)]


def _case(
    name: str,
    kinds: tuple[str, ...],
    entries: list[tuple[Form, Bound]],
    values: Callable[[int, int, np.random.Generator], Array] | None = None,
) -> Case:
    bounds = tuple(bound for _, bound in entries)
    return table(name, "approximate", kinds, [form for form, _ in entries], bounds=bounds, values=values)


def _arguments(position: int, rows: int, rng: np.random.Generator) -> Array:
    """Within the ranges for which the ISA states an error: |x| up to pi."""
    return (rng.uniform(-np.pi, np.pi, rows)).astype(np.float32).view(np.uint32)
