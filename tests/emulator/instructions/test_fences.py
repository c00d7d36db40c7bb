"""Fences: every form is taken, and those that matter to the async proxy are told from those that do not."""

from __future__ import annotations

import numpy as np
import pytest
from memory_kernels import refused, run

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
