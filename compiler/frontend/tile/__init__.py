"""The words of a kernel written in Python (`tilec.jit`).

A kernel function is read, not run: these definitions say what each word means and let editors and type checkers follow it.
Called anywhere else they raise TilecError. The same program as tile code, word for word::

    @tilec.jit(pipeline="tma,pipeline(2),persistent")
    def gemm(A: tile.View["M", "K"], B: tile.View["N", "K"]):      # tile.kernel @gemm(%A: ..., %B: ..., %D: ...)
        D = tile.empty("M", "N", dtype=A.dtype)
        for m, n in tile.grid(D, step=(128, 128)):                 # tile.grid (%m, %n) over %D step (128, 128)
            a = tile.smem(128, 64, A.dtype)                        # %a = tile.alloc : !tile.smem<128x64xf16>
            b = tile.smem(128, 64, B.dtype)
            acc = tile.acc(128, 128)                               # %acc = tile.alloc : !tile.acc<128x128xf32>
            for k in tile.range(A, dim=1, step=64):                # tile.for %k over %A dim 1 step 64
                tile.copy(A[m, k], a)                              # tile.copy %A[%m, %k] to %a
                tile.copy(B[n, k], b)
                tile.mma(acc, a, b)                                # tile.mma %acc, %a, %b
            tile.copy(acc, D[m, n])                                # tile.copy %acc to %D[%m, %n]
        return D

A shape is written as its extents and then the element type. What is asynchronous, from `copy_async` on, is for kernels whose
barriers and stages are written by hand; in all others passes add them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tilec.frontend.tile import bulk, mbarrier, tmem
from tilec.frontend.tile.compute import broadcast, cast, commit, max, maximum, mma, splat, zeros
from tilec.frontend.tile.memory import acc, copy, copy_async, free, load, ring, smem, store
from tilec.frontend.tile.structure import (
    assume,
    cdiv,
    dim,
    empty,
    facts,
    grid,
    i1,
    i32,
    index,
    loop,
    persistent,
    range,
    role,
    roles,
    schedule,
    single_thread,
)
from tilec.frontend.tile.sync import cta_sync, fence, role_sync
from tilec.frontend.tile.types import (
    I32,
    Acc,
    Bool,
    DType,
    Facts,
    Index,
    Mbarrier,
    Place,
    Reg,
    Ring,
    Scheduled,
    Smem,
    Stage,
    View,
    bf16,
    constexpr,
    f16,
    f32,
)

__all__ = [
    "I32",
    "Acc",
    "Bool",
    "DType",
    "Facts",
    "Index",
    "Mbarrier",
    "Place",
    "Reg",
    "Ring",
    "Scheduled",
    "Smem",
    "Stage",
    "View",
    "acc",
    "assume",
    "bf16",
    "broadcast",
    "bulk",
    "cast",
    "cdiv",
    "commit",
    "constexpr",
    "copy",
    "copy_async",
    "cta_sync",
    "dim",
    "empty",
    "f16",
    "f32",
    "facts",
    "fence",
    "free",
    "grid",
    "i1",
    "i32",
    "index",
    "load",
    "loop",
    "max",
    "maximum",
    "mbarrier",
    "mma",
    "persistent",
    "range",
    "ring",
    "role",
    "role_sync",
    "roles",
    "schedule",
    "single_thread",
    "smem",
    "splat",
    "store",
    "tmem",
    "zeros",
]

OTHERWISE: Mapping[str, str] = MappingProxyType(
    {
        "kernel": "@tilec.jit above a function",
        "alloc": "tile.smem(...), tile.ring(...) or tile.acc(...)",
        "slot": "ring[stage]",
        "slice": "acc[:, 64:128]",
        "reg": "tile.splat(...), tile.load(...) or an expression of register tiles",
        "add": "x + y",
        "sub": "x - y",
        "mul": "x * y",
        "for": "a loop over tile.range(...)",
        "yield": "an assignment in a loop's body to a name from in front of the loop",
    }
)
"""How Python spells the operations and types of the dialect that are no words of their own."""
