"""The functions that CUDA's device runtime provides: printf, assertions, the device heap."""

from __future__ import annotations

import numpy as np
import pytest
from threads import ORDERS, OrderName, run

from tilec.backend.emulator.faults import EmulatorFault, FaultKind
from tilec.backend.emulator.launch import emulate

DECLARED = """
.extern .func (.param .b32 done) vprintf(.param .b64 format, .param .b64 values);
.extern .func (.param .b64 address) malloc(.param .b64 size);
.extern .func free(.param .b64 address);
.extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e);
"""


def text(name: str, value: bytes) -> str:
    return f".global .align 1 .b8 {name}[{len(value) + 1}] = {{{', '.join(map(str, [*value, 0]))}}};\n"


PRINT = """
    .local .align 8 .b8 kept[32];
    mov.u64 x1, kept;
    cvta.local.u64 x1, x1;
    st.u32 [x1], t;
    cvt.rn.f64.u32 x2, a;
    st.u64 [x1+8], x2;
    mov.u64 x3, name;
    cvta.global.u64 x3, x3;
    st.u64 [x1+16], x3;
    mov.u64 x4, format;
    cvta.global.u64 x4, x4;
    setp.ne.u32 p1, t, 2;
    mov.u32 d, 99;
    {
        .param .b64 first;
        .param .b64 second;
        .param .b32 result;
        st.param.b64 [first], x4;
        st.param.b64 [second], x1;
        @!p1 bra silent;
        call.uni (result), vprintf, (first, second);
        ld.param.b32 d, [result];
    }
silent:
"""


def test_threads_print_in_their_order() -> None:
    top = DECLARED + text("format", b"%2d: %.2f by %s\n") + text("name", "Grüße".encode())
    found, done = run(PRINT, [5, 6, 7, 8], top=top)
    assert done.printed == " 0: 5.00 by Grüße\n 1: 6.00 by Grüße\n 3: 8.00 by Grüße\n"
    assert found == [3, 3, 99, 3]


def test_no_format_prints_nothing() -> None:
    body = """
    mov.u64 x4, 0;
    {
        .param .b64 first;
        .param .b64 second;
        .param .b32 result;
        st.param.b64 [first], x4;
        st.param.b64 [second], x4;
        call.uni (result), vprintf, (first, second);
        ld.param.b32 d, [result];
    }
"""
    found, done = run(body, [1], top=DECLARED)
    assert (found, done.printed) == ([2**32 - 1], "")


ASSERTION = """
    setp.lt.u32 p1, a, 10;
    @p1 bra fine;
    mov.u64 x1, message;
    cvta.global.u64 x1, x1;
    mov.u64 x2, place;
    cvta.global.u64 x2, x2;
    mov.u64 x3, scope;
    cvta.global.u64 x3, x3;
    {
        .param .b64 a0; .param .b64 a1; .param .b32 a2; .param .b64 a3; .param .b64 a4;
        st.param.b64 [a0], x1;
        st.param.b64 [a1], x2;
        st.param.b32 [a2], 17;
        st.param.b64 [a3], x3;
        st.param.b64 [a4], 1;
        call.uni __assertfail, (a0, a1, a2, a3, a4);
    }
fine:
    mov.u32 d, 1;
"""


def test_an_assertion_that_fails_is_a_trap_with_its_message() -> None:
    top = DECLARED + text("message", b"i < 10") + text("place", b"loop.cu") + text("scope", b"void f(int)")
    assert run(ASSERTION, [1, 9], top=top)[0] == [1, 1]
    with pytest.raises(EmulatorFault) as caught:
        run(ASSERTION, [1, 9, 10], top=top)
    assert caught.value.kind is FaultKind.TRAP
    assert caught.value.diagnostic.message == (
        "trap: loop.cu:17: void f(int): assertion `i < 10` failed (kernel k, CTA (0, 0, 0), thread (2, 0, 0))"
    )


HEAP = """
    {
        .param .b64 size; .param .b64 address;
        cvt.u64.u32 x1, a;
        st.param.b64 [size], x1;
        call.uni (address), malloc, (size);
        ld.param.b64 x2, [address];
    }
    setp.eq.u64 p1, x2, 0;
    @p1 trap;
    st.u32 [x2], t;
    sub.u64 x1, x1, 4;
    add.u64 x3, x2, x1;
    add.u32 r1, t, 100;
    st.u32 [x3], r1;
    bar.sync 0;
    ld.u32 d, [x2];
    ld.u32 r2, [x3];
    mad.lo.u32 d, d, 1000, r2;
"""
FREE = """
    {
        .param .b64 address;
        st.param.b64 [address], x2;
        call.uni free, (address);
    }
"""


@pytest.mark.parametrize(("order", "seed"), ORDERS)
def test_each_thread_has_memory_of_its_own(order: OrderName, seed: int) -> None:
    words = [8 + 4 * (i % 5) for i in range(40)]
    found, _ = run(HEAP + FREE, words, top=DECLARED, order=order, seed=seed)
    assert found == [1000 * i + 100 + i for i in range(40)]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("ld.u32 r3, [x3+4];", "4 bytes at address .* is 0 bytes behind the end of device heap of 8 bytes"),
        (f"{FREE} ld.u32 r3, [x2];", "4 bytes at address .*: the address is in no memory"),
        (f"{FREE} {FREE}", "free of 0x70[0-9a-f]{10}, which malloc has not given or is free"),
        (f"mov.u64 x2, 64; {FREE}", "free of 0x40, which malloc has not given or is free"),
    ],
)
def test_misuse_of_the_heap_is_a_fault(more: str, message: str) -> None:
    with pytest.raises(EmulatorFault, match=message) as caught:
        run(HEAP + more, [8], top=DECLARED)
    assert caught.value.kind is FaultKind.OUT_OF_BOUNDS


def test_free_takes_a_null_pointer() -> None:
    assert run(f"mov.u64 x2, 0; {FREE} mov.u32 d, 4;", [1], top=DECLARED)[0] == [4]


def test_memory_outlives_the_thread_that_took_it() -> None:
    top = DECLARED + ".global .u64 shared_pointer;\n"
    kernels = """
.visible .entry k(.param .u64 out)
{
    .reg .b64 x<4>; .reg .b32 r<4>; .reg .pred p;
    mov.u32 r0, %tid.x;
    setp.ne.u32 p, r0, 0;
    @p bra meet;
    {
        .param .b64 size; .param .b64 address;
        st.param.b64 [size], 16;
        call.uni (address), malloc, (size);
        ld.param.b64 x1, [address];
    }
    st.u32 [x1+12], 77;
    st.global.u64 [shared_pointer], x1;
meet:
    bar.sync 0;
    @!p exit;
    ld.global.u64 x1, [shared_pointer];
    ld.u32 r1, [x1+12];
    ld.param.u64 x2, [out];
    st.global.u32 [x2], r1;
}
"""
    out = np.zeros(1, np.uint32)
    emulate(f".version 8.8\n.target sm_90a\n.address_size 64\n{top}{kernels}", "k", 1, 64, [out])
    assert out.tolist() == [77]
