"""shfl.sync against the formulas of the ISA, written out a lane at a time."""

from __future__ import annotations

import numpy as np
import pytest
from emulator.instructions.per_thread import OrderName, run_threads
from hypothesis import given, settings
from hypothesis import strategies as st

from tilec.backend.emulator.faults import EmulatorFault, FaultKind

MODES = ("up", "down", "bfly", "idx")
words = st.integers(0, 2**32 - 1)


def source_of(mode: str, lane: int, b: int, c: int) -> tuple[int, bool]:
    """The lane read and whether it is in range (PTX 9.7.9.6)."""
    bval, cval, segmask = b & 31, c & 31, (c >> 8) & 31
    max_lane = (lane & segmask) | (cval & ~segmask & 31)
    min_lane = lane & segmask
    if mode == "up":
        j = lane - bval
        inside = j >= max_lane
    elif mode == "down":
        j = lane + bval
        inside = j <= max_lane
    elif mode == "bfly":
        j = lane ^ bval
        inside = j <= max_lane
    else:
        j = min_lane | (bval & ~segmask & 31)
        inside = j <= max_lane
    return (j if inside else lane), inside


@pytest.mark.parametrize("mode", MODES)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_every_mode_reads_the_lane_of_the_formula(mode: str, data: st.DataObject) -> None:
    values = np.array(data.draw(st.lists(words, min_size=64, max_size=64)), np.uint32)
    sources = np.array(data.draw(st.lists(words, min_size=64, max_size=64)), np.uint32)
    clamps = np.array(data.draw(st.lists(words, min_size=64, max_size=64)), np.uint32)
    body = f"""
    shfl.sync.{mode}.b32 %d0|%p1, %a0, %a1, %a2, 0xffffffff;
    selp.u32 %d1, 1, 0, %p1;
"""
    found, inside = run_threads(body, [values, sources, clamps], [np.uint32, np.uint32])
    for thread in range(64):
        lane, held = source_of(mode, thread % 32, int(sources[thread]), int(clamps[thread]))
        assert found[thread] == values[thread // 32 * 32 + lane]
        assert inside[thread] == held


def test_without_a_predicate_and_with_constants() -> None:
    values = np.arange(32, dtype=np.uint32) + 100
    body = "    shfl.sync.bfly.b32 %d0, %a0, 1, 31, -1;\n    shfl.sync.idx.b32 %d1, 7, 3, 31, -1;\n"
    found, constant = run_threads(body, [values], [np.uint32, np.uint32])
    assert found.tolist() == [100 + (i ^ 1) for i in range(32)]
    assert constant.tolist() == [7] * 32


@pytest.mark.parametrize("order", ["fifo", "random", "adversarial"])
def test_halves_of_a_warp_shuffle_apart(order: OrderName) -> None:
    """Threads of two masks meet at one instruction, in any order, and read only from their own half."""
    values = np.arange(32, dtype=np.uint32)
    body = """
    setp.lt.u32 %p1, %t, 16;
    selp.b32 %r1, 0x0000ffff, 0xffff0000, %p1;
    shfl.sync.down.b32 %d0, %a0, 4, 31, %r1;
"""
    (found,) = run_threads(body, [values], order=order, seed=3)
    for lane in range(32):
        asked = lane + 4
        if asked > 31:
            assert found[lane] == lane
        elif asked // 16 == lane // 16:
            assert found[lane] == asked
        else:
            assert found[lane] not in values, "a lane of the other mask has no defined value"


def test_reading_an_exited_lane_gives_no_value_of_the_program() -> None:
    values = np.arange(32, dtype=np.uint32)
    body = """
    setp.ge.u32 %p1, %t, 30;
    @%p1 exit;
    shfl.sync.down.b32 %d0, %a0, 1, 31, 0xffffffff;
"""
    (found,) = run_threads(body, [values])
    assert found[:29].tolist() == list(range(1, 30))
    assert found[29] not in values


def test_a_block_that_does_not_fill_its_warp() -> None:
    values = np.arange(20, dtype=np.uint32)
    (found,) = run_threads("    shfl.sync.idx.b32 %d0, %a0, 19, 31, 0xffffffff;\n", [values])
    assert found.tolist() == [19] * 20


def test_thread_outside_of_its_mask() -> None:
    with pytest.raises(EmulatorFault) as caught:
        run_threads("    shfl.sync.idx.b32 %d0, %a0, 0, 31, 0x7fffffff;\n", [np.zeros(32, np.uint32)])
    assert caught.value.kind is FaultKind.DIVERGENT
    assert "lane 31 executes this, but is not in its member mask 0x7fffffff" in str(caught.value)


def test_different_masks_of_threads_that_meet() -> None:
    body = """
    setp.lt.u32 %p1, %t, 16;
    selp.b32 %r1, 0xffffffff, 0xffff0000, %p1;
    shfl.sync.idx.b32 %d0, %a0, 0, 31, %r1;
"""
    with pytest.raises(EmulatorFault) as caught:
        run_threads(body, [np.zeros(32, np.uint32)])
    assert caught.value.kind is FaultKind.DIVERGENT
    assert "lanes 0 and 16 of warp 0" in str(caught.value)


def test_a_lane_that_never_comes_is_reported() -> None:
    body = """
    setp.eq.u32 %p1, %t, 5;
    @%p1 bra L;
    shfl.sync.idx.b32 %d0, %a0, 0, 31, 0xffffffff;
L:
    bar.warp.sync 0xffffffff;
"""
    with pytest.raises(EmulatorFault) as caught:
        run_threads(body, [np.zeros(32, np.uint32)])
    assert caught.value.kind is FaultKind.DIVERGENT
    assert "lanes 0 to 4 and 6 to 31 of warp 0" in str(caught.value)
