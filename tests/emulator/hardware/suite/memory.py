"""Loads and stores: widths, extensions, vectors, spaces, orders and cache operators, generic addresses."""

from __future__ import annotations

import numpy as np

from suite.cases import Case
from suite.kernels import Body, case, words

_DATA = [("ptr data", words(64 * 32, "u1"))]


def cases() -> list[Case]:
    return [_global_loads(), _spaces(), _qualified(), _generic(), _constants(), _local(), _stores(), _allocated()]


def _global_loads() -> Case:
    body = Body(64)
    body("mad.wide.u32 q0, index, 32, data;")
    for t in ["b8", "u8", "s8", "b16", "u16", "s16", "b32", "u32", "s32", "f32"]:
        body(f"ld.global.{t} r0, [q0+8];")
        body.out("r0")
    for t in ["u8", "s8", "u16", "s16", "u32", "s32", "b64", "u64", "s64", "f64"]:
        body(f"ld.global.{t} q1, [q0+16];")
        body.out64("q1")
    for t in ["u8", "s8", "u16", "s16"]:
        body(f"ld.global.{t} h0, [q0+6];")
        body.out16("h0")
    for t, prefix, count in (
        ("u8", "r", 4),
        ("s8", "h", 4),
        ("u16", "r", 4),
        ("s16", "r", 2),
        ("b32", "r", 4),
        ("f32", "r", 2),
    ):
        registers = ", ".join(f"{prefix}{i}" for i in range(count))
        body(f"ld.global.v{count}.{t} {{{registers}}}, [q0+16];")
        (body.out16 if prefix == "h" else body.out)(*(f"{prefix}{i}" for i in range(count)))
    body("ld.global.v2.b64 {q1, q2}, [q0];", "ld.global.v2.u64 {q3, q4}, [q0+16];")
    body.out64("q1", "q2", "q3", "q4")
    for cached in (
        "nc",
        "ca",
        "cg",
        "cs",
        "lu",
        "cv",
        "nc.L1::no_allocate",
        "L1::evict_last",
        "L2::128B",
        "nc.L1::evict_first.L2::256B",
    ):
        body(f"ld.global.{cached}.u32 r0, [q0+4];")
        body.out("r0")
    body("ldu.global.u32 r0, [data];", "ldu.global.v2.u32 {r1, r2}, [data+8];")
    body.out("r0", "r1", "r2")
    body("prefetch.global.L2 [q0];", "prefetchu.L1 [q0];", "createpolicy.fractional.L2::evict_last.b64 q5, 1.0;")
    body("ld.global.L2::cache_hint.u32 r3, [q0+12], q5;")
    body.out("r3")
    return case("global_loads", "memory", body, _DATA, block=64)


def _spaces() -> Case:
    body = Body(64)
    body(".shared .align 16 .b8 box[2048];", ".shared .align 8 .b64 other[4];", "mad.wide.u32 q0, index, 32, data;")
    body("mov.u32 r10, box;", "mad.lo.u32 r10, tid, 32, r10;")
    body("ld.global.v4.b32 {r0, r1, r2, r3}, [q0];", "ld.global.v2.b64 {q1, q2}, [q0+16];")
    body("st.shared.v4.b32 [r10], {r3, r2, r1, r0};", "st.shared.v2.b64 [r10+16], {q2, q1};", "bar.sync 0;")
    body("xor.b32 r11, tid, 5;", "mov.u32 r12, box;", "mad.lo.u32 r12, r11, 32, r12;")
    for t in ["u8", "s8", "u16", "s16", "u32", "s32"]:
        body(f"ld.shared.{t} r4, [r12+4];")
        body.out("r4")
    body("ld.shared.v4.u8 {r4, r5, r6, r7}, [r12];", "ld.shared::cta.v2.u32 {r8, r9}, [r12+24];")
    body.out("r4", "r5", "r6", "r7", "r8", "r9")
    body("bar.sync 0;", "st.shared.u8 [r10+3], r0;", "st.shared.u16 [r10+6], r1;")
    body("st.shared.v2.u8 [r10+12], {r2, r3};", "bar.sync 0;", "ld.shared.v4.b32 {r4, r5, r6, r7}, [r12];")
    body.out("r4", "r5", "r6", "r7")
    body("bar.sync 0;", "setp.eq.u32 p0, tid, 0;", "@p0 st.volatile.shared.u64 [other+8], q1;", "bar.sync 0;")
    body("ld.volatile.shared.u64 q3, [other+8];")
    body.out64("q3")
    return case("shared_accesses", "memory", body, _DATA, block=64)


def _qualified() -> Case:
    """Every order and scope, each thread in memory of its own."""
    body = Body(64)
    body("mad.wide.u32 q0, index, 32, data;")
    for scope in ("cta", "cluster", "gpu", "sys"):
        for load, store in (("relaxed", "relaxed"), ("acquire", "release")):
            body(f"ld.{load}.{scope}.global.u32 r0, [q0];", "add.u32 r0, r0, 0x01010101;")
            body(f"st.{store}.{scope}.global.u32 [q0+4], r0;", f"ld.{load}.{scope}.global.v2.u32 {{r1, r2}}, [q0];")
            body.out("r1", "r2")
    body("ld.weak.global.u32 r0, [q0+8];", "ld.volatile.global.u32 r1, [q0+12];", "st.weak.global.u32 [q0+12], r0;")
    body(
        "st.volatile.global.u16 [q0+8], r1;",
        "ld.mmio.relaxed.sys.global.u32 r2, [q0+8];",
        "st.mmio.relaxed.sys.global.u32 [q0+16], r2;",
    )
    body(
        "st.global.wb.u32 [q0+20], r0;",
        "st.global.cg.u32 [q0+24], r1;",
        "st.global.cs.u8 [q0+28], r0;",
        "st.global.wt.u8 [q0+29], r1;",
    )
    body(
        "fence.acq_rel.gpu;",
        "fence.sc.cta;",
        "membar.gl;",
        "fence.proxy.alias;",
        "ld.global.v4.u32 {r3, r4, r5, r6}, [q0+16];",
    )
    body.out("r0", "r1", "r2", "r3", "r4", "r5", "r6")
    return case("qualified_accesses", "memory", body, _DATA, block=64, version="8.2")


def _generic() -> Case:
    body = Body(64)
    body(".shared .align 8 .b32 box[64];", ".local .align 8 .b32 mine[4];", "mad.wide.u32 q0, index, 32, data;")
    body("ld.global.v2.u32 {r0, r1}, [q0];", "cvta.global.u64 q1, q0;", "mov.u64 q2, box;", "cvta.shared.u64 q3, q2;")
    body("mad.wide.u32 q3, tid, 4, q3;", "mov.u64 q4, mine;", "cvta.local.u64 q5, q4;")
    body(
        "st.u32 [q3], r0;",
        "st.u32 [q5+4], r1;",
        "st.v2.u32 [q5+8], {r1, r0};",
        "ld.u32 r2, [q3];",
        "ld.u64 q6, [q5+8];",
    )
    body("ld.local.u32 r3, [mine+4];", "ld.u8 r4, [q1+5];", "cvta.to.shared.u64 q7, q3;", "ld.shared.u32 r5, [q7];")
    body("cvta.to.local.u64 q8, q5;", "ld.local.u32 r6, [q8+12];")
    body.out("r2", "r3", "r4", "r5", "r6")
    body.out64("q6")
    for address in ("q1", "q3", "q5"):
        for space in ("global", "shared", "local", "const"):
            body(f"isspacep.{space} p0, {address};")
            body.outp("p0")
    body("isspacep.shared::cta p0, q3;", "isspacep.shared::cluster p1, q3;", "isspacep.shared::cta p2, q1;")
    body.outp("p0", "p1", "p2")
    return case("generic_addresses", "memory", body, _DATA, block=64)


def _constants() -> Case:
    top = """
.const .align 16 .b32 numbers[8] = {1, -2, 0x80000000, 4, 5, 6, 7, 8};
.const .f32 third = 0f3EAAAAAB;
.const .f64 wide[2] = {1.5, -2.25};
.global .align 8 .u8 letters[8] = {104, 97, 114, 100, 255, 1};
.global .u32 counter = 41;
.global .u64 where[2] = {counter, generic(counter)};
.const .align 4 .u16 halves[4] = {1, 2, 65535, 4};
.global .align 4 .b32 grid[2][3] = {{1, 2, 3}, {4, 5, 6}};
"""
    body = Body(64)
    body("and.b32 r0, tid, 7;", "mov.u64 q0, numbers;", "mad.wide.u32 q0, r0, 4, q0;", "ld.const.s32 r1, [q0];")
    body("ld.const.v4.u32 {r2, r3, r4, r5}, [numbers+16];", "ld.const.f32 r6, [third];", "ld.const.f64 q1, [wide+8];")
    body("mov.u64 q2, letters;", "cvt.u64.u32 q3, r0;", "add.u64 q2, q2, q3;", "ld.global.u8 r7, [q2];")
    body(
        "ld.global.u32 r8, [counter];",
        "ld.global.u64 q4, [where];",
        "ld.global.u32 r9, [q4];",
        "ld.global.u64 q4, [where+8];",
    )
    body("ld.u32 r10, [q4];", "ld.const.u16 r11, [halves+4];", "ld.global.v2.u32 {r12, r13}, [grid+16];")
    body("cvta.const.u64 q5, q0;", "ld.u32 r14, [q5];")
    body.out(*(f"r{i}" for i in range(1, 15)))
    body.out64("q1")
    return case("constants", "memory", body, block=64, top=top)


def _local() -> Case:
    """A local array that is indexed by data, and parameters read at every width."""
    body = Body(64)
    body(
        ".local .align 16 .b8 stack[64];",
        "mad.wide.u32 q0, index, 32, data;",
        "ld.global.v4.u32 {r0, r1, r2, r3}, [q0];",
    )
    body("st.local.v4.u32 [stack], {r0, r1, r2, r3};", "st.local.v2.u32 [stack+16], {r3, r1};", "and.b32 r4, r0, 20;")
    body(
        "mov.u32 r5, stack;",
        "add.u32 r5, r5, r4;",
        "ld.local.u32 r6, [r5];",
        "ld.local.s8 r7, [r5+1];",
        "ld.local.u16 r8, [r5+2];",
    )
    body(
        "st.local.u8 [r5], lane;",
        "ld.local.v2.u32 {r9, r10}, [stack+16];",
        "ld.param.u32 r11, [three_arg];",
        "ld.param.u8 r12, [three_arg+1];",
    )
    body(
        "ld.param.u64 q1, [four_arg];",
        "ld.param.u32 r13, [four_arg+4];",
        "ld.param.f32 r14, [five_arg];",
        "ld.param.s16 r15, [six_arg];",
    )
    body.out(*(f"r{i}" for i in range(6, 16)))
    body.out64("q1")
    scalars = [
        ("u32 three", lambda rng: np.uint32(0x81828384)),
        ("u64 four", lambda rng: np.uint64(0x1122334455667788)),
        ("f32 five", lambda rng: np.float32(1.25)),
        ("s16 six", lambda rng: np.int16(-77)),
    ]
    return case("local_and_parameters", "memory", body, [*_DATA, *scalars], block=64)


def _stores() -> Case:
    body = Body(64)
    body(
        "mad.wide.u32 q0, index, 32, data;",
        "ld.global.v4.b32 {r0, r1, r2, r3}, [q0];",
        "cvt.u16.u32 h0, r0;",
        "mov.b64 q1, {r1, r2};",
    )
    body("bar.sync 0;", "xor.b32 r5, index, 21;", "mad.wide.u32 q2, r5, 32, data;")
    body(
        "st.global.u8 [q2], r1;",
        "st.global.b8 [q2+1], h0;",
        "st.global.u8 [q2+2], q1;",
        "st.global.u16 [q2+4], r3;",
        "st.global.v2.u16 [q2+8], {r2, r0};",
    )
    body(
        "st.global.v4.u8 [q2+12], {r0, r1, r2, r3};",
        "st.global.u32 [q2+16], q1;",
        "st.global.v2.f32 [q2+24], {r3, r0};",
    )
    body.out("r5")
    return case("global_stores", "memory", body, _DATA, block=64)


def _allocated() -> Case:
    body = Body(64)
    body(
        "mad.wide.u32 q0, index, 32, data;",
        "ld.global.u32 r0, [q0];",
        "stacksave.u64 q1;",
        "and.b32 r1, r0, 48;",
        "add.u32 r1, r1, 32;",
    )
    body("cvt.u64.u32 q4, r1;", "alloca.u64 q2, q4, 16;", "mov.u32 r2, 0;")
    body(
        "again:",
        "cvt.u64.u32 q3, r2;",
        "add.u64 q3, q2, q3;",
        "add.u32 r3, r0, r2;",
        "st.local.u32 [q3], r3;",
        "add.u32 r2, r2, 4;",
    )
    body(
        "setp.lt.u32 p0, r2, r1;",
        "@p0 bra again;",
        "ld.local.u32 r4, [q2+28];",
        "sub.u32 r5, r1, 4;",
        "cvt.u64.u32 q3, r5;",
    )
    body("add.u64 q3, q2, q3;", "ld.local.u32 r6, [q3];", "stackrestore.u64 q1;", "bar.warp.sync 0xffffffff;")
    body.out("r4", "r6")
    return case("stack_allocation", "memory", body, _DATA, block=64)
