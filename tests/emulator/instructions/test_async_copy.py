"""`cp.async`: copies, zeros where there is no source, groups, mbarriers, and reads that come too early."""

from __future__ import annotations

import numpy as np
import pytest
from memory_kernels import ORDERS, OrderName, fault, refused, run

from tilec.backend.emulator.faults import FaultKind

INSIDE = ".shared .align 16 .b8 s[8192]; .shared .align 8 .b64 bar;"
PLACES = """
    mov.u32 %r30, s;
    mad.lo.u32 %r30, %t, {unit}, %r30;
    mad.wide.u32 %x30, %t, {unit}, %a;
    mad.wide.u32 %x31, %t, {unit}, %b;
"""


def places(unit: int) -> str:
    """%r30 is the thread's place in shared memory, %x30 in the source, %x31 in the result."""
    return PLACES.format(unit=unit)


def back(unit: int) -> str:
    register = {4: "r", 8: "x", 16: "q"}[unit]
    return f"ld.shared.b{unit * 8} %{register}1, [%r30];\n st.global.b{unit * 8} [%x31], %{register}1;\n"


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("cache", "unit"), [("ca", 4), ("ca", 8), ("ca", 16), ("cg", 16)])
@pytest.mark.parametrize("space", ["shared", "shared::cta"])
def test_copies(order: OrderName, cache: str, unit: int, space: str) -> None:
    source = np.random.default_rng(unit).integers(0, 256, 64 * unit).astype(np.uint8)
    out = np.zeros_like(source)
    body = places(unit) + f"cp.async.{cache}.{space}.global [%r30], [%x30], {unit};\n cp.async.wait_all;\n" + back(unit)
    run(body, [source, out], threads=64, inside=INSIDE, order=order, seed=1)
    assert out.tobytes() == source.tobytes()


@pytest.mark.parametrize("hint", ["L2::64B", "L2::128B", "L2::256B", "L2::cache_hint", "L2::cache_hint.L2::128B"])
def test_hints(hint: str) -> None:
    source, out = np.arange(128, dtype=np.uint8), np.zeros(128, np.uint8)
    policy = ", %x9" if "cache_hint" in hint else ""
    copy = f"cp.async.cg.shared.global.{hint} [%r30], [%x30], 16{policy};\n cp.async.wait_all;\n"
    run(
        "createpolicy.fractional.L2::evict_first.b64 %x9;\n" + places(16) + copy + back(16),
        [source, out],
        threads=8,
        inside=INSIDE,
    )
    assert out.tolist() == source.tolist()


@pytest.mark.parametrize("unit", [4, 8, 16])
def test_bytes_beyond_the_source_size_are_zeros(unit: int) -> None:
    """Thread t copies t bytes of its unit, as far as the unit goes."""
    threads = unit + 1
    source, out = np.arange(1, threads * unit + 1).astype(np.uint8), np.full(threads * unit, 0xEE, np.uint8)
    body = places(unit) + f"cp.async.ca.shared.global [%r30], [%x30], {unit}, %t;\n cp.async.wait_all;\n" + back(unit)
    run(body, [source, out], threads=threads, inside=INSIDE)
    expected = [[source[t * unit + b] if b < t else 0 for b in range(unit)] for t in range(threads)]
    assert out.reshape(threads, unit).tolist() == expected


@pytest.mark.parametrize("negated", [False, True])
def test_a_predicate_ignores_the_source(negated: bool) -> None:
    """Its address may then be anywhere."""
    source, out = np.arange(1, 17, dtype=np.uint32), np.full(32, 9, np.uint32)
    comparison = "lt" if negated else "ge"
    body = (
        places(4)
        + f"""
    setp.{comparison}.u32 %p3, %t, 16;
    cp.async.ca.shared.global [%r30], [%x30], 4, {"!" if negated else ""}%p3;
    cp.async.wait_all;
    """
        + back(4)
    )
    run(body, [source, out], threads=32, inside=INSIDE)
    assert out.tolist() == [*range(1, 17), *[0] * 16]


def test_lanes_without_a_source_may_point_anywhere() -> None:
    source, out = np.arange(1, 17, dtype=np.uint32), np.full(32, 9, np.uint32)
    body = (
        places(4)
        + """
    setp.lt.u32 %p3, %t, 16;
    selp.u32 %r3, 4, 0, %p3;
    cp.async.ca.shared.global [%r30], [%x30], 4, %r3;
    cp.async.wait_all;
    """
        + back(4)
    )
    run(body, [source, out], threads=32, inside=INSIDE)
    assert out.tolist() == [*range(1, 17), *[0] * 16]


STAGES = """
    cp.async.cg.shared.global [%r30], [%x30], 16;
    cp.async.commit_group;
    cp.async.cg.shared.global [%r30+512], [%x30+512], 16;
    cp.async.commit_group;
    cp.async.commit_group;
    cp.async.cg.shared.global [%r30+1024], [%x30+1024], 16;
    cp.async.commit_group;
"""


@pytest.mark.parametrize("order", ORDERS)
def test_groups_are_waited_for_from_the_oldest(order: OrderName) -> None:
    """Of four groups the third is empty: with 3, 1 and 0 pending the first, second and last copy may be read."""
    source, out = np.arange(384, dtype=np.uint32), np.zeros(384, np.uint32)
    body = places(16) + STAGES
    for pending, at in ((3, 0), (1, 512), (0, 1024)):
        body += (
            f"cp.async.wait_group {pending};\n ld.shared.b128 %q0, [%r30+{at}];\n st.global.b128 [%x31+{at}], %q0;\n"
        )
    run(body, [source, out], threads=32, inside=INSIDE, order=order, seed=5)
    assert out.tolist() == source.tolist()


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("pending", "at"), [(4, 0), (3, 512), (2, 1024), (1, 1024)])
def test_a_group_that_may_be_pending_is_in_flight(order: OrderName, pending: int, at: int) -> None:
    body = places(16) + STAGES + f"cp.async.wait_group {pending};\n ld.shared.u32 %r0, [%r30+{at}]; // here"
    arrays = [np.zeros(512, np.uint32), np.zeros(1, np.uint32)]
    with pytest.raises(
        Exception,
        match=rf"4 bytes of shared memory at 0x{0x400 + at:x} are read.*cp.async of 16 bytes of line \d+ has not",
    ):
        run(body, arrays, threads=1, inside=INSIDE, order=order, seed=2)


def test_text_of_what_is_in_flight() -> None:
    body = places(16) + "cp.async.cg.shared.global [%r30], [%x30], 16;\n ld.shared.u32 %r0, [%r30+4]; // here"
    arrays = [np.zeros(4, np.uint32), np.zeros(1, np.uint32)]
    text = fault(body, arrays, FaultKind.IN_FLIGHT, inside=INSIDE)
    line = int(text.split("line ")[1].split()[0])
    assert text == (
        f"4 bytes of shared memory at 0x404 are read, but at 0x404 cp.async of 16 bytes of line {line} has not completed"
    )
    text = fault(
        body.replace("ld.shared.u32 %r0, [%r30+4]", "st.shared.u32 [%r30+12], %t"),
        arrays,
        FaultKind.IN_FLIGHT,
        inside=INSIDE,
    )
    assert text.startswith("4 bytes of shared memory at 0x40c are written, but at 0x40c cp.async of 16 bytes of line")


def test_another_thread_waits_at_a_barrier() -> None:
    source, out = np.arange(64, dtype=np.uint32), np.zeros(64, np.uint32)
    body = (
        places(4)
        + """
    cp.async.ca.shared.global [%r30], [%x30], 4;
    cp.async.wait_all;
    bar.sync 0;
    xor.b32 %r1, %t, 33;
    mov.u32 %r2, s;
    mad.lo.u32 %r2, %r1, 4, %r2;
    ld.shared.u32 %r3, [%r2];
    st.global.u32 [%x31], %r3;
    """
    )
    for order in ORDERS:
        out[:] = 0
        run(body, [source, out], threads=64, inside=INSIDE, order=order, seed=4)
        assert out.tolist() == [t ^ 33 for t in range(64)]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("noinc", [False, True])
@pytest.mark.parametrize("generic", [False, True])
def test_an_mbarrier_tells_when_the_copies_have_ended(order: OrderName, noinc: bool, generic: bool) -> None:
    """Without .noinc the arrivals of the copies do not count: each thread arrives once more itself."""
    source, out = np.arange(64, dtype=np.uint32), np.zeros(64, np.uint32)
    arrive = f"cp.async.mbarrier.arrive{'.noinc' if noinc else ''}"
    body = (
        places(4)
        + f"""
    setp.eq.u32 %p0, %t, 0;
    @%p0 mbarrier.init.shared::cta.b64 [bar], 64;
    bar.sync 0;
    cvta.shared.u64 %x9, bar;
    cp.async.ca.shared.global [%r30], [%x30], 4;
    {f"{arrive}.b64 [%x9]" if generic else f"{arrive}.shared::cta.b64 [bar]"};
    {"" if noinc else "mbarrier.arrive.shared::cta.b64 _, [bar];"}
    W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0;
    @!%p1 bra W;
    xor.b32 %r1, %t, 33;
    mov.u32 %r2, s;
    mad.lo.u32 %r2, %r1, 4, %r2;
    ld.shared.u32 %r3, [%r2];
    st.global.u32 [%x31], %r3;
    """
    )
    run(body, [source, out], threads=64, inside=INSIDE, order=order, seed=6)
    assert out.tolist() == [t ^ 33 for t in range(64)]


def test_copies_may_be_left_behind() -> None:
    source, out = np.arange(64, dtype=np.uint32), np.zeros(64, np.uint32)
    body = places(4) + "cp.async.ca.shared.global [%r30], [%x30], 4;\n st.global.u32 [%x31], %t;"
    run(body, [source, out], threads=64, grid=3, inside=INSIDE, order="adversarial")
    assert out.tolist() == list(range(64))


BULK_STORE = """
    setp.ne.u32 %p0, %t, 0;
    @%p0 bra END;
    cp.async.bulk.global.shared::cta.bulk_group [%b], [%r30], 64;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
    END:
"""


@pytest.mark.parametrize("fence", ["fence.proxy.async;", ""])
def test_the_async_proxy_may_read_what_was_copied(fence: str) -> None:
    """By the letter only behind a fence; compilers leave it out, and hardware is right all the same."""
    source, out = np.arange(16, dtype=np.uint32), np.zeros(16, np.uint32)
    copy = places(4) + "cp.async.ca.shared.global [%r30], [%x30], 4;\n cp.async.wait_all;\n"
    run(copy + f"{fence}\n bar.sync 0;\n" + BULK_STORE, [source, out], threads=16, inside=INSIDE)
    assert out.tolist() == list(range(16))


def test_faults() -> None:
    arrays = [np.zeros(6, np.uint32), np.zeros(1, np.uint32)]
    text = fault("cp.async.cg.shared.global [s], [%a+16], 16; // here", arrays, FaultKind.OUT_OF_BOUNDS, inside=INSIDE)
    assert (
        text == "16 bytes at address 0x700001000010: the address reaches 8 bytes over the end of array in_a (24 bytes)"
    )
    text = fault(
        "cp.async.ca.shared.global [s], [%a+16], 16, 9; // here", arrays, FaultKind.OUT_OF_BOUNDS, inside=INSIDE
    )
    assert text == "1 bytes at address 0x700001000018: the address is 0 bytes behind the end of array in_a (24 bytes)"
    text = fault("cp.async.ca.shared.global [s], [%a+4], 8; // here", arrays, FaultKind.MISALIGNED, inside=INSIDE)
    assert text == "cp.async of 8 bytes from address 0x700001000004: the address is 4 bytes behind a multiple of 8"
    text = fault("cp.async.ca.shared.global [s+4], [%a], 8; // here", arrays, FaultKind.MISALIGNED, inside=INSIDE)
    assert text == "8 bytes at address 0x404: the address is 4 bytes behind a multiple of 8 (in shared memory)"
    text = fault("cp.async.ca.shared.global [s], [%a], 4, 5; // here", arrays, FaultKind.ILLEGAL, inside=INSIDE)
    assert text == "cp.async of 4 bytes with a source size of 5 bytes"


@pytest.mark.parametrize(
    ("instruction", "why"),
    [
        (
            "cp.async.cg.shared.global [s], [%a], 8;",
            "the size is 16, or with .ca also 4 or 8: cp.async.cg.shared.global",
        ),
        (
            "cp.async.ca.shared.global [s], [%a], 12;",
            "the size is 16, or with .ca also 4 or 8: cp.async.ca.shared.global",
        ),
        (
            "cp.async.shared.global [s], [%a], 4;",
            "a copy goes from .global to .shared, by .ca or .cg: cp.async.shared.global",
        ),
        (
            "cp.async.ca.shared::cluster.global [s], [%a], 4;",
            "the emulator does not know .shared::cluster here: cp.async.ca.shared::cluster.global",
        ),
        ("cp.async.wait_group %r0;", "the number of groups is a constant: cp.async.wait_group"),
        ("cp.async.mbarrier.arrive.shared.b32 [bar];", "an mbarrier is .b64: cp.async.mbarrier.arrive.shared.b32"),
    ],
)
def test_forms_that_do_not_exist_stop_by_name(instruction: str, why: str) -> None:
    assert refused(instruction, inside=INSIDE) == why
