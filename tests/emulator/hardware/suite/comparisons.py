"""setp, set, selp and slct: every comparison, boolean combination and operand type."""

from __future__ import annotations

from suite.cases import Case
from suite.kernels import Form, forms, table

FLOAT = ["eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"]
SIGNED = ["eq", "ne", "lt", "le", "gt", "ge"]
UNSIGNED = [*SIGNED, "lo", "ls", "hi", "hs"]


def cases() -> list[Case]:
    built: list[Case] = []
    for width in (16, 32, 64):
        entries: list[Form] = []
        for t, operators in ((f"s{width}", SIGNED), (f"u{width}", UNSIGNED), (f"b{width}", ["eq", "ne"])):
            for op in operators:
                entries.append((f"setp.{op}.{t} d, a, b;", "pred"))
                entries += [(f"set.{op}.u32.{t} d, a, b;", "b32"), (f"set.{op}.f32.{t} d, a, b;", "b32")]
            entries += [_boolean(f"setp.{operators[0]}.{b}.{t}") for b in ("and", "or", "xor")]
            entries.append(_boolean(f"setp.{operators[-1]}.and.{t}", other="!"))
        entries += [
            (f"{{ .reg .pred x; setp.gt.s{width} x, a, b; selp.{k}{width} d, a, b, x; }}", f"b{width}") for k in "bsu"
        ]
        built.append(table(f"compare_integer_{width}", "comparison", (f"i{width}",) * 2, entries))
    for t in ("f32", "f64"):
        width = f"b{t[1:]}"
        entries = []
        for op in FLOAT:
            for ftz in ("", ".ftz") if t == "f32" else ("",):
                entries.append((f"setp.{op}{ftz}.{t} d, a, b;", "pred"))
                entries.append((f"set.{op}{ftz}.u32.{t} d, a, b;", "b32"))
                entries.append((f"set.{op}{ftz}.f32.{t} d, a, b;", "b32"))
        entries += [_boolean(f"setp.{op}.{b}.{t}") for op, b in (("lt", "and"), ("geu", "or"), ("nan", "xor"))]
        entries.append((f"{{ .reg .pred x; setp.gt.{t} x, a, b; selp.{t} d, a, b, x; }}", width))
        entries.append((f"{{ .reg .pred x; setp.gt.{t} x, a, 0d0000000000000000; set.le.or.s32.{t} d, a, b, !x; }}".replace(
            "0d0000000000000000", "0f00000000" if t == "f32" else "0d0000000000000000"), "b32"))  # fmt: skip
        built.append(table(f"compare_{t}", "comparison", (t, t), entries))
    for t in ("f16", "bf16"):
        entries = []
        for op in FLOAT:
            for ftz in ("", ".ftz") if t == "f16" else ("",):
                entries.append((f"setp.{op}{ftz}.{t} d, a, b;", "pred"))
                entries.append((f"set.{op}{ftz}.u32.{t} d, a, b;", "b32"))
                # Twice the 16 bits: the assembler takes a result of set for extended, whatever its upper half holds.
                entries.append((f"{{ .reg .b16 x; set.{op}{ftz}.{t}.{t} x, a, b; mov.b32 d, {{x, x}}; }}", "b32"))
        built.append(table(f"compare_{t}", "comparison", (t, t), entries))
        pairs: list[Form] = []
        for op in FLOAT:
            pairs.append(
                (f"{{ .reg .pred x, y; setp.{op}.{t}x2 x|y, a, b; selp.u32 d, 1, 0, x; @y add.u32 d, d, 2; }}", "b32")
            )
            pairs.append((f"set.{op}.{t}x2.{t}x2 d, a, b;", "b32"))
        built.append(table(f"compare_{t}x2", "comparison", (f"{t}x2", f"{t}x2"), pairs))
    chosen: list[Form] = []
    for t in ("b32", "u32", "s32", "f32"):
        chosen += forms("b32", 3, f"slct.{t}.s32 slct.{t}.f32 slct.ftz.{t}.f32")
    built.append(table("select_32", "comparison", ("i32", "i32", "f32"), chosen))
    chosen = [form for t in ("b64", "u64", "s64", "f64") for form in forms("b64", 3, f"slct.{t}.s32 slct.{t}.f32")]
    built.append(table("select_64", "comparison", ("i64", "i64", "f32"), chosen))
    chosen = [form for t in ("b16", "u16", "s16") for form in forms("b16", 3, f"slct.{t}.s32 slct.{t}.f32")]
    built.append(table("select_16", "comparison", ("i16", "i16", "f32"), chosen))
    return built


def _boolean(spelling: str, other: str = "") -> Form:
    """Both destinations of a setp that combines with a predicate: bit 0 and bit 1."""
    kind = spelling.rsplit(".", 1)[1]
    test = (
        f"setp.ne.{kind.replace('s', 'b').replace('u', 'b')} x, a, b" if kind[0] in "sub" else f"setp.le.{kind} x, b, a"
    )
    return (
        f"{{ .reg .pred x, y, z; {test}; {spelling} y|z, b, a, {other}x; selp.u32 d, 1, 0, y; @z add.u32 d, d, 2; }}",
        "b32",
    )
