"""Conversions between state spaces and the generic space, and questions about addresses."""

from __future__ import annotations

import numpy as np
import pytest
from memory_kernels import ORDERS, OrderName, fault, refused, run

from tilec.backend.emulator.faults import FaultKind

MODULE = ".global .align 4 .u32 g[4] = {5, 6, 7, 8}; .const .align 4 .u32 c[4] = {15, 16, 17, 18};"
INSIDE = ".shared .align 8 .b8 s[64]; .local .align 8 .b8 l[64];"
SPACES = ("const", "global", "local", "shared", "shared::cta", "shared::cluster", "param", "param::entry")
NAMES = {"const": "c", "global": "g", "local": "l", "param": "in_a"}


def name_of(space: str) -> str:
    return NAMES.get(space.split("::")[0], "s")


@pytest.mark.parametrize("space", SPACES)
def test_the_way_to_the_generic_space_and_back(space: str) -> None:
    variable = name_of(space)
    out = np.zeros(3, np.uint64)
    body = f"""
    mov.u64 %x0, {variable};
    cvta.{space}.u64 %x1, %x0;
    cvta.{space}.u64 %x2, {variable}+4;
    cvta.to.{space}.u64 %x3, %x1;
    cvta.{space}.u64 %x4, %x3;
    sub.u64 %x2, %x2, %x1;
    sub.u64 %x4, %x4, %x1;
    st.global.u64 [%a], %x2;
    st.global.u64 [%a+8], %x4;
    st.global.u64 [%a+16], %x1;
    """
    run(body, [out], module=MODULE, inside=INSIDE)
    assert out[:2].tolist() == [4, 0]
    assert int(out[2]) >> 32, "a generic address names its window"


@pytest.mark.parametrize(
    ("space", "inside_of"),
    [
        ("const", {"c"}),
        ("global", {"g", "in_a"}),
        ("local", {"l"}),
        ("shared", {"s"}),
        ("shared::cta", {"s"}),
        ("shared::cluster", {"s"}),
        ("param", {"in_a"}),
        ("param::entry", {"in_a"}),
    ],
)
def test_isspacep(space: str, inside_of: set[str]) -> None:
    out = np.full(5, 9, np.uint32)
    body = ""
    for at, variable in enumerate(("c", "g", "l", "s", "in_a")):
        own = {"c": "const", "g": "global", "l": "local", "s": "shared", "in_a": "param"}[variable]
        body += f"""
        cvta.{own}.u64 %x0, {variable};
        isspacep.{space} %p0, %x0;
        selp.u32 %r0, 1, 0, %p0;
        st.global.u32 [%a+{4 * at}], %r0;
        """
    run(body, [out], module=MODULE, inside=INSIDE)
    assert out.tolist() == [int(v in inside_of) for v in ("c", "g", "l", "s", "in_a")]


def test_isspacep_of_the_arrays_of_the_host_and_of_nothing() -> None:
    out = np.zeros(2, np.uint32)
    body = """
    isspacep.global %p0, %a;
    selp.u32 %r0, 1, 0, %p0;
    mov.u64 %x0, 64;
    isspacep.global %p0, %x0;
    selp.u32 %r1, 1, 0, %p0;
    st.global.v2.u32 [%a], {%r0, %r1};
    """
    run(body, [out])
    assert out.tolist() == [1, 0]


@pytest.mark.parametrize("order", ORDERS)
def test_addresses_in_a_cluster(order: OrderName) -> None:
    out = np.zeros((4, 6), np.uint32)
    body = """
    mov.u32 %r0, %cluster_ctarank;
    st.shared.u32 [s], %r0;
    barrier.cluster.arrive.release;
    barrier.cluster.wait.acquire;
    add.u32 %r1, %r0, 1;
    and.b32 %r1, %r1, 3;
    mapa.shared::cluster.u32 %r2, s, %r1;
    ld.shared::cluster.u32 %r3, [%r2];
    cvta.shared.u64 %x0, s;
    mapa.u64 %x1, %x0, %r1;
    ld.u32 %r4, [%x1];
    getctarank.shared::cluster.u32 %r5, %r2;
    getctarank.u64 %r6, %x1;
    isspacep.shared::cta %p0, %x1;
    selp.u32 %r7, 1, 0, %p0;
    isspacep.shared::cluster %p0, %x1;
    selp.u32 %r8, 1, 0, %p0;
    mad.wide.u32 %x2, %r0, 24, %a;
    st.global.v2.u32 [%x2], {%r3, %r4};
    st.global.v2.u32 [%x2+8], {%r5, %r6};
    st.global.v2.u32 [%x2+16], {%r7, %r8};
    barrier.cluster.arrive.release;
    barrier.cluster.wait.acquire;
    """
    run(body, [out], inside=INSIDE, cluster=4, grid=4, order=order, seed=3)
    ranks = [(rank + 1) % 4 for rank in range(4)]
    assert out.tolist() == [[r, r, r, r, 0, 1] for r in ranks]


def test_mapa_of_64_bits_and_of_a_register() -> None:
    out = np.zeros(2, np.uint64)
    body = """
    mov.u64 %x0, s;
    mapa.shared::cluster.u64 %x1, %x0, 1;
    mapa.shared::cluster.u64 %x2, s+8, 0;
    st.global.v2.u64 [%a], {%x1, %x2};
    """
    run(body, [out], inside=INSIDE, cluster=2, grid=2)
    assert out.tolist() == [0x1000400, 0x408]


def test_mapa_to_a_cta_that_does_not_exist() -> None:
    body = "mov.u32 %r0, 2;\n mapa.shared::cluster.u32 %r1, s, %r0; // here"
    text = fault(body, [], FaultKind.OUT_OF_BOUNDS, inside=INSIDE, cluster=2, grid=2)
    assert text == "mapa to the CTA of rank 2, but the cluster has 2"


def test_mapa_of_a_generic_address_outside_of_shared_memory() -> None:
    text = fault("mapa.u64 %x0, %a, 0; // here", [np.zeros(4, np.uint8)], FaultKind.OUT_OF_BOUNDS)
    assert text == "mapa.u64 of address 0x700001000000, which does not lie in shared memory"


@pytest.mark.parametrize(
    "instruction", ["cvta.shared.u32 %r0, %r1;", "mapa.u32 %r0, %r1, 0;", "getctarank.u32 %r0, %r1;"]
)
def test_generic_addresses_have_64_bits(instruction: str) -> None:
    assert "addresses have 64 bits" in refused(instruction)
