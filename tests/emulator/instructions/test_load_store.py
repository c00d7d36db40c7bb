"""`ld`, `ldu` and `st` against NumPy's view of the same bytes."""

from __future__ import annotations

import numpy as np
import pytest
from memory_kernels import fault, refused, run
from numpy.typing import NDArray

from tilec.backend.emulator.faults import FaultKind

BYTES: NDArray[np.uint8] = (np.arange(256) * 37 % 251).astype(np.uint8)
NUMPY = {"b": "u", "u": "u", "s": "i", "f": "f"}
SMALL = [f"{kind}{bits}" for kind in "bus" for bits in (8, 16, 32, 64)]


def seen(type: str, offset: int) -> int:
    """The value of a type at an offset of BYTES, as a Python integer."""
    return int(BYTES[offset:].view(f"{NUMPY[type[0]]}{int(type[1:]) // 8}")[0])


@pytest.mark.parametrize("type", SMALL)
@pytest.mark.parametrize("offset", [8, 128])
def test_a_wider_register_is_filled_up_by_the_sign(type: str, offset: int) -> None:
    out = np.zeros(1, np.uint64)
    run(f"ld.global.{type} %x0, [%a+{offset}];\n st.global.b64 [%b], %x0;", [BYTES.copy(), out])
    assert int(out[0]) == seen(type, offset) % 2**64


@pytest.mark.parametrize(
    ("type", "register"), [("s8", "h"), ("u8", "h"), ("s8", "r"), ("s16", "r"), ("u16", "r"), ("b16", "r")]
)
def test_registers_of_16_and_32_bits_are_filled_up_too(type: str, register: str) -> None:
    bits = 16 if register == "h" else 32
    out = np.zeros(1, f"u{bits // 8}")
    run(f"ld.global.{type} %{register}0, [%a+130];\n st.global.b{bits} [%b], %{register}0;", [BYTES.copy(), out])
    assert int(out[0]) == seen(type, 130) % 2**bits


@pytest.mark.parametrize("type", SMALL)
def test_a_wider_register_is_stored_by_its_low_bits(type: str) -> None:
    out = np.full(16, 0xEE, np.uint8)
    run(f"mov.b64 %x0, 0x123456789abcdef0;\n st.global.{type} [%a+8], %x0;", [out])
    size = int(type[1:]) // 8
    expected = b"\xee" * 8 + (0x123456789ABCDEF0).to_bytes(8, "little")[:size] + b"\xee" * (8 - size)
    assert out.tobytes() == expected


@pytest.mark.parametrize(
    ("type", "count", "register"),
    [
        *(
            (t, c, r)
            for t, r in (("b8", "h"), ("u16", "h"), ("b32", "r"), ("f32", "f"))
            for c in (2, 4, 8)
            if (t, c) != ("b8", 8)
        ),
        *((t, c, r) for t, r in (("b64", "x"), ("f64", "d")) for c in (2, 4)),
    ],
)
def test_vectors_are_neighbours_in_memory(type: str, count: int, register: str) -> None:
    elements = ", ".join(f"%{register}{n}" for n in range(count))
    out = np.zeros(64, np.uint8)
    body = f"ld.global.v{count}.{type} {{{elements}}}, [%a+32];\n st.global.v{count}.{type} [%b+32], {{{elements}}};"
    run(body, [BYTES.copy(), out], target="sm_100a")
    size = count * int(type[1:]) // 8
    assert out[32 : 32 + size].tobytes() == BYTES[32 : 32 + size].tobytes()
    assert not out[:32].any() and not out[32 + size :].any()


@pytest.mark.parametrize("instruction", ["ld.global", "ld.global.nc", "ldu.global", "ld.relaxed.gpu.global", "ld"])
def test_128_bits_go_through_one_register(instruction: str) -> None:
    out = np.zeros(16, np.uint8)
    run(f"{instruction}.b128 %q0, [%a+16];\n st.global.b128 [%b], %q0;", [BYTES.copy(), out])
    assert out.tobytes() == BYTES[16:32].tobytes()


def test_sinks_take_and_give_nothing() -> None:
    out = np.full(8, 7, np.uint32)
    body = """
    ld.global.v8.b32 {%r0, _, %r2, _, %r4, %r5, %r6, _}, [%a];
    st.global.v8.b32 [%b], {%r6, _, %r4, %r2, _, %r0, _, %r5};
    """
    source = np.arange(100, 108, dtype=np.uint32)
    run(body, [source, out], target="sm_100a")
    assert out.tolist() == [106, 7, 104, 102, 7, 100, 7, 105]


@pytest.mark.parametrize("space", ["shared", "shared::cta", "shared::cluster", "local"])
def test_spaces_of_a_cta_and_of_a_thread(space: str) -> None:
    out = np.zeros(64, np.uint32)
    body = f"""
    mov.u32 %r0, s;
    mad.lo.u32 %r0, %t, 4, %r0;
    mad.lo.u32 %r1, %t, 3, 1;
    st.{space}.u32 [%r0+16], %r1;
    ld.{space}.u32 %r2, [%r0+16];
    mad.wide.u32 %x0, %t, 4, %a;
    st.global.u32 [%x0], %r2;
    """
    kind = "local" if space == "local" else "shared"
    run(body, [out], threads=64, inside=f".{kind} .align 16 .b8 s[512];")
    assert out.tolist() == [3 * t + 1 for t in range(64)]


def test_each_thread_has_local_memory_of_its_own() -> None:
    out = np.zeros(64, np.uint32)
    body = """
    st.local.u32 [s+8], %t;
    bar.sync 0;
    cvta.local.u64 %x1, s;
    ld.u32 %r0, [%x1+8];
    mad.wide.u32 %x0, %t, 4, %a;
    st.global.u32 [%x0], %r0;
    """
    run(body, [out], threads=64, inside=".local .align 8 .b8 s[16];")
    assert out.tolist() == list(range(64))


def test_generic_addresses_of_lanes_may_lie_in_different_spaces() -> None:
    out, source = np.zeros(32, np.uint32), np.arange(32, dtype=np.uint32) + 1000
    body = """
    mov.u32 %r9, s;
    mad.lo.u32 %r9, %t, 4, %r9;
    add.u32 %r8, %t, 2000;
    st.shared.u32 [%r9], %r8;
    add.u32 %r8, %t, 3000;
    st.local.u32 [l], %r8;
    mov.b64 %x1, {%r9, %r9};
    cvta.shared.u64 %x1, %x1;
    cvta.local.u64 %x2, l;
    mad.wide.u32 %x3, %t, 4, %b;
    and.b32 %r7, %t, 3;
    setp.eq.u32 %p0, %r7, 1;
    @%p0 mov.b64 %x3, %x1;
    setp.eq.u32 %p1, %r7, 2;
    @%p1 mov.b64 %x3, %x2;
    ld.u32 %r0, [%x3];
    add.u32 %r1, %r0, 5;
    st.u32 [%x3], %r1;
    ld.u32 %r0, [%x3];
    mad.wide.u32 %x0, %t, 4, %a;
    st.global.u32 [%x0], %r0;
    """
    run(body, [out, source], threads=32, inside=".shared .align 4 .b8 s[128]; .local .align 4 .b8 l[4];")
    assert out.tolist() == [t + 5 + {1: 2000, 2: 3000}.get(t % 4, 1000) for t in range(32)]
    assert source.tolist() == [t + 1000 + (0 if t % 4 in (1, 2) else 5) for t in range(32)]


def test_variables_of_the_module() -> None:
    module = ".const .align 4 .u32 table[4] = {10, 20, 30, 40};\n.global .align 4 .u32 counts[4] = {1, 2, 3, 4};"
    out = np.zeros(4, np.uint32)
    body = """
    ld.const.u32 %r0, [table+8];
    ld.global.u32 %r1, [counts+4];
    st.global.u32 [counts+4], %r0;
    ld.u32 %r2, [counts+4];
    mov.u64 %x0, table;
    ld.const.v2.u32 {%r3, %r4}, [%x0];
    st.global.v4.u32 [%a], {%r0, %r1, %r2, %r4};
    """
    run(body, [out], module=module)
    assert out.tolist() == [30, 2, 30, 20]


def test_parameters_of_functions_and_recursion_have_frames() -> None:
    module = """
    .func (.param .b32 result) factorial(.param .b32 n)
    {
        .reg .b32 %r<8>; .reg .pred %p;
        ld.param.u32 %r0, [n];
        mov.u32 %r1, 1;
        setp.le.u32 %p, %r0, 1;
        @%p bra END;
        sub.u32 %r2, %r0, 1;
        { .param .b32 x; .param .b32 y;
          st.param.b32 [x], %r2;
          call (y), factorial, (x);
          ld.param.b32 %r3, [y]; }
        mul.lo.u32 %r1, %r3, %r0;
    END:
        st.param::func.b32 [result], %r1;
        ret;
    }
    """
    body = """
    { .param .b32 x; .param .b32 y;
      add.u32 %r0, %t, 1;
      st.param.b32 [x], %r0;
      call (y), factorial, (x);
      ld.param::func.b32 %r1, [y]; }
    mad.wide.u32 %x0, %t, 4, %a;
    st.global.u32 [%x0], %r1;
    """
    out = np.zeros(6, np.uint32)
    run(body, [out], threads=6, module=module)
    assert out.tolist() == [1, 2, 6, 24, 120, 720]


ORDERINGS = [
    "weak",
    "volatile",
    *(f"relaxed.{scope}" for scope in ("cta", "cluster", "gpu", "sys")),
    "mmio.relaxed.sys",
]


@pytest.mark.parametrize(
    "form",
    [
        *(
            f"{ordering}.global"
            for ordering in (*ORDERINGS, *(f"acquire.{s}" for s in ("cta", "cluster", "gpu", "sys")))
        ),
        *(f"global.{cache}" for cache in ("ca", "cg", "cs", "lu", "cv")),
        *(f"global.{cache}.nc" for cache in ("ca", "cg", "cs")),
        *(f"global.L1::{p}" for p in ("evict_normal", "evict_unchanged", "evict_first", "evict_last", "no_allocate")),
        *(f"global.L2::{size}B" for size in (64, 128, 256)),
        "global.L1::evict_last.L2::evict_first.L2::128B",
        "global.nc.L1::no_allocate.L2::256B",
        "relaxed.gpu.global.L1::evict_last",
    ],
)
def test_orderings_and_hints_change_no_value(form: str) -> None:
    out = np.zeros(1, np.uint32)
    run(f"ld.{form}.u32 %r0, [%a+4];\n st.global.u32 [%b], %r0;", [BYTES.copy(), out])
    assert int(out[0]) == seen("u32", 4)


@pytest.mark.parametrize(
    "form",
    [
        *(
            f"{ordering}.global"
            for ordering in (*ORDERINGS, *(f"release.{s}" for s in ("cta", "cluster", "gpu", "sys")))
        ),
        *(f"global.{cache}" for cache in ("wb", "cg", "cs", "wt")),
        "global.L1::no_allocate",
        "global.L1::evict_first.L2::evict_last",
    ],
)
def test_stores_take_the_same(form: str) -> None:
    out = np.zeros(1, np.uint32)
    run(f"mov.u32 %r0, 77;\n st.{form}.u32 [%a], %r0;", [out])
    assert int(out[0]) == 77


def test_a_cache_policy_is_a_last_operand() -> None:
    out = np.zeros(2, np.uint32)
    body = """
    createpolicy.fractional.L2::evict_last.b64 %x9, 0.5;
    ld.global.L2::cache_hint.L2::128B.v2.u32 {%r0, %r1}, [%a], %x9;
    st.global.L2::cache_hint.v2.u32 [%b], {%r1, %r0}, %x9;
    """
    run(body, [np.array([3, 4], np.uint32), out])
    assert out.tolist() == [4, 3]


def test_the_unified_qualifier_stands_at_the_address() -> None:
    out = np.zeros(1, np.uint32)
    run("ld.global.u32 %r0, [%a].unified;\n st.global.u32 [%b], %r0;", [np.array([9], np.uint32), out])
    assert out.tolist() == [9]


@pytest.mark.parametrize(
    ("immediate", "type", "bits"),
    [("-1", "u32", 0xFFFFFFFF), ("0f3F800000", "f32", 0x3F800000), ("1.5", "f64", 0x3FF8 << 48)],
)
def test_immediates_are_stored(immediate: str, type: str, bits: int) -> None:
    out = np.zeros(1, f"u{int(type[1:]) // 8}")
    run(f"st.global.{type} [%a], {immediate};", [out])
    assert int(out[0]) == bits


def test_of_threads_that_store_to_one_address_one_wins() -> None:
    out = np.zeros(1, np.uint32)
    run("add.u32 %r0, %t, 1;\n st.global.u32 [%a], %r0;", [out], threads=32)
    assert 1 <= int(out[0]) <= 32


def test_out_of_bounds_behind_an_array() -> None:
    text = fault("ld.global.u32 %r0, [%a+72]; // here", [np.zeros(16, np.uint32)], FaultKind.OUT_OF_BOUNDS)
    assert text == "4 bytes at address 0x700001000048: the address is 8 bytes behind the end of array in_a (64 bytes)"


def test_out_of_bounds_over_the_end_and_before() -> None:
    array = np.zeros(15, np.uint32)
    text = fault("st.global.v4.u32 [%a+48], {%r0, %r1, %r2, %r3}; // here", [array], FaultKind.OUT_OF_BOUNDS)
    assert (
        text == "16 bytes at address 0x700001000030: the address reaches 4 bytes over the end of array in_a (60 bytes)"
    )
    text = fault("ld.global.u32 %r0, [%a+-8]; // here", [array], FaultKind.OUT_OF_BOUNDS)
    assert text == "4 bytes at address 0x700000fffff8: the address is 8 bytes before array in_a"


def test_a_null_pointer_is_in_no_memory() -> None:
    text = fault("mov.u64 %x0, 0;\n st.global.u8 [%x0+3], %r0; // here", [], FaultKind.OUT_OF_BOUNDS)
    assert text == "1 bytes at address 0x3: the address is in no memory"


def test_the_first_lane_that_fails_is_named() -> None:
    body = "mad.wide.u32 %x0, %t, 4, %a;\n ld.global.u32 %r0, [%x0]; // here"
    with pytest.raises(Exception, match=r"CTA \(0, 0, 0\), thread \(20, 0, 0\)"):
        run(body, [np.zeros(20, np.uint32)], threads=32)


@pytest.mark.parametrize(("space", "name"), [("local", "local memory"), ("shared", "shared memory")])
def test_out_of_bounds_in_memory_of_the_cta(space: str, name: str) -> None:
    inside = f".{space} .align 16 .b8 s[64];"
    text = fault(f"st.{space}.u32 [s+64], %r0; // here", [], FaultKind.OUT_OF_BOUNDS, inside=inside)
    address = 0x2_0000_0040 if space == "local" else 0x440
    end = 64 if space == "local" else 1024 + 64
    assert text == f"4 bytes at address 0x{address:x}: the address is 0 bytes behind the end of {name} ({end} bytes)"


def test_before_the_variables_of_shared_memory() -> None:
    text = fault(
        "mov.u32 %r0, 1008;\n ld.shared.u64 %x0, [%r0]; // here",
        [],
        FaultKind.OUT_OF_BOUNDS,
        inside=".shared .b8 s[64];",
    )
    assert text == "8 bytes at address 0x3f0: the address is 16 bytes before shared memory"


def test_misaligned() -> None:
    text = fault("ld.global.v2.u32 {%r0, %r1}, [%a+12]; // here", [BYTES.copy()], FaultKind.MISALIGNED)
    assert (
        text
        == "8 bytes at address 0x70000100000c: the address is 4 bytes behind a multiple of 8 (in array in_a at offset 12)"
    )
    text = fault("st.shared.u16 [s+1], %r0; // here", [], FaultKind.MISALIGNED, inside=".shared .b8 s[64];")
    assert text == "2 bytes at address 0x401: the address is 1 bytes behind a multiple of 2 (in shared memory)"


def test_uninitialised_shared_memory() -> None:
    body = "st.shared.u32 [s+4], %t;\n ld.shared.v4.u32 {%r0, %r1, %r2, %r3}, [s]; // here"
    text = fault(body, [], FaultKind.UNINITIALISED, inside=".shared .align 16 .b8 s[64];")
    assert text == "16 bytes of shared memory at 0x400 are read, but nothing has been written at 0x400"


def test_padding_of_structures_is_copied_with_them() -> None:
    body = """
    st.shared.u8 [s], %t;
    st.shared.u32 [s+4], %t;
    ld.shared.v2.u32 {%r0, %r1}, [s];
    st.global.v2.u32 [%a], {%r0, %r1};
"""
    found = np.zeros(2, np.uint32)
    run(body, [found], inside=".shared .align 16 .b8 s[64];")
    assert found.tolist() == [0xA5A5A500, 0]


def test_writes_to_what_is_read_only() -> None:
    frozen = np.zeros(4, np.uint32)
    frozen.flags.writeable = False
    text = fault("st.global.u32 [%a+8], %t; // here", [frozen], FaultKind.OUT_OF_BOUNDS)
    assert text == "4 bytes at offset 8 of array in_a, which is read-only, are written"
    text = fault(
        "mov.u64 %x0, c;\n cvta.const.u64 %x0, %x0;\n st.u32 [%x0], %t; // here",
        [],
        FaultKind.OUT_OF_BOUNDS,
        module=".const .u32 c = 1;",
    )
    assert text == "4 bytes at offset 0 of variable c, which is read-only, are written"
    text = fault("cvta.param.u64 %x0, in_a;\n st.u32 [%x0], %t; // here", [frozen], FaultKind.OUT_OF_BOUNDS)
    assert text == "4 bytes at offset 0 of the kernel's parameters, which is read-only, are written"


def test_an_address_of_another_space() -> None:
    inside = ".shared .align 8 .b8 s[64]; .local .align 8 .b8 l[8];"
    body = "mov.u64 %x0, s;\n cvta.shared.u64 %x0, %x0;\n st.global.u32 [%x0], %t; // here"
    text = fault(body, [], FaultKind.OUT_OF_BOUNDS, inside=inside)
    assert text == "4 bytes at address 0x100000400: the address lies in shared memory, not in .global"
    text = fault("mov.u64 %x0, l;\n ld.const.u32 %r0, [%x0]; // here", [], FaultKind.OUT_OF_BOUNDS, inside=inside)
    assert text == "4 bytes at address 0x200000000: the address lies in local memory, not in .const"


def test_another_ctas_shared_memory_takes_the_cluster_space() -> None:
    body = """
    mapa.shared::cluster.u32 %r0, s, 1;
    st.shared::cta.u32 [%r0], %t; // here
    """
    text = fault(body, [], FaultKind.OUT_OF_BOUNDS, inside=".shared .align 8 .b8 s[64];", cluster=2, grid=2)
    assert text == (
        "4 bytes at address 0x1000400: the address is one of the CTA of rank 1, but .shared::cta reaches only the CTA's own "
        "memory (rank 0)"
    )


@pytest.mark.parametrize(
    ("instruction", "why"),
    [
        ("ld.global.f16 %h0, [%a];", "no loads and stores of .f16: ld.global.f16"),
        ("ld.relaxed.global.u32 %r0, [%a];", ".relaxed without a scope: ld.relaxed.global.u32"),
        ("ld.mmio.global.u32 %r0, [%a];", ".mmio goes with .relaxed: ld.mmio.global.u32"),
        ("ld.global.wb.u32 %r0, [%a];", "the emulator does not know .wb here: ld.global.wb.u32"),
        ("st.const.u32 [%a], %r0;", "the emulator does not know .const here: st.const.u32"),
        ("ld.shared.nc.u32 %r0, [%a];", ".nc reads global memory, not .shared: ld.shared.nc.u32"),
        (
            "ld.global.v4.b128 {%q0, %q1, %q2, %q3}, [%a];",
            "4 elements of .b128 are more than 32 bytes: ld.global.v4.b128",
        ),
        ("ld.global.v4.u32 {%r0, %r1}, [%a];", "a vector of 2 elements, not 4: ld.global.v4.u32"),
        ("ld.global.u64 %r0, [%a];", "register %r0 is .b32, narrower than .u64: ld.global.u64"),
    ],
)
def test_forms_that_do_not_exist_stop_by_name(instruction: str, why: str) -> None:
    assert refused(instruction) == why
