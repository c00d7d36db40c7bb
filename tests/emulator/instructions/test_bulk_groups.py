"""Bulk groups: what a thread waits for, and what it does not."""

from __future__ import annotations

import numpy as np
import pytest
from bulk_kernels import ORDERS, OrderName, fault, fill, kernel, numbered, run

from tilec.backend.emulator.execution.cta import Cta
from tilec.backend.emulator.faults import FaultKind, UnsupportedInstruction
from tilec.backend.emulator.instructions.bulk_groups import BulkGroups
from tilec.backend.emulator.tma.transfer import Operation

COMMIT = "cp.async.bulk.commit_group;\n"


def store(at: int) -> str:
    return f"cp.async.bulk.global.shared::cta.bulk_group [out+{at}], [%s+{at}], 16;\n"


def groups(cta: Cta | None = None) -> BulkGroups:
    return BulkGroups(cta)  # type: ignore[arg-type]


def test_only_the_most_recent_groups_may_be_pending() -> None:
    held = groups()
    made = [Operation(str(i)) for i in range(3)]
    for operation in made:
        held.add(0, operation)
        held.commit(0)
    assert held.unfinished(0, 0, read=False) == made
    assert held.unfinished(0, 1, read=False) == made[:2]
    assert held.unfinished(0, 3, read=False) == []
    assert held.unfinished(0, 7, read=False) == []
    assert held.unfinished(1, 0, read=False) == []


def test_a_later_group_that_is_done_does_not_let_an_earlier_one_pass() -> None:
    held = groups()
    first, second = Operation("first"), Operation("second")
    for operation in (first, second):
        held.add(0, operation)
        held.commit(0)
    second.read = second.done = True
    assert held.unfinished(0, 1, read=False) == [first]
    first.read = True
    assert held.unfinished(0, 0, read=True) == []
    assert held.unfinished(0, 0, read=False) == [first]


def test_an_empty_group_counts_as_one_of_the_most_recent() -> None:
    held = groups()
    only = Operation("only")
    held.add(0, only)
    held.commit(0)
    held.commit(0)
    assert held.unfinished(0, 1, read=False) == [only]
    assert held.unfinished(0, 2, read=False) == []


def test_what_has_not_been_committed_is_not_waited_for() -> None:
    held = groups()
    held.add(0, Operation("open"))
    assert held.unfinished(0, 0, read=False) == []


@pytest.mark.parametrize("order", ORDERS)
def test_a_thread_that_has_waited_finds_its_stores_in_global_memory(order: OrderName) -> None:
    source, out, seen = numbered(8, dtype="uint32"), np.zeros(8, np.uint32), np.zeros(2, np.uint32)
    body = (
        fill(32, "src") + "@!%p0 bra END;\n" + store(0) + COMMIT + store(16) + COMMIT + "cp.async.bulk.wait_group 1;\n"
    )
    body += "ld.global.u32 %r0, [out];\nst.global.u32 [seen], %r0;\ncp.async.bulk.wait_group 0;\n"
    body += "ld.global.u32 %r0, [out+16];\nst.global.u32 [seen+4], %r0;\nEND:\n"
    run(kernel(body, parameters=["src", "out", "seen"]), [source, out, seen], order=order)
    assert seen.tolist() == [source[0], source[4]]
    assert out.tolist() == source.tolist()


@pytest.mark.parametrize(
    ("wait", "found"), [("cp.async.bulk.wait_group.read 0;\n", 0), ("cp.async.bulk.wait_group 0;\n", 1), ("", 0)]
)
def test_a_wait_for_reading_says_nothing_about_global_memory(wait: str, found: int) -> None:
    """The adversary lets engines go on only when all threads wait."""
    source, out, seen = numbered(8, dtype="uint32"), np.zeros(8, np.uint32), np.zeros(1, np.uint32)
    body = fill(32, "src") + "@!%p0 bra END;\n" + store(0) + COMMIT + wait
    body += "ld.global.u32 %r0, [out];\nst.global.u32 [seen], %r0;\ncp.async.bulk.wait_group 0;\nEND:\n"
    run(kernel(body, parameters=["src", "out", "seen"]), [source, out, seen], order="adversarial")
    assert seen[0] == found
    assert out[:4].tolist() == source[:4].tolist()


def test_each_thread_has_groups_of_its_own() -> None:
    """Thread 1 waits for nothing: what thread 0 has issued is not its business."""
    source, out, seen = numbered(8, dtype="uint32"), np.zeros(8, np.uint32), np.full(1, 9, np.uint32)
    body = fill(32, "src") + "setp.eq.u32 %p2, %t, 1;\n@%p0 " + store(0) + COMMIT + "@%p2 cp.async.bulk.wait_group 0;\n"
    body += "@%p2 ld.global.u32 %r0, [out];\n@%p2 st.global.u32 [seen], %r0;\n@%p0 cp.async.bulk.wait_group 0;\n"
    run(kernel(body, parameters=["src", "out", "seen"]), [source, out, seen], order="adversarial")
    assert seen[0] == 0
    assert out[:4].tolist() == source[:4].tolist()


@pytest.mark.parametrize("order", ORDERS)
def test_all_lanes_wait_each_for_its_own_store(order: OrderName) -> None:
    source, out, seen = numbered(128, dtype="uint32"), np.zeros(128, np.uint32), np.zeros(32, np.uint32)
    body = fill(512, "src") + "mul.lo.u32 %r0, %t, 16;\nadd.u32 %r1, %s, %r0;\nmad.wide.u32 %x0, %t, 16, out;\n"
    body += "cp.async.bulk.global.shared::cta.bulk_group [%x0], [%r1], 16;\n" + COMMIT + "cp.async.bulk.wait_group 0;\n"
    body += "ld.global.u32 %r2, [%x0];\nmad.wide.u32 %x1, %t, 4, seen;\nst.global.u32 [%x1], %r2;\n"
    run(kernel(body, parameters=["src", "out", "seen"]), [source, out, seen], order=order)
    assert seen.tolist() == source[::4].tolist()


@pytest.mark.parametrize("order", ORDERS)
def test_stores_that_nobody_waits_for_end_after_the_cta_if_they_have_read(order: OrderName) -> None:
    source, out = numbered(8, dtype="uint32"), np.zeros(8, np.uint32)
    body = fill(32, "src") + "@%p0 " + store(0) + COMMIT + "cp.async.bulk.wait_group.read 0;\n"
    run(kernel(body, parameters=["src", "out"]), [source, out], order=order)
    assert out[:4].tolist() == source[:4].tolist()


def test_a_store_that_still_reads_when_the_cta_exits() -> None:
    source, out = numbered(8, dtype="uint32"), np.zeros(8, np.uint32)
    body = fill(32, "src") + "@%p0 " + store(0) + COMMIT
    message = fault(kernel(body, parameters=["src", "out"]), [source, out], FaultKind.LEFT_BEHIND, order="adversarial")
    assert message == "CTA (0, 0, 0) has exited, but the bulk copy still uses its shared memory"


@pytest.mark.parametrize(
    "instruction",
    ["cp.async.bulk.wait_group %r0;", "cp.async.bulk.wait_group.write 0;", "cp.async.bulk.commit_group 1;"],
)
def test_forms_that_do_not_exist_stop(instruction: str) -> None:
    with pytest.raises(UnsupportedInstruction):
        run(kernel(instruction), [])
