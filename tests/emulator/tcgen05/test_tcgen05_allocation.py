"""tcgen05.alloc, dealloc and relinquish_alloc_permit, of one CTA and of a pair."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from tilec.backend.emulator.faults import EmulatorFault, FaultKind
from tilec.backend.emulator.launch import emulate
from tilec.diagnostics import TilecError


def kernel(warp0: str, warp1: str = "", *, group: int = 1) -> str:
    """Warps 0 and 1 execute what is given; then all threads meet, and thread 0 stores words 0-3 of `slots` to its CTA's outputs."""
    return f"""
.version 8.6
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out_)
.reqntid 64
{".reqnctapercluster 2, 1, 1" if group == 2 else ""}
{{
 .reg .pred p, r0;
 .reg .b32 tid, rank, v0, v1, v2, v3, a;
 .reg .b64 out, offset;
 .shared .align 16 .b32 slots[4];
 mov.u32 tid, %tid.x;
 mov.u32 rank, %cluster_ctarank;
 setp.eq.u32 r0, rank, 0;
 setp.ne.u32 p, tid, 0;
 @p bra CLEARED;
 st.shared.v4.b32 [slots], {{tid, tid, tid, tid}};
CLEARED:
 bar.sync 0;
 setp.ge.u32 p, tid, 32;
 @p bra SECOND;
 {warp0}
 bra TOGETHER;
SECOND:
 {warp1}
TOGETHER:
 bar.sync 0;
 setp.ne.u32 p, tid, 0;
 @p bra DONE;
 ld.param.u64 out, [out_];
 mul.wide.u32 offset, rank, 16;
 add.u64 out, out, offset;
 ld.shared.v4.b32 {{v0, v1, v2, v3}}, [slots];
 st.global.v4.b32 [out], {{v0, v1, v2, v3}};
DONE:
 ret;
}}
"""


def alloc(slot: int, count: int, group: int = 1) -> str:
    return f"tcgen05.alloc.cta_group::{group}.sync.aligned.shared::cta.b32 [slots+{4 * slot}], {count};\n"


def dealloc(column: int, count: int, group: int = 1) -> str:
    return f"mov.u32 a, {column};\ntcgen05.dealloc.cta_group::{group}.sync.aligned.b32 a, {count};\n"


def run(warp0: str, warp1: str = "", *, group: int = 1, order: str = "fifo") -> NDArray[np.uint32]:
    out = np.zeros((group, 4), np.uint32)
    emulate(kernel(warp0, warp1, group=group), None, group, 64, [out], order=order)  # type: ignore[arg-type]
    return out


def fault(warp0: str, warp1: str = "", *, group: int = 1, order: str = "fifo") -> EmulatorFault:
    with pytest.raises(EmulatorFault) as caught:
        run(warp0, warp1, group=group, order=order)
    return caught.value


def test_addresses_are_first_fit() -> None:
    out = run(alloc(0, 128) + alloc(1, 64) + alloc(2, 64) + dealloc(128, 64) + alloc(3, 64)
              + dealloc(0, 128) + dealloc(128, 64) + dealloc(192, 64))  # fmt: skip
    assert out.tolist() == [[0, 128, 192, 128]]


def test_generic_address() -> None:
    text = "{ .reg .b64 g; mov.u64 g, slots; cvta.shared.u64 g, g; tcgen05.alloc.cta_group::1.sync.aligned.b32 [g+4], 32; }\n"
    assert run(alloc(0, 256) + text + dealloc(0, 256) + dealloc(256, 32)).tolist() == [[0, 256, 0, 0]]  # fmt: skip


@pytest.mark.parametrize("order", ["fifo", "random", "adversarial"])
def test_an_allocation_blocks_until_there_is_room(order: str) -> None:
    """Warp 1 gets its columns only once warp 0 has given back some; which of them is first is open."""
    out = run(
        alloc(0, 512) + dealloc(0, 512),
        alloc(1, 512) + dealloc(0, 512),
        order=order,
    )
    assert out.tolist() == [[0, 0, 0, 0]]


@pytest.mark.parametrize("order", ["fifo", "random", "adversarial"])
def test_a_pair_allocates_the_same_columns(order: str) -> None:
    body = alloc(0, 128, 2) + alloc(1, 32, 2) + dealloc(0, 128, 2) + dealloc(128, 32, 2)
    body += "tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;\n"
    assert run(body, group=2, order=order).tolist() == [[0, 128, 0, 0]] * 2


def test_a_pair_needs_both() -> None:
    caught = fault("@!r0 bra TOGETHER;\n" + alloc(0, 32, 2) + dealloc(0, 32, 2), group=2)
    assert caught.kind in (FaultKind.DEADLOCK, FaultKind.OUT_OF_BOUNDS, FaultKind.TENSOR_MEMORY)


@pytest.mark.parametrize("count", [0, 16, 48, 1024])
def test_illegal_counts(count: int) -> None:
    caught = fault(alloc(0, count))
    assert caught.kind is FaultKind.TENSOR_MEMORY
    assert f"{count} columns of tensor memory; the number is one of 32, 64, 128, 256, 512" in str(caught)


def test_nothing_may_be_left() -> None:
    caught = fault(alloc(0, 64))
    assert caught.kind is FaultKind.TENSOR_MEMORY
    assert "CTA (0, 0, 0) has exited, but columns 0-63 of tensor memory have not been deallocated" in str(caught)
    assert caught.place.instruction.opcode.startswith("tcgen05.alloc")


def test_deallocation_names_an_allocation() -> None:
    caught = fault(alloc(0, 64) + dealloc(0, 32))
    assert (
        "tensor memory: tcgen05.dealloc of 32 columns at 0x0: there is no such allocation; allocated are 64 columns at 0x0"
        in str(caught)
    )
    assert "there is no such allocation; allocated are nothing" in str(fault(dealloc(0, 32)))


def test_no_allocation_after_the_right_is_given_up() -> None:
    body = "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\n"
    caught = fault(body + alloc(0, 32))
    assert caught.kind is FaultKind.TENSOR_MEMORY
    line = caught.place.instruction.line - 1
    assert f"tcgen05.alloc after tcgen05.relinquish_alloc_permit of line {line}" in str(caught)


def test_allocations_do_not_grow() -> None:
    caught = fault(alloc(0, 32) + alloc(1, 64))
    assert (
        "64 columns of tensor memory are allocated after 32; a CTA must not allocate more than the time before"
        in str(caught)
    )


def test_too_much_at_once_is_a_deadlock() -> None:
    caught = fault(alloc(0, 512) + alloc(1, 512))
    assert caught.kind is FaultKind.DEADLOCK
    assert "512 free columns of tensor memory" in str(caught)


def test_groups_are_not_mixed() -> None:
    with pytest.raises(
        TilecError, match=r"all tcgen05 instructions of a kernel must have the same \.cta_group, but line \d+ has"
    ):
        run(alloc(0, 32) + dealloc(0, 32, 2))


def test_a_warp_without_some_of_its_threads() -> None:
    caught = fault("setp.eq.u32 p, tid, 5;\n@p exit;\n" + alloc(0, 32))
    assert caught.kind is FaultKind.DIVERGENT
    assert "needs all 32 threads of warp 0; 1 of them have exited" in str(caught)
