"""Kernel functions that say every word of tile in its various ways; the docstring is the tile code that each becomes."""
# The extents in annotations are symbols, which linters take for forward references.
# ruff: noqa: F821, F722
# pyright: reportUndefinedVariable=false

from tilec import tile

SHAPE = (64, 32)


def arithmetic(A: tile.View["M", 32], row: tile.View[32, tile.f32]):
    """
    tile.kernel @arithmetic(%A: !tile.view<Mx32xf32>, %row: !tile.view<32xf32>, %D: !tile.view<Mx32xf32>) {
      %zero = arith.constant 0 : index
      tile.grid (%m, %n) over %D step (64, 32) {
        %a = tile.alloc : !tile.smem<64x32xf32>
        %r = tile.alloc : !tile.smem<32xf32>
        tile.copy %A[%m, %n] to %a
        tile.copy %row[%zero] to %r
        %x = tile.load %a : !tile.reg<64x32xf32>
        %y = tile.load %r : !tile.reg<32xf32>
        %two = tile.splat 2.0 : !tile.reg<64x32xf32>
        %x2 = tile.mul %x, %two
        %one = tile.splat 1.0 : !tile.reg<64x32xf32>
        %from = tile.sub %one, %x2
        %rows = tile.broadcast %y : !tile.reg<64x32xf32>
        %minus = tile.sub %from, %rows
        %again = tile.broadcast %y : !tile.reg<64x32xf32>
        %plus = tile.add %again, %minus
        %ones = tile.splat 1.0 : !tile.reg<32xf32>
        %y1 = tile.add %y, %ones
        %explicit = tile.broadcast %y1 : !tile.reg<64x32xf32>
        %product = tile.mul %plus, %explicit
        %low = tile.splat -0.5 : !tile.reg<64x32xf32>
        %bounded = tile.max %low, %product
        %zeros = tile.splat 0.0 : !tile.reg<64x32xf32>
        %positive = tile.max %bounded, %zeros
        %least = tile.max %positive, %x
        %minus_one = tile.splat -1.0 : !tile.reg<64x32xf32>
        %negated = tile.mul %least, %minus_one
        %half = tile.cast %negated : !tile.reg<64x32xf16>
        %brain = tile.cast %half : !tile.reg<64x32xbf16>
        %back = tile.cast %brain : !tile.reg<64x32xf32>
        tile.store %back to %a
        tile.copy %a to %D[%m, %n]
      }
    }
    """
    D = tile.empty("M", 32, dtype=A.dtype)
    for m, n in tile.grid(D, step=SHAPE):
        a = tile.smem(SHAPE, A.dtype)
        r = tile.smem(32, dtype="f32")
        tile.copy(A[m, n], a)
        tile.copy(row[0], r)
        x = tile.load(a)
        y = tile.load(r)
        x2 = x * 2
        minus = 1.0 - x2 - y
        plus = y + minus
        product = plus * tile.broadcast(y + 1, x.shape[0])
        bounded = max(-0.5, product)  # pyright: ignore[reportArgumentType]
        least = tile.max(tile.maximum(bounded, 0.0), x)
        half = (-least).to("f16")
        back = tile.cast(half.to(dtype=tile.bf16), x.dtype)
        tile.store(back, a)
        tile.copy(a, D[m, n])
    return D


def accumulates_in_registers(A: tile.View["M", "K"], D: tile.View["M", 16]):
    """
    tile.kernel @accumulates_in_registers(%A: !tile.view<MxKxf32>, %D: !tile.view<Mx16xf32>) {
      tile.assume %A dim 1 step 16 multiple 2
      tile.grid (%m, %n) over %D step (8, 16) {
        %a = tile.alloc : !tile.smem<8x16xf32>
        %zeros = tile.splat 0.0 : !tile.reg<8x16xf32>
        %end = tile.for %k over %A dim 1 step 16 iter_args(%sum = %zeros) {
          tile.copy %A[%m, %k] to %a
          %x = tile.load %a : !tile.reg<8x16xf32>
          %next = tile.add %sum, %x
          tile.yield %next : !tile.reg<8x16xf32>
        }
        tile.copy %end to %D[%m, %n]
      }
    }
    """
    tile.assume(A, dim=1, step=16, multiple=2)
    for m, n in tile.grid(D, step=(8, 16)):
        a = tile.smem(8, 16, A.dtype)
        total = tile.zeros(a.shape, a.dtype)
        for k in tile.range(A, dim=1, step=16):
            tile.copy(A[m, k], a)
            total += tile.load(a)
        tile.copy(total, D[m, n])


def extents(A: tile.View["M", 64], B: tile.View["?", "N"]):
    """
    tile.kernel @extents(%A: !tile.view<Mx64xf16>, %B: !tile.view<?xNxf32>, %D: !tile.view<MxNxf16>) {
      tile.grid (%m, %n) over %D step (64, 9) {
        %ones = tile.splat 1.0 : !tile.reg<64x9xf16>
        tile.copy %ones to %D[%m, %n]
      }
    }
    """
    D = tile.empty(A.shape[0], B.shape[1], dtype=A.dtype)
    for m, n in tile.grid(D, step=(A.shape[1], tile.cdiv(100, 16) + A.ndim)):
        tile.copy(tile.splat(1, 64, 9, A.dtype), D[m, n])
    return D


def one_dimension(A: tile.View["M"]):
    """
    tile.kernel @one_dimension(%A: !tile.view<Mxf16>, %D: !tile.view<Mxf16>) {
      tile.grid (%m) over %D step (64) {
        %a = tile.alloc : !tile.smem<64xf16>
        tile.copy %A[%m] to %a
        tile.copy %a to %D[%m]
      }
    }
    """
    D = tile.empty("M", dtype=A.dtype)
    for m in tile.grid(D, step=64):
        a = tile.smem(64, A.dtype)
        tile.copy(A[m], a)
        tile.copy(a, D[m])
    return D


def by_threads(A: tile.View["M", "K", tile.facts(order=(0, 1), align=8, tail="free")], D: tile.View["M", "K"]):
    """
    tile.kernel @by_threads(%A: !tile.view<MxKxf16, order = [0, 1], align = 8, tail = free>, %D: !tile.view<MxKxf16>) {
      %a = tile.alloc : !tile.smem<64x32xf16, order = [0, 1], swizzle = 64>
      %d = tile.alloc : !tile.smem<64x32xf16>
      %zero = arith.constant 0 : index
      %one = arith.constant 1 : index
      %end = scf.while (%turn = %zero) : (index) -> index {
        %valid, %m0, %k0 = tile.schedule %turn over %D step (64, 32) group 1
        scf.condition(%valid) %turn : index
      } do {
      ^bb0(%turn: index):
        %valid, %m, %k = tile.schedule %turn over %D step (64, 32) group 1
        tile.copy_async %A[%m, %k] to %a dispatch threads
        tile.cta_sync
        %r = tile.load %a : !tile.reg<64x32xf16>
        tile.store %r to %d
        tile.cta_sync
        tile.copy_async %d to %D[%m, %k] dispatch threads
        tile.cta_sync
        %next = arith.addi %turn, %one : index
        scf.yield %next : index
      }
    }
    """
    a = tile.smem(64, 32, A.dtype, order=(0, 1), swizzle=64)
    d = tile.smem(64, 32, D.dtype)
    for m, k in tile.persistent(D, step=(64, 32)):
        tile.copy_async(A[m, k], a, dispatch="threads")
        tile.cta_sync()
        tile.store(tile.load(a), d)
        tile.cta_sync()
        tile.copy_async(d, D[m, k], dispatch="threads")
        tile.cta_sync()


def barriers(A: tile.View["M", 64], D: tile.View["M", 64]):
    """
    tile.kernel @barriers(%A: !tile.view<Mx64xf16>, %D: !tile.view<Mx64xf16>) {
      %ring = tile.alloc : !tile.ring<3 x !tile.smem<64x64xf16, swizzle = 128>>
      %full = tile.mbarrier.init count 2 : !tile.mbarrier<3>
      %done = tile.mbarrier.init count 1 : !tile.mbarrier<1>
      tile.cta_sync
      %zero = arith.constant 0 : index
      %two = arith.constant 2 : index
      %parity0 = arith.constant 0 : i32
      %parity1 = arith.constant 1 : i32
      %true = arith.constant true
      %acc = tile.alloc : !tile.acc<64x64xf32>
      %valid, %m, %n = tile.schedule %zero over %D step (64, 64) group 4
      %a = tile.slot %ring[%two]
      tile.single_thread {
        tile.mbarrier.arrive.expect_tx %full[%two], 8192
        tile.copy_async %A[%m, %zero] to %a dispatch tma signal %full[%two]
      }
      tile.mbarrier.arrive %full[%two]
      tile.mbarrier.try_wait %full[%two], %parity0
      tile.mma %acc, %a, %a accumulate %true
      tile.mma %acc, %a, %a accumulate %valid
      tile.commit %done
      tile.mbarrier.try_wait %done[%zero], %parity1 outstanding 1
      %part = tile.slice %acc[0, 32] : !tile.acc<64x32xf32>
      %whole = tile.slice %acc[0, 0] : !tile.acc<64x64xf32>
      tile.single_thread {
        tile.copy_async %a to %D[%m, %zero] dispatch tma
      }
      tile.free %acc
    }
    """
    ring = tile.ring((64, 64), A.dtype, depth=3, swizzle=128)
    full = tile.mbarrier.init(count=2, depth=ring.depth)
    done = tile.mbarrier.init()
    tile.cta_sync()
    acc = tile.acc(64, 64)
    valid, m, _ = tile.schedule(0, D, step=ring.shape, group=4)
    a = ring[full.depth - 1]
    with tile.single_thread():
        tile.mbarrier.arrive.expect_tx(full[2], 64 * 64 * A.dtype.itemsize)
        tile.copy_async(A[m, 0], a, dispatch="tma", signal=full[2])
    tile.mbarrier.arrive(full[2])
    tile.mbarrier.try_wait(full[2], 0)
    tile.mma(acc, a, a, accumulate=True)
    tile.mma(acc, a, a, accumulate=valid)
    tile.commit(done)
    tile.mbarrier.try_wait(done[0], tile.i32(1), outstanding=1)
    _part, _whole = acc[:, 32:], acc[0:64, :]
    with tile.single_thread():
        tile.copy_async(a, D[m, 0], dispatch="tma")
    tile.free(acc)
