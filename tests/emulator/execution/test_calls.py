"""Calls: arguments and results of all kinds, divergent and indirect calls, recursion with memory of its own."""

from __future__ import annotations

from functools import cache

import pytest
from threads import NOTHING, ORDERS, OrderName, run

from tilec.backend.emulator.faults import EmulatorFault, FaultKind, UnsupportedInstruction

orders = pytest.mark.parametrize(("order", "seed"), ORDERS)
WORDS = [*range(20), 2**31, 2**32 - 1, *range(100, 150)]


@orders
def test_arguments_and_results_in_parameters(order: OrderName, seed: int) -> None:
    top = """
.func (.param .align 8 .b8 sum[16]) combine(.param .b32 a, .param .align 8 .b8 pair[16], .param .b16 h)
{
    .reg .b32 w; .reg .b64 u, v; .reg .b16 s;
    ld.param.b32 w, [a];
    ld.param.b64 u, [pair];
    ld.param.b64 v, [pair+8];
    ld.param.b16 s, [h];
    mad.wide.u32 u, w, 3, u;
    st.param.b64 [sum+8], u;
    st.param.b64 [sum], v;
    st.param.b16 [sum+2], s;
    ret;
}
"""
    body = """
    {
        .param .b32 first;
        .param .align 8 .b8 second[16];
        .param .b16 third;
        .param .align 8 .b8 back[16];
        cvt.u64.u32 x1, a;
        st.param.b32 [first], t;
        st.param.b64 [second], x1;
        st.param.b64 [second+8], 0x1122334455667788;
        st.param.b16 [third], 0x5AA5;
        call.uni (back), combine, (first, second, third);
        ld.param.b64 x2, [back];
        ld.param.b64 x3, [back+8];
    }
    xor.b64 x2, x2, x3;
    mov.b64 {r1, r2}, x2;
    xor.b32 d, r1, r2;
"""

    def expected(thread: int, a: int) -> int:
        mixed = 0x112233445AA57788 ^ (3 * thread + a)
        return (mixed ^ mixed >> 32) & 0xFFFFFFFF

    assert run(body, WORDS, top=top, order=order, seed=seed)[0] == [expected(i, a) for i, a in enumerate(WORDS)]


@orders
def test_arguments_and_results_in_registers(order: OrderName, seed: int) -> None:
    top = """
.func (.reg .b32 low, .reg .b64 all) product(.reg .b32 a, .reg .b32 b, .reg .b64 c)
{
    mad.wide.u32 all, a, b, c;
    mul.lo.u32 low, a, b;
}
"""
    body = """
    mov.u64 x1, 1000;
    call (r1, x2), product, (a, 7, x1);
    call (_, x3), product, (r1, r1, 0);
    mov.b64 {r2, r3}, x2;
    mov.b64 {r4, r5}, x3;
    add.u32 d, r1, r2;
    add.u32 d, d, r3;
    add.u32 d, d, r5;
"""

    def expected(a: int) -> int:
        low, whole = a * 7 % 2**32, a * 7 + 1000
        return (low + whole % 2**32 + (whole >> 32) + (low * low >> 32)) % 2**32

    assert run(body, WORDS, top=top, order=order, seed=seed)[0] == [expected(a) for a in WORDS]


NESTED = """
.func (.param .b32 r) twice(.param .b32 a)
{
    .reg .b32 v;
    ld.param.b32 v, [a];
    shl.b32 v, v, 1;
    st.param.b32 [r], v;
    ret;
}
.func (.param .b32 r) more(.param .b32 a)
{
    .reg .b32 v, w; .reg .pred p;
    ld.param.b32 v, [a];
    { .param .b32 x; .param .b32 y; st.param.b32 [x], v; call (y), twice, (x); ld.param.b32 w, [y]; }
    setp.gt.u32 p, w, 50;
    @!p bra small;
    add.u32 w, w, 1000;
    st.param.b32 [r], w;
    ret.uni;
small:
    add.u32 w, w, v;
    st.param.b32 [r], w;
    ret;
}
"""


@orders
def test_threads_call_different_functions(order: OrderName, seed: int) -> None:
    body = """
    .param .b32 argument;
    .param .b32 result;
    st.param.b32 [argument], a;
    and.b32 r1, a, 1;
    setp.eq.u32 p1, r1, 1;
    @p1 bra odd;
    call (result), more, (argument);
    bra done;
odd:
    call (result), twice, (argument);
    ld.param.b32 r2, [result];
    add.u32 r2, r2, 7;
    st.param.b32 [argument], r2;
    call (result), twice, (argument);
done:
    ld.param.b32 d, [result];
"""

    def more(a: int) -> int:
        return 2 * a + 1000 if 2 * a % 2**32 > 50 else 3 * a

    def expected(a: int) -> int:
        return ((2 * a + 7) * 2 if a % 2 else more(a)) % 2**32

    assert run(body, WORDS, top=NESTED, order=order, seed=seed)[0] == [expected(a) for a in WORDS]


@orders
def test_a_guarded_call_and_a_guarded_return(order: OrderName, seed: int) -> None:
    top = """
.func (.param .b32 r) early(.param .b32 a)
{
    .reg .b32 v; .reg .pred p;
    ld.param.b32 v, [a];
    st.param.b32 [r], v;
    setp.lt.u32 p, v, 10;
    @p ret;
    setp.eq.u32 p, v, 12;
    @p exit;
    add.u32 v, v, 500;
    st.param.b32 [r], v;
    ret;
}
"""
    body = """
    mov.u32 r1, 77;
    setp.ne.u32 p1, a, 5;
    .param .b32 argument;
    .param .b32 result;
    st.param.b32 [argument], a;
    st.param.b32 [result], r1;
    @p1 call (result), early, (argument);
    ld.param.b32 d, [result];
"""

    def expected(a: int) -> int:
        return 77 if a == 5 else a if a < 10 else NOTHING if a == 12 else a + 500

    words = [*range(20), *range(40)]
    assert run(body, words, top=top, order=order, seed=seed)[0] == [expected(a) for a in words]


@orders
def test_calls_in_a_loop_of_different_lengths(order: OrderName, seed: int) -> None:
    body = """
    .param .b32 argument;
    .param .b32 result;
    mov.u32 d, 1;
    and.b32 r1, a, 7;
again:
    setp.eq.u32 p1, r1, 0;
    @p1 bra done;
    st.param.b32 [argument], d;
    call (result), more, (argument);
    ld.param.b32 d, [result];
    sub.u32 r1, r1, 1;
    bra again;
done:
"""

    def expected(a: int) -> int:
        d = 1
        for _ in range(a & 7):
            d = (2 * d + 1000 if 2 * d % 2**32 > 50 else 3 * d) % 2**32
        return d

    assert run(body, WORDS, top=NESTED, order=order, seed=seed)[0] == [expected(a) for a in WORDS]


RECURSION = """
.func (.param .b32 value) climb(.param .b32 steps)
{
    .local .align 4 .b8 kept[16];
    .reg .b32 n, m, v, at;
    .reg .pred p;
    ld.param.b32 n, [steps];
    setp.lt.u32 p, n, 2;
    @p bra base;
    mov.u32 at, kept;
    st.local.b32 [at], n;
    add.u32 m, n, 100;
    st.local.b32 [at+4], m;
    sub.u32 m, n, 1;
    { .param .b32 s; .param .b32 r; st.param.b32 [s], m; call (r), climb, (s); ld.param.b32 v, [r]; }
    ld.local.b32 n, [at];
    mad.lo.u32 v, v, 3, n;
    sub.u32 m, n, 2;
    { .param .b32 s; .param .b32 r; st.param.b32 [s], m; call (r), climb, (s); ld.param.b32 m, [r]; }
    ld.local.b32 n, [at+4];
    add.u32 v, v, m;
    xor.b32 n, v, n;
    st.param.b32 [value], n;
    ret;
base:
    st.param.b32 [value], n;
    ret;
}
"""


@cache
def climb(n: int) -> int:
    if n < 2:
        return n
    return (climb(n - 1) * 3 + n + climb(n - 2)) % 2**32 ^ (n + 100)


@orders
def test_recursion_of_different_depths(order: OrderName, seed: int) -> None:
    body = """
    { .param .b32 s; .param .b32 v; st.param.b32 [s], a; call (v), climb, (s); ld.param.b32 d, [v]; }
"""
    words = [i * 5 % 9 for i in range(40)]
    assert run(body, words, top=RECURSION, order=order, seed=seed)[0] == [climb(a) for a in words]


@orders
def test_functions_that_call_one_another(order: OrderName, seed: int) -> None:
    top = """
.func (.reg .b32 r) odd(.reg .b32 n);
.func (.reg .b32 r) even(.reg .b32 n)
{
    .reg .pred p; .reg .b32 m;
    mov.u32 r, 1;
    setp.eq.u32 p, n, 0;
    @p ret;
    sub.u32 m, n, 1;
    call (r), odd, (m);
    mad.lo.u32 r, n, 16, r;
    ret;
}
.func (.reg .b32 r) odd(.reg .b32 n)
{
    .reg .pred p; .reg .b32 m;
    mov.u32 r, 0;
    setp.eq.u32 p, n, 0;
    @p ret;
    sub.u32 m, n, 1;
    call (r), even, (m);
    mad.lo.u32 r, n, 256, r;
    ret;
}
"""

    def parity(n: int, even: bool) -> int:
        if n == 0:
            return int(even)
        return parity(n - 1, not even) + n * (16 if even else 256)

    words = [i * 7 % 23 for i in range(40)]
    found, _ = run("call (d), even, (a);", words, top=top, order=order, seed=seed)
    assert found == [parity(a, True) for a in words]


INDIRECT = "".join(
    f".func (.param .b32 v) {name}(.param .b32 x)\n{{ .reg .b32 a; ld.param.b32 a, [x]; {text} st.param.b32 [v], a; ret; }}\n"
    for name, text in (("twice", "shl.b32 a, a, 1;"), ("less", "sub.u32 a, a, 9;"), ("neither", "not.b32 a, a;"))
)


@orders
def test_calls_through_registers(order: OrderName, seed: int) -> None:
    body = """
prototype: .callprototype (.param .b32 _) _ (.param .b32 _);
targets: .calltargets twice, less, neither;
    rem.u32 r1, a, 3;
    mov.u64 x1, twice;
    setp.eq.u32 p1, r1, 1;
    @p1 mov.u64 x1, less;
    setp.eq.u32 p1, r1, 2;
    @p1 mov.u64 x1, neither;
    .param .b32 s;
    .param .b32 v;
    st.param.b32 [s], a;
    call (v), x1, (s), prototype;
    ld.param.b32 r2, [v];
    st.param.b32 [s], r2;
    call.uni (v), x1, (s), targets;
    ld.param.b32 d, [v];
"""

    def expected(a: int) -> int:
        return [4 * a, a - 18, a][a % 3] % 2**32

    assert run(body, WORDS, top=INDIRECT, order=order, seed=seed)[0] == [expected(a) for a in WORDS]


def test_functions_in_tables_and_by_other_names() -> None:
    top = INDIRECT + (
        ".global .align 8 .u64 table[2] = {less, neither};\n"
        ".func (.param .b32 v) other(.param .b32 x);\n.alias other, twice;\n"
    )
    body = """
prototype: .callprototype (.param .b32 _) _ (.param .b32 _);
    .param .b32 s;
    .param .b32 v;
    mov.u64 x1, table;
    and.b32 r1, a, 1;
    mad.wide.u32 x1, r1, 8, x1;
    ld.global.u64 x2, [x1];
    st.param.b32 [s], a;
    call (v), x2, (s), prototype;
    ld.param.b32 r1, [v];
    st.param.b32 [s], r1;
    call (v), other, (s);
    ld.param.b32 d, [v];
"""
    assert run(body, [20, 21], top=top)[0] == [22, 2 * ~21 % 2**32]


def test_a_call_to_no_function_is_a_fault() -> None:
    body = """
prototype: .callprototype _ ();
    cvt.u64.u32 x1, a;
    call x1, prototype;
    mov.u32 d, 1;
"""
    with pytest.raises(EmulatorFault, match="a call to 0x7b, where no function starts") as caught:
        run(body, [123])
    assert caught.value.kind is FaultKind.ILLEGAL


def test_endless_recursion_is_a_fault() -> None:
    top = ".func deep() { call deep; ret; }\n"
    with pytest.raises(EmulatorFault, match="4096 nested calls: the stack is full"):
        run("call deep;", [1], top=top)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("call (d), elsewhere, (a);", "function elsewhere has no body in this module: call"),
        ("call (d), known, (a, a);", "2 arguments for 1 parameters: call"),
        ("call.far (d), known, (a);", "the emulator does not know .far here: call.far"),
        ("call (p1), known, (a);", "register p1 is .pred, not .b32: call"),
    ],
)
def test_what_is_no_call_is_refused(text: str, message: str) -> None:
    top = (
        ".extern .func (.reg .b32 r) elsewhere(.reg .b32 a);\n"
        ".func (.reg .b32 r) known(.reg .b32 a) { mov.u32 r, a; ret; }\n"
    )
    with pytest.raises(UnsupportedInstruction) as caught:
        run(text, [1], top=top)
    hint = "hint: docs/emulator.md lists the forms that it executes"
    assert str(caught.value) == f"k.ptx:19:1: error: {message}\n{text}\n^\n{hint}"


@orders
def test_the_same_call_many_times_is_no_endless_loop(order: OrderName, seed: int) -> None:
    top = """
.func (.reg .b32 v) f(.reg .b32 a)
{
    .reg .b32 n; .reg .pred p;
    mov.u32 n, 1;
again:
    setp.eq.u32 p, n, 0;
    @p bra done;
    sub.u32 n, n, 1;
    bra again;
done:
    mov.u32 v, a;
}
"""
    body = "call (r1), f, (a);\n" * 300 + "mov.u32 d, r1;\n"
    assert run(body, [1, 2, 3], top=top, order=order, seed=seed)[0] == [1, 2, 3]


@orders
def test_registers_of_all_kinds_as_arguments(order: OrderName, seed: int) -> None:
    top = """
.func (.reg .pred q, .reg .b128 w, .reg .f32 y, .reg .b16 z) f(.reg .pred p, .reg .b128 v, .reg .f32 x, .reg .s16 h)
{
    .reg .b64 low, high;
    not.pred q, p;
    mov.b128 {low, high}, v;
    mov.b128 w, {high, low};
    neg.f32 y, x;
    add.s16 z, h, 1;
    ret;
}
"""
    body = """
    .reg .b128 v, w; .reg .b16 h, z; .reg .f32 x, y;
    and.b32 r1, a, 1;
    setp.eq.u32 p1, r1, 0;
    cvt.u64.u32 x1, a;
    mov.u64 x2, 77;
    mov.b128 v, {x1, x2};
    cvt.u16.u32 h, t;
    mov.b32 x, a;
    call (p2, w, y, z), f, (p1, v, x, h);
    mov.b128 {x3, x4}, w;
    cvt.u32.u64 r2, x3;
    cvt.u32.u64 r3, x4;
    cvt.u32.u16 r4, z;
    mov.b32 r5, y;
    selp.u32 d, 1000, 0, p2;
    add.u32 d, d, r2;
    add.u32 d, d, r4;
    xor.b32 r5, r5, r3;
    shr.u32 r5, r5, 31;
    mad.lo.u32 d, r5, 4096, d;
"""
    found = run(body, WORDS, top=top, order=order, seed=seed)[0]
    assert found == [(1000 if a & 1 else 0) + 77 + i + 1 + 4096 for i, a in enumerate(WORDS)]
