"""Chains of carries against Python's integers of many bits."""

from __future__ import annotations

import numpy as np
import pytest
from forms import check, module, refused, run, specials, typed, unsigned

from tilec.backend.emulator.launch import emulate

TYPES = ("u32", "s32", "u64", "s64")


@pytest.mark.parametrize("type", TYPES)
def test_sums_and_differences_of_two_words(type: str) -> None:
    bits = int(type[1:])
    word = f".reg .b{bits} x;"
    # The high word of (a, c) + (b, c), and of (a, c) - (b, c): the words in `a` and `b` are the low ones.
    check(
        f"{{ {word} add.cc.{type} x, a, b; addc.{type} d, c, c; }}",
        bits,
        (bits,) * 3,
        lambda a, b, c: (a + b + (2 * c << bits)) >> bits,
    )
    check(
        f"{{ {word} sub.cc.{type} x, a, b; subc.{type} d, c, 5; }}",
        bits,
        (bits,) * 3,
        lambda a, b, c: (a - b + (c - 5 << bits)) >> bits,
    )
    check(f"add.cc.{type} d, a, b;", bits, (bits, bits), lambda a, b: a + b)
    check(f"sub.cc.{type} d, a, b;", bits, (bits, bits), lambda a, b: a - b)


@pytest.mark.parametrize("type", TYPES)
def test_the_carry_of_a_sum_with_carry(type: str) -> None:
    bits = int(type[1:])
    text = f"{{ .reg .b{bits} x; add.cc.{type} x, a, b; addc.cc.{type} x, b, c; addc.{type} d, 0, 0; }}"
    check(text, bits, (bits,) * 3, lambda a, b, c: (b + c + (a + b >> bits)) >> bits)


@pytest.mark.parametrize("type", TYPES)
def test_a_difference_sets_the_flag_where_nothing_is_borrowed(type: str) -> None:
    bits = int(type[1:])
    check(f"{{ .reg .b{bits} x; sub.cc.{type} x, a, b; addc.{type} d, 0, 0; }}", bits, (bits,) * 2, lambda a, b: a >= b)
    text = f"{{ .reg .b{bits} x; sub.cc.{type} x, a, b; subc.cc.{type} x, b, c; addc.{type} d, 0, 0; }}"
    check(text, bits, (bits,) * 3, lambda a, b, c: b - c - (a < b) >= 0)


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("mode", ["lo", "hi"])
def test_products_with_carry(type: str, mode: str) -> None:
    bits = int(type[1:])

    def product(a: int, b: int) -> int:
        whole = typed(a, type) * typed(b, type)
        return unsigned(whole >> bits if mode == "hi" else whole, bits)

    text = f"{{ .reg .b{bits} x; mad.{mode}.cc.{type} x, a, b, c; addc.{type} d, 0, 0; }}"
    check(text, bits, (bits,) * 3, lambda a, b, c: product(a, b) + c >> bits)
    text = f"{{ .reg .b{bits} x; add.cc.{type} x, a, b; madc.{mode}.{type} d, a, b, c; }}"
    check(text, bits, (bits,) * 3, lambda a, b, c: product(a, b) + c + (a + b >> bits))
    text = f"{{ .reg .b{bits} x; add.cc.{type} x, a, b; madc.{mode}.cc.{type} x, a, b, c; addc.{type} d, 0, 0; }}"
    check(text, bits, (bits,) * 3, lambda a, b, c: product(a, b) + c + (a + b >> bits) >> bits)


def test_a_product_of_128_bits() -> None:
    text = """{
        .reg .b64 x, y;
        mul.lo.u64 x, a, b;
        mul.hi.u64 y, a, b;
        add.cc.u64 x, x, c;
        addc.u64 y, y, 0;
        xor.b64 d, x, y;
    }"""

    def folded(a: int, b: int, c: int) -> int:
        whole = a * b + c
        return unsigned(whole, 64) ^ whole >> 64

    check(text, 64, (64,) * 3, folded)


def test_each_thread_has_its_flag_and_divergence_leaves_it_alone() -> None:
    text = """{
        .reg .pred p;
        .reg .b32 x;
        add.cc.u32 x, a, b;
        setp.lt.u32 p, c, 16;
        @p bra skip;
        add.cc.u32 x, 1, 1;
    skip:
        addc.u32 d, c, 0;
    }"""
    operands = [(a, b, c % 32) for c, (a, b) in enumerate((a, b) for a in specials(32) for b in specials(32))]
    found = run(text, 32, (32,) * 3, operands)
    assert found == [c + (c < 16 and a + b >> 32) for a, b, c in operands]


def test_a_guard_keeps_the_flag() -> None:
    body = """
    .reg .b32 r<4>; .reg .b64 x; .reg .pred p;
    mov.u32 r0, %tid.x;
    setp.eq.u32 p, r0, 1;
    add.cc.u32 r1, -1, 1;
    @p add.cc.u32 r1, 0, 0;
    addc.u32 r2, 0, 0;
    ld.param.u64 x, [out];
    mad.wide.u32 x, r0, 4, x;
    st.global.u32 [x], r2;
    ret;"""
    out = np.zeros(3, np.uint32)
    emulate(module(body, ".param .u64 out"), "k", 1, 3, [out])
    assert out.tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("addc.u16 h1, h2, h3;", ".u16 is no type of addc: addc.u16"),
        ("madc.u32 r1, r2, r3, r4;", "a product without .lo or .hi: madc.u32"),
        ("subc.sat.s32 r1, r2, r3;", "the emulator does not know .sat here: subc.sat.s32"),
        ("mad.lo.cc.u32 r1, r2, r3;", "3 operands, not 4: mad.lo.cc.u32"),
    ],
)
def test_what_is_no_form_is_refused(text: str, message: str) -> None:
    assert refused(text) == message
