"""griddepcontrol, clusterlaunchcontrol and setmaxnreg."""

from __future__ import annotations

import numpy as np
import pytest
from emulator.instructions.per_thread import ORDERS, OrderName, kernel, run_threads

from tilec.backend.emulator.faults import EmulatorFault, FaultKind, UnsupportedInstruction
from tilec.backend.emulator.launch import Emulation, emulate

SHARED = ".shared .align 16 .b8 response[32];\n    .shared .align 8 .b64 object;"

PERSISTENT = """
    ld.param.u64 %x1, [out];
    mov.u32 %r1, response;
    mov.u32 %r2, object;
    mov.u32 %r3, %ctaid.x;
    mov.u32 %r4, %ctaid.y;
    mov.u32 %r5, %ctaid.z;
    mov.u32 %r6, 0;
    setp.eq.u32 %p1, %t, 0;
    @%p1 mbarrier.init.shared.b64 [%r2], 1;
    bar.sync 0;
WORK:
    @!%p1 bra COMPUTE;
    mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 16;
    {request}
COMPUTE:
    mov.u32 %r7, %nctaid.x;
    mov.u32 %r8, %nctaid.y;
    mad.lo.u32 %r9, %r5, %r8, %r4;
    mad.lo.u32 %r9, %r9, %r7, %r3;
    mad.wide.u32 %x2, %r9, 4, %x1;
    @%p1 atom.global.add.u32 %r10, [%x2], 1;
    and.b32 %r11, %r6, 1;
W:
    mbarrier.try_wait.parity.shared.b64 %p2, [%r2], %r11;
    @!%p2 bra W;
    ld.shared.b128 %q0, [%r1];
    clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p3, %q0;
    @!%p3 bra END;
    {query}
    add.u32 %r6, %r6, 1;
    bar.sync 0;
    bra WORK;
END:
"""
REQUEST = "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r1], [%r2];"
GENERIC = """
    cvt.u64.u32 %x4, %r1; cvta.shared.u64 %x4, %x4; cvt.u64.u32 %x5, %r2; cvta.shared.u64 %x5, %x5;
    clusterlaunchcontrol.try_cancel.async.mbarrier::complete_tx::bytes.b128 [%x4], [%x5];
"""
WHOLE = "clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%r3, %r4, %r5, _}, %q0;"
AXES = "\n".join(
    f"    clusterlaunchcontrol.query_cancel.get_first_ctaid::{axis}.b32.b128 %r{3 + i}, %q0;"
    for i, axis in enumerate("xyz")
)


def launch(
    request: str, query: str, grid: tuple[int, int, int], order: OrderName, seed: int = 1
) -> tuple[np.ndarray, Emulation]:
    out = np.zeros(grid[0] * grid[1] * grid[2], np.uint32)
    body = PERSISTENT.replace("{request}", request).replace("{query}", query)
    text = kernel(body, parameters=".param .u64 out", shared=SHARED, target="sm_100a")
    return out, emulate(text, "k", grid, 64, [out], order=order, seed=seed)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("request_text", "query"), [(REQUEST, WHOLE), (GENERIC, AXES)])
def test_every_cta_is_done_once_whoever_does_it(request_text: str, query: str, order: OrderName) -> None:
    """CTAs that run take over those that have not started; each piece of work is done once."""
    for grid in ((7, 1, 1), (3, 2, 2), (1, 1, 1)):
        done, emulation = launch(request_text, query, grid, order)
        assert (done == 1).all()
        assert 1 <= emulation.ctas <= done.size
    if order == "fifo":
        _, emulation = launch(request_text, query, (7, 1, 1), order)
        assert emulation.ctas == 1


CLUSTERS = """
    ld.param.u64 %x1, [out];
    mov.u32 %r1, response;
    mov.u32 %r2, object;
    mov.u32 %r3, %ctaid.x;
    mov.u32 %r6, 0;
    mov.u32 %r12, %cluster_ctarank;
    setp.eq.u32 %p1, %t, 0;
    setp.eq.u32 %p4, %r12, 0;
    and.pred %p4, %p4, %p1;
    @%p1 mbarrier.init.shared.b64 [%r2], 1;
WORK:
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 16;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    @%p4 clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.multicast::cluster::all.b128 [%r1], [%r2];
    mad.wide.u32 %x2, %r3, 4, %x1;
    @%p1 atom.global.add.u32 %r10, [%x2], 1;
    and.b32 %r11, %r6, 1;
W:
    mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [%r2], %r11;
    @!%p2 bra W;
    ld.shared.b128 %q0, [%r1];
    clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p3, %q0;
    @!%p3 bra END;
    clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %r3, %q0;
    add.u32 %r3, %r3, %r12;
    add.u32 %r6, %r6, 1;
    bra WORK;
END:
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
"""


@pytest.mark.parametrize("order", ORDERS)
def test_a_response_for_all_ctas_of_the_cluster(order: OrderName) -> None:
    out = np.zeros(12, np.uint32)
    text = kernel(CLUSTERS, parameters=".param .u64 out", shared=SHARED, target="sm_100a")
    emulation = emulate(text, "k", 12, 32, [out], cluster=2, order=order, seed=4)
    assert (out == 1).all()
    if order == "fifo":
        assert emulation.ctas == 2


def fault(request: str, query: str) -> EmulatorFault:
    with pytest.raises(EmulatorFault) as caught:
        launch(request, query, (1, 1, 1), "fifo")
    return caught.value


def test_faults_of_requests() -> None:
    twice = PERSISTENT.replace("@!%p3 bra END;", "").replace("{request}", REQUEST).replace("{query}", "")
    text = kernel(twice, parameters=".param .u64 out", shared=SHARED, target="sm_100a")
    with pytest.raises(EmulatorFault) as caught:
        emulate(text, "k", 1, 32, [np.zeros(1, np.uint32)])
    assert caught.value.kind is FaultKind.ILLEGAL
    assert "the CTA asks for another cluster to cancel although it has seen a request fail" in str(caught.value)
    with pytest.raises(EmulatorFault) as caught:
        emulate(
            text.replace("@!%p3 bra END", WHOLE.removesuffix(";")).replace(
                "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p3, %q0;", WHOLE
            ),
            "k",
            1,
            32,
            [np.zeros(1, np.uint32)],
        )
    assert "the first CTA is asked of a response that says that no cluster was canceled" in str(caught.value)
    assert fault(REQUEST.replace("[%r1]", "[%r1+8]"), WHOLE).kind is FaultKind.MISALIGNED
    assert fault(REQUEST.replace("[%r2]", "[%r1]"), WHOLE).kind is FaultKind.MBARRIER


def test_the_response_is_in_flight_until_its_bytes_are_waited_for() -> None:
    body = PERSISTENT.replace("{request}", REQUEST + "\n    ld.shared.b128 %q0, [%r1];").replace("{query}", WHOLE)
    text = kernel(body, parameters=".param .u64 out", shared=SHARED, target="sm_100a")
    with pytest.raises(EmulatorFault) as caught:
        emulate(text, "k", 1, 32, [np.zeros(1, np.uint32)], order="adversarial")
    assert caught.value.kind is FaultKind.IN_FLIGHT


def test_targets_without_cluster_launch_control() -> None:
    with pytest.raises(UnsupportedInstruction, match="needs sm_100"):
        run_threads(f"    {REQUEST}\n", [np.zeros(1, np.uint32)], target="sm_90a")


def test_griddepcontrol_does_nothing_in_a_launch_of_its_own() -> None:
    body = "    griddepcontrol.wait;\n    griddepcontrol.launch_dependents;\n    mov.u32 %d0, 1;\n"
    assert (run_threads(body, [np.zeros(64, np.uint32)])[0] == 1).all()
    with pytest.raises(UnsupportedInstruction):
        run_threads("    griddepcontrol.launch;\n", [np.zeros(1, np.uint32)])


ROLES = """
    setp.lt.u32 %p1, %t, 128;
    @%p1 bra L;
    setmaxnreg.inc.sync.aligned.u32 240;
    bra M;
L:
    setmaxnreg.dec.sync.aligned.u32 40;
M:
    mov.u32 %d0, 1;
"""


@pytest.mark.parametrize("order", ORDERS)
def test_setmaxnreg_by_warpgroups(order: OrderName) -> None:
    assert (run_threads(ROLES, [np.zeros(256, np.uint32)], order=order)[0] == 1).all()


def test_setmaxnreg_by_part_of_a_warpgroup() -> None:
    with pytest.raises(EmulatorFault) as caught:
        run_threads(ROLES.replace("128", "64"), [np.zeros(256, np.uint32)])
    assert caught.value.kind is FaultKind.DIVERGENT
    assert "warps 0 and 2 of CTA (0, 0, 0) are of one warpgroup, but have not executed the same setmaxnreg" in str(
        caught.value
    )


def test_setmaxnreg_by_part_of_a_warp() -> None:
    body = "    setp.lt.u32 %p1, %t, 5;\n    @%p1 setmaxnreg.dec.sync.aligned.u32 40;\n    bar.warp.sync -1;\n"
    with pytest.raises(EmulatorFault) as caught:
        run_threads(body, [np.zeros(128, np.uint32)])
    assert caught.value.kind is FaultKind.DIVERGENT


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (
            "dec.sync.aligned.u32 40",
            "dec.sync.aligned.u32 48",
            "setmaxnreg.dec to 48 registers in warp 0, which owns 40",
        ),
        (
            "inc.sync.aligned.u32 232",
            "inc.sync.aligned.u32 224",
            "setmaxnreg.inc to 224 registers in warp 0, which owns 232",
        ),
    ],
)
def test_setmaxnreg_in_the_wrong_direction(first: str, second: str, message: str) -> None:
    with pytest.raises(EmulatorFault) as caught:
        run_threads(f"    setmaxnreg.{first};\n    bar.sync 0;\n    setmaxnreg.{second};\n", [np.zeros(128, np.uint32)])
    assert caught.value.kind is FaultKind.ILLEGAL
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "inc.sync.aligned.u32 30",
        "dec.sync.aligned.u32 16",
        "dec.sync.aligned.u32 264",
        "inc.sync.u32 64",
        "inc.aligned.u32 64",
        "dec.sync.aligned.u32 %r1",
    ],
)
def test_forms_of_setmaxnreg_that_do_not_exist(text: str) -> None:
    with pytest.raises(UnsupportedInstruction):
        run_threads(f"    setmaxnreg.{text};\n", [np.zeros(128, np.uint32)])
