"""The fundamental types and their sizes (PTX 5.2), and the names of vector elements (PTX 6.4.3)."""

from __future__ import annotations

SIZES: dict[str, int] = {
    **{f"{kind}{bits}": bits // 8 for kind in "bsu" for bits in (8, 16, 32, 64)},
    "b128": 16,
    "f16": 2,
    "bf16": 2,
    "f32": 4,
    "f64": 8,
    "tf32": 4,
    **dict.fromkeys(("e4m3", "e5m2", "e2m3", "e3m2", "e2m1", "ue8m0"), 1),
    **dict.fromkeys(("e4m3x2", "e5m2x2", "e2m3x2", "e3m2x2", "ue8m0x2"), 2),
    **dict.fromkeys(("f16x2", "bf16x2", "u16x2", "s16x2", "u8x4", "s8x4", "b8x4", "b16x2"), 4),
    **dict.fromkeys(("e4m3x4", "e5m2x4", "e2m3x4", "e3m2x4"), 4),
    **dict.fromkeys(("f32x2", "b32x2", "texref", "samplerref", "surfref"), 8),
}
"""Bytes of a variable of each type, by its name without the dot. The opaque types are held as handles of 64 bits."""

ELEMENTS = ("xr", "yg", "zb", "wa")
"""The two names of each element of a vector."""
