"""Registers by declaration: typed, vectors and their parts, packed halves, sinks, and predicates as values."""

from __future__ import annotations

from suite.cases import Case
from suite.kernels import Body, case, words

_DATA = [("ptr data", words(64 * 32, "u1"))]


def cases() -> list[Case]:
    return [_typed(), _vectors(), _guards()]


def _typed() -> Case:
    body = Body(64)
    body(
        "mad.wide.u32 q0, index, 32, data;",
        ".reg .f32 f0, f1;",
        ".reg .f64 d0, d1;",
        ".reg .s16 s0, s1;",
        ".reg .u64 u0;",
    )
    body(
        ".reg .f16 x0, x1;",
        ".reg .f16x2 y0, y1;",
        ".reg .s32 i<3>;",
        ".reg .u32 v0, v1;",
        ".reg .b16 z0;",
        ".reg .b16 w0, w1;",
    )
    body(
        "ld.global.v2.f32 {f0, f1}, [q0];",
        "ld.global.v2.f64 {d0, d1}, [q0+16];",
        "ld.global.s16 s0, [q0+2];",
        "ld.global.b16 s1, [q0+4];",
    )
    body(
        "ld.global.u64 u0, [q0+8];",
        "ld.global.b16 x0, [q0+6];",
        "ld.global.b16 x1, [q0+8];",
        "ld.global.b32 y0, [q0+12];",
        "mov.b32 y1, {x0, x1};",
    )
    body(
        "ld.global.s32 i0, [q0];",
        "ld.global.s8 i1, [q0+5];",
        "mul.rn.f32 f0, f0, f1;",
        "fma.rn.f64 d0, d0, d1, d1;",
        "sub.s16 s1, s0, s1;",
    )
    body(
        "add.f16 x0, x0, x1;",
        "fma.rn.f16x2 y0, y0, y1, y1;",
        "div.s32 i2, i0, i1;",
        "shr.s32 i0, i0, 5;",
        "mul.hi.u64 u0, u0, 0x1234567890ABCDEF;",
    )
    body(
        "cvt.rn.f32.s32 f1, i0;",
        "cvt.s32.s16 i1, s1;",
        "cvt.f32.f16 f1, x0;",
        "mov.b32 v0, f1;",
        "mov.b64 {v1, _}, d0;",
        "mov.b16 z0, x0;",
    )
    body("ld.global.b16 w0, [q0+10];", "ld.global.b16 w1, [q0+14];", "fma.rn.bf16 w0, w0, w1, w0;", "mov.b16 h0, w0;")
    body(
        "st.global.f32 [o], f0;",
        "st.global.b32 [o+256], f1;",
        "st.global.s32 [o+512], i1;",
        "st.global.b32 [o+768], y0;",
    )
    body.columns = 4
    body.out("i0", "i2", "v0", "v1")
    body.out16("z0", "h0", "s1")
    body.out64("u0", "d0")
    return case("typed_registers", "registers", body, _DATA, block=64)


def _vectors() -> Case:
    body = Body(64)
    body(
        "mad.wide.u32 q0, index, 32, data;",
        ".reg .v4 .f32 v;",
        ".reg .v2 .b32 w;",
        ".reg .v4 .u32 x;",
        ".reg .v2 .u16 y;",
    )
    body("ld.global.v4.f32 v, [q0];", "ld.global.v2.b32 w, [q0+16];", "mov.u32 x.x, w.y;")
    body(
        "mov.u32 x.y, w.x;",
        "mov.u32 x.z, 7;",
        "add.u32 x.w, x.x, x.y;",
        "min.f32 v.x, v.x, v.w;",
        "neg.f32 v.g, v.b;",
        "ld.global.v2.u16 y, [q0+24];",
    )
    body("add.u16 y.x, y.x, y.y;", "mov.b64 q1, {w.y, w.x};", "mov.u32 r0, x.r;", "mov.u32 r1, x.a;")
    body("mov.b32 r2, v.x;", "mov.b32 r3, v.y;", "mov.b16 h0, y.x;")
    body.out("r0", "r1", "r2", "r3", "x.z")
    body.out16("h0")
    body.out64("q1")
    return case("vector_registers", "registers", body, _DATA, block=64)


def _guards() -> Case:
    """Guards on every kind of instruction, both outcomes of a setp, predicates combined and moved."""
    body = Body(64)
    body(
        "mad.wide.u32 q0, index, 32, data;",
        "ld.global.v4.u32 {r0, r1, r2, r3}, [q0];",
        "mov.u32 r4, 1;",
        "mov.u32 r5, 2;",
        "mov.u64 q1, 3;",
    )
    body(
        "setp.lt.s32 p0|p1, r0, r1;",
        "setp.gt.and.u32 p2|p3, r2, r3, !p0;",
        "setp.eq.xor.s32 p4, r4, 1, p2;",
        "mov.pred p5, p3;",
        "xor.pred p6, p0, p2;",
        "not.pred p7, p6;",
    )
    body(
        "@p0 add.u32 r4, r0, r1;",
        "@!p0 sub.u32 r4, r0, r1;",
        "@p2 mov.b64 q1, {r2, r3};",
        "@p3 ld.global.u32 r5, [q0+20];",
        "@!p6 st.global.u32 [q0+28], r4;",
    )
    body(
        "@p1 bra over;",
        "@p4 mul.lo.u32 r5, r5, 3;",
        "add.u32 r5, r5, 11;",
        "over:",
        "setp.ne.s32 _|p8, r5, r4;",
        "and.pred p9, p8, 1;",
        "or.pred p10, p9, p7;",
    )
    body.out("r4", "r5")
    body.outp("p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8", "p10")
    body.out64("q1")
    return case("guards", "registers", body, _DATA, block=64)
