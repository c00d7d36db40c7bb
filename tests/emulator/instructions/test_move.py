"""mov: constants, addresses, packing and unpacking of every width."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from forms import bytes_of, check, halves, joined, module, refused, run

from tilec.backend.emulator.launch import emulate


@pytest.mark.parametrize("width", [16, 32, 64])
def test_bits_are_moved_as_they_are(width: int) -> None:
    kinds = "bus" if width == 16 else "busf"
    for kind in kinds:
        check(f"mov.{kind}{width} d, a;", width, (width,), lambda a: a)


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [
        ("mov.b32 d, 0x7fc12345;", 32, 0x7FC12345),
        ("mov.f32 d, 0f3F800001;", 32, 0x3F800001),
        ("mov.f32 d, 1.1;", 32, struct.unpack("<I", struct.pack("<f", 1.1))[0]),
        ("mov.f64 d, -2.5e-3;", 64, struct.unpack("<Q", struct.pack("<d", -2.5e-3))[0]),
        ("mov.f64 d, 0d7FF0000000000001;", 64, 0x7FF0000000000001),
        ("mov.s16 d, -3;", 16, 0xFFFD),
        ("mov.u64 d, 0xFFFFFFFF00000001U;", 64, 0xFFFFFFFF00000001),
        ("mov.u32 d, (17 << 3) | 5;", 32, 141),
        ("mov.s64 d, -(5 % 3) * 7 + (1 ? 2 : 3);", 64, 2**64 - 12),
        ("mov.u32 d, 017 + 0b101;", 32, 20),
        ("mov.u32 d, WARP_SZ;", 32, 32),
    ],
)
def test_constants(text: str, width: int, expected: int) -> None:
    assert run(text, width, (), [()]) == [expected]


def test_predicates() -> None:
    check("mov.pred d, a;", 1, (1,), lambda a: a, [(0,), (1,)])
    check("mov.pred d, 1;", 1, (1,), lambda a: 1, [(0,), (1,)])
    check("mov.pred d, !a;", 1, (1,), lambda a: 1 - a, [(0,), (1,)])


def test_packing_and_unpacking() -> None:
    check("mov.b32 d, {a, b};", 32, (16, 16), lambda a, b: a | b << 16)
    check("mov.b64 d, {a, b};", 64, (32, 32), lambda a, b: a | b << 32)
    check("mov.b64 d, {a, b, c, e};", 64, (16,) * 4, lambda *parts: joined(parts, 16))
    check("{ .reg .b16 x; mov.b32 {x, d}, a; }", 16, (32,), lambda a: halves(a)[1])
    check("{ .reg .b16 x, y; mov.b32 {x, y}, a; mov.b32 d, {y, x}; }", 32, (32,), lambda a: joined(halves(a)[::-1], 16))
    check("{ .reg .b32 x; mov.b64 {_, x}, a; mov.b64 d, {x, 7}; }", 64, (64,), lambda a: a >> 32 | 7 << 32)
    swap = "{ .reg .b8 w, x, y, z; mov.b32 {w, x, y, z}, a; mov.b32 d, {z, x, w, y}; }"
    check(swap, 32, (32,), lambda a: joined([bytes_of(a)[i] for i in (3, 1, 0, 2)], 8))
    check("{ .reg .b8 x, y; mov.b16 {x, y}, a; mov.b16 d, {y, x}; }", 16, (16,), lambda a: (a >> 8) | (a & 255) << 8)
    check("{ .reg .b16 w, x, y, z; mov.b64 {w, x, y, z}, a; mov.b64 d, {z, y, x, w}; }", 64, (64,), lambda a: joined(
        [a >> s & 0xFFFF for s in (48, 32, 16, 0)], 16))  # fmt: skip


def test_a_register_may_be_unpacked_into_itself() -> None:
    check("{ .reg .b64 x; mov.b64 x, {a, b}; mov.b64 {b, a}, x; sub.u32 d, a, b; }", 32, (32, 32), lambda a, b: b - a)


def test_registers_of_128_bits() -> None:
    text = "{{ .reg .b128 q, r; .reg .b64 x, y; mov.b128 q, {{a, b}}; mov.b128 r, q; mov.b128 {{x, y}}, r; mov.b64 d, {0}; }}"
    check(text.format("x"), 64, (64, 64), lambda a, b: a)
    check(text.format("y"), 64, (64, 64), lambda a, b: b)
    text = "{{ .reg .b128 q; .reg .b32 w<4>; mov.b128 q, {{a, b, c, e}}; mov.b128 {{w0, w1, w2, w3}}, q; mov.b32 d, w{0}; }}"
    for i in range(4):
        check(text.format(i), 32, (32,) * 4, lambda *parts, i=i: parts[i])


def test_special_registers_of_four_elements() -> None:
    text = "{ .reg .b32 x<4>; mov.v4.u32 {x0, x1, x2, x3}, %tid; mad.lo.u32 d, x1, 100, x0; add.u32 d, d, x3; }"
    check(text, 32, (32,), lambda thread: thread, [(thread,) for thread in range(70)])
    check("{ mov.v2.u32 {a, b}, {b, a}; sub.u32 d, a, b; }", 32, (32, 32), lambda a, b: b - a)


def test_addresses_of_variables_and_functions() -> None:
    top = """
.global .align 4 .b32 table[4] = {10, 11, 12, 13};
.shared .align 16 .b8 pool[64];
.func (.param .b32 r) seven() { .reg .b32 x; mov.u32 x, 7; st.param.b32 [r], x; ret; }
"""
    body = """
    .reg .b64 x<6>; .reg .b32 r<6>; .local .align 8 .b8 kept[16];
    ld.param.u64 x0, [out];
    mov.u64 x1, table;
    ld.global.u32 r1, [x1+8];
    mov.u64 x2, table+4;
    ld.global.u32 r2, [x2];
    mov.u64 x3, table[3];
    ld.global.u32 r3, [x3];
    st.global.v4.b32 [x0], {r1, r2, r3, 0};
    mov.u32 r1, kept;
    add.u32 r1, r1, 8;
    st.local.u32 [kept+8], 99;
    ld.local.u32 r2, [r1];
    mov.u32 r1, pool;
    st.shared.u32 [pool+12], 55;
    ld.shared.u32 r3, [r1+12];
    prototype: .callprototype (.param .b32 _) _ ();
    mov.u64 x4, seven;
    { .param .b32 v; call (v), x4, (), prototype; ld.param.b32 r4, [v]; }
    st.global.v4.b32 [x0+16], {r2, r3, r4, 0};
    ret;"""
    out = np.full(8, 1, np.uint32)
    emulate(module(body, ".param .u64 out", top=top), "k", 1, 1, [out])
    assert out.tolist() == [12, 11, 13, 0, 99, 55, 7, 0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mov.b32 r1, {h1, h2, h3};", "3 elements do not make a .b32: mov.b32"),
        ("mov.u32 r1, {h1, h2};", "packing and unpacking are for bit-size types: mov.u32"),
        ("mov.b64 {r1, r2, r3}, x1;", "3 elements do not take a .b64: mov.b64"),
        ("mov.b64 {r1, r2}, {r3, r4};", "a move from a vector to a vector without .v2 or .v4: mov.b64"),
        ("mov.f16 h1, h2;", ".f16 is no type of mov: mov.f16"),
        ("mov.pred p1, r2;", "register r2 is .b32, not .pred: mov.pred"),
        ("mov.b128 x1, x2;", "register x1 is .b64, narrower than .b128: mov.b128"),
        ("mov.v2.u32 {r1, r2}, %tid;", "a move of 2 elements between 4 and 2: mov.v2.u32"),
        ("mov.u32 r1, %pm3;", "%pm3 is a performance counter, whose behaviour is undefined: mov.u32"),
        ("mov.b32 r1, %reserved_smem_offset_0;", "the emulator does not know the special register %reserved_smem_offset_0: mov.b32"),
    ],
)  # fmt: skip
def test_what_is_no_form_is_refused(text: str, message: str) -> None:
    assert refused(text) == message
