"""The programs of examples/*.tile and of lesson 10's roles as Python functions, for the tests of the front end; those that are
examples themselves are taken from there.

Each lowers to the program of its .tile file, operation for operation.
"""
# The extents in annotations are symbols, which linters take for forward references.
# ruff: noqa: F821
# pyright: reportUndefinedVariable=false

import runpy
from pathlib import Path

from tilec import tile

_EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
_STEP6 = runpy.run_path(str(_EXAMPLES / "step6.py"))

gemm = runpy.run_path(str(_EXAMPLES / "gemm.py"))["gemm"].__wrapped__
step6 = _STEP6["step6"].__wrapped__
epilogue, prefetch = (_STEP6[name] for name in ("epilogue", "prefetch"))

BLK_M, BLK_N, BLK_K = 128, 128, 64
HALF = BLK_N // 2
PIPE_DEPTH = 2


def bias_relu(A: tile.View["M", "K"], B: tile.View["N", "K"], bias: tile.View["N"]):
    """D = max(A B^T + bias, 0): an epilogue in registers."""
    D = tile.empty("M", "N", dtype=A.dtype)
    for m, n in tile.grid(D, step=(BLK_M, BLK_N)):
        a = tile.smem(BLK_M, BLK_K, A.dtype)
        b = tile.smem(BLK_N, BLK_K, B.dtype)
        row = tile.smem(BLK_N, bias.dtype)
        acc = tile.acc(BLK_M, BLK_N)
        tile.copy(bias[n], row)
        for k in tile.range(A, dim=1, step=BLK_K):
            tile.copy(A[m, k], a)
            tile.copy(B[n, k], b)
            tile.mma(acc, a, b)
        tile.copy(tile.max(tile.load(acc) + tile.load(row), 0.0), D[m, n])
    return D


def step4(A: tile.View["M", "K"], B: tile.View["N", "K"]):
    """Lesson 09, step 4: the loads go to TMA; the loop is still serial: load, wait, MMA, wait."""
    D = tile.empty("M", "N", dtype=A.dtype)
    for m, n in tile.grid(D, step=(BLK_M, BLK_N)):
        a = tile.smem(BLK_M, BLK_K, A.dtype, swizzle=128)
        b = tile.smem(BLK_N, BLK_K, B.dtype, swizzle=128)
        dsmem = tile.smem(BLK_M, HALF, D.dtype, swizzle=128)
        acc = tile.acc(BLK_M, BLK_N)
        tma_bar = tile.mbarrier.init(count=1)
        mma_bar = tile.mbarrier.init(count=1)
        tile.cta_sync()  # nobody uses a barrier before it is initialised

        phase = tile.i32(0)
        K = tile.dim(A, 1)
        for k in tile.loop(0, K, BLK_K):
            with tile.single_thread():  # tid == 0, never elect_sync(): the byte budget is announced once
                tile.mbarrier.arrive.expect_tx(tma_bar, a.nbytes + b.nbytes)
                tile.copy_async(A[m, k], a, dispatch="tma", signal=tma_bar)
                tile.copy_async(B[n, k], b, dispatch="tma", signal=tma_bar)
            tile.mbarrier.try_wait(tma_bar, phase)
            tile.fence("after_thread_sync")
            tile.mma(acc, a, b, accumulate=k != 0)  # the first MMA of a tile overwrites
            tile.commit(mma_bar)  # the MMA's only completion
            tile.mbarrier.try_wait(mma_bar, phase)
            phase ^= 1

        tile.fence("after_thread_sync")
        epilogue(acc, dsmem, D, m, n, K != 0)
        tile.free(acc)
    return D


def step5(A: tile.View["M", "K"], B: tile.View["N", "K"]):
    """Lesson 09, step 5: a ring of PIPE_DEPTH stages. A phase flips when its slot comes round again."""
    D = tile.empty("M", "N", dtype=A.dtype)
    for m, n in tile.grid(D, step=(BLK_M, BLK_N)):
        Asmem = tile.ring(BLK_M, BLK_K, A.dtype, depth=PIPE_DEPTH, swizzle=128)
        Bsmem = tile.ring(BLK_N, BLK_K, B.dtype, depth=PIPE_DEPTH, swizzle=128)
        dsmem = tile.smem(BLK_M, HALF, D.dtype, swizzle=128)
        acc = tile.acc(BLK_M, BLK_N)
        tma_bar = tile.mbarrier.init(count=1, depth=PIPE_DEPTH)
        mma_bar = tile.mbarrier.init(count=1)
        tile.cta_sync()

        K = tile.dim(A, 1)
        # Prologue: prefetch the first PIPE_DEPTH tiles.
        for s in tile.loop(0, PIPE_DEPTH):
            k = s * BLK_K
            if k < K:
                prefetch(A, B, (m, n, k), Asmem, Bsmem, tma_bar, s)

        # Steady state: wait for the stage, multiply, wait for the MMA, refill the stage.
        stage = tile.index(0)
        phase_tma = tile.i32(0)
        phase_mma = tile.i32(0)
        for k in tile.loop(0, K, BLK_K):
            a = Asmem[stage]
            b = Bsmem[stage]
            tile.mbarrier.try_wait(tma_bar[stage], phase_tma)
            tile.fence("after_thread_sync")
            tile.mma(acc, a, b, accumulate=k != 0)
            tile.commit(mma_bar)
            tile.mbarrier.try_wait(mma_bar, phase_mma)
            phase_mma ^= 1  # one slot: flip every iteration

            next_k = k + PIPE_DEPTH * BLK_K
            if next_k < K:
                with tile.single_thread():
                    tile.mbarrier.arrive.expect_tx(tma_bar[stage], a.nbytes + b.nbytes)
                    tile.copy_async(A[m, next_k], a, dispatch="tma", signal=tma_bar[stage])
                    tile.copy_async(B[n, next_k], b, dispatch="tma", signal=tma_bar[stage])
            wrapped = stage == PIPE_DEPTH - 1  # the ring has wrapped: flip once per trip
            stage = 0 if wrapped else stage + 1
            phase_tma = phase_tma ^ 1 if wrapped else phase_tma

        tile.fence("after_thread_sync")
        epilogue(acc, dsmem, D, m, n, K != 0)
        tile.free(acc)
    return D


def step7(A: tile.View["M", "K"], B: tile.View["N", "K"]):
    """Lesson 10: loads, MMAs and epilogue are roles that hand tiles to each other through mbarriers."""
    D = tile.empty("M", "N", dtype=A.dtype)
    Asmem = tile.ring(BLK_M, BLK_K, A.dtype, depth=PIPE_DEPTH, swizzle=128)
    Bsmem = tile.ring(BLK_N, BLK_K, B.dtype, depth=PIPE_DEPTH, swizzle=128)
    dleft = tile.smem(BLK_M, HALF, D.dtype, swizzle=128)
    dright = tile.smem(BLK_M, HALF, D.dtype, swizzle=128)
    acc = tile.acc(BLK_M, BLK_N)
    full = tile.mbarrier.init(count=1, depth=PIPE_DEPTH)
    empty = tile.mbarrier.init(count=1, depth=PIPE_DEPTH)
    acc_ready = tile.mbarrier.init(count=1)
    acc_free = tile.mbarrier.init(count=1)
    tile.cta_sync()  # all roles find the barriers initialised

    K = tile.dim(A, 1)
    any_k = K != 0

    with tile.roles():
        with tile.role("load"), tile.single_thread():
            stage = tile.index(0)
            phase = tile.i32(1)  # a fresh barrier reads as complete for parity 1: all stages are free
            for m, n in tile.persistent(D, step=(BLK_M, BLK_N), group=8):
                for k in tile.loop(0, K, BLK_K):
                    a = Asmem[stage]
                    b = Bsmem[stage]
                    tile.mbarrier.try_wait(empty[stage], phase)  # the MMA that read this stage last is complete
                    tile.mbarrier.arrive.expect_tx(full[stage], a.nbytes + b.nbytes)
                    tile.copy_async(A[m, k], a, dispatch="tma", signal=full[stage])
                    tile.copy_async(B[n, k], b, dispatch="tma", signal=full[stage])
                    wrapped = stage == PIPE_DEPTH - 1
                    stage = 0 if wrapped else stage + 1
                    phase = phase ^ 1 if wrapped else phase
        with tile.role("mma"):
            turn = tile.index(0)
            stage = tile.index(0)
            phase = tile.i32(0)
            free = tile.i32(1)
            while tile.schedule(turn, D, step=(BLK_M, BLK_N), group=8).valid:
                if any_k:
                    tile.mbarrier.try_wait(acc_free, free)  # the epilogue has read the tile before
                for k in tile.loop(0, K, BLK_K):
                    a = Asmem[stage]
                    b = Bsmem[stage]
                    tile.mbarrier.try_wait(full[stage], phase)
                    tile.role_sync()  # one thread commits for all: all have seen this round before the next completes
                    tile.fence("after_thread_sync")
                    tile.mma(acc, a, b, accumulate=k != 0)
                    tile.commit(empty[stage])
                    wrapped = stage == PIPE_DEPTH - 1
                    stage = 0 if wrapped else stage + 1
                    phase = phase ^ 1 if wrapped else phase
                if any_k:
                    tile.commit(acc_ready)
                free ^= 1
                turn += 1
        with tile.role("store"):
            ready = tile.i32(0)
            for m, n in tile.persistent(D, step=(BLK_M, BLK_N), group=8):
                with tile.single_thread():
                    tile.bulk.wait_group(0, read=True)
                tile.role_sync()  # the staging tiles are free
                if any_k:
                    tile.mbarrier.try_wait(acc_ready, ready)
                    tile.fence("after_thread_sync")
                    left, right = acc[:, 0:HALF], acc[:, HALF:BLK_N]
                    r0 = tile.copy_async(left, dispatch="tmem")
                    r1 = tile.copy_async(right, dispatch="tmem")
                    tile.tmem.wait_ld()
                    tile.fence("before_thread_sync")
                    tile.mbarrier.arrive(acc_free)  # the next tile's MMAs may overwrite it while this one is stored
                    h0, h1 = r0.to(D.dtype), r1.to(D.dtype)
                    tile.store(h0, dleft)
                    tile.store(h1, dright)
                else:
                    zeros = tile.zeros(dleft.shape, D.dtype)
                    tile.store(zeros, dleft)
                    tile.store(zeros, dright)
                tile.fence("proxy_async")
                tile.role_sync()  # one thread stores for all
                n1 = n + HALF
                with tile.single_thread():
                    tile.copy_async(dleft, D[m, n], dispatch="tma")
                    tile.copy_async(dright, D[m, n1], dispatch="tma")
                    tile.bulk.commit_group()
                ready ^= 1
            with tile.single_thread():
                tile.bulk.wait_group(0)
    tile.cta_sync()
    tile.fence("after_thread_sync")
    tile.free(acc)
    return D
