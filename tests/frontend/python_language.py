"""Kernel functions that use the language in its various ways; the docstring is the tile code that each becomes."""
# The extents in annotations are symbols, which linters take for forward references.
# What ruff would write otherwise is what is tried here.
# ruff: noqa: F821, F841, F842, B007, RUF005, SIM108, SIM222, SIM223
# pyright: reportUndefinedVariable=false, reportUnusedVariable=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Callable
from typing import Any

import tilec
from tilec import tile

BLOCK = 64


def index_arithmetic(D: tile.View["M", "N"]):
    """
    tile.kernel @index_arithmetic(%D: !tile.view<MxNxf16>) {
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %c3 = arith.constant 3 : index
      %c4 = arith.constant 4 : index
      %c5 = arith.constant 5 : index
      tile.grid (%m, %n) over %D step (64, 64) {
        %a = tile.alloc : !tile.smem<64x64xf16, swizzle = 128>
        %third = arith.divui %m, %c3 : index
        %rest = arith.remui %n, %c5 : index
        %twice = arith.muli %rest, %c2 : index
        %sum = arith.addi %third, %twice : index
        %x = arith.subi %sum, %c1 : index
        %left = arith.shli %x, %c1 : index
        %right = arith.shrui %n, %c2 : index
        %and = arith.andi %left, %right : index
        %xor = arith.xori %c4, %n : index
        %y = arith.ori %and, %xor : index
        %small = arith.minui %m, %n : index
        %least = arith.minui %small, %c4 : index
        %up = arith.ceildivui %least, %c3 : index
        %larger = arith.cmpi ugt, %m, %c4 : index
        %most = arith.select %larger, %m, %c4 : index
        %z = arith.addi %up, %most : index
        %all = arith.addi %z, %x : index
        tile.copy_async %a to %D[%y, %all] dispatch threads
      }
    }
    """
    for m, n in tile.grid(D, step=(BLOCK, BLOCK)):
        a = tile.smem(BLOCK, BLOCK, D.dtype, swizzle=128)
        x = m // 3 + n % 5 * 2 - 1
        y = x << 1 & n >> 2 | 4 ^ n
        z = tile.cdiv(min(m, n, 4), 3)
        z += max(m, 4)
        tile.copy_async(a, D[y, z + x], dispatch="threads")


def conditions(D: tile.View["M", "N"]):
    """
    tile.kernel @conditions(%D: !tile.view<MxNxf16>) {
      %true = arith.constant true
      %c0 = arith.constant 0 : index
      %c3 = arith.constant 3 : index
      %c4 = arith.constant 4 : index
      tile.grid (%m, %n) over %D step (64, 64) {
        %a = tile.alloc : !tile.smem<64x64xf16, swizzle = 128>
        %low = arith.cmpi ule, %c0, %m : index
        %M = tile.dim %D, 0
        %high = arith.cmpi ult, %m, %M : index
        %between = arith.andi %low, %high : i1
        %is = arith.cmpi eq, %n, %c3 : index
        %not = arith.cmpi ne, %m, %n : index
        %or = arith.ori %is, %not : i1
        %neither = arith.xori %or, %true : i1
        %both = arith.andi %between, %neither : i1
        %above = arith.cmpi uge, %m, %n : index
        %xor = arith.xori %both, %above : i1
        %x = arith.select %xor, %m, %c4 : index
        %more = arith.cmpi ugt, %m, %n : index
        %y = arith.select %more, %c3, %n : index
        tile.copy_async %a to %D[%x, %y] dispatch threads
      }
    }
    """
    for m, n in tile.grid(D, step=(64, 64)):
        a = tile.smem(64, 64, D.dtype, swizzle=128)
        inside = 0 <= m < D.shape[0] and True and not (n == 3 or m != n or False)
        x = m if inside ^ (m >= n) else 4
        y = 3 if m > n else n
        tile.copy_async(a, D[x, y], dispatch="threads")


def carried(D: tile.View["M", "N"]):
    """
    tile.kernel @carried(%D: !tile.view<MxNxf16>) {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c3 = arith.constant 3 : index
      %c64 = arith.constant 64 : index
      %zero = arith.constant 0 : i32
      %one = arith.constant 1 : i32
      %false = arith.constant false
      %true = arith.constant true
      tile.grid (%m, %n) over %D step (64, 64) {
        %a = tile.alloc : !tile.smem<64x64xf16, swizzle = 128>
        %N = tile.dim %D, 1
        %r:3 = scf.for %k = %c0 to %N step %c64 iter_args(%stage = %c0, %phase = %zero, %wrapped = %false) -> (index, i32, i1) {
          %next = arith.addi %stage, %c1 : index
          %new = arith.remui %next, %c3 : index
          %around = arith.cmpi eq, %new, %c0 : index
          %if:2 = scf.if %around -> (i32, i1) {
            %flipped = arith.xori %phase, %one : i32
            scf.yield %flipped, %true : i32, i1
          } else {
            scf.yield %phase, %wrapped : i32, i1
          }
          scf.yield %new, %if#0, %if#1 : index, i32, i1
        }
        %odd = arith.cmpi eq, %r#1, %one : i32
        %used = arith.ori %odd, %r#2 : i1
        scf.if %used {
          tile.copy_async %a to %D[%m, %r#0] dispatch threads
        }
      }
    }
    """
    for m, n in tile.grid(D, step=(64, 64)):
        a = tile.smem(64, 64, D.dtype, swizzle=128)
        stage = 0
        phase = tile.i32(0)
        wrapped = False
        unused = 5
        for k in tile.loop(0, D.shape[1], 64):
            stage = (stage + 1) % 3
            if stage == 0:
                phase ^= 1
                wrapped = True
            unused = 6
        if phase == 1 or wrapped:
            tile.copy_async(a, D[m, stage], dispatch="threads")


def while_true_enough(D: tile.View["M", "N"]):
    """
    tile.kernel @while_true_enough(%D: !tile.view<MxNxf16>) {
      %c1 = arith.constant 1 : index
      %c5 = arith.constant 5 : index
      tile.grid (%m, %n) over %D step (64, 64) {
        %a = tile.alloc : !tile.smem<64x64xf16, swizzle = 128>
        %end = scf.while (%turn = %c1) : (index) -> index {
          %more = arith.cmpi ult, %turn, %n : index
          scf.condition(%more) %turn : index
        } do {
        ^bb0(%turn: index):
          %next = arith.addi %turn, %turn : index
          tile.copy_async %a to %D[%m, %next] dispatch threads
          scf.yield %next : index
        }
        scf.for %i = %end to %n step %c5 {
          tile.copy_async %a to %D[%m, %i] dispatch threads
        }
      }
    }
    """
    for m, n in tile.grid(D, step=(64, 64)):
        a = tile.smem(64, 64, D.dtype, swizzle=128)
        turn = 1
        while turn < n:
            turn = turn + turn
            tile.copy_async(a, D[m, turn], dispatch="threads")
        for i in range(turn, n, 5):
            tile.copy_async(a, D[m, i], dispatch="threads")


def branches(D: tile.View["M", "N"]):
    """
    tile.kernel @branches(%D: !tile.view<MxNxf32>) {
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %c3 = arith.constant 3 : index
      tile.grid (%m, %n) over %D step (64, 64) {
        %a = tile.alloc : !tile.smem<64x64xf32, swizzle = 128>
        %r = tile.load %a : !tile.reg<64x64xf32>
        %less = arith.cmpi ult, %m, %n : index
        %if:2 = scf.if %less -> (index, !tile.reg<64x64xf32>) {
          %twice = tile.add %r, %r
          scf.yield %c1, %twice : index, !tile.reg<64x64xf32>
        } else {
          %equal = arith.cmpi eq, %m, %n : index
          %inner = scf.if %equal -> (index) {
            scf.yield %c2 : index
          } else {
            scf.yield %c3 : index
          }
          scf.yield %inner, %r : index, !tile.reg<64x64xf32>
        }
        tile.store %if#1 to %a
        tile.copy_async %a to %D[%m, %if#0] dispatch threads
      }
    }
    """
    for m, n in tile.grid(D, step=(64, 64)):
        a = tile.smem(64, 64, D.dtype, swizzle=128)
        r = tile.load(a)
        if m < n:
            x = 1
            r = r + r
            same = 64
            mine = m
        elif m == n:
            x = 2
            same = 64
        else:
            x = 3
            same = 64
        assert same == 64
        tile.store(r, a)
        tile.copy_async(a, D[m, x], dispatch="threads")


def written_out(D: tile.View["M", "N"]):
    """
    tile.kernel @written_out(%D: !tile.view<MxNxf16>) {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c4 = arith.constant 4 : index
      %c5 = arith.constant 5 : index
      %c7 = arith.constant 7 : index
      %c16 = arith.constant 16 : index
      %c64 = arith.constant 64 : index
      tile.grid (%m, %n) over %D step (64, 64) {
        %a = tile.alloc : !tile.smem<64x64xf16>
        %b = tile.alloc : !tile.smem<64x32xf16>
        tile.copy %a to %D[%m, %c0]
        tile.copy %b to %D[%m, %c64]
        tile.copy %a to %D[%m, %c5]
        tile.copy %a to %D[%c1, %c7]
        tile.copy %a to %D[%c16, %n]
        tile.copy %a to %D[%c4, %n]
      }
    }
    """
    for m, n in tile.grid(D, step=(64, 64)):
        a = tile.smem(64, 64, D.dtype)
        b = tile.smem(64, 32, D.dtype)
        for i, part in enumerate((a, b)):
            tile.copy(part, D[m, 64 * i])
        for i, (j, k) in zip((m, 1), ((2, 3), (3, 4)), strict=True):
            tile.copy(a, D[i, j + k])
        size = 16
        while size > 1:
            tile.copy(a, D[size, n])
            size //= 4
        for _ in range(3, 0):
            tile.copy(a, D[0, 0])


def carried_by_range(A: tile.View["M", "K"], D: tile.View["M", 64]):
    """
    tile.kernel @carried_by_range(%A: !tile.view<MxKxf32>, %D: !tile.view<Mx64xf32>) {
      tile.grid (%m, %n) over %D step (64, 64) {
        %a = tile.alloc : !tile.smem<64x64xf32>
        %zeros = tile.splat 0.0 : !tile.reg<64x64xf32>
        %sum = tile.for %k over %A dim 1 step 64 iter_args(%before = %zeros) {
          tile.copy %A[%m, %k] to %a
          %r = tile.load %a : !tile.reg<64x64xf32>
          %after = tile.add %before, %r
          tile.yield %after : !tile.reg<64x64xf32>
        }
        tile.copy %sum to %D[%m, %n]
      }
    }
    """
    for m, n in tile.grid(D, step=(64, 64)):
        a = tile.smem(64, 64, A.dtype)
        total = tile.zeros(64, 64, A.dtype)
        for k in tile.range(A, dim=1, step=64):
            tile.copy(A[m, k], a)
            total += tile.load(a)
        tile.copy(total, D[m, n])


def double(value, times=1):
    """Twice the value, so many times."""
    for _ in range(times):
        value = value + value
    return value


@tilec.jit
def load_pair(A, m, *, columns=(0, 64)):
    assert A.ndim == 2
    if len(columns) == 2:
        tiles = tile.smem(64, 64, A.dtype), tile.smem(64, 64, A.dtype)
        tile.copy(A[m, columns[0]], tiles[0])
        tile.copy(A[m, columns[1]], tiles[1])
        return tiles
    return None


def stored(a, D, m, n):
    tile.copy(a, D[m, n])


def helpers(A: tile.View["M", "K"], D: tile.View["M", "K"]):
    """
    tile.kernel @helpers(%A: !tile.view<MxKxf16>, %D: !tile.view<MxKxf16>) {
      %c0 = arith.constant 0 : index
      %c8 = arith.constant 8 : index
      %c64 = arith.constant 64 : index
      tile.grid (%m, %n) over %D step (16, 16) {
        %a = tile.alloc : !tile.smem<64x64xf16>
        %b = tile.alloc : !tile.smem<64x64xf16>
        tile.copy %A[%m, %c0] to %a
        tile.copy %A[%m, %c64] to %b
        %n2 = arith.addi %n, %n : index
        tile.copy %a to %D[%m, %n2]
        %m2 = arith.addi %m, %m : index
        %m4 = arith.addi %m2, %m2 : index
        tile.copy %b to %D[%m4, %c8]
      }
    }
    """
    size = double(2, times=3)
    for m, n in tile.grid(D, step=(size, double(double(4)))):
        a, b = load_pair(A, m)
        stored(a, D, m, double(n))
        stored(b, n=double(1, 3), D=D, m=double(m, times=2))


def compile_time(A: tile.View["M", BLOCK, tile.f16], D: "tile.View['M', 64]"):
    """
    tile.kernel @compile_time(%A: !tile.view<Mx64xf16>, %D: !tile.view<Mx64xf16>) {
      tile.grid (%m, %n) over %D step (64, 64) {
        %a = tile.alloc : !tile.smem<64x64xf16>
        tile.copy %A[%m, %n] to %a
        tile.copy %a to %D[%m, %n]
      }
    }
    """
    ...
    "a remark"
    pass
    x = y = (1, 2)
    (a, b), c = x, y
    z: int = a
    later: int
    assert (a, b, c[1], z) == (1, 2, 2, 1)
    assert x[-1] == 2 and x[0:1] == (1,) and 1 in x and 3 not in x and (1, 2) + (3,) == (1, 2, 3)
    assert None is None and x is not None
    assert divmod(7, 2) == (3, 1) and abs(-3) == 3 and sum(x) == 3 and len(x) == 2 and max(x) == 2 and min(3, 2) == 2
    assert (7 / 2 == 3.5 and 2**3 == 8 and -7 // 2 == -4) and (-7 % 3 == 2 and ~5 == -6 and 5 ^ 3 == 6)
    assert 1 << 4 == 16 and 17 >> 4 == 1 and 6 & 3 == 2 and 6 | 1 == 7 and +x[0] == 1
    assert (3 if BLOCK > 2 else undefined) == 3
    assert float(3) == 3.0 and int(2.5) == 2 and bool(3) and round(2.6) == 3
    assert tile.cdiv(100, 16) == 7 and tuple(range(3)) == (0, 1, 2) and tuple(reversed(x)) == (2, 1)
    assert 1 < 2 < 3 and not 1 < 3 < 2 and "a" == "a" and (True or undefined) and not (False and undefined)
    assert A.dtype == tile.f16 == "f16" and A.dtype != tile.f32 and A.dtype.itemsize == 2 and A.dtype.bits == 16
    assert A.shape[1] == 64 and A.ndim == 2 and len(A.shape) == 2, f"{A.dtype} is {BLOCK}"
    if a == 2:
        undefined()
    elif a == 1 and b:
        for m, n in tile.grid(D, step=(BLOCK, 64)):
            a = tile.smem(BLOCK, BLOCK, A.dtype)
            tile.copy(A[m, n], a)
            tile.copy(a, D[m, n])
        return
    undefined()


def of_constants(
    A: tile.View["M", "BN"], BM: tilec.constexpr, dtype: tilec.constexpr, *, scale: float = 2, wide: bool = False
):
    D = tile.empty("M", "BN", dtype=dtype)
    if wide:
        BM *= 2
    for m, n in tile.grid(D, step=(BM, 64)):
        a = tile.smem(BM, 64, A.dtype)
        tile.copy(A[m, n], a)
        tile.copy((tile.load(a) * scale).to(dtype), D[m, n])
    return (D,)


def with_closure(rows: int, offset: tuple[int, int]) -> Callable[..., Any]:
    def inner(A: tile.View["M", "K"]):
        D = tile.empty("M", "K", dtype=A.dtype)
        for m, k in tile.grid(D, step=(rows, offset[1])):
            pass
        return D

    return inner


def output_like(view):
    made = tile.empty(view.shape[0], view.shape[1], dtype=view.dtype)
    return made


def of_many_outputs(A: tile.View["M", "K"]):
    first = output_like(A)
    second = output_like(A)
    A = tile.empty("M", "K", dtype=A.dtype)
    return tile.empty("M", "K", dtype=A.dtype), first, second, A


def next_stage(stage, stages=4):
    return (stage + stages - 1) % stages


def reversed_tiles(A: tile.View["M", "K", tile.f32], D: tile.View["M", "K", tile.f32]):
    """Tiles of 16 columns change their order in every other row of tiles, within each 64 columns."""
    for m, left in tile.grid(A, step=(16, 64)):
        a = tile.smem(16, 16, A.dtype)
        stage = 0
        k = left
        while k < min(left + 64, A.shape[1]):
            tile.copy_async(A[m, k], a, dispatch="threads")
            tile.cta_sync()
            stage = next_stage(stage)
            if m // 16 & 1 == 0 and not stage >= 4:
                column = left + stage * 16
            else:
                column = k
            tile.copy_async(a, D[m, column], dispatch="threads")
            tile.cta_sync()
            k += 16


def _moved(A, a, turn):
    tile.copy(A[0, 64 * turn], a)
    return turn < 2


def copies_in_a_condition(A: tile.View["M", "K"], D: tile.View["M", "K"]):
    for m, n in tile.grid(D, step=(64, 64)):
        a = tile.smem(64, 64, A.dtype)
        turn = 0
        while _moved(A, a, turn):
            turn += 1
        tile.copy(a, D[m, n])


def of_other_letters(É: tile.View["M", "K"]):
    größe = tile.empty("M", "K", dtype=É.dtype)
    for é, ü in tile.grid(größe, step=(64, 64)):
        ß = tile.smem(64, 64, É.dtype)
        π = 0
        for _ä in tile.range(É, dim=1, step=64):
            π = π + 64
        μ = π - 64
        tile.copy(É[é, μ], ß)
        tile.copy(ß, größe[é, ü])
    return größe


def sets_nothing(A: tile.View["M", "K"], D: tile.View["M", "K"]):
    at = 64
    for m, n in tile.grid(D, step=(64, 64)):
        a = tile.smem(64, 64, A.dtype)
        tile.copy(A[m, at], a)
        for _k in tile.range(A, dim=1, step=64):
            if A.ndim == 1:
                at = 0
        tile.copy(a, D[m, n])
        tile.copy(A[m, at], a)


def compares_types(D: tile.View["M", "K"]):
    number = 64 if (D.dtype, 1) in (("f16", 1), ("bf16", 2)) and (D.dtype,) == ("f16",) != ("f16", 2) else 32
    tile.copy(tile.splat(number, 64, 64, D.dtype), D[0, 0])


def splats(D: tile.View[4, 8, tile.f32], *, number: float, dtype: tilec.constexpr):
    tile.copy(tile.splat(number, 4, 8, dtype).to(tile.f32), D[0, 0])


def sets_nothing_by_one_thread(A: tile.View["M", "K"]):
    D = tile.empty("M", "K", dtype=A.dtype)
    at = 64
    with tile.single_thread():
        if A.ndim == 1:
            at = 0
    for m, n in tile.grid(D, step=(at, at)):
        a = tile.smem(64, 64, A.dtype)
        tile.copy_async(A[m, n], a, dispatch="threads")
        tile.copy_async(a, D[m, n], dispatch="threads")
    return D


def _column(n, last):
    if n < 128:
        column = n + 64
    else:
        column = last
    return column


def branches_behind_a_condition(A: tile.View["M", "K"], D: tile.View["M", "K"]):
    for m, n in tile.grid(D, step=(64, 64)):
        a = tile.smem(64, 64, A.dtype)
        at = _column(n, 128) if n > 0 else n
        tile.copy_async(A[m, at], a, dispatch="threads")
        tile.cta_sync()
        tile.copy_async(a, D[m, n], dispatch="threads")
        tile.cta_sync()
