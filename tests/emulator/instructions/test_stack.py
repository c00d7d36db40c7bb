"""Memory that a thread allocates on its stack."""

from __future__ import annotations

import numpy as np
import pytest
from memory_kernels import fault, refused, run

from tilec.backend.emulator.faults import FaultKind


def test_each_thread_allocates_as_much_as_it_needs() -> None:
    """Thread t allocates t + 1 words, writes all of them twice over, and adds up what it reads."""
    out = np.zeros(40, np.uint32)
    body = """
    add.u32 %r0, %t, 1;
    mul.wide.u32 %x0, %r0, 4;
    alloca.u64 %x1, %x0, 16;
    cvta.local.u64 %x2, %x1;
    mov.u32 %r1, 0;
    WRITE:
    mad.wide.u32 %x3, %r1, 4, %x1;
    mad.lo.u32 %r2, %r1, 100, %t;
    st.local.u32 [%x3], %r2;
    add.u32 %r1, %r1, 1;
    setp.lt.u32 %p0, %r1, %r0;
    @%p0 bra WRITE;
    mov.u32 %r1, 0;
    mov.u32 %r3, 0;
    READ:
    mad.wide.u32 %x3, %r1, 4, %x2;
    ld.u32 %r2, [%x3];
    add.u32 %r3, %r3, %r2;
    add.u32 %r1, %r1, 1;
    setp.lt.u32 %p0, %r1, %r0;
    @%p0 bra READ;
    mad.wide.u32 %x4, %t, 4, %a;
    st.global.u32 [%x4], %r3;
    """
    run(body, [out], threads=40)
    assert out.tolist() == [sum(100 * i + t for i in range(t + 1)) for t in range(40)]


def test_the_stack_grows_beyond_its_first_size() -> None:
    out = np.zeros(2, np.uint32)
    body = """
    alloca.u64 %x1, 64;
    st.local.u32 [%x1+60], 7;
    alloca.u64 %x2, 100000, 32;
    st.local.u32 [%x2], 8;
    ld.local.u32 %r0, [%x1+60];
    ld.local.u32 %r1, [%x2];
    st.global.v2.u32 [%a], {%r0, %r1};
    """
    run(body, [out])
    assert out.tolist() == [7, 8]


@pytest.mark.parametrize("alignment", [8, 16, 256])
def test_alignment(alignment: int) -> None:
    out = np.zeros(2, np.uint64)
    run(
        f"alloca.u64 %x0, 24, {alignment};\n alloca.u64 %x1, 1, {alignment};\n st.global.v2.u64 [%a], {{%x0, %x1}};",
        [out],
    )
    first, second = (int(v) for v in out)
    assert first % alignment == 0 and second % alignment == 0 and second < first


def test_restoring_the_stack_frees_what_was_allocated_since() -> None:
    out = np.zeros(1, np.uint64)
    body = "stacksave.u64 %x0;\n alloca.u64 %x1, 64;\n stackrestore.u64 %x0;\n stacksave.u64 %x2;\n sub.u64 %x3, %x2, %x0;\n"
    run(body + "st.global.u64 [%a], %x3;", [np.ones(1, np.uint64)])
    out[0] = 1
    run(body + "st.global.u64 [%a], %x3;", [out])
    assert int(out[0]) == 0
    text = fault(body + "st.local.u32 [%x1], 1; // here", [], FaultKind.OUT_OF_BOUNDS)
    assert text == (
        "4 bytes at address 0x23fffffc0: the address is outside of what is allocated on the stack (0x40000000 to 0x40000000)"
    )


def test_pointers_of_32_bits() -> None:
    out = np.zeros(1, np.uint32)
    body = "stacksave.u32 %r5;\n alloca.u32 %r0, 16, 8;\n st.local.u32 [%r0], 5;\n ld.local.u32 %r1, [%r0];\n stackrestore.u32 %r5;"
    run(body + "st.global.u32 [%a], %r1;", [out])
    assert out.tolist() == [5]


def test_faults() -> None:
    text = fault("alloca.u64 %x0, 600000; // here", [], FaultKind.OUT_OF_BOUNDS)
    assert text == "alloca of 600000 bytes: the stack is full"
    text = fault("mov.u64 %x0, 64;\n stackrestore.u64 %x0; // here", [], FaultKind.ILLEGAL)
    assert text == "stackrestore of 0x40, which no stacksave has given"
    assert refused("alloca.u64 %x0, %x1, 24;").startswith("the alignment is a constant, a power of two")
    assert refused("stacksave.b32 %r0;") == "the type is .u32 or .u64: stacksave.b32"
