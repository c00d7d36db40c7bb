"""vote.sync, match.sync, activemask, elect.sync and redux.sync against loops over the lanes."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from emulator.instructions.per_thread import ORDERS, OrderName, run_threads
from hypothesis import given, settings
from hypothesis import strategies as st

from tilec.backend.emulator.faults import EmulatorFault, FaultKind, UnsupportedInstruction

words = st.integers(0, 2**32 - 1)
warp = st.lists(words, min_size=32, max_size=32)
few = st.lists(st.sampled_from((0, 1, 0x8000_0000, 2**32 - 1)), min_size=32, max_size=32)
cuts = st.integers(1, 31)
EXITED = 0xEEEE_EEEE

SETUP = """
    setp.ge.u32 %p9, %t, 30;
    @%p9 exit;
    setp.lt.u32 %p8, %t, %a1;
    shl.b32 %r9, 1, %a1;
    sub.u32 %r9, %r9, 1;
    not.b32 %r8, %r9;
    selp.b32 %r7, %r9, %r8, %p8;
"""
"""Threads 30 and 31 exit; the masks of those below `cut` and of those from there on are in %r7."""


def parts(cut: int) -> list[list[int]]:
    """The lanes of the two masks that have not exited."""
    return [list(range(min(cut, 30))), list(range(cut, 30))]


def run(
    body: str, values: list[int], cut: int, results: int, kind: type[np.uint32 | np.uint64] = np.uint32
) -> list[list[int]]:
    found = run_threads(SETUP + body, [np.array(values, kind), np.full(32, cut, np.uint32)], [np.uint32] * results)
    return [[int(v) for v in array] for array in found]


@settings(max_examples=40, deadline=None)
@given(bits=st.lists(st.sampled_from((0, 0, 1)) | st.just(1), min_size=32, max_size=32), cut=cuts)
def test_vote(bits: list[int], cut: int) -> None:
    body = """
    setp.ne.u32 %p0, %a0, 0;
    vote.sync.all.pred %p1, %p0, %r7;
    vote.sync.any.pred %p2, !%p0, %r7;
    vote.sync.uni.pred %p3, %p0, %r7;
    vote.sync.ballot.b32 %d3, %p0, %r7;
    selp.u32 %d0, 1, 0, %p1;
    selp.u32 %d1, 1, 0, %p2;
    selp.u32 %d2, 1, 0, %p3;
"""
    every, some_not, uniform, ballot = run(body, bits, cut, 4)
    for lanes in parts(cut):
        held = [bits[lane] for lane in lanes]
        for lane in lanes:
            assert every[lane] == int(all(held))
            assert some_not[lane] == int(not all(held))
            assert uniform[lane] == int(len(set(held)) == 1)
            assert ballot[lane] == sum(1 << other for other in lanes if bits[other])
    assert ballot[30:] == [EXITED] * 2


@pytest.mark.parametrize("width", [32, 64])
@settings(max_examples=30, deadline=None)
@given(values=few, same=st.booleans(), cut=cuts)
def test_match(width: int, values: list[int], same: bool, cut: int) -> None:
    if same:
        values = [values[0]] * 32
    kind = np.uint32 if width == 32 else np.uint64
    values = [v << (width - 32) for v in values]
    register = "%a0" if width == 32 else "%A0"
    body = f"""
    match.any.sync.b{width} %d0, {register}, %r7;
    match.all.sync.b{width} %d1|%p1, {register}, %r7;
    match.all.sync.b{width} _|%p2, {register}, %r7;
    match.all.sync.b{width} %d3, {register}, %r7;
    selp.u32 %d2, 1, 0, %p1;
    selp.u32 %d4, 1, 0, %p2;
"""
    some, every, agree, every_only, agree_only = run(body, values, cut, 5, kind)
    for lanes in parts(cut):
        one = len({values[lane] for lane in lanes}) == 1
        for lane in lanes:
            assert some[lane] == sum(1 << other for other in lanes if values[other] == values[lane])
            assert every[lane] == every_only[lane] == (sum(1 << other for other in lanes) if one else 0)
            assert agree[lane] == agree_only[lane] == int(one)


def signed(value: int) -> int:
    return value - 2**32 if value >> 31 else value


@settings(max_examples=30, deadline=None)
@given(values=warp, cut=cuts)
def test_redux_of_integers(values: list[int], cut: int) -> None:
    expected = {
        "add.u32": lambda v: sum(v) % 2**32,
        "add.s32": lambda v: sum(v) % 2**32,
        "min.u32": min,
        "max.s32": lambda v: max(v, key=signed),
        "min.s32": lambda v: min(v, key=signed),
        "max.u32": max,
        "and.b32": lambda v: int(np.bitwise_and.reduce(np.array(v, np.uint64))),
        "or.b32": lambda v: int(np.bitwise_or.reduce(np.array(v, np.uint64))),
    }
    body = "".join(f"    redux.sync.{op} %d{i}, %a0, %r7;\n" for i, op in enumerate(expected))
    found = run(body, values, cut, 8)
    (xor,) = run("    redux.sync.xor.b32 %d0, %a0, %r7;\n", values, cut, 1)
    for lanes in parts(cut):
        inside = [values[lane] for lane in lanes]
        odd = 0
        for value in inside:
            odd ^= value
        for lane in lanes:
            assert [result[lane] for result in found] == [f(inside) for f in expected.values()]
            assert xor[lane] == odd


def float_of(bits: int) -> float:
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def is_nan(bits: int) -> bool:
    return bits & 0x7FFFFFFF > 0x7F800000


def reduce_floats(values: list[int], op: str, *, magnitude: bool, nan: bool) -> int:
    """9.7.13.12: +0.0 > -0.0; NaNs are left out unless .NaN; canonical NaN if nothing is left."""
    if magnitude:
        values = [v & 0x7FFFFFFF for v in values]
    numbers = [v for v in values if not is_nan(v)]
    if not numbers or (nan and len(numbers) < len(values)):
        return 0x7FFFFFFF
    return (min if op == "min" else max)(numbers, key=lambda v: (float_of(v), 0 if v >> 31 else 1))


special = st.sampled_from((0, 0x80000000, 0x7FC00000, 0xFF800001, 0x7F800000, 0xFF800000, 1, 0x80000001)) | words


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(special, min_size=32, max_size=32)
    | st.lists(st.sampled_from((0x7FC00000, 0, 1 << 31)), min_size=32, max_size=32),
    cut=cuts,
)
def test_redux_of_floats(values: list[int], cut: int) -> None:
    forms = [(op, a, n) for op in ("min", "max") for a in (False, True) for n in (False, True)]
    body = "".join(
        f"    redux.sync.{op}{'.abs' * a}{'.NaN' * n}.f32 %d{i}, %a0, %r7;\n" for i, (op, a, n) in enumerate(forms)
    )
    arrays = run_threads(
        SETUP + body, [np.array(values, np.uint32), np.full(32, cut, np.uint32)], [np.uint32] * 8, target="sm_100a"
    )
    for lanes in parts(cut):
        inside = [values[lane] for lane in lanes]
        for lane in lanes:
            for (op, a, n), array in zip(forms, arrays, strict=True):
                assert array[lane] == reduce_floats(inside, op, magnitude=a, nan=n), (op, a, n)


@pytest.mark.parametrize("form", ["add.f32", "and.u32", "mul.u32", "min.b32", "add.NaN.u32"])
def test_forms_of_redux_that_do_not_exist(form: str) -> None:
    with pytest.raises(UnsupportedInstruction):
        run_threads(f"    redux.sync.{form} %d0, %a0, -1;\n", [np.zeros(32, np.uint32)])


@settings(max_examples=20, deadline=None)
@given(cut=cuts)
def test_elect_names_one_leader_for_each_mask(cut: int) -> None:
    body = """
    elect.sync %d0|%p1, %r7;
    elect.sync _|%p2, %r7;
    selp.u32 %d1, 1, 0, %p1;
    selp.u32 %d2, 1, 0, %p2;
"""
    leader, elected, again = run(body, [0] * 32, cut, 3)
    for lanes in parts(cut):
        assert {leader[lane] for lane in lanes} <= {lanes[0]} if lanes else True
        assert [lane for lane in lanes if elected[lane]] == lanes[:1]
    assert elected[:30] == again[:30]


def test_elect_passes_over_lanes_that_have_exited() -> None:
    body = """
    setp.lt.u32 %p1, %t, 3;
    @%p1 exit;
    elect.sync %d0|%p2, 0xffffffff;
    selp.u32 %d1, 1, 0, %p2;
"""
    leader, elected = run_threads(body, [np.zeros(32, np.uint32)], [np.uint32, np.uint32])
    assert leader[3:].tolist() == [3] * 29
    assert np.flatnonzero(elected[3:] == 1).tolist() == [0]


@pytest.mark.parametrize("order", ORDERS)
def test_elect_in_each_of_several_warps(order: OrderName) -> None:
    body = "    elect.sync %d0|%p1, 0xffffffff;\n    selp.u32 %d1, 1, 0, %p1;\n"
    leader, elected = run_threads(body, [np.zeros(128, np.uint32)], [np.uint32, np.uint32], order=order, seed=1)
    assert not leader.any()
    assert np.flatnonzero(elected).tolist() == [0, 32, 64, 96]


@pytest.mark.parametrize("order", ORDERS)
def test_activemask_is_those_that_branched_together(order: OrderName) -> None:
    body = """
    activemask.b32 %d0;
    setp.ne.u32 %p1, %a0, 0;
    @!%p1 bra L;
    activemask.b32 %d1;
    bra M;
L:
    activemask.b32 %d1;
M:
"""
    flags = np.tile(np.array([0, 1, 1, 0], np.uint32), 16)
    everyone, branch = run_threads(body, [flags], [np.uint32, np.uint32], order=order)
    assert (everyone == 0xFFFFFFFF).all()
    assert branch[flags == 1].tolist() == [0x66666666] * 32
    assert branch[flags == 0].tolist() == [0x99999999] * 32


def test_activemask_under_a_guard() -> None:
    (found,) = run_threads(
        "    setp.lt.u32 %p1, %t, 5;\n    mov.u32 %d0, 0;\n    @%p1 activemask.b32 %d0;\n", [np.zeros(32, np.uint32)]
    )
    assert found.tolist() == [0x1F] * 5 + [0] * 27


@pytest.mark.parametrize(
    "text",
    [
        "vote.sync.any.pred %p1, %p1, 0x7fffffff;",
        "match.any.sync.b32 %d0, %a0, 0x7fffffff;",
        "match.all.sync.b32 %d0, %a0, 0x7fffffff;",
        "redux.sync.add.u32 %d0, %a0, 0x7fffffff;",
        "elect.sync %d0|%p1, 0x7fffffff;",
        "bar.warp.sync 0x7fffffff;",
    ],
)
def test_thread_outside_of_its_mask(text: str) -> None:
    with pytest.raises(EmulatorFault) as caught:
        run_threads(f"    {text}\n", [np.zeros(32, np.uint32)])
    assert caught.value.kind is FaultKind.DIVERGENT
    assert "lane 31 executes this, but is not in its member mask 0x7fffffff" in str(caught.value)
