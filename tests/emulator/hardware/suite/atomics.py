"""atom and red: every operation, type, space and order.

Each thread works on a cell of its own, so that the old value is certain; where threads share a cell, the operation gives
the same result in any order and the old values are left out.
"""

from __future__ import annotations

import numpy as np

from suite.cases import Case
from suite.kernels import Body, Form, case, table, words

_OPERATIONS = {
    "b32": [
        "and.b32",
        "or.b32",
        "xor.b32",
        "exch.b32",
        "add.u32",
        "add.s32",
        "inc.u32",
        "dec.u32",
        "min.u32",
        "min.s32",
        "max.u32",
        "max.s32",
    ],
    "b64": ["and.b64", "or.b64", "xor.b64", "exch.b64", "add.u64", "min.u64", "min.s64", "max.u64", "max.s64"],
}
_PRELUDE = {
    "global": ".global .align 16 .b8 cells[4096]; mov.u64 q1, cells; mad.wide.u32 q1, index, 16, q1;",
    "shared": ".shared .align 16 .b8 cells[4096]; mov.u64 q1, cells; mad.wide.u32 q1, index, 16, q1;",
}


def cases() -> list[Case]:
    built: list[Case] = []
    for space in ("global", "shared"):
        for width, operations in _OPERATIONS.items():
            kind = f"i{width[1:]}"
            entries = [
                form for op in operations for form in _pair(space, width, op, with_red=not op.startswith("exch"))
            ]
            entries += _compare(space, width)
            built.append(
                table(f"atomics_{space}_{width}", "atomics", (kind,) * 3, entries, rows=128, prelude=_PRELUDE[space])
            )
        for t, width, kind in (
            ("add.f32", "b32", "f32"),
            ("add.f64", "b64", "f64"),
            ("add.noftz.f16", "b16", "f16"),
            ("add.noftz.f16x2", "b32", "f16x2"),
            ("add.noftz.bf16", "b16", "bf16"),
            ("add.noftz.bf16x2", "b32", "bf16x2"),
        ):
            name = f"atomics_{space}_{t.rsplit('.', 1)[1]}"
            built.append(table(name, "atomics", (kind, kind), _pair(space, width, t), prelude=_PRELUDE[space]))
        built.append(
            table(
                f"atomics_{space}_b16",
                "atomics",
                ("i16", "i16", "i16"),
                _compare(space, "b16"),
                prelude=_PRELUDE[space],
            )
        )
        built.append(_wide(space))
    return [*built, _vectors(), _orders(), _shared_cells()]


def _pair(space: str, width: str, op: str, *, with_red: bool = True) -> list[Form]:
    """Old and new value of one atom; new value of the red."""
    start = f"st.{space}.{width} [q1], a;"
    forms = [
        (f"{start} atom.{space}.{op} d, [q1], b;", width),
        (f"{{ .reg .{width} x; {start} atom.{space}.{op} x, [q1], b; ld.{space}.{width} d, [q1]; }}", width),
    ]
    if with_red:
        forms.append((f"{start} red.{space}.{op} [q1], b; ld.{space}.{width} d, [q1];", width))
    return forms


def _compare(space: str, width: str) -> list[Form]:
    """Compare-and-swap that fails, as random bits decide, and one that succeeds."""
    start = f"st.{space}.{width} [q1], a;"
    forms: list[Form] = []
    for expected in ("a", "b"):
        text = f"atom.{space}.cas.{width} x, [q1], {expected}, c;"
        forms.append((f"{{ .reg .{width} x; {start} {text} mov.{width} d, x; }}", width))
        forms.append((f"{{ .reg .{width} x; {start} {text} ld.{space}.{width} d, [q1]; }}", width))
    return forms


def _wide(space: str) -> Case:
    """128 bits: exchange and compare-and-swap."""
    body = Body(64)
    body(_PRELUDE[space], "mad.wide.u32 q0, index, 32, data;", ".reg .b128 w0, w1, w2;")
    body("ld.global.v2.u64 {q2, q3}, [q0];", "ld.global.v2.u64 {q4, q5}, [q0+16];", "mov.b128 w0, {q4, q5};")
    body(f"st.{space}.v2.u64 [q1], {{q2, q3}};", f"atom.{space}.exch.b128 w1, [q1], w0;", "mov.b128 {q6, q7}, w1;")
    body(f"ld.{space}.v2.u64 {{q8, q9}}, [q1];")
    body.out64("q6", "q7", "q8", "q9")
    body(
        "and.b32 r0, index, 1;",
        "cvt.u64.u32 q10, r0;",
        "xor.b64 q11, q5, q10;",
        "mov.b128 w2, {q4, q11};",
        "mov.b128 w0, {q2, q3};",
    )
    body(f"atom.{space}.cas.b128 w1, [q1], w2, w0;", "mov.b128 {q6, q7}, w1;", f"ld.{space}.v2.u64 {{q8, q9}}, [q1];")
    body.out64("q6", "q7", "q8", "q9")
    return case(f"atomics_{space}_b128", "atomics", body, [("ptr data", words(64 * 32, "u1"))], block=64, version="8.4")


def _vectors() -> Case:
    body = Body(64)
    body(_PRELUDE["global"], "mad.wide.u32 q0, index, 32, data;")
    body("ld.global.v4.u32 {r0, r1, r2, r3}, [q0];", "ld.global.v4.u32 {r4, r5, r6, r7}, [q0+16];")
    for i in range(4):
        body(f"mov.b32 {{h{2 * i}, h{2 * i + 1}}}, r{4 + i};")
    start = "st.global.v4.u32 [q1], {r0, r1, r2, r3};"
    finish = "ld.global.v4.u32 {r8, r9, r10, r11}, [q1];"
    for t, operations in (("f32", ["add"]), ("f16x2", ["add", "min", "max"]), ("bf16x2", ["add", "min", "max"])):
        noftz = "" if t == "f32" else ".noftz"
        for op in operations:
            for count in (2, 4):
                given = ", ".join(f"r{4 + i}" for i in range(count))
                old = ", ".join(f"r{12 + i}" for i in range(count))
                body(start, f"red.global.{op}{noftz}.v{count}.{t} [q1], {{{given}}};", finish)
                body.out("r8", "r9", "r10", "r11")
                body(start, f"atom.global.{op}{noftz}.v{count}.{t} {{{old}}}, [q1], {{{given}}};", finish)
                body.out("r8", "r9", "r10", "r11", *(f"r{12 + i}" for i in range(count)))
    for t in ("f16", "bf16"):
        for op in ("add", "min", "max"):
            for count in (2, 4, 8):
                given = ", ".join(f"h{i}" for i in range(count))
                body(start, f"red.global.{op}.noftz.v{count}.{t} [q1], {{{given}}};", finish)
                body.out("r8", "r9", "r10", "r11")
    old = ", ".join(f"h{8 + i}" for i in range(8))
    body(start, f"atom.global.add.noftz.v8.f16 {{{old}}}, [q1], {{h0, h1, h2, h3, h4, h5, h6, h7}};", finish)
    body.out("r8", "r9", "r10", "r11")
    body.out16(*(f"h{8 + i}" for i in range(8)))
    return case("atomics_vector", "atomics", body, [("ptr data", words(64 * 32, "u1"))], block=64, version="8.1")


def _orders() -> Case:
    entries: list[Form] = []
    for scope in ("cta", "cluster", "gpu", "sys"):
        for order in ("relaxed", "acquire", "release", "acq_rel"):
            entries.append((f"st.global.b32 [q1], a; atom.{order}.{scope}.global.add.u32 d, [q1], b;", "b32"))
            if order in ("relaxed", "release"):
                entries.append(
                    (
                        f"st.global.b32 [q1], a; red.{order}.{scope}.global.xor.b32 [q1], b; ld.global.b32 d, [q1];",
                        "b32",
                    )
                )
    entries.append(("st.global.b32 [q1], a; atom.add.u32 d, [q1], b;", "b32"))
    entries.append(("st.global.b32 [q1], a; red.min.s32 [q1], b; ld.global.b32 d, [q1];", "b32"))
    return table("atomics_orders", "atomics", ("i32", "i32"), entries, rows=128, prelude=_PRELUDE["global"])


def _shared_cells() -> Case:
    """All threads on the same cells, in global and shared memory; the last values are stored by one thread."""
    operations = [
        "add.u32",
        "min.s32",
        "max.u32",
        "and.b32",
        "or.b32",
        "xor.b32",
        "inc.u32",
        "dec.u32",
        "add.f32",
        "add.u64",
        "max.s64",
        "add.f64",
    ]
    body = Body(128)
    body(
        ".shared .align 8 .b64 cells[16];",
        "mad.wide.u32 q0, index, 4, data;",
        "ld.global.u32 r0, [q0];",
        "and.b32 r1, r0, 255;",
    )
    body(
        "cvt.rn.f32.u32 r2, r1;",
        "cvt.u64.u32 q1, r0;",
        "cvt.rn.f64.u32 q2, r1;",
        "setp.lt.u32 p0, tid, 16;",
        "mov.u64 q3, cells;",
    )
    body("mad.wide.u32 q4, tid, 8, q3;", "mov.b64 q5, 5;", "@p0 st.shared.u64 [q4], q5;", "bar.sync 0;")
    for i, op in enumerate(operations):
        operand = {"f32": "r2", "f64": "q2", "u64": "q1", "s64": "q1"}.get(op.split(".")[1], "r0" if i < 6 else "17")
        body(f"red.shared.{op} [cells+{8 * i}], {operand};", f"red.global.{op} [totals+{8 * i}], {operand};")
    body("bar.sync 0;", "mov.b64 q6, 0;", "@p0 ld.shared.u64 q6, [q4];")
    body.out64("q6")
    inputs = [("ptr data", words(128)), ("ptr totals", lambda rng: np.full(16, 5, np.uint64))]
    return case("atomics_same_cell", "atomics", body, inputs, block=128)
