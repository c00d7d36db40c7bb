"""When an access to tensor memory is over: by a wait, by use of what was loaded, by a commit that somebody has waited for."""

from __future__ import annotations

import numpy as np
import pytest
from tensor_operands import instruction_descriptor, matrix_descriptor

from tilec.backend.emulator.faults import EmulatorFault, FaultKind
from tilec.backend.emulator.launch import OrderName, emulate

ORDERS: tuple[OrderName, ...] = ("fifo", "random", "adversarial")
DESCRIPTOR = matrix_descriptor(0x400, "128B", 16, 1024)
BITS = instruction_descriptor(128, 32, "f16", "f16")


def kernel(body: str) -> str:
    """128 threads, 64 KiB of shared memory with 1.0 in all halves, two mbarriers with a count of 1. The first thread has `leader`;
    `product` is an MMA onto column 0, `commit N` a commit on mbarrier N and `await N` the wait for its first phase."""
    return f"""
.version 8.6
.target sm_100a
.address_size 64
.extern .shared .align 1024 .b8 dynamic[];
.visible .entry k(.param .u64 out_)
.reqntid 128
{{
 .reg .pred p, warp0, leader, no;
 .reg .b32 tid, warp, lane, at, one, v0, v1, t0, t1, other;
 .reg .b64 out, offset, d0;
 .shared .align 8 .b64 bars[2];
 .shared .align 4 .b32 slot;
 mov.u32 tid, %tid.x;
 shr.u32 warp, tid, 5;
 shl.b32 lane, warp, 21;
 setp.eq.u32 warp0, warp, 0;
 setp.eq.u32 leader, tid, 0;
 setp.ne.u32 no, tid, tid;
 mov.b32 one, 0x3c003c00;
 mov.u32 at, dynamic;
 mad.lo.u32 at, tid, 4, at;
 mov.u32 t0, 0;
FILL:
 st.shared.b32 [at], one;
 add.u32 at, at, 512;
 add.u32 t0, t0, 512;
 setp.lt.u32 p, t0, 32768;
 @p bra FILL;
 fence.proxy.async.shared::cta;
 @leader mbarrier.init.shared::cta.b64 [bars], 1;
 @leader mbarrier.init.shared::cta.b64 [bars+8], 1;
 @warp0 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 64;
 bar.sync 0;
 mov.b64 d0, {DESCRIPTOR & ~0x3FFF};
 mov.u32 at, dynamic;
 shr.u32 at, at, 4;
 cvt.u64.u32 offset, at;
 or.b64 d0, d0, offset;
 mov.b32 t1, {BITS};
 mov.u32 t0, 0;
 ld.param.u64 out, [out_];
 mul.wide.u32 offset, tid, 8;
 add.u64 out, out, offset;
 {body}
 bar.sync 0;
 @warp0 tcgen05.dealloc.cta_group::1.sync.aligned.b32 0, 64;
 ret;
}}
"""


PRODUCT = "@leader tcgen05.mma.cta_group::1.kind::f16 [t0], d0, d0, t1, no;\n"
LOAD = "tcgen05.ld.sync.aligned.32x32b.x2.b32 {v0, v1}, [lane];\n"
STORE = "st.global.v2.b32 [out], {v0, v1};\n"
WAIT_LD = "tcgen05.wait::ld.sync.aligned;\n"
SYNC = "bar.sync 0;\n"


def commit(barrier: int) -> str:
    return f"@leader tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bars+{8 * barrier}];\n"


def wait(barrier: int, who: str = "") -> str:
    """Threads (with `who`, those of the predicate) wait for the first phase."""
    label = f"W{barrier}{who}"
    skip = f"@!{who} bra S{label};\n" if who else ""
    return f"{skip}{label}:\nmbarrier.try_wait.parity.shared::cta.b64 p, [bars+{8 * barrier}], 0;\n@!p bra {label};\nS{label}:\n"


def run(body: str, order: OrderName) -> np.ndarray:
    out = np.zeros((128, 2), np.float32)
    emulate(kernel(body), None, 1, 128, [out], dynamic_smem=32768, order=order, seed=3)
    return out


def fault(body: str, order: OrderName) -> EmulatorFault:
    with pytest.raises(EmulatorFault) as caught:
        run(body, order)
    assert caught.value.kind is FaultKind.IN_FLIGHT
    return caught.value


@pytest.mark.parametrize("order", ORDERS)
def test_all_wait(order: OrderName) -> None:
    assert (run(PRODUCT + commit(0) + wait(0) + LOAD + WAIT_LD + STORE, order) == 16).all()


@pytest.mark.parametrize("order", ORDERS)
def test_one_waits_and_tells_the_others(order: OrderName) -> None:
    assert (run(PRODUCT + commit(0) + wait(0, "leader") + SYNC + LOAD + WAIT_LD + STORE, order) == 16).all()


@pytest.mark.parametrize("order", ORDERS)
def test_a_barrier_of_threads_is_no_wait(order: OrderName) -> None:
    """The commit is there, but nobody waits for it, in any order of events."""
    caught = fault(PRODUCT + commit(0) + SYNC + LOAD + WAIT_LD + STORE + wait(0), order)
    assert "tcgen05.ld reads lanes 0-127, columns 0-31 of tensor memory, which tcgen05.mma of line" in str(caught)


@pytest.mark.parametrize("order", ORDERS)
def test_a_second_commit_covers_the_first(order: OrderName) -> None:
    """Nobody waits for the first of two commits."""
    assert (run(PRODUCT + commit(0) + commit(1) + wait(1) + LOAD + WAIT_LD + STORE, order) == 16).all()


@pytest.mark.parametrize("order", ORDERS)
def test_a_commit_does_not_cover_what_follows(order: OrderName) -> None:
    fault(PRODUCT + commit(0) + PRODUCT + wait(0) + LOAD + WAIT_LD + STORE + commit(1) + wait(1), order)


@pytest.mark.parametrize("order", ORDERS)
def test_shared_memory_is_free_once_the_commit_is_waited_for(order: OrderName) -> None:
    overwrite = "@leader st.shared.b32 [dynamic], one;\n"
    assert (run(PRODUCT + commit(0) + wait(0) + overwrite + LOAD + WAIT_LD + STORE, order) == 16).all()
    caught = fault(PRODUCT + commit(0) + overwrite + wait(0), order)
    assert "tcgen05.mma of line" in str(caught)


@pytest.mark.parametrize("order", ORDERS)
def test_a_loaded_register_that_is_used_is_there(order: OrderName) -> None:
    """No tcgen05.wait::ld, but the stores need the registers; then the accumulator may be overwritten (9.7.16.6.4.5)."""
    again = SYNC + PRODUCT + commit(1) + wait(1)
    assert (run(PRODUCT + commit(0) + wait(0) + LOAD + STORE + again, order) == 16).all()


@pytest.mark.parametrize("order", ORDERS)
def test_a_load_that_nothing_waits_for(order: OrderName) -> None:
    """The accumulator is freed before the load has completed."""
    caught = fault(PRODUCT + commit(0) + wait(0) + LOAD + SYNC + PRODUCT + STORE + commit(1) + wait(1), order)
    assert "of tensor memory, which tcgen05.ld of line" in str(caught)
    assert "still reads" in str(caught)
    assert "the warp that loads executes tcgen05.wait::ld first" in str(caught)


@pytest.mark.parametrize("order", ORDERS)
def test_deallocation_before_completion(order: OrderName) -> None:
    caught = fault(PRODUCT + SYNC, order)
    assert "columns 0-63 of tensor memory are deallocated, but tcgen05.mma of line" in str(caught)


@pytest.mark.parametrize("order", ORDERS)
def test_commits_in_a_row_are_signalled_together(order: OrderName) -> None:
    """Only one of them is waited for; then the mbarriers of both end their life."""
    end = SYNC + "@leader mbarrier.inval.shared::cta.b64 [bars];\n@leader mbarrier.inval.shared::cta.b64 [bars+8];\n"
    for first, second in ((0, 1), (1, 0)):
        body = PRODUCT + commit(first) + commit(second) + wait(0) + LOAD + WAIT_LD + STORE + end
        assert (run(body, order) == 16).all()


@pytest.mark.parametrize("order", ORDERS)
def test_commit_with_a_generic_or_a_plain_shared_address(order: OrderName) -> None:
    """PTX takes a generic address; Triton gives a shared one, widened, which is below 4 GiB as no generic one of shared memory is."""
    opcode = "@leader tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64"
    for address in ("mov.u64 offset, bars;\n", "mov.u64 offset, bars;\ncvta.shared.u64 offset, offset;\n"):
        body = PRODUCT + address + f"{opcode} [offset];\n" + wait(0) + LOAD + WAIT_LD + STORE
        assert (run(body, order) == 16).all()


@pytest.mark.parametrize("order", ORDERS)
def test_a_commit_of_a_whole_warp(order: OrderName) -> None:
    """31 threads have issued nothing: their commits arrive at once, more than the mbarrier takes, or before the product is done."""
    whole = "@warp0 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bars];\n"
    with pytest.raises(EmulatorFault) as caught:
        run(PRODUCT + whole + wait(0) + LOAD + WAIT_LD + STORE, order)
    assert caught.value.kind in (FaultKind.IN_FLIGHT, FaultKind.MBARRIER, FaultKind.LEFT_BEHIND)
