"""Approximate functions (PTX 9.7.3.13 to 9.7.3.22, 9.7.4.9, 9.7.4.10): rsqrt, sin, cos, lg2, ex2, tanh, and the approximations of
double precision by its upper half.

Results are the exact ones rounded once, which lie within the errors that the ISA allows to the hardware; what it says of special
values holds exactly.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilec.backend.emulator.execution.decode import Decoder, instruction
from tilec.backend.emulator.execution.lanes import Execute
from tilec.backend.emulator.instructions.float_arithmetic import HALVES, on_numbers, take_flush
from tilec.backend.emulator.instructions.typed import elementwise, take_type
from tilec.backend.emulator.numbers import floats
from tilec.backend.emulator.numbers.floats import KINDS
from tilec.backend.emulator.numbers.rounding import Array
from tilec.backend.emulator.numbers.types import Values

_NAN_F64 = np.uint64(0x7FFFFFFF00000000)


def _inverse_root(a: Array) -> Array:
    return 1.0 / np.sqrt(a)


_FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "rsqrt": _inverse_root,
    "sin": np.sin,
    "cos": np.cos,
    "lg2": np.log2,
    "ex2": np.exp2,
    "tanh": np.tanh,
}
_HALF_FUNCTIONS = ("ex2", "tanh")


def _take_approx(d: Decoder) -> None:
    if d.take("approx") is None:
        d.unsupported("this instruction is an approximation, and names .approx")


@instruction(*_FUNCTIONS)
def approximation(d: Decoder) -> Execute:
    name = d.instruction.parts[0]
    _take_approx(d)
    type = take_type(d, ("f32", *(HALVES if name in _HALF_FUNCTIONS else ()), *(("f64",) if name == "rsqrt" else ())))
    function = _FUNCTIONS[name]
    if type == "f64":
        return _upper_half(d, function) if d.take("ftz") is not None else elementwise(d, function, type, type)
    if name == "ex2" and type in ("bf16", "bf16x2"):
        flush = d.take("ftz") is not None
        if not flush:
            d.unsupported(f"ex2 of .{type} is .ftz")
    else:
        flush = name != "tanh" and type == "f32" and take_flush(d, type)

    def compute(a: Array) -> Array:
        found = function(a.astype(np.float64))
        return found.astype(np.float32) if type == "f32" else found

    return elementwise(d, on_numbers(KINDS[type], compute, flush=flush), type, type)


@instruction("rcp.approx.ftz.f64")
def reciprocal(d: Decoder) -> Execute:
    return _upper_half(d, np.reciprocal)


def _upper_half(d: Decoder, function: Callable[[Array], Array]) -> Execute:
    """A function of the upper 32 bits of a double, rounded to the upper 32 bits of one (PTX 9.7.3.14, 9.7.3.17)."""
    kind = KINDS["f64"]
    upper, half = np.uint64(0xFFFFFFFF00000000), np.uint64(0x80000000)

    def compute(bits: Values) -> Values:
        found = function(floats.flush(kind, (bits & upper).view(np.float64)))
        rounded = ((found.view(np.uint64) + half) & upper).view(np.float64)
        return np.where(np.isnan(found), _NAN_F64, floats.flush(kind, rounded).view(np.uint64))

    return elementwise(d, compute, "b64", "b64")
