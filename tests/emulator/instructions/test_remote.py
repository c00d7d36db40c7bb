"""Asynchronous stores and reductions to another CTA, and `st.bulk`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from memory_kernels import ORDERS, OrderName, fault, refused, run

from tilec.backend.emulator.faults import FaultKind

INSIDE = ".shared .align 32 .b8 s[4096]; .shared .align 8 .b64 bar;"


def exchange(
    instruction: str, expected: int, *, prepare: str = "", size: int = 4, register: str = "r", generic: bool = False
) -> str:
    """Each thread of a CTA sends a value to its place in the next CTA of two, which waits for `expected` bytes and hands out
    what it has got. `instruction` has the fields {to}, {value} and {bar}."""
    value = f"%{register}5"
    fields = {"to": "%x1" if generic else "%r2", "bar": "%x2" if generic else "%r3", "value": value}
    return f"""
    mov.u32 %r0, %cluster_ctarank;
    xor.b32 %r1, %r0, 1;
    mov.u32 %r30, s;
    mad.lo.u32 %r30, %t, {size}, %r30;
    setp.eq.u32 %p0, %t, 0;
    @%p0 mbarrier.init.shared::cta.b64 [bar], 1;
    @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {expected};
    fence.mbarrier_init.release.cluster;
    {prepare}
    barrier.cluster.arrive.release;
    barrier.cluster.wait.acquire;
    mapa.shared::cluster.u32 %r2, %r30, %r1;
    mapa.shared::cluster.u32 %r3, bar, %r1;
    mov.b64 %x1, {{%r2, 0}};
    cvta.shared::cluster.u64 %x1, %x1;
    mov.b64 %x2, {{%r3, 0}};
    cvta.shared::cluster.u64 %x2, %x2;
    mad.lo.u32 %r5, %r0, 1000, %t;
    cvt.u64.u32 %x5, %r5;
    {instruction.format(**fields)}
    W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0;
    @!%p1 bra W;
    mad.lo.u32 %r9, %r0, 32, %t;
    mad.wide.u32 %x9, %r9, {size}, %a;
    ld.shared.b{size * 8} %{register}7, [%r30];
    st.global.b{size * 8} [%x9], %{register}7;
    barrier.cluster.arrive.release;
    barrier.cluster.wait.acquire;
    """


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    "form",
    ["st.async.shared::cluster", "st.async.weak.shared::cluster", "st.async.cluster.shared::cluster", "st.async"],
)
@pytest.mark.parametrize("type", ["b32", "u64"])
def test_st_async(order: OrderName, form: str, type: str) -> None:
    size, register = (4, "r") if type == "b32" else (8, "x")
    out = np.zeros((2, 32), f"u{size}")
    instruction = form + f".mbarrier::complete_tx::bytes.{type} [{{to}}], {{value}}, [{{bar}}];"
    body = exchange(instruction, 32 * size, size=size, register=register, generic=form == "st.async")
    run(body, [out], threads=32, grid=2, cluster=2, inside=INSIDE, order=order, seed=2)
    assert out.tolist() == [[1000 * (1 - rank) + t for t in range(32)] for rank in range(2)]


@pytest.mark.parametrize(
    ("vector", "type", "register", "size"),
    [("v2", "f32", "f", 4), ("v4", "s32", "r", 4), ("v2", "b64", "x", 8), ("v4", "u64", "x", 8)],
)
def test_st_async_of_vectors(vector: str, type: str, register: str, size: int) -> None:
    count = int(vector[1])
    out = np.zeros(count, f"u{size}")
    values = ", ".join(f"%{register}{n + 10}" for n in range(count))
    moves = "".join(f"mov.b{size * 8} %{register}{n + 10}, {n + 70};\n" for n in range(count))
    body = (
        f"""
    mov.u32 %r0, %cluster_ctarank;
    setp.eq.u32 %p0, %r0, 1;
    @%p0 mbarrier.init.shared::cta.b64 [bar], 1;
    @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {count * size};
    barrier.cluster.arrive.release;
    barrier.cluster.wait.acquire;
    @%p0 bra RECEIVE;
    mapa.shared::cluster.u32 %r2, s, 1;
    mapa.shared::cluster.u32 %r3, bar, 1;
    {moves}
    st.async.shared::cluster.mbarrier::complete_tx::bytes.{vector}.{type} [%r2+{count * size}], {{{values}}}, [%r3];
    bra END;
    RECEIVE: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0;
    @!%p1 bra RECEIVE;
    """
        + "".join(
            f"ld.shared.b{size * 8} %{register}9, [s+{count * size + n * size}];\n st.global.b{size * 8} [%a+{n * size}], %{register}9;\n"
            for n in range(count)
        )
        + """
    END: barrier.cluster.arrive.release;
    barrier.cluster.wait.acquire;
    """
    )
    run(body, [out], grid=2, cluster=2, inside=INSIDE)
    assert out.tolist() == [70 + n for n in range(count)]


REDUCTIONS: list[tuple[str, str, Callable[[int, int], int]]] = [
    ("inc", "u32", lambda r, s: 0 if r >= s else r + 1),
    ("dec", "u32", lambda r, s: s if r == 0 or r > s else r - 1),
    ("min", "u32", min),
    ("max", "u32", max),
    ("min", "s32", lambda r, s: min(r, s, key=lambda v: v - 2**32 if v >> 31 else v)),
    ("max", "s32", lambda r, s: max(r, s, key=lambda v: v - 2**32 if v >> 31 else v)),
    ("and", "b32", lambda r, s: r & s),
    ("or", "b32", lambda r, s: r | s),
    ("xor", "b32", lambda r, s: r ^ s),
    ("add", "u32", lambda r, s: (r + s) % 2**32),
    ("add", "s32", lambda r, s: (r + s) % 2**32),
]


@pytest.mark.parametrize(("op", "type", "rule"), REDUCTIONS)
@pytest.mark.parametrize(
    "form", ["red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes", "red.async.relaxed.cluster"]
)
def test_red_async(op: str, type: str, rule: Callable[[int, int], int], form: str) -> None:
    old = 0x80000010 if type == "s32" else 17
    out = np.zeros((2, 32), np.uint32)
    instruction = form + f".{op}.{type} [{{to}}], {{value}}, [{{bar}}];"
    generic = "shared::cluster" not in form
    body = exchange(instruction, 128, prepare=f"st.shared.u32 [%r30], {old};", generic=generic)
    run(body, [out], threads=32, grid=2, cluster=2, inside=INSIDE)
    assert out.tolist() == [[rule(old, 1000 * (1 - rank) + t) for t in range(32)] for rank in range(2)]


def test_red_async_of_64_bits_adds_up_at_one_place() -> None:
    out = np.zeros((2, 32), np.uint64)
    instruction = """
    mapa.shared::cluster.u32 %r2, s, %r1;
    red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u64 [{to}], {value}, [{bar}];
    """
    body = exchange(instruction, 256, size=8, register="x", prepare="st.shared.u64 [%r30], 0;")
    run(body, [out], threads=32, grid=2, cluster=2, inside=INSIDE)
    assert out[:, 0].tolist() == [sum(1000 * (1 - rank) + t for t in range(32)) for rank in range(2)]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("form", ["release.gpu.global", "release.sys", "mmio.release.sys.global"])
def test_those_to_global_memory_end_with_the_kernel(order: OrderName, form: str) -> None:
    array = np.full(64, 5, np.uint32)
    body = f"""
    mad.wide.u32 %x0, %t, 4, %a;
    st.async.{form}.u32 [%x0], %t;
    red.async.{form}.add.u32 [%a+128], %t;
    """
    run(body, [array], threads=32, target="sm_100a", order=order)
    assert array.tolist() == [*range(32), 5 + sum(range(32)), *[5] * 31]


def test_what_is_stored_is_in_flight_until_the_mbarrier_tells() -> None:
    instruction = """
    st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [{to}], {value}, [{bar}];
    ld.shared::cluster.u32 %r8, [{to}];
    """
    with pytest.raises(
        Exception, match=r"in flight: 4 bytes of shared memory at 0x400 are read, but at 0x400 st.async of line"
    ):
        run(exchange(instruction, 128), [np.zeros((2, 32), np.uint32)], threads=32, grid=2, cluster=2, inside=INSIDE)


def test_faults() -> None:
    send = "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r2], %t, [%r3]; // here"
    text = fault("mov.u32 %r2, s;\n mov.u32 %r3, bar;\n" + send, [], FaultKind.ILLEGAL, inside=INSIDE)
    assert text == "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 in a cluster of one CTA"
    apart = "mapa.shared::cluster.u32 %r2, s, 1;\n mapa.shared::cluster.u32 %r3, bar, 0;\n"
    text = fault(apart + send, [], FaultKind.ILLEGAL, inside=INSIDE, cluster=2, grid=2)
    assert text == (
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 to the CTA of rank 1 with an mbarrier in that of rank 0; both "
        "must be in one"
    )
    own = "mov.u32 %r2, s;\n mov.u32 %r3, bar;\n st.shared.u32 [s], 1;\n"
    reduce = "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r2], %t, [%r3]; // here"
    text = fault(own + reduce, [], FaultKind.ILLEGAL, inside=INSIDE, cluster=2, grid=2)
    assert text.endswith("add.u32 to the shared memory of the CTA that executes it (rank 0)")


@pytest.mark.parametrize(
    "form",
    [
        "st.bulk.weak.shared::cta [%r0], %x0, 0;",
        "st.bulk.shared::cta [%r0], 128, 0;",
        "st.bulk.weak [%x1], %x0, 0;",
        "st.bulk [%x1], %r1, 0;",
    ],
)
def test_st_bulk_writes_zeros(form: str) -> None:
    out = np.full(64, 7, np.uint32)
    copies = "".join(
        f"ld.shared.v4.u32 {{%r4, %r5, %r6, %r7}}, [s+{n}];\n st.global.v4.u32 [%a+{n}], {{%r4, %r5, %r6, %r7}};\n"
        for n in range(0, 256, 16)
    )
    fill = "".join(f"st.shared.u64 [s+{n}], -1;\n" for n in range(0, 256, 8))
    body = (
        fill
        + f"""
    mov.u32 %r0, s+64; mov.u64 %x0, 128; mov.u32 %r1, 128;
    cvta.shared.u64 %x1, s+64;
    {form}
    """
        + copies
    )
    run(body, [out], target="sm_100a", inside=INSIDE)
    assert out.tolist() == [0xFFFFFFFF] * 16 + [0] * 32 + [0xFFFFFFFF] * 16


def test_faults_of_st_bulk() -> None:
    text = fault("st.bulk.shared::cta [s], 12, 0; // here", [], FaultKind.ILLEGAL, inside=INSIDE, target="sm_100a")
    assert text == "st.bulk of 12 bytes; the size is a multiple of 8 up to 16777216"
    text = fault(
        "st.bulk.shared::cta [s], 8192, 0; // here", [], FaultKind.OUT_OF_BOUNDS, inside=INSIDE, target="sm_100a"
    )
    assert text.startswith("8 bytes at address 0x23f8: the address is ")
    assert refused("st.bulk.shared::cta [s], 8, 1;", inside=INSIDE) == "the value is 0: st.bulk.shared::cta"


@pytest.mark.parametrize(
    ("instruction", "why"),
    [
        ("st.async.shared::cluster.u32 [%r0], %r1, [%r2];", "completion is told by .mbarrier::complete_tx::bytes"),
        (
            "st.async.shared::cluster.mbarrier::complete_tx::bytes.b16 [%r0], %h1, [%r2];",
            "no asynchronous store of .b16 to shared memory",
        ),
        ("st.async.mmio.global.u32 [%x0], %r1;", ".mmio goes with .release"),
        (
            "red.async.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r0], %r1, [%r2];",
            "a reduction in shared memory is .relaxed.cluster",
        ),
        ("red.async.relaxed.cluster.inc.s32 [%x0], %r1, [%x2];", "no asynchronous .inc of .s32"),
        ("red.async.release.gpu.global.max.u32 [%x0], %r1;", "only .add goes to global memory"),
    ],
)
def test_forms_that_do_not_exist_stop_by_name(instruction: str, why: str) -> None:
    assert refused(instruction).startswith(why)
