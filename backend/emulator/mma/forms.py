"""Which shapes and types `mma` and `mma.sp` have on sm_90a and sm_100a (PTX 9.7.14.5.14, 9.7.14.6.3)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tilec.backend.emulator.execution.decode import Decoder

Extents = tuple[int, int, int]
"""m, n, k."""
Types = tuple[str, str, str, str]
"""Of D, A, B and C."""
Shapes = dict[str, dict[Extents, set[tuple[str, str]]]]
"""By type of A, or of its family: shapes, and the types of D and C."""

_HALF = {("f16", "f16"), ("f32", "f32")}
_SINGLE = {("f32", "f32")}
_WHOLE = {("s32", "s32")}

DENSE: Shapes = {
    "f16": {(16, 8, 8): _HALF, (16, 8, 16): _HALF},
    "bf16": {(16, 8, 8): _SINGLE, (16, 8, 16): _SINGLE},
    "tf32": {(16, 8, 4): _SINGLE, (16, 8, 8): _SINGLE},
    "e4m3": {(16, 8, 16): _HALF, (16, 8, 32): _HALF},
    "f64": {s: {("f64", "f64")} for s in ((8, 8, 4), (16, 8, 4), (16, 8, 8), (16, 8, 16))},
    "s8": {s: _WHOLE for s in ((8, 8, 16), (16, 8, 16), (16, 8, 32))},
    "s4": {s: _WHOLE for s in ((8, 8, 32), (16, 8, 32), (16, 8, 64))},
    "b1": {s: _WHOLE for s in ((8, 8, 128), (16, 8, 128), (16, 8, 256))},
}
SPARSE: Shapes = {
    "f16": {(16, 8, 16): _HALF, (16, 8, 32): _HALF},
    "bf16": {(16, 8, 16): _SINGLE, (16, 8, 32): _SINGLE},
    "tf32": {(16, 8, 8): _SINGLE, (16, 8, 16): _SINGLE},
    "e4m3": {(16, 8, 64): _SINGLE},
    "s8": {(16, 8, 32): _WHOLE, (16, 8, 64): _WHOLE},
    "s4": {(16, 8, 64): _WHOLE, (16, 8, 128): _WHOLE},
}
_FAMILY = {"e5m2": "e4m3", "u8": "s8", "u4": "s4"}


@dataclass(frozen=True)
class Form:
    """What the modifiers of an mma say. `operation` is that of single bits, "and" or "xor"."""

    extents: Extents
    types: Types
    layouts: tuple[str, str]
    saturate: bool
    operation: str | None

    @property
    def quads(self) -> bool:
        """Whether this is m8n8k4 of f16: four products, each of eight lanes."""
        return self.extents == (8, 8, 4) and self.types[1] == self.types[2] == "f16"

    def legal(self, shapes: Shapes) -> bool:
        """Whether the instruction of these shapes has the form; of `quads`, `legal_quads` says so."""
        dt, at, bt, ct = self.types
        family, other = _FAMILY.get(at, at), _FAMILY.get(bt, bt)
        mixed = family in ("e4m3", "s8", "s4")
        return (
            (dt, ct) in shapes.get(family, {}).get(self.extents, ())
            and (at == bt or (mixed and family == other))
            and self.layouts == ("row", "col")
            and (not self.saturate or family in ("s8", "s4"))
            and (self.operation is not None) == (at == "b1")
        )

    def legal_quads(self) -> bool:
        """Any layouts; D of f16 with C of f32 is no form."""
        types = self.types[0], self.types[3]
        return types in (*_HALF, ("f32", "f16")) and not self.saturate and self.operation is None


def take_form(d: Decoder) -> Form:
    """Consume the modifiers behind `.sync`, in the order of the syntax."""
    if d.take("aligned") is None:
        d.unsupported(".aligned is missing")
    saturate = d.take("satfinite") is not None
    operation = d.take("and", "xor")
    if (d.take("popc") is None) != (operation is None):
        d.unsupported(".and or .xor goes with .popc")
    layouts = d.take("row", "col"), d.take("row", "col")
    rounded = d.take("rn") is not None
    kind = next((m for m in d.modifiers if m.startswith("kind::")), None)
    if kind is not None:
        d.unsupported(f".{kind} does not exist on sm_90a and sm_100a, but on sm_120a")
    if len(d.modifiers) != 5 or layouts[0] is None or layouts[1] is None:
        d.unsupported("the emulator knows mma with a shape, two layouts and four types")
    shape, dt, at, bt, ct = d.modifiers
    found = re.fullmatch(r"m(\d+)n(\d+)k(\d+)", shape)
    if found is None:
        d.unsupported(f"{shape} is no shape")
    if rounded and dt != "f64":
        d.unsupported(".rn is of f64 alone")
    return Form(
        (int(found[1]), int(found[2]), int(found[3])),
        (dt, at, bt, ct),
        (layouts[0], layouts[1]),
        saturate,
        operation,
    )
