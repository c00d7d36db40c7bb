"""`atom` and `red` against the rules of PTX 9.7.13.5 in plain Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_kernels import ORDERS, OrderName, fault, refused, run
from numpy.typing import NDArray

from tilec.backend.emulator.faults import FaultKind

RULES: dict[str, Callable[[int, int], int]] = {
    "and": lambda r, s: r & s,
    "or": lambda r, s: r | s,
    "xor": lambda r, s: r ^ s,
    "exch": lambda r, s: s,
    "add": lambda r, s: r + s,
    "inc": lambda r, s: 0 if r >= s else r + 1,
    "dec": lambda r, s: s if r == 0 or r > s else r - 1,
    "min": min,
    "max": max,
}
INTEGERS = [
    *((op, type) for op in ("and", "or", "xor", "exch") for type in ("b32", "b64")),
    *((op, type) for op in ("add", "min", "max") for type in ("u32", "s32", "u64", "s64")),
    ("inc", "u32"),
    ("dec", "u32"),
]
WORDS = (0, 1, 2, 5, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x7FFFFFFFFFFFFFFF, 0x8000000000000000, 0xFFFFFFFFFFFFFFFB, 77)


def read(word: int, type: str) -> int:
    bits = int(type[1:])
    word %= 1 << bits
    return word - (1 << bits) if type[0] == "s" and word >> (bits - 1) else word


@pytest.mark.parametrize(("op", "type"), INTEGERS)
@pytest.mark.parametrize("space", ["global", "shared"])
def test_integers(op: str, type: str, space: str) -> None:
    """Each thread has a place of its own, and another pair of values."""
    bits = int(type[1:])
    pairs = [(a, b) for a in WORDS for b in WORDS]
    kind = f"u{bits // 8}"
    memory = np.array([a % (1 << bits) for a, _ in pairs], kind)
    operands = np.array([b % (1 << bits) for _, b in pairs], kind)
    found = np.zeros_like(memory)
    body = (
        places(bits // 8, space)
        + f"""
    ld.global.b{bits} %{name(bits)}21, [%x1];
    atom.{space}.{op}.{type} %{name(bits)}22, [{"%x0" if space == "global" else "%r30"}], %{name(bits)}21;
    st.global.b{bits} [%x2], %{name(bits)}22;
    """
        + back(bits, space)
    )
    before = memory.copy()
    run(body, [memory, operands, found], threads=len(pairs), inside=".shared .align 16 .b8 s[4096];")
    assert found.tolist() == before.tolist()
    expected = [RULES[op](read(a, type), read(b, type)) % (1 << bits) for a, b in pairs]
    assert memory.tolist() == expected


def name(bits: int) -> str:
    return {16: "h", 32: "r", 64: "x"}[bits]


def places(size: int, space: str) -> str:
    """%x0, %x1 and %x2 address the thread's elements of the three arrays; for shared memory %r30 does, and has the first's value."""
    text = "".join(f"mad.wide.u32 %x{n}, %t, {size}, %{p};\n" for n, p in enumerate("abc"))
    if space == "global":
        return text
    bits = size * 8
    return (
        text
        + f"""
    mov.u32 %r30, s;
    mad.lo.u32 %r30, %t, {size}, %r30;
    ld.global.b{bits} %{name(bits)}25, [%x0];
    st.shared.b{bits} [%r30], %{name(bits)}25;
    """
    )


def back(bits: int, space: str) -> str:
    return (
        ""
        if space == "global"
        else f"ld.shared.b{bits} %{name(bits)}25, [%r30];\n st.global.b{bits} [%x0], %{name(bits)}25;\n"
    )


@pytest.mark.parametrize(("op", "type"), [(op, type) for op, type in INTEGERS if op != "exch"])
def test_red_does_the_same_without_a_result(op: str, type: str) -> None:
    bits = int(type[1:])
    pairs = [(a, b) for a in WORDS for b in WORDS]
    memory = np.array([a % (1 << bits) for a, _ in pairs], f"u{bits // 8}")
    operands = np.array([b % (1 << bits) for _, b in pairs], f"u{bits // 8}")
    body = f"""
    mad.wide.u32 %x0, %t, {bits // 8}, %a;
    mad.wide.u32 %x1, %t, {bits // 8}, %b;
    ld.global.b{bits} %{name(bits)}9, [%x1];
    red.relaxed.gpu.global.{op}.{type} [%x0], %{name(bits)}9;
    """
    run(body, [memory, operands], threads=len(pairs))
    assert memory.tolist() == [RULES[op](read(a, type), read(b, type)) % (1 << bits) for a, b in pairs]


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_compare_and_swap(bits: int) -> None:
    memory = np.array([3, 4, 3, 5], f"u{bits // 8}")
    found = np.zeros_like(memory)
    body = f"""
    mad.wide.u32 %x0, %t, {bits // 8}, %a;
    mad.wide.u32 %x1, %t, {bits // 8}, %b;
    atom.global.cas.b{bits} %{name(bits)}9, [%x0], 3, 9;
    st.global.b{bits} [%x1], %{name(bits)}9;
    """
    run(body, [memory, found], threads=4)
    assert found.tolist() == [3, 4, 3, 5]
    assert memory.tolist() == [9, 4, 9, 5]


@pytest.mark.parametrize("equal", [True, False])
def test_compare_and_swap_and_exchange_of_128_bits(equal: bool) -> None:
    memory = np.array([1, 2 if equal else 3, 10, 20], np.uint64)
    out = np.zeros(4, np.uint64)
    body = """
    mov.b64 %x0, 1; mov.b64 %x1, 2; mov.b64 %x2, 5; mov.b64 %x3, 6;
    mov.b128 %q0, {%x0, %x1};
    mov.b128 %q1, {%x2, %x3};
    atom.global.cas.b128 %q2, [%a], %q0, %q1;
    atom.global.exch.b128 %q3, [%a+16], %q1;
    st.global.b128 [%b], %q2;
    st.global.b128 [%b+16], %q3;
    """
    run(body, [memory, out])
    assert out.tolist() == [1, 2 if equal else 3, 10, 20]
    assert memory.tolist() == [*([5, 6] if equal else [1, 3]), 5, 6]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("space", ["global", "shared"])
def test_lanes_that_meet_take_turns(order: OrderName, space: str) -> None:
    """Each ticket is given out once, and a counter that wraps comes back to where it was."""
    counters = np.zeros(4, np.uint32)
    tickets = np.zeros(128, np.uint32)
    address = {"global": "%x0", "shared": "%r1"}[space]
    body = f"""
    and.b32 %r0, %t, 3;
    mad.wide.u32 %x0, %r0, 4, %a;
    mov.u32 %r1, s;
    mad.lo.u32 %r1, %r0, 4, %r1;
    setp.lt.u32 %p0, %t, 4;
    @%p0 st.shared.u32 [%r1], 0;
    bar.sync 0;
    atom.{space}.add.u32 %r2, [{address}], 1;
    mad.wide.u32 %x1, %t, 4, %b;
    st.global.u32 [%x1], %r2;
    """
    run(body, [counters, tickets], threads=128, inside=".shared .align 4 .b8 s[16];", order=order, seed=7)
    assert counters.tolist() == ([32] * 4 if space == "global" else [0] * 4)
    for counter in range(4):
        assert sorted(tickets[counter::4].tolist()) == list(range(32))


def test_in_lock_step_turns_go_by_lane_and_otherwise_by_the_seed() -> None:
    orders: list[list[int]] = []
    options: Sequence[tuple[OrderName, int]] = (("fifo", 0), ("random", 1), ("random", 1), ("random", 2))
    for order, seed in options:
        tickets = np.zeros(32, np.uint32)
        body = "atom.global.inc.u32 %r0, [%a], 100;\n mad.wide.u32 %x1, %t, 4, %b;\n st.global.u32 [%x1], %r0;"
        run(body, [np.zeros(1, np.uint32), tickets], threads=32, order=order, seed=seed)
        orders.append(tickets.tolist())
    assert orders[0] == list(range(32))
    assert orders[1] == orders[2] != orders[3]


@pytest.mark.parametrize(
    "form",
    [
        *(
            f"atom.{sem}.{scope}.global"
            for sem in ("relaxed", "acquire", "release", "acq_rel")
            for scope in ("cta", "cluster", "gpu", "sys")
        ),
        "atom.global.acquire.sys",
        "atom",
        "atom.gpu.global",
        "atom.release.global",
    ],
)
def test_orderings_and_scopes(form: str) -> None:
    memory, out = np.array([5], np.uint32), np.zeros(1, np.uint32)
    run(f"{form}.add.u32 %r0, [%a], 3;\n st.global.u32 [%b], %r0;", [memory, out])
    assert (memory.tolist(), out.tolist()) == ([8], [5])


def test_sinks_and_policies() -> None:
    memory = np.array([5, 0, 0, 0], np.uint32)
    body = """
    createpolicy.fractional.L2::evict_last.b64 %x9;
    atom.global.add.u32 _, [%a], 3;
    atom.global.add.L2::cache_hint.u32 %r0, [%a], 1, %x9;
    red.global.max.L2::cache_hint.u32 [%a+4], %r0, %x9;
    atom.global.v2.f32.add _, [%a+8], {1.0, 2.0};
    """
    run(body, [memory])
    assert memory.tolist() == [9, 8, 0x3F800000, 0x40000000]


def packed(values: Sequence[float], bf16: bool) -> NDArray[np.uint16]:
    if not bf16:
        return np.array(values, np.float16).view(np.uint16)
    return (np.array(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)


def unpacked(bits: NDArray[np.uint16], bf16: bool) -> list[float]:
    if not bf16:
        return bits.view(np.float16).astype(float).tolist()
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(float).tolist()


HALVES = [
    (type, op, count)
    for type in ("f16", "bf16", "f16x2", "bf16x2")
    for op in ("add", "min", "max")
    for count in (1, 2, 4, 8)
    if (count > 1 or op == "add") and (count < 8 or not type.endswith("x2"))
]


@pytest.mark.parametrize(("type", "op", "count"), HALVES)
def test_half_precision(type: str, op: str, count: int) -> None:
    rule = {"add": lambda a, b: a + b, "min": min, "max": max}[op]
    pair, bf16 = type.endswith("x2"), type.startswith("bf16")
    elements = count * (2 if pair else 1)
    old = [float(n) for n in (1, -2, 3, 100, -5, 0.5, 7, 8)][:elements]
    new = [float(n) for n in (4, -3, -3, 28, 5, 0.25, 9, -8)][:elements]
    memory, operands, found = packed(old, bf16), packed(new, bf16), np.zeros(elements, np.uint16)
    register = "r" if pair else "h"
    bits = 32 if pair else 16
    loads = "".join(f"ld.global.b{bits} %{register}{n}, [%b+{n * bits // 8}];\n" for n in range(count))
    stores = "".join(f"st.global.b{bits} [%c+{n * bits // 8}], %{register}{n + 10};\n" for n in range(count))
    operand = ", ".join(f"%{register}{n}" for n in range(count))
    result = ", ".join(f"%{register}{n + 10}" for n in range(count))
    if count > 1:
        operand, result = f"{{{operand}}}", f"{{{result}}}"
    vector = f".v{count}" if count > 1 else ""
    run(
        loads + f"atom.global.{op}.noftz{vector}.{type} {result}, [%a], {operand};\n" + stores,
        [memory, operands, found],
    )
    assert unpacked(found, bf16) == old
    assert unpacked(memory, bf16) == [rule(a, b) for a, b in zip(old, new, strict=True)]
    memory = packed(old, bf16)
    run(loads + f"red.global{vector}.{type}.{op}.noftz [%a], {operand};\n", [memory, operands])
    assert unpacked(memory, bf16) == [rule(a, b) for a, b in zip(old, new, strict=True)]


@pytest.mark.parametrize("count", [2, 4])
def test_vectors_of_single_precision(count: int) -> None:
    memory = np.arange(count * 32, dtype=np.float32)
    expected = memory + np.tile(np.arange(1, count + 1, dtype=np.float32), 32)
    body = f"mad.wide.u32 %x0, %t, {count * 4}, %a;\n"
    body += "".join(f"mov.f32 %f{n}, 0f{int(np.float32(n + 1).view(np.uint32)):08X};\n" for n in range(count))
    body += f"red.global.add.v{count}.f32 [%x0], {{{', '.join(f'%f{n}' for n in range(count))}}};"
    run(body, [memory], threads=32)
    assert memory.tolist() == expected.tolist()


def single(memory: NDArray[Any], operand: str, type: str, space: str) -> None:
    """Add a constant to the only element of an array, in one of the spaces."""
    bits = memory.itemsize * 8
    body = f"atom.global.add.{type} %{type[0] if type[0] == 'f' and bits == 32 else 'd'}0, [%a], {operand};"
    if space == "shared":
        body = f"""
        ld.global.b{bits} %{name(bits)}0, [%a];
        st.shared.b{bits} [s], %{name(bits)}0;
        red.shared.add.{type} [s], {operand};
        ld.shared.b{bits} %{name(bits)}0, [s];
        st.global.b{bits} [%a], %{name(bits)}0;
        """
    run(body, [memory], inside=".shared .align 8 .b8 s[8];")


def test_single_precision_flushes_subnormal_numbers_in_global_memory_only() -> None:
    tiny = 2.0**-130
    for space, expected in (("global", 0.0), ("shared", 2 * tiny)):
        memory = np.array([tiny], np.float32)
        single(memory, f"0f{int(np.float32(tiny).view(np.uint32)):08X}", "f32", space)
        assert float(memory[0]) == expected
    memory = np.array([-tiny], np.float32)
    single(memory, "0f80000000", "f32", "global")
    assert memory.view(np.uint32).tolist() == [0x80000000]


def test_double_precision() -> None:
    memory = np.array([1.0], np.float64)
    single(memory, "0d3CB0000000000000", "f64", "global")
    assert float(memory[0]) == 1.0 + 2.0**-52


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.floats(width=32, allow_nan=False, allow_infinity=False, min_value=-(2.0**100), max_value=2.0**100),
        min_size=1,
        max_size=64,
    )
)
def test_sums_of_one_warp_in_shared_memory_are_rounded_one_by_one(values: list[float]) -> None:
    operands, out = np.array(values, np.float32), np.zeros(1, np.float32)
    body = """
    setp.eq.u32 %p0, %t, 0;
    @%p0 st.shared.f32 [s], 0f00000000;
    bar.sync 0;
    mad.wide.u32 %x0, %t, 4, %b;
    ld.global.f32 %f0, [%x0];
    red.shared.add.f32 [s], %f0;
    bar.sync 0;
    ld.shared.f32 %f1, [s];
    st.global.f32 [%a], %f1;
    """
    run(body, [out, operands], threads=len(values), inside=".shared .align 4 .b8 s[4];")
    expected = np.float32(0)
    for value in operands:
        expected = np.float32(expected + value)
    assert out[0] == expected


def test_atomics_on_shared_memory_of_the_cluster() -> None:
    out = np.zeros(1, np.uint32)
    body = """
    mov.u32 %r0, %cluster_ctarank;
    setp.eq.u32 %p0, %r0, 0;
    @%p0 st.shared.u32 [s], 1000;
    barrier.cluster.arrive.release;
    barrier.cluster.wait.acquire;
    mapa.shared::cluster.u32 %r1, s, 0;
    red.shared::cluster.add.u32 [%r1], 1;
    barrier.cluster.arrive.release;
    barrier.cluster.wait.acquire;
    ld.shared.u32 %r2, [s];
    @%p0 st.global.u32 [%a], %r2;
    """.replace("ld.shared.u32 %r2", "@%p0 ld.shared.u32 %r2")
    run(body, [out], threads=32, cluster=4, grid=4, inside=".shared .align 4 .b8 s[4];")
    assert out.tolist() == [1000 + 4 * 32]


def test_faults() -> None:
    inside = ".shared .align 16 .b8 s[64]; .local .align 8 .b8 l[8];"
    array = np.zeros(4, np.uint32)
    text = fault("atom.global.add.u32 %r0, [%a+16], 1; // here", [array], FaultKind.OUT_OF_BOUNDS)
    assert text == "4 bytes at address 0x700001000010: the address is 0 bytes behind the end of array in_a (16 bytes)"
    text = fault("red.global.add.u64 [%a+4], %x0; // here", [array], FaultKind.MISALIGNED)
    assert (
        text
        == "8 bytes at address 0x700001000004: the address is 4 bytes behind a multiple of 8 (in array in_a at offset 4)"
    )
    text = fault("red.shared.add.u32 [s+8], 1; // here", [], FaultKind.UNINITIALISED, inside=inside)
    assert text == "4 bytes of shared memory at 0x408 are read, but nothing has been written at 0x408"
    text = fault(
        "cvta.local.u64 %x0, l;\n atom.add.u32 %r0, [%x0], 1; // here", [], FaultKind.OUT_OF_BOUNDS, inside=inside
    )
    assert text == "atom.add.u32 at an address in local memory; it reaches global and shared memory only"
    body = "cvta.shared.u64 %x0, s;\n red.add.v2.f32 [%x0], {%f0, %f1}; // here"
    text = fault(body, [], FaultKind.OUT_OF_BOUNDS, inside=inside)
    assert text == "red.add.v2.f32 at an address in shared memory; it reaches global memory only"
    array.flags.writeable = False
    text = fault("red.global.add.u32 [%a], 1; // here", [array], FaultKind.OUT_OF_BOUNDS)
    assert text == "4 bytes at offset 0 of array in_a, which is read-only, are written"


@pytest.mark.parametrize(
    ("instruction", "why"),
    [
        ("red.global.exch.b32 [%a], %r0;", "no such operation: red.global.exch.b32"),
        ("atom.global.inc.u64 %x0, [%a], %x1;", "no .inc of .u64: atom.global.inc.u64"),
        (
            "atom.global.add.f16 %h0, [%a], %h1;",
            ".noftz goes with the half-precision types, and they with it: atom.global.add.f16",
        ),
        (
            "atom.global.add.noftz.f32 %f0, [%a], %f1;",
            ".noftz goes with the half-precision types, and they with it: atom.global.add.noftz.f32",
        ),
        ("atom.global.max.noftz.f16x2 %r0, [%a], %r1;", ".max of .f16x2 takes a vector: atom.global.max.noftz.f16x2"),
        ("red.global.add.v8.f32 [%a], %f0;", ".v8 does not go with .add.f32: red.global.add.v8.f32"),
        ("red.global.min.f32 [%a], %f0;", "no .min of .f32: red.global.min.f32"),
        (
            "red.acquire.gpu.global.add.u32 [%a], 1;",
            "the emulator does not know .acquire here: red.acquire.gpu.global.add.u32",
        ),
        ("atom.global.cas.b32 %r0, [%a], %r1;", "3 operands, not 4: atom.global.cas.b32"),
        ("atom.local.add.u32 %r0, [%a], %r1;", "the emulator does not know .local here: atom.local.add.u32"),
    ],
)
def test_forms_that_do_not_exist_stop_by_name(instruction: str, why: str) -> None:
    assert refused(instruction) == why


@pytest.mark.parametrize(
    "instruction",
    ["multimem.red.relaxed.gpu.global.add.u32 [%a], %r0;", "multimem.ld_reduce.relaxed.gpu.global.add.u32 %r0, [%a];"],
)
def test_multimem_is_not_executed(instruction: str) -> None:
    assert refused(instruction).startswith("the emulator does not know this instruction: multimem.")
