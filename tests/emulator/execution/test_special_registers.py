"""Special registers: places of threads, CTAs and clusters, masks of lanes, sizes of shared memory."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tilec.backend.emulator.faults import EmulatorFault, FaultKind
from tilec.backend.emulator.launch import emulate

Index = tuple[int, int, int]


def read(
    register: str,
    *,
    grid: Index = (1, 1, 1),
    block: Index = (1, 1, 1),
    cluster: Index = (1, 1, 1),
    kind: str = "u32",
    dynamic_smem: int = 0,
    shared: int = 0,
    top: str = "",
) -> list[int]:
    """What each thread reads, by its number in its CTA, then by the number of the CTA in the grid."""
    threads = block[0] * block[1] * block[2]
    total = threads * grid[0] * grid[1] * grid[2]
    moved = {
        "pred": "mov.pred p, {0}; selp.u64 x, 1, 0, p;",
        "u64": "mov.u64 x, {0};",
        "u32": "mov.u32 r, {0}; cvt.u64.u32 x, r;",
    }[kind]
    text = f"""
.version 8.8
.target sm_90a
.address_size 64
{top}
.visible .entry k(.param .u64 out)
{{
    .reg .b32 r, s, n; .reg .b64 x, o; .reg .pred p;
    {f".shared .b8 pool[{shared}];" if shared else ""}
    mov.u32 n, %ctaid.z;
    mov.u32 s, %nctaid.y; mul.lo.u32 n, n, s; mov.u32 s, %ctaid.y; add.u32 n, n, s;
    mov.u32 s, %nctaid.x; mul.lo.u32 n, n, s; mov.u32 s, %ctaid.x; add.u32 n, n, s;
    mov.u32 s, %ntid.z; mul.lo.u32 n, n, s; mov.u32 s, %tid.z; add.u32 n, n, s;
    mov.u32 s, %ntid.y; mul.lo.u32 n, n, s; mov.u32 s, %tid.y; add.u32 n, n, s;
    mov.u32 s, %ntid.x; mul.lo.u32 n, n, s; mov.u32 s, %tid.x; add.u32 n, n, s;
    ld.param.u64 o, [out];
    mad.wide.u32 o, n, 8, o;
    {moved.format(register)}
    st.global.u64 [o], x;
    ret;
}}
"""
    out = np.full(total, 2**64 - 1, np.uint64)
    emulate(text, "k", grid, block, [out], cluster=cluster, dynamic_smem=dynamic_smem)
    return [int(value) for value in out]


def unlinear(number: int, extents: Index) -> Index:
    return number % extents[0], number // extents[0] % extents[1], number // (extents[0] * extents[1])


BLOCK: Index = (5, 4, 3)
GRID: Index = (4, 6, 2)
CLUSTER: Index = (2, 3, 1)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_places(axis: int) -> None:
    letter = "xyz"[axis]
    threads, ctas = 60, 48
    each = [(t, unlinear(t, BLOCK), unlinear(c, GRID)) for c in range(ctas) for t in range(threads)]
    expected: dict[str, Callable[[Index, Index], int]] = {
        "%tid": lambda tid, cta: tid[axis],
        "%ntid": lambda tid, cta: BLOCK[axis],
        "%ctaid": lambda tid, cta: cta[axis],
        "%nctaid": lambda tid, cta: GRID[axis],
        "%clusterid": lambda tid, cta: cta[axis] // CLUSTER[axis],
        "%nclusterid": lambda tid, cta: GRID[axis] // CLUSTER[axis],
        "%cluster_ctaid": lambda tid, cta: cta[axis] % CLUSTER[axis],
        "%cluster_nctaid": lambda tid, cta: CLUSTER[axis],
    }
    for name, value in expected.items():
        found = read(f"{name}.{letter}", grid=GRID, block=BLOCK, cluster=CLUSTER)
        assert found == [value(tid, cta) for _, tid, cta in each], name


def test_ranks_in_clusters() -> None:
    def rank(cta: Index) -> int:
        x, y, z = (c % n for c, n in zip(cta, CLUSTER, strict=True))
        return x + CLUSTER[0] * (y + CLUSTER[1] * z)

    found = read("%cluster_ctarank", grid=GRID, cluster=CLUSTER)
    assert found == [rank(unlinear(c, GRID)) for c in range(48)]
    assert set(read("%cluster_nctarank", grid=GRID, cluster=CLUSTER)) == {6}
    assert set(read("%is_explicit_cluster", grid=GRID, cluster=CLUSTER, kind="pred")) == {1}
    assert set(read("%is_explicit_cluster", grid=GRID, kind="pred")) == {0}
    assert set(read("%cluster_ctarank", grid=GRID)) == {0}


@pytest.mark.parametrize(
    ("register", "value"),
    [
        ("%laneid", lambda lane: lane),
        ("%lanemask_eq", lambda lane: 1 << lane),
        ("%lanemask_lt", lambda lane: (1 << lane) - 1),
        ("%lanemask_le", lambda lane: (2 << lane) - 1),
        ("%lanemask_gt", lambda lane: 2**32 - (2 << lane)),
        ("%lanemask_ge", lambda lane: 2**32 - (1 << lane)),
    ],
)
def test_lanes(register: str, value: Callable[[int], int]) -> None:
    assert read(register, block=(10, 7, 1)) == [value(i % 32) for i in range(70)]


def test_warps() -> None:
    assert read("%warpid", block=(10, 7, 1)) == [i // 32 for i in range(70)]
    assert set(read("%nwarpid", block=(10, 7, 1))) == {64}


def test_elements_that_do_not_exist_are_zero() -> None:
    for name in ("%tid", "%ntid", "%ctaid", "%nctaid", "%clusterid", "%cluster_nctaid"):
        assert read(f"{name}.w", block=(3, 1, 1)) == [0, 0, 0]


def test_sizes_of_shared_memory_are_rounded_to_what_is_allocated() -> None:
    assert read("%dynamic_smem_size", dynamic_smem=100, shared=40) == [100]
    assert read("%total_smem_size", dynamic_smem=100, shared=40) == [256]
    assert read("%total_smem_size", dynamic_smem=88, shared=40) == [128]
    assert read("%aggr_smem_size", dynamic_smem=100, shared=40) == [256 + 1024]
    assert read("%total_smem_size") == [0]
    assert read("%reserved_smem_offset_end") == [1024]


SCRATCH = """
.version 8.8
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out)
{{
    .reg .b32 s, t, r; .reg .b64 o; .reg .pred p;
    ld.param.u64 o, [out];
    mov.u32 t, %tid.x;
    mov.u32 s, %reserved_smem_offset_1;
    atom.shared.or.b32 r, [s+16], 2;
    mad.lo.u32 s, t, 8, s;
    st.shared.u32 [s+32], t;
    bar.sync 0;
    ld.shared.u32 t, [s+{offset}];
    mad.wide.u32 o, t, 4, o;
    st.global.u32 [o], r;
    ret;
}}
"""


def test_scratch_memory_of_cooperative_groups() -> None:
    """The library counts on 288 bytes: barriers that are zero, and 8 bytes for each warp, not initialised."""
    out = np.full(32, 9, np.uint32)
    emulate(SCRATCH.format(offset=32), "k", 1, 32, [out])
    assert sorted(out) == [0] + [2] * 31
    with pytest.raises(EmulatorFault, match="nothing has been written") as caught:
        emulate(SCRATCH.format(offset=36), "k", 1, 32, [out])
    assert caught.value.kind is FaultKind.UNINITIALISED


def test_clocks_go_on() -> None:
    body = (
        "{{ .reg .b64 y; mov.u64 y, {0}; mov.u64 x, {0}; sub.u64 x, x, y; setp.gt.u64 p, x, 0; selp.u64 x, 1, 0, p; }}"
    )
    for name in ("%clock64", "%globaltimer"):
        text = f"""
.version 8.8
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out)
{{
    .reg .b64 x, o; .reg .pred p;
    {body.format(name)}
    ld.param.u64 o, [out];
    st.global.u64 [o], x;
}}
"""
        out = np.zeros(1, np.uint64)
        emulate(text, "k", 1, 1, [out])
        assert out.tolist() == [1]
    assert read("%current_graph_exec", kind="u64") == [0]
    assert read("%envreg3") == [0]


def test_multiprocessors() -> None:
    count = read("%nsmid")[0]
    assert count == 132
    assert all(0 <= sm < count for sm in read("%smid", grid=(200, 1, 1)))
