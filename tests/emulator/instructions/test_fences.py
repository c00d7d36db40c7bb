"""Fences: every form is taken, and those that matter to the async proxy are told from those that do not."""

from __future__ import annotations

import numpy as np
import pytest
from memory_kernels import ORDERS, OrderName, refused, run

from tilec.backend.emulator.faults import EmulatorFault

SCOPES = ("cta", "cluster", "gpu", "sys")
FORMS = [
    *(f"fence.{scope}" for scope in SCOPES),
    *(f"fence.{semantics}.{scope}" for semantics in ("sc", "acq_rel", "acquire", "release") for scope in SCOPES),
    "fence.acquire.sync_restrict::shared::cluster.cluster",
    "fence.release.sync_restrict::shared::cta.cluster",
    "fence.mbarrier_init.release.cluster",
    *(f"{name}.proxy.{kind}" for name in ("fence", "membar") for kind in ("alias", "async", "async.global")),
    *(f"{name}.proxy.async.shared::{kind}" for name in ("fence", "membar") for kind in ("cta", "cluster")),
    "fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster",
    "fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster",
    *(f"fence.proxy.tensormap::generic.release.{scope}" for scope in SCOPES),
    "membar.cta",
    "membar.gl",
    "membar.sys",
]


@pytest.mark.parametrize("form", FORMS)
def test_forms(form: str) -> None:
    out = np.zeros(1, np.uint32)
    run(f"st.global.u32 [%a], 1;\n {form};\n st.global.u32 [%a], 2;", [out])
    assert out.tolist() == [2]


@pytest.mark.parametrize("scope", SCOPES)
def test_the_acquire_of_a_tensor_map_names_it(scope: str) -> None:
    out = np.zeros(64, np.uint32)
    run(f"fence.proxy.tensormap::generic.acquire.{scope} [%a], 128;\n st.global.u32 [%a], 2;", [out])
    assert out[0] == 2


@pytest.mark.parametrize(
    ("instruction", "why"),
    [
        ("fence.relaxed.gpu;", "the emulator does not know .relaxed here: fence.relaxed.gpu"),
        ("fence.sc;", "a fence without a scope: fence.sc"),
        ("fence.proxy.generic;", "a proxy that the emulator does not know: fence.proxy.generic"),
        (
            "fence.mbarrier_init.release.gpu;",
            "fence.mbarrier_init is .release.cluster: fence.mbarrier_init.release.gpu",
        ),
        (
            "fence.proxy.tensormap::generic.acquire.gpu [%a], 64;",
            "the size is 128: fence.proxy.tensormap::generic.acquire.gpu",
        ),
        ("membar.gpu;", "a membar without a level: membar.gpu"),
    ],
)
def test_forms_that_do_not_exist(instruction: str, why: str) -> None:
    assert refused(instruction) == why


BULK_STORE = """
    cp.async.bulk.global.shared::cta.bulk_group [%a], [%r9], 16;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
"""
INSIDE = ".shared .align 16 .b8 s[64];"
WRITE = "mov.u32 %r9, s;\n st.shared.v4.u32 [s], {%t, 11, 12, 13};\n"


@pytest.mark.parametrize(
    "fence",
    [
        "fence.proxy.async;",
        "fence.proxy.async.shared::cta;",
        "fence.proxy.async.shared::cluster;",
        "membar.proxy.async;",
        "fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster;",
    ],
)
def test_fences_before_the_async_proxy(fence: str) -> None:
    out = np.zeros(4, np.uint32)
    run(WRITE + fence + BULK_STORE, [out], inside=INSIDE)
    assert out.tolist() == [0, 11, 12, 13]


@pytest.mark.parametrize(
    "fence", ["", "fence.sc.sys;", "fence.proxy.alias;", "fence.proxy.async.global;", "bar.sync 0;"]
)
def test_what_is_no_fence_of_shared_memory_for_the_async_proxy(fence: str) -> None:
    with pytest.raises(
        Exception, match=r"missing proxy fence: .* reads shared memory at 0x400 through the async proxy"
    ):
        run(WRITE + fence + BULK_STORE, [np.zeros(4, np.uint32)], inside=INSIDE)


SECOND = """
    setp.ne.u32 %p0, %t, 32;
    mov.u32 %r9, s;
    setp.eq.u32 %p1, %t, 0;
    @%p1 st.shared.v4.u32 [s], {21, 22, 23, 24};
"""


def test_the_writer_fences_before_the_barrier() -> None:
    out = np.zeros(4, np.uint32)
    body = SECOND + "fence.proxy.async;\n bar.sync 0;\n @%p0 bra END;" + BULK_STORE + "END:"
    run(body, [out], inside=INSIDE, threads=64)
    assert out.tolist() == [21, 22, 23, 24]


def test_a_reader_may_fence_for_what_has_reached_it() -> None:
    out = np.zeros(4, np.uint32)
    body = SECOND + "bar.sync 0;\n @%p0 bra END;\n fence.proxy.async;" + BULK_STORE + "END:"
    run(body, [out], inside=INSIDE, threads=64)
    assert out.tolist() == [21, 22, 23, 24]


def test_a_fence_of_another_thread_does_not_cover_what_was_not_released() -> None:
    body = SECOND + "@%p0 bra END;\n fence.proxy.async;" + BULK_STORE + "END:"
    with pytest.raises(Exception, match="missing proxy fence"):
        run(body, [np.zeros(4, np.uint32)], inside=INSIDE, threads=64)


GLOBAL_INSIDE = ".shared .align 128 .b8 s[256]; .shared .align 8 .b64 bar;"


def through_global_memory(fence: str, *, before: str = "", writer: str = "st.global.u32 [%x0], %r5;") -> str:
    """The threads write the array at %a; after `fence` and a barrier, one brings it to shared memory by a bulk copy, and all hand it
    out at %b."""
    return f"""
    setp.eq.u32 %p0, %t, 0;
    mad.wide.u32 %x0, %t, 4, %a;
    add.u32 %r5, %t, 500;
    @%p0 mbarrier.init.shared::cta.b64 [bar], 1;
    {before}
    {writer}
    {fence}
    bar.sync 0;
    mov.u32 %r1, s;
    mov.u32 %r2, bar;
    @%p0 fence.proxy.async.shared::cta;
    @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 128;
    @%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%a], 128, [%r2];
    W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0;
    @!%p1 bra W;
    mad.lo.u32 %r3, %t, 4, %r1;
    ld.shared.u32 %r4, [%r3];
    mad.wide.u32 %x1, %t, 4, %b;
    st.global.u32 [%x1], %r4;
    """


@pytest.mark.parametrize(
    "fence", ["fence.proxy.async;", "fence.proxy.async.global;", "bar.sync 1;\n fence.proxy.async.global;"]
)
@pytest.mark.parametrize("order", ORDERS)
def test_fences_of_global_memory(fence: str, order: OrderName) -> None:
    array, out = np.zeros(32, np.uint32), np.zeros(32, np.uint32)
    run(through_global_memory(fence), [array, out], threads=32, inside=GLOBAL_INSIDE, order=order, seed=1)
    assert out.tolist() == [500 + t for t in range(32)]


@pytest.mark.parametrize("fence", ["", "fence.acq_rel.gpu;", "fence.proxy.async.shared::cta;"])
@pytest.mark.parametrize(
    "writer", ["st.global.u32 [%x0], %r5;", "st.u32 [%x0], %r5;", "red.global.add.u32 [%x0], %r5;"]
)
def test_what_is_no_fence_of_global_memory(fence: str, writer: str) -> None:
    text = fault_of(through_global_memory(fence, writer=f"@!%p0 {writer}"))
    assert text == (
        "missing proxy fence: the bulk copy reads array in_a at offset 4 through the async proxy, but it was written by ordinary "
        "stores that no fence.proxy.async has followed"
    )


def fault_of(body: str) -> str:
    with pytest.raises(EmulatorFault) as caught:
        run(body, [np.zeros(32, np.uint32), np.zeros(32, np.uint32)], threads=32, inside=GLOBAL_INSIDE)
    return str(caught.value).splitlines()[0].split("error: ", 1)[1].rsplit(" (kernel k", 1)[0]


def test_one_thread_may_fence_for_all_that_have_released_global_memory() -> None:
    array, out = np.zeros(32, np.uint32), np.zeros(32, np.uint32)
    body = through_global_memory("bar.sync 1;\n @%p0 fence.proxy.async.global;")
    run(body, [array, out], threads=32, inside=GLOBAL_INSIDE)
    assert out.tolist() == [500 + t for t in range(32)]


def test_bytes_that_are_not_read_need_no_fence() -> None:
    array, out = np.arange(64, dtype=np.uint32), np.zeros(32, np.uint32)
    run(
        through_global_memory("", writer="st.global.u32 [%x0+128], %r5;"),
        [array, out],
        threads=32,
        inside=GLOBAL_INSIDE,
    )
    assert out.tolist() == list(range(32))
