"""Integer arithmetic: every width and sign, carries, products, bit fields, video instructions."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product

from suite.cases import Case
from suite.kernels import Form, forms, table

_DISPUTED = "the ISA saturates and compares the intermediate result before it is cut to 32 bits, assemblers after that"


def cases() -> list[Case]:
    return [*_arithmetic(), *_bit_fields(), *_dots(), *_carries(), *_video()]


def _arithmetic() -> list[Case]:
    built: list[Case] = []
    for width in (16, 32, 64):
        kinds = (f"i{width}",) * 3
        signs = (f"s{width}", f"u{width}")
        wide: list[Form] = []
        plain: list[Form] = []
        for t in signs:
            plain += forms(f"b{width}", 2, f"add.{t} sub.{t} mul.lo.{t} mul.hi.{t} min.{t} max.{t}")
            plain += forms(f"b{width}", 3, f"mad.lo.{t} mad.hi.{t} sad.{t}")
            if width < 64:
                wide += forms(f"b{2 * width}", 2, f"mul.wide.{t}")
        plain += forms(f"b{width}", 1, f"abs.s{width} neg.s{width}")
        if width == 32:
            plain += forms("b32", 2, "add.sat.s32 sub.sat.s32 mul24.lo.s32 mul24.lo.u32 mul24.hi.s32 mul24.hi.u32")
            plain += forms(
                "b32", 3, "mad24.lo.s32 mad24.lo.u32 mad24.hi.s32 mad24.hi.u32 mad24.hi.sat.s32 mad.hi.sat.s32"
            )
        built.append(table(f"integer_{width}", "integer", kinds, plain + wide))
        divisions = [form for t in signs for form in forms(f"b{width}", 2, f"div.{t} rem.{t}")]
        built.append(table(f"division_{width}", "integer", kinds, divisions))
    mixed = [form for t in ("s32", "u32") for form in forms("b64", 3, f"mad.wide.{t}")]
    built.append(table("mad_wide_32", "integer", ("i32", "i32", "i64"), mixed))
    short = [form for t in ("s16", "u16") for form in forms("b32", 3, f"mad.wide.{t}")]
    built.append(table("mad_wide_16", "integer", ("i16", "i16", "i32"), short))
    pairs = forms("b32", 2, "add.s16x2 add.u16x2 min.s16x2 min.u16x2 max.s16x2 max.u16x2")
    relu = forms("b32", 2, "min.relu.s16x2 max.relu.s16x2 min.relu.s32 max.relu.s32")
    built.append(table("integer_pairs", "integer", ("i32", "i32"), pairs + relu))
    return built


def _bit_fields() -> list[Case]:
    one = forms("b32", 1, "popc.b32 clz.b32 brev.b32 not.b32 cnot.b32")
    one += forms("b32", 1, "bfind.u32 bfind.s32 bfind.shiftamt.u32 bfind.shiftamt.s32")
    fields = forms("b32", 3, "bfe.u32 bfe.s32")
    fields += forms("b32", 2, "szext.clamp.s32 szext.clamp.u32 szext.wrap.s32 szext.wrap.u32")
    fields += [(f"bmsk.{m}.b32 d, b, c;", "b32") for m in ("clamp", "wrap")]
    long_one = forms("b32", 1, "popc.b64 clz.b64 bfind.u64 bfind.s64 bfind.shiftamt.u64 bfind.shiftamt.s64")
    long_one += forms("b64", 1, "brev.b64 not.b64 cnot.b64")
    return [
        table("bits_32", "integer", ("i32",), one),
        table("bits_64", "integer", ("i64",), long_one),
        table("fields_32", "integer", ("i32", "shift", "shift"), fields),
        table("fields_64", "integer", ("i64", "shift", "shift"), forms("b64", 3, "bfe.u64 bfe.s64")),
        table("insert_32", "integer", ("i32", "i32", "shift", "shift"), forms("b32", 4, "bfi.b32")),
        table("insert_64", "integer", ("i64", "i64", "shift", "shift"), forms("b64", 4, "bfi.b64")),
        table("find_nth", "integer", ("i32", "shift", "i32"), [
            (f"{{ .reg .b32 x, y; and.b32 x, b, 31; mov.b32 y, {offset}; fns.b32 d, a, x, y; }}", "b32")
            for offset in (1, 2, 5, 0, -1, -3, 33)
        ]),
    ]  # fmt: skip


def _dots() -> list[Case]:
    dots: list[Form] = []
    for a, b in product(("u32", "s32"), repeat=2):
        dots += forms("b32", 3, f"dp4a.{a}.{b} dp2a.lo.{a}.{b} dp2a.hi.{a}.{b}")
    return [table("dots", "integer", ("i32", "i32", "i32"), dots)]


def _carries() -> list[Case]:
    entries: list[Form] = []
    for t in ("u32", "s32"):
        chain = "{{ .reg .b32 x, y; {first}.cc.{t} x, a, b; {second}{cc}.{t} d, {operands}; {end} }}"
        for first, second in (("add", "addc"), ("sub", "subc")):
            entries.append((chain.format(first=first, second=second, cc="", t=t, operands="b, c", end=""), "b32"))
            end = f"addc.{t} y, 0, 0; xor.b32 d, d, y;"
            entries.append((chain.format(first=first, second=second, cc=".cc", t=t, operands="b, c", end=end), "b32"))
        for half in ("lo", "hi"):
            for other in ("lo", "hi"):
                tail = f"madc.{other}.{t} d, b, c, a;"
                entries.append((f"{{ .reg .b32 x; mad.{half}.cc.{t} x, a, b, c; {tail} }}", "b32"))
                tail = f"madc.{other}.cc.{t} d, b, c, a; addc.{t} x, 0, 0; shl.b32 x, x, 7; xor.b32 d, d, x;"
                entries.append((f"{{ .reg .b32 x; mad.{half}.cc.{t} x, a, b, c; {tail} }}", "b32"))
    long: list[Form] = []
    for t in ("u64", "s64"):
        for first, second in (("add", "addc"), ("sub", "subc")):
            long.append((f"{{ .reg .b64 x; {first}.cc.{t} x, a, b; {second}.{t} d, b, c; }}", "b64"))
            tail = f"{second}.cc.{t} d, b, c; addc.{t} x, 0, 0; xor.b64 d, d, x;"
            long.append((f"{{ .reg .b64 x; {first}.cc.{t} x, a, b; {tail} }}", "b64"))
        for half in ("lo", "hi"):
            long.append((f"{{ .reg .b64 x; mad.{half}.cc.{t} x, a, b, c; madc.{half}.{t} d, b, c, a; }}", "b64"))
    return [
        table("carries_32", "integer", ("i32", "i32", "i32"), entries),
        table("carries_64", "integer", ("i64", "i64", "i64"), long),
    ]


def _video() -> list[Case]:
    scalar: list[Form] = []
    selected = [("s32", "s32", "s32"), ("u32", "u32", "u32"), ("s32", "u32", "s32"), ("u32", "s32", "u32")]
    for op, (d, a, b) in product(("vadd", "vsub", "vabsdiff", "vmin", "vmax"), selected):
        scalar.append((f"{op}.{d}.{a}.{b} d, a, b;", "b32"))
        scalar.append((f"{op}.{d}.{a}.{b}.sat d, a.b1, b.h1;", "b32"))
        scalar.append((f"{op}.{d}.{a}.{b}.add d, a.h0, b.b3, c;", "b32"))
        scalar.append((f"{op}.{d}.{a}.{b}.sat d.b2, a, b.b0, c;", "b32"))
        scalar.append((f"{op}.{d}.{a}.{b}.max d, a, b, c;", "b32"))
    for op, mode in product(("vshl", "vshr"), ("clamp", "wrap")):
        for d, a in (("u32", "u32"), ("s32", "s32")):
            scalar.append((f"{op}.{d}.{a}.u32.{mode} d, a, b;", "b32"))
            scalar.append((f"{op}.{d}.{a}.u32.sat.{mode} d.h1, a.h0, b.b0, c;", "b32"))
    for d, a, b in (("s32", "s32", "s32"), ("u32", "u32", "u32"), ("s32", "u32", "s32")):
        scalar.append((f"vmad.{d}.{a}.{b} d, a.h0, b.h1, c;", "b32"))
        scalar.append((f"vmad.{d}.{a}.{b}.sat.shr7 d, a.h0, b.b1, c;", "b32"))
        scalar.append((f"vmad.{d}.{a}.{b}.shr15 d, a.b3, b.b1, c;", "b32"))
    scalar.append(("vmad.u32.u32.u32.po d, a.h0, b.h1, c;", "b32"))
    for comparison, t in product(("eq", "ne", "lt", "le", "gt", "ge"), ("s32", "u32")):
        scalar.append((f"vset.{t}.{t}.{comparison} d, a.h1, b.h0;", "b32"))
        scalar.append((f"vset.{t}.{t}.{comparison}.add d, a, b, c;", "b32"))
    simd: list[Form] = []
    for op, (d, a, b) in product(("vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax"), selected):
        for lanes in (2, 4):
            mask = "h10" if lanes == 2 else "b3210"
            part = "h1" if lanes == 2 else "b20"
            swap = ("h03", "h21") if lanes == 2 else ("b7250", "b0123")
            simd.append((f"{op}{lanes}.{d}.{a}.{b} d.{mask}, a, b, c;", "b32"))
            simd.append((f"{op}{lanes}.{d}.{a}.{b}.sat d.{part}, a.{swap[0]}, b.{swap[1]}, c;", "b32"))
            simd.append((f"{op}{lanes}.{d}.{a}.{b}.add d.{mask}, a, b, c;", "b32"))
    for comparison, t, lanes in product(("eq", "lt", "ge"), ("s32", "u32"), (2, 4)):
        simd.append((f"vset{lanes}.{t}.{t}.{comparison} d, a, b, c;", "b32"))
        simd.append((f"vset{lanes}.{t}.{t}.{comparison}.add d, a, b, c;", "b32"))
    # Assemblers have no instruction for these; the code that they emit does not keep the intermediate result's 34 bits.
    others = [form for form in scalar if ".max d" in form[0] or (".sat" in form[0] and re.search(r" d\.[bh]", form[0]))]
    certain = [form for form in scalar if form not in others]
    return [
        table("video_scalar", "video", ("i32", "i32", "i32"), certain),
        replace(table("video_scalar_disputed", "video", ("i32", "i32", "i32"), others), disputed=_DISPUTED),
        table("video_simd", "video", ("i32", "i32", "i32"), simd),
    ]
