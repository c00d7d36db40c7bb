"""Divergent control flow: nested branches, loops with a trip count a lane, brx.idx, calls, recursion, predicated exits."""

from __future__ import annotations

from suite.cases import Case
from suite.kernels import Body, case, words

_DATA = [("ptr data", words(64))]


def cases() -> list[Case]:
    return [_nested(), _loops(), _indexed(), _calls(), _recursion(), _indirect(), _exits()]


def _start() -> Body:
    body = Body(64)
    body("mad.wide.u32 q0, index, 4, data;", "ld.global.u32 r0, [q0];", "mov.u32 r1, 0;")
    return body


def _nested() -> Case:
    body = _start()
    body("and.b32 r2, r0, 1;", "setp.eq.u32 p0, r2, 0;", "@p0 bra even;")
    body("and.b32 r3, r0, 6;", "setp.eq.u32 p1, r3, 2;", "@!p1 bra odd_other;", "add.u32 r1, r1, 100;", "bra odd_end;")
    body("odd_other:", "xor.b32 r1, r0, 0x5555;", "setp.gt.s32 p2, r0, 0;", "@p2 bra odd_end;", "add.u32 r1, r1, 3;")
    body("odd_end:", "mul.lo.u32 r1, r1, 3;", "bra join;")
    body("even:", "shr.u32 r1, r0, 3;", "setp.lt.u32 p1, lane, 20;", "@p1 bra join;")
    body("not.b32 r1, r1;", "join:", "add.u32 r1, r1, lane;", "activemask.b32 r4;")
    body("bar.warp.sync 0xffffffff;", "vote.sync.ballot.b32 r5, p0, 0xffffffff;")
    body.out("r1", "r5")
    return case("nested_branches", "control", body, _DATA, block=64)


def _loops() -> Case:
    body = _start()
    body("and.b32 r2, r0, 15;", "mov.u32 r3, 0;", "mov.u32 r7, 0;")
    body("outer:", "setp.ge.u32 p0, r3, r2;", "@p0 bra done;", "mov.u32 r4, 0;")
    body("inner:", "mad.lo.u32 r1, r1, 5, r4;", "add.u32 r4, r4, 1;", "and.b32 r5, r1, 3;", "setp.eq.u32 p1, r5, 3;")
    body("@p1 bra leave;", "setp.lt.u32 p2, r4, r3;", "@p2 bra inner;", "leave:", "add.u32 r7, r7, r4;")
    body(
        "add.u32 r3, r3, 1;",
        "xor.b32 r6, r1, r0;",
        "and.b32 r6, r6, 0x1f;",
        "setp.eq.u32 p3, r6, 7;",
        "@!p3 bra outer;",
    )
    body("add.u32 r1, r1, 1000;", "done:", "bar.warp.sync 0xffffffff;")
    body.out("r1", "r3", "r7")
    return case("divergent_loops", "control", body, _DATA, block=64)


def _indexed() -> Case:
    body = _start()
    body("targets: .branchtargets first, second, third, second;", "and.b32 r2, r0, 3;", "brx.idx r2, targets;")
    body("first:", "add.u32 r1, r0, 1;", "bra after;", "second:", "add.u32 r1, r1, 2;", "mad.lo.u32 r1, r2, 16, r1;")
    body("bra after;", "third:", "mul.lo.u32 r1, r0, 3;", "after:", "bar.warp.sync 0xffffffff;")
    body.out("r1")
    return case("indexed_branch", "control", body, _DATA, block=64)


_FUNCTIONS = """
.func (.param .b32 sum) weigh(.param .b32 x, .param .b64 y)
{
    .reg .b32 a, b, c;
    .reg .b64 l;
    .reg .pred p;
    ld.param.b32 a, [x];
    ld.param.b64 l, [y];
    mov.b64 {b, c}, l;
    mad.lo.u32 a, a, 7, b;
    xor.b32 a, a, c;
    setp.gt.s32 p, a, 0;
    @p bra positive;
    neg.s32 a, a;
positive:
    st.param.b32 [sum], a;
    ret;
}
.func (.reg .b32 least) lesser(.reg .b32 x, .reg .b32 y)
{
    min.u32 least, x, y;
    ret;
}
.func (.param .align 8 .b8 both[16]) pair(.param .align 8 .b8 given[12])
{
    .reg .b32 a, b, c;
    ld.param.b32 a, [given];
    ld.param.b32 b, [given+4];
    ld.param.b32 c, [given+8];
    add.u32 a, a, b;
    st.param.b32 [both], a;
    st.param.v2.b32 [both+8], {b, c};
    mul.lo.u32 c, a, c;
    st.param.b32 [both+4], c;
    ret;
}
"""


def _calls() -> Case:
    body = _start()
    body("mov.b64 q1, {lane, r0};", "and.b32 r9, r0, 1;", "setp.eq.u32 p0, r9, 0;", "mov.u32 r3, 0;", "@p0 bra skip;")
    body("{ .param .b32 x0; .param .b64 x1; .param .b32 v; st.param.b32 [x0], r0; st.param.b64 [x1], q1;")
    body("call (v), weigh, (x0, x1); ld.param.b32 r3, [v]; }", "skip:")
    body("call.uni (r4), lesser, (r0, 0x40000000);")
    body("{ .param .align 8 .b8 g[12]; .param .align 8 .b8 w[16]; st.param.b32 [g], r0; st.param.b32 [g+4], lane;")
    body(
        "st.param.b32 [g+8], r4; call (w), pair, (g); ld.param.v2.b32 {r5, r6}, [w]; ld.param.v2.b32 {r7, r8}, [w+8]; }"
    )
    body.out("r3", "r4", "r5", "r6", "r7", "r8")
    return case("calls", "control", body, _DATA, block=64, top=_FUNCTIONS)


def _recursion() -> Case:
    top = """
.func (.param .b32 value) climb(.param .b32 steps)
{
    .local .align 4 .b8 kept[16];
    .reg .b32 n, m, v, a;
    .reg .pred p;
    ld.param.b32 n, [steps];
    setp.lt.u32 p, n, 2;
    @p bra base;
    mov.u32 a, kept;
    st.local.b32 [a], n;
    add.u32 m, n, 100;
    st.local.b32 [a+4], m;
    sub.u32 m, n, 1;
    { .param .b32 s; .param .b32 r; st.param.b32 [s], m; call (r), climb, (s); ld.param.b32 v, [r]; }
    ld.local.b32 n, [a];
    mad.lo.u32 v, v, 3, n;
    sub.u32 m, n, 2;
    { .param .b32 s; .param .b32 r; st.param.b32 [s], m; call (r), climb, (s); ld.param.b32 m, [r]; }
    ld.local.b32 n, [a+4];
    add.u32 v, v, m;
    xor.b32 n, v, n;
    st.param.b32 [value], n;
    ret;
base:
    st.param.b32 [value], n;
    ret;
}
"""
    body = _start()
    body("and.b32 r2, r0, 7;", "{ .param .b32 s; .param .b32 v; st.param.b32 [s], r2;")
    body("call (v), climb, (s); ld.param.b32 r1, [v]; }")
    body.out("r1")
    return case("recursion", "control", body, _DATA, block=64, top=top)


def _indirect() -> Case:
    top = "".join(
        f".func (.param .b32 v) {name}(.param .b32 x)\n{{ .reg .b32 a; ld.param.b32 a, [x]; {text} st.param.b32 [v], a; ret; }}\n"
        for name, text in (("twice", "shl.b32 a, a, 1;"), ("less", "sub.u32 a, a, 9;"))
    )
    body = _start()
    body("prototype: .callprototype (.param .b32 _) _ (.param .b32 _);", "mov.u64 q1, twice;", "mov.u64 q2, less;")
    body("setp.gt.s32 p0, r0, 0;", "selp.b64 q3, q1, q2, p0;", "{ .param .b32 s; .param .b32 v; st.param.b32 [s], r0;")
    body("call (v), q3, (s), prototype; ld.param.b32 r1, [v]; }")
    body.out("r1")
    return case("indirect_calls", "control", body, _DATA, block=64, top=top)


def _exits() -> Case:
    body = _start()
    body.out("r0")
    body("setp.lt.u32 p0, lane, 9;", "@p0 exit;")
    body.out("lane")
    body("and.b32 r2, r0, 1;", "setp.eq.u32 p1, r2, 1;", "@p1 ret;")
    body("activemask.b32 r3;", "add.u32 r4, r0, 5;")
    body.out("r4")
    return case("exits", "control", body, _DATA, block=64)
