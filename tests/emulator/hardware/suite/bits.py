"""Logic, shifts, funnel shifts, byte permutation, moves that pack and unpack."""

from __future__ import annotations

from suite.cases import Case
from suite.kernels import Form, forms, table

_BYTES = "i32"


def cases() -> list[Case]:
    logic = forms("b32", 2, "and.b32 or.b32 xor.b32")
    shifts = {
        width: forms(f"b{width}", 2, f"shl.b{width} shr.b{width} shr.u{width} shr.s{width}") for width in (16, 32, 64)
    }
    predicates: list[Form] = []
    for op in ("and", "or", "xor"):
        text = f"{{ .reg .pred x, y; setp.lt.s32 x, a, b; setp.ne.b32 y, a, 0; {op}.pred d, x, y; not.pred d, d; }}"
        predicates.append((text, "pred"))
    luts = [(f"lop3.b32 d, a, b, c, {lut};", "b32") for lut in range(256)]
    with_predicate = [
        (f"{{ .reg .pred x, y; .reg .b32 z; setp.gt.s32 y, a, b; lop3.{op}.b32 z|x, a, b, c, {lut}, y; selp.b32 d, z, c, x; }}", "b32")
        for op in ("or", "and")
        for lut in (0x80, 0x96, 0x1E, 0xC0)
    ]  # fmt: skip
    funnels = forms("b32", 3, "shf.l.clamp.b32 shf.l.wrap.b32 shf.r.clamp.b32 shf.r.wrap.b32")
    modes = forms("b32", 3, *(f"prmt.b32.{m}" for m in ["f4e", "b4e", "rc8", "ecl", "ecr", "rc16"]))
    return [
        table("logic_32", "bits", ("i32", "i32"), [*logic, *predicates]),
        table(
            "logic_16",
            "bits",
            ("i16", "i16"),
            forms("b16", 2, "and.b16 or.b16 xor.b16") + forms("b16", 1, "not.b16 cnot.b16"),
        ),
        table("logic_64", "bits", ("i64", "i64"), forms("b64", 2, "and.b64 or.b64 xor.b64")),
        *(table(f"shift_{w}", "bits", (f"i{w}", "shift"), entries) for w, entries in shifts.items()),
        table("funnel_shift", "bits", ("i32", "i32", "shift"), funnels),
        table("lop3_all", "bits", ("i32", "i32", "i32"), luts, rows=32),
        table("lop3_predicate", "bits", ("i32", "i32", "i32"), with_predicate, version="8.2"),
        table("permute", "bits", ("i32", "i32", "i32"), [*forms("b32", 3, "prmt.b32"), *modes]),
        table("moves", "bits", ("i64", "i32", "i16"), _moves()),
    ]


def _moves() -> list[Form]:
    return [
        ("{ .reg .b32 x, y; mov.b64 {x, y}, a; sub.u32 d, x, y; }", "b32"),
        ("{ .reg .b16 w, x, y, z; mov.b64 {w, x, y, z}, a; mov.b64 d, {z, x, w, y}; }", "b64"),
        ("{ .reg .b16 x, y; mov.b32 {x, y}, b; mov.b32 d, {y, c}; }", "b32"),
        ("{ .reg .b32 x; mov.b64 {_, x}, a; mov.b64 d, {x, b}; }", "b64"),
        ("{ .reg .b8 w, x, y, z; mov.b32 {w, x, y, z}, b; mov.b32 d, {z, x, w, y}; }", "b32"),
        ("{ .reg .b8 x, y; mov.b16 {x, y}, c; mov.b16 d, {y, x}; }", "b16"),
        ("mov.b32 d, 0x7fc12345;", "b32"),
        ("mov.f32 d, 0f3F800001;", "b32"),
        ("mov.f32 d, 1.1;", "b32"),
        ("mov.f64 d, -2.5e-3;", "b64"),
        ("mov.f64 d, 0d7FF0000000000001;", "b64"),
        ("mov.s16 d, -3;", "b16"),
        ("mov.u64 d, 0xFFFFFFFF00000001U;", "b64"),
        ("mov.u32 d, (17 << 3) | 5;", "b32"),
        ("mov.s64 d, -(5 % 3) * 7 + (1 ? 2 : 3);", "b64"),
        ("mov.u32 d, 017 + 0b101;", "b32"),
        ("mov.u32 d, WARP_SZ;", "b32"),
    ]
