"""Synchronous tile programs of many shapes, for tests that passes keep their meaning."""

from __future__ import annotations

from dataclasses import dataclass

from gemm_text import gemm


@dataclass(frozen=True)
class Program:
    """A kernel in text; its views name the extents M, N, K (a digit where fixed), and the last `outputs` are written."""

    name: str
    text: str
    outputs: int = 1


def gemm_program(
    name: str,
    m: int = 64,
    n: int = 32,
    k: int = 16,
    *,
    dtype: str = "f16",
    out: str = "f16",
    a: str = "",
    b: str = "",
    d: str = "",
) -> Program:
    return Program(name, gemm(m, n, k, dtype=dtype, out=out, a=a, b=b, d=d))


_MN_MAJOR = ", order = [0, 1]"


GEMMS = [
    gemm_program("gemm"),
    gemm_program("two-chunks-f32", n=64, k=32, out="f32"),
    gemm_program("three-chunks-odd-swizzle", n=96, k=48, out="f32"),
    gemm_program("narrow", m=128, n=48),
    gemm_program("a-mn-major", a=_MN_MAJOR),
    gemm_program("b-and-d-mn-major", n=128, out="f32", b=_MN_MAJOR, d=_MN_MAJOR),
    gemm_program("a-misaligned", a=", align = 2"),
    gemm_program("d-tail-free", n=128, d=", tail = free"),
    gemm_program("d-column-major-tail-free", n=128, d=_MN_MAJOR + ", tail = free"),
    gemm_program("bf16", n=40, k=32, dtype="bf16", out="bf16"),
]

_HEAD = """
tile.kernel @f(%A: !tile.view<MxKxf16>, %B: !tile.view<NxKxf16>, %C: !tile.view<Nxf32>, %D: !tile.view<MxNxf32>) {
  tile.grid (%m, %n) over %D step (64, 32) {
    %a = tile.alloc : !tile.smem<64x16xf16>
    %b = tile.alloc : !tile.smem<32x16xf16>
    %acc = tile.alloc : !tile.acc<64x32xf32>
    %bias = tile.alloc : !tile.smem<32xf32>
"""
_ADD_BIAS = """
    %row = tile.load %bias : !tile.reg<32xf32>
    %rows = tile.broadcast %row : !tile.reg<64x32xf32>
    %sum = tile.load %acc : !tile.reg<64x32xf32>
    %out = tile.add %sum, %rows
    tile.copy %out to %D[%m, %n]
  }
}"""

BIAS_BEFORE = Program(
    "bias-before-the-loop",
    _HEAD
    + """
    tile.copy %C[%n] to %bias
    tile.for %k over %A dim 1 step 16 {
      tile.copy %A[%m, %k] to %a
      tile.copy %B[%n, %k] to %b
      tile.mma %acc, %a, %b
    }"""
    + _ADD_BIAS,
)
BIAS_AFTER = Program(
    "bias-after-the-loop",
    _HEAD
    + """
    tile.for %k over %A dim 1 step 16 {
      tile.copy %A[%m, %k] to %a
      tile.copy %B[%n, %k] to %b
      tile.mma %acc, %a, %b
    }
    tile.copy %C[%n] to %bias"""
    + _ADD_BIAS,
)
BIAS_INSIDE = Program(
    "bias-in-the-loop",
    """
tile.kernel @f(%A: !tile.view<MxKxf16>, %B: !tile.view<NxKxf16>, %C: !tile.view<Kxf16>, %D: !tile.view<MxNxf32>,
               %E: !tile.view<MxNxf16>) {
  tile.grid (%m, %n) over %D step (64, 16) {
    %a = tile.alloc : !tile.smem<64x16xf16>
    %b = tile.alloc : !tile.smem<16x16xf16>
    %acc = tile.alloc : !tile.acc<64x16xf32>
    %c = tile.alloc : !tile.smem<16xf16>
    %zero = tile.splat 0.0 : !tile.reg<16xf16>
    %total = tile.for %k over %A dim 1 step 16 iter_args(%x = %zero) {
      tile.copy %A[%m, %k] to %a
      tile.copy %B[%n, %k] to %b
      tile.copy %C[%k] to %c
      tile.mma %acc, %a, %b
      %row = tile.load %c : !tile.reg<16xf16>
      %y = tile.add %x, %row
      tile.yield %y : !tile.reg<16xf16>
    }
    tile.copy %acc to %D[%m, %n]
    %totals = tile.broadcast %total : !tile.reg<64x16xf16>
    tile.copy %totals to %E[%m, %n]
  }
}""",
    outputs=2,
)
TWO_MMAS = Program(
    "two-mmas-one-group",
    """
tile.kernel @f(%A: !tile.view<MxKxf16>, %B: !tile.view<NxKxf16>, %C: !tile.view<MxKxf16>, %E: !tile.view<NxKxf16>, %D: !tile.view<MxNxf32>) {
  tile.grid (%m, %n) over %D step (64, 32) {
    %a = tile.alloc : !tile.smem<64x16xf16>
    %b = tile.alloc : !tile.smem<32x16xf16>
    %c = tile.alloc : !tile.smem<64x16xf16>
    %e = tile.alloc : !tile.smem<32x16xf16>
    %acc = tile.alloc : !tile.acc<64x32xf32>
    tile.for %k over %A dim 1 step 16 {
      tile.copy %A[%m, %k] to %a
      tile.copy %B[%n, %k] to %b
      tile.copy %C[%m, %k] to %c
      tile.copy %E[%n, %k] to %e
      tile.mma %acc, %a, %b
      tile.mma %acc, %c, %e
    }
    tile.copy %acc to %D[%m, %n]
  }
}""",
)
ALTERNATING_MMAS = Program(
    "two-mmas-two-groups",
    TWO_MMAS.text.replace(
        """      tile.copy %C[%m, %k] to %c
      tile.copy %E[%n, %k] to %e
      tile.mma %acc, %a, %b
""",
        """      tile.mma %acc, %a, %b
      tile.copy %C[%m, %k] to %c
      tile.copy %E[%n, %k] to %e
""",
    ),
)
REUSED_TILES = Program(
    "two-fills-of-one-tile",
    """
tile.kernel @f(%A: !tile.view<MxKxf16>, %B: !tile.view<NxKxf16>, %C: !tile.view<MxKxf16>, %E: !tile.view<NxKxf16>, %D: !tile.view<MxNxf32>) {
  tile.grid (%m, %n) over %D step (64, 32) {
    %a = tile.alloc : !tile.smem<64x16xf16>
    %b = tile.alloc : !tile.smem<32x16xf16>
    %acc = tile.alloc : !tile.acc<64x32xf32>
    tile.for %k over %A dim 1 step 16 {
      tile.copy %A[%m, %k] to %a
      tile.copy %B[%n, %k] to %b
      tile.mma %acc, %a, %b
      tile.copy %C[%m, %k] to %a
      tile.copy %E[%n, %k] to %b
      tile.mma %acc, %a, %b
    }
    tile.copy %acc to %D[%m, %n]
  }
}""",
)
TWO_LOOPS = Program(
    "two-loops-one-pair-of-tiles",
    """
tile.kernel @f(%A: !tile.view<MxKxf16>, %B: !tile.view<NxKxf16>, %C: !tile.view<MxLxf16>, %E: !tile.view<NxLxf16>, %D: !tile.view<MxNxf32>) {
  tile.grid (%m, %n) over %D step (64, 32) {
    %a = tile.alloc : !tile.smem<64x16xf16>
    %b = tile.alloc : !tile.smem<32x16xf16>
    %acc = tile.alloc : !tile.acc<64x32xf32>
    tile.for %k over %A dim 1 step 16 {
      tile.copy %A[%m, %k] to %a
      tile.copy %B[%n, %k] to %b
      tile.mma %acc, %a, %b
    }
    tile.for %l over %C dim 1 step 16 {
      tile.copy %C[%m, %l] to %a
      tile.copy %E[%n, %l] to %b
      tile.mma %acc, %a, %b
    }
    tile.copy %acc to %D[%m, %n]
  }
}""",
)
TWO_OUTPUTS = Program(
    "two-accumulators-two-outputs",
    """
tile.kernel @f(%A: !tile.view<MxKxf16>, %B: !tile.view<NxKxf16>, %C: !tile.view<NxKxf16>, %D: !tile.view<MxNxf32>, %E: !tile.view<MxNxf16>) {
  tile.grid (%m, %n) over %D step (64, 96) {
    %a = tile.alloc : !tile.smem<64x16xf16>
    %b = tile.alloc : !tile.smem<96x16xf16>
    %c = tile.alloc : !tile.smem<96x16xf16>
    %acc = tile.alloc : !tile.acc<64x96xf32>
    %other = tile.alloc : !tile.acc<64x96xf32>
    tile.for %k over %A dim 1 step 16 {
      tile.copy %A[%m, %k] to %a
      tile.copy %B[%n, %k] to %b
      tile.copy %C[%n, %k] to %c
      tile.mma %acc, %a, %b
      tile.mma %other, %a, %c
    }
    tile.copy %acc to %D[%m, %n]
    tile.copy %other to %E[%m, %n]
  }
}""",
    outputs=2,
)
RUNNING_SUM = Program(
    "accumulator-read-in-the-loop",
    """
tile.kernel @f(%A: !tile.view<MxKxf16>, %B: !tile.view<NxKxf16>, %D: !tile.view<MxNxf32>) {
  tile.grid (%m, %n) over %D step (64, 32) {
    %a = tile.alloc : !tile.smem<64x16xf16>
    %b = tile.alloc : !tile.smem<32x16xf16>
    %acc = tile.alloc : !tile.acc<64x32xf32>
    %zero = tile.splat 0.0 : !tile.reg<64x32xf32>
    %most = tile.for %k over %A dim 1 step 16 iter_args(%x = %zero) {
      tile.copy %A[%m, %k] to %a
      tile.copy %B[%n, %k] to %b
      tile.mma %acc, %a, %b
      %r = tile.load %acc : !tile.reg<64x32xf32>
      %y = tile.max %x, %r
      tile.yield %y : !tile.reg<64x32xf32>
    }
    tile.copy %most to %D[%m, %n]
  }
}""",
)
READ_BEFORE_MMA = Program(
    "accumulator-read-before-the-mma",
    """
tile.kernel @f(%A: !tile.view<MxKxf16>, %B: !tile.view<NxKxf16>, %D: !tile.view<MxNxf32>) {
  tile.grid (%m, %n) over %D step (64, 32) {
    %a = tile.alloc : !tile.smem<64x16xf16>
    %b = tile.alloc : !tile.smem<32x16xf16>
    %acc = tile.alloc : !tile.acc<64x32xf32>
    %zero = tile.splat 0.0 : !tile.reg<64x32xf32>
    %most = tile.for %k over %A dim 1 step 16 iter_args(%x = %zero) {
      %r = tile.load %acc : !tile.reg<64x32xf32>
      tile.copy %A[%m, %k] to %a
      tile.copy %B[%n, %k] to %b
      tile.mma %acc, %a, %b
      %y = tile.sub %r, %x
      tile.yield %y : !tile.reg<64x32xf32>
    }
    tile.copy %most to %D[%m, %n]
  }
}""",
)
INNER_ACCUMULATOR = Program(
    "accumulator-in-an-outer-loop",
    """
tile.kernel @f(%A: !tile.view<MxKxf16>, %B: !tile.view<NxKxf16>, %C: !tile.view<128x8xf16>, %D: !tile.view<MxNxf32>) {
  tile.grid (%m, %n) over %D step (64, 32) {
    %zero = tile.splat 0.0 : !tile.reg<64x32xf32>
    %sum = tile.for %j over %C dim 0 step 64 iter_args(%x = %zero) {
      %a = tile.alloc : !tile.smem<64x16xf16>
      %b = tile.alloc : !tile.smem<32x16xf16>
      %acc = tile.alloc : !tile.acc<64x32xf32>
      tile.for %k over %A dim 1 step 16 {
        tile.copy %A[%m, %k] to %a
        tile.copy %B[%n, %k] to %b
        tile.mma %acc, %a, %b
      }
      %r = tile.load %acc : !tile.reg<64x32xf32>
      %y = tile.add %x, %r
      tile.yield %y : !tile.reg<64x32xf32>
    }
    tile.copy %sum to %D[%m, %n]
  }
}""",
)
STORE_IN_LOOP = Program(
    "store-in-an-outer-loop",
    """
tile.kernel @f(%A: !tile.view<MxKxf16>, %B: !tile.view<NxKxf16>, %D: !tile.view<MxNxf16>) {
  tile.grid (%m, %whole) over %D step (64, 65536) {
    %a = tile.alloc : !tile.smem<64x16xf16>
    %b = tile.alloc : !tile.smem<96x16xf16>
    tile.for %n over %D dim 1 step 96 {
      %acc = tile.alloc : !tile.acc<64x96xf32>
      tile.for %k over %A dim 1 step 16 {
        tile.copy %A[%m, %k] to %a
        tile.copy %B[%n, %k] to %b
        tile.mma %acc, %a, %b
      }
      tile.copy %acc to %D[%m, %n]
    }
  }
}""",
)
ROW_SUMS = Program(
    "carried-registers",
    """
tile.kernel @f(%A: !tile.view<MxKxf32>, %D: !tile.view<Mx32xf32>) {
  tile.grid (%m, %n) over %D step (64, 32) {
    %a = tile.alloc : !tile.smem<64x32xf32>
    %zero = tile.splat 0.0 : !tile.reg<64x32xf32>
    %sum = tile.for %k over %A dim 1 step 32 iter_args(%x = %zero) {
      tile.copy %A[%m, %k] to %a
      %r = tile.load %a : !tile.reg<64x32xf32>
      %y = tile.add %x, %r
      tile.yield %y : !tile.reg<64x32xf32>
    }
    tile.copy %sum to %D[%m, %n]
  }
}""",
)
COPY = Program(
    "copy",
    """
tile.kernel @f(%A: !tile.view<MxKxf16>, %D: !tile.view<MxKxf16>) {
  tile.grid (%m, %k) over %D step (64, 32) {
    %a = tile.alloc : !tile.smem<64x32xf16>
    tile.copy %A[%m, %k] to %a
    tile.copy %a to %D[%m, %k]
  }
}""",
)
COPY_LOOP = Program(
    "copy-in-a-loop",
    """
tile.kernel @f(%A: !tile.view<MxKxf16>, %D: !tile.view<MxKxf16>) {
  tile.grid (%m, %whole) over %D step (64, 65536) {
    %a = tile.alloc : !tile.smem<64x32xf16>
    tile.for %k over %D dim 1 step 32 {
      tile.copy %A[%m, %k] to %a
      tile.copy %a to %D[%m, %k]
    }
  }
}""",
)
TRANSPOSED_STORE = Program(
    "copy-to-another-order",
    """
tile.kernel @f(%A: !tile.view<MxKxf16>, %D: !tile.view<MxKxf16, order = [0, 1]>) {
  tile.grid (%m, %k) over %D step (64, 32) {
    %a = tile.alloc : !tile.smem<64x32xf16>
    tile.copy %A[%m, %k] to %a
    tile.copy %a to %D[%m, %k]
  }
}""",
)
READ_THEN_REFILL = Program(
    "read-then-refill",
    """
tile.kernel @f(%A: !tile.view<MxKxf32>, %D: !tile.view<Mx32xf32>) {
  tile.grid (%m, %n) over %D step (64, 32) {
    %a = tile.alloc : !tile.smem<64x32xf32>
    %zero = tile.splat 3.0 : !tile.reg<64x32xf32>
    tile.store %zero to %a
    %sum = tile.for %k over %A dim 1 step 32 iter_args(%x = %zero) {
      %r = tile.load %a : !tile.reg<64x32xf32>
      tile.copy %A[%m, %k] to %a
      %y = tile.sub %r, %x
      tile.yield %y : !tile.reg<64x32xf32>
    }
    tile.copy %sum to %D[%m, %n]
  }
}""",
)
READ_AFTER_LOOP = Program(
    "last-tile-read-after-the-loop",
    """
tile.kernel @f(%A: !tile.view<MxKxf32>, %D: !tile.view<Mx32xf32>) {
  tile.grid (%m, %n) over %D step (64, 32) {
    %a = tile.alloc : !tile.smem<64x32xf32>
    %zero = tile.splat 3.0 : !tile.reg<64x32xf32>
    tile.store %zero to %a
    tile.for %k over %A dim 1 step 32 {
      tile.copy %A[%m, %k] to %a
    }
    %r = tile.load %a : !tile.reg<64x32xf32>
    tile.copy %r to %D[%m, %n]
  }
}""",
)
VECTOR = Program(
    "rank-1",
    """
tile.kernel @f(%A: !tile.view<Mxf16>, %B: !tile.view<Mxf16>, %D: !tile.view<Mxf16>) {
  tile.grid (%m) over %D step (64) {
    %a = tile.alloc : !tile.smem<64xf16>
    %b = tile.alloc : !tile.smem<64xf16>
    tile.copy %A[%m] to %a
    tile.copy %B[%m] to %b
    %x = tile.load %a : !tile.reg<64xf16>
    %y = tile.load %b : !tile.reg<64xf16>
    %z = tile.add %x, %y
    tile.copy %z to %D[%m]
  }
}""",
)
NO_GRID = Program(
    "no-grid",
    """
tile.kernel @f(%A: !tile.view<MxKxf32>, %D: !tile.view<64x32xf32>) {
  %a = tile.alloc : !tile.smem<64x32xf32>
  %zero = tile.splat 0.0 : !tile.reg<64x32xf32>
  %c0 = arith.constant 0 : index
  %sum = tile.for %k over %A dim 1 step 32 iter_args(%x = %zero) {
    tile.copy %A[%c0, %k] to %a
    %r = tile.load %a : !tile.reg<64x32xf32>
    %y = tile.add %x, %r
    tile.yield %y : !tile.reg<64x32xf32>
  }
  tile.copy %sum to %D[%c0, %c0]
}""",
)
SCALED_OPERAND = Program(
    "operand-through-registers",
    """
tile.kernel @f(%A: !tile.view<MxKxf16>, %B: !tile.view<NxKxf16>, %D: !tile.view<MxNxf32>) {
  tile.grid (%m, %n) over %D step (64, 32) {
    %a = tile.alloc : !tile.smem<64x16xf16>
    %b = tile.alloc : !tile.smem<32x16xf16>
    %s = tile.alloc : !tile.smem<64x16xf16>
    %acc = tile.alloc : !tile.acc<64x32xf32>
    %two = tile.splat 2.0 : !tile.reg<64x16xf16>
    tile.for %k over %A dim 1 step 16 {
      tile.copy %A[%m, %k] to %a
      tile.copy %B[%n, %k] to %b
      %r = tile.load %a : !tile.reg<64x16xf16>
      %t = tile.mul %r, %two
      tile.store %t to %s
      tile.mma %acc, %s, %b
    }
    tile.copy %acc to %D[%m, %n]
  }
}""",
)
IN_PLACE = Program(
    "operand-scaled-in-place",
    """
tile.kernel @f(%A: !tile.view<MxKxf16>, %B: !tile.view<NxKxf16>, %D: !tile.view<MxNxf32>) {
  tile.grid (%m, %n) over %D step (64, 32) {
    %a = tile.alloc : !tile.smem<64x16xf16>
    %b = tile.alloc : !tile.smem<32x16xf16>
    %acc = tile.alloc : !tile.acc<64x32xf32>
    %two = tile.splat 2.0 : !tile.reg<64x16xf16>
    tile.for %k over %A dim 1 step 16 {
      tile.copy %A[%m, %k] to %a
      tile.copy %B[%n, %k] to %b
      tile.mma %acc, %a, %b
      %r = tile.load %a : !tile.reg<64x16xf16>
      %t = tile.mul %r, %two
      tile.store %t to %a
      tile.mma %acc, %a, %b
    }
    tile.copy %acc to %D[%m, %n]
  }
}""",
)
COMPUTED_INDEX = Program(
    "computed-index",
    """
tile.kernel @f(%A: !tile.view<MxKxf16>, %B: !tile.view<NxKxf16>, %D: !tile.view<MxNxf32>) {
  tile.grid (%m, %n) over %D step (64, 32) {
    %a = tile.alloc : !tile.smem<64x16xf16>
    %b = tile.alloc : !tile.smem<32x16xf16>
    %acc = tile.alloc : !tile.acc<64x32xf32>
    %half = arith.constant 16 : index
    tile.for %k over %A dim 1 step 32 {
      tile.copy %A[%m, %k] to %a
      tile.copy %B[%n, %k] to %b
      tile.mma %acc, %a, %b
      %k2 = arith.addi %k, %half : index
      tile.copy %A[%m, %k2] to %a
      tile.copy %B[%n, %k2] to %b
      tile.mma %acc, %a, %b
    }
    tile.copy %acc to %D[%m, %n]
  }
}""",
)
COMPUTED_INDEX_TILES = Program(
    "computed-index-own-tiles",
    """
tile.kernel @f(%A: !tile.view<MxKxf16>, %B: !tile.view<NxKxf16>, %D: !tile.view<MxNxf32>) {
  tile.grid (%m, %n) over %D step (64, 32) {
    %a = tile.alloc : !tile.smem<64x16xf16>
    %b = tile.alloc : !tile.smem<32x16xf16>
    %a2 = tile.alloc : !tile.smem<64x16xf16>
    %b2 = tile.alloc : !tile.smem<32x16xf16>
    %acc = tile.alloc : !tile.acc<64x32xf32>
    %half = arith.constant 16 : index
    tile.for %k over %A dim 1 step 32 {
      %k2 = arith.addi %k, %half : index
      tile.copy %A[%m, %k] to %a
      tile.copy %B[%n, %k] to %b
      tile.copy %A[%m, %k2] to %a2
      tile.copy %B[%n, %k2] to %b2
      tile.mma %acc, %a, %b
      tile.mma %acc, %a2, %b2
    }
    tile.copy %acc to %D[%m, %n]
  }
}""",
)
OUTER_TILE = Program(
    "tile-of-the-outer-loop",
    """
tile.kernel @f(%A: !tile.view<MxKxf16>, %B: !tile.view<NxKxf16>, %C: !tile.view<128x32xf32>, %D: !tile.view<MxNxf32>) {
  tile.grid (%m, %n) over %D step (64, 32) {
    %a = tile.alloc : !tile.smem<64x16xf16>
    %b = tile.alloc : !tile.smem<32x16xf16>
    %c = tile.alloc : !tile.smem<64x32xf32>
    %acc = tile.alloc : !tile.acc<64x32xf32>
    %zero = tile.splat 0.0 : !tile.reg<64x32xf32>
    %c0 = arith.constant 0 : index
    %sum = tile.for %j over %C dim 0 step 64 iter_args(%x = %zero) {
      tile.copy %C[%j, %c0] to %c
      tile.for %k over %A dim 1 step 16 {
        tile.copy %A[%m, %k] to %a
        tile.copy %B[%n, %k] to %b
        tile.mma %acc, %a, %b
      }
      %r = tile.load %acc : !tile.reg<64x32xf32>
      %s = tile.load %c : !tile.reg<64x32xf32>
      %t = tile.mul %r, %s
      %y = tile.add %x, %t
      tile.yield %y : !tile.reg<64x32xf32>
    }
    tile.copy %sum to %D[%m, %n]
  }
}""",
)
LAST_TILE_READ_OUTSIDE = Program(
    "last-tile-read-in-the-outer-loop",
    """
tile.kernel @f(%A: !tile.view<MxKxf32>, %C: !tile.view<128x8xf16>, %D: !tile.view<Mx32xf32>) {
  tile.grid (%m, %n) over %D step (64, 32) {
    %a = tile.alloc : !tile.smem<64x32xf32>
    %one = tile.splat 1.0 : !tile.reg<64x32xf32>
    tile.store %one to %a
    %sum = tile.for %j over %C dim 0 step 64 iter_args(%x = %one) {
      %u = tile.for %k over %A dim 1 step 32 iter_args(%v = %x) {
        tile.copy %A[%m, %k] to %a
        %r = tile.load %a : !tile.reg<64x32xf32>
        %w = tile.sub %r, %v
        tile.yield %w : !tile.reg<64x32xf32>
      }
      %s = tile.load %a : !tile.reg<64x32xf32>
      %y = tile.add %u, %s
      tile.yield %y : !tile.reg<64x32xf32>
    }
    tile.copy %sum to %D[%m, %n]
  }
}""",
)
UPDATE = Program(
    "output-updated",
    """
tile.kernel @f(%A: !tile.view<MxKxf16>, %B: !tile.view<NxKxf16>, %D: !tile.view<MxNxf32>) {
  tile.grid (%m, %n) over %D step (64, 32) {
    %a = tile.alloc : !tile.smem<64x16xf16>
    %b = tile.alloc : !tile.smem<32x16xf16>
    %c = tile.alloc : !tile.smem<64x32xf32>
    %acc = tile.alloc : !tile.acc<64x32xf32>
    tile.copy %D[%m, %n] to %c
    tile.for %k over %A dim 1 step 16 {
      tile.copy %A[%m, %k] to %a
      tile.copy %B[%n, %k] to %b
      tile.mma %acc, %a, %b
    }
    tile.copy %acc to %D[%m, %n]
    %old = tile.load %c : !tile.reg<64x32xf32>
    %new = tile.load %acc : !tile.reg<64x32xf32>
    %sum = tile.add %old, %new
    tile.copy %sum to %D[%m, %n]
  }
}""",
)
TWO_HALVES = Program(
    "two-halves-of-one-output",
    """
tile.kernel @f(%A: !tile.view<MxKxf16>, %B: !tile.view<NxKxf16>, %D: !tile.view<MxNxf32>) {
  tile.grid (%m, %n) over %D step (64, 64) {
    %a = tile.alloc : !tile.smem<64x16xf16>
    %b = tile.alloc : !tile.smem<32x16xf16>
    %c = tile.alloc : !tile.smem<32x16xf16>
    %acc = tile.alloc : !tile.acc<64x32xf32>
    %other = tile.alloc : !tile.acc<64x32xf32>
    %half = arith.constant 32 : index
    %right = arith.addi %n, %half : index
    tile.for %k over %A dim 1 step 16 {
      tile.copy %A[%m, %k] to %a
      tile.copy %B[%n, %k] to %b
      tile.copy %B[%right, %k] to %c
      tile.mma %acc, %a, %b
      tile.mma %other, %a, %c
    }
    tile.copy %acc to %D[%m, %n]
    tile.copy %other to %D[%m, %right]
  }
}""",
)
OVERWRITTEN = Program(
    "one-tile-over-another",
    """
tile.kernel @f(%A: !tile.view<MxNxf16>, %B: !tile.view<MxNxf16>, %D: !tile.view<MxNxf16>) {
  tile.grid (%m, %n) over %D step (64, 64) {
    %x = tile.alloc : !tile.smem<64x64xf16>
    %y = tile.alloc : !tile.smem<64x32xf16>
    tile.copy %A[%m, %n] to %x
    tile.copy %B[%m, %n] to %y
    tile.copy %x to %D[%m, %n]
    tile.copy %y to %D[%m, %n]
  }
}""",
)
OVERWRITTEN_RESULT = Program(
    "one-tile-over-a-result",
    """
tile.kernel @f(%A: !tile.view<MxKxf16>, %B: !tile.view<NxKxf16>, %C: !tile.view<MxNxf16>, %D: !tile.view<MxNxf16>) {
  tile.grid (%m, %n) over %D step (64, 32) {
    %a = tile.alloc : !tile.smem<64x16xf16>
    %b = tile.alloc : !tile.smem<32x16xf16>
    %c = tile.alloc : !tile.smem<64x16xf16>
    %acc = tile.alloc : !tile.acc<64x32xf32>
    tile.copy %C[%m, %n] to %c
    tile.for %k over %A dim 1 step 16 {
      tile.copy %A[%m, %k] to %a
      tile.copy %B[%n, %k] to %b
      tile.mma %acc, %a, %b
    }
    tile.copy %acc to %D[%m, %n]
    tile.copy %c to %D[%m, %n]
  }
}""",
)
OVERWRITTEN_IN_LOOP = Program(
    "tiles-over-each-other-in-a-loop",
    """
tile.kernel @f(%A: !tile.view<MxKxf16>, %C: !tile.view<MxNxf16>, %D: !tile.view<MxNxf16>) {
  tile.grid (%m, %n) over %D step (64, 64) {
    %a = tile.alloc : !tile.smem<64x16xf16>
    %b = tile.alloc : !tile.smem<64x32xf16>
    %c = tile.alloc : !tile.smem<64x64xf16>
    tile.copy %C[%m, %n] to %c
    tile.copy %c to %D[%m, %n]
    tile.for %k over %A dim 1 step 16 {
      tile.copy %A[%m, %k] to %a
      tile.copy %A[%m, %k] to %b
      tile.copy %b to %D[%m, %n]
      tile.copy %a to %D[%m, %n]
    }
    tile.copy %a to %D[%m, %n]
  }
}""",
)

PROGRAMS = [
    *GEMMS,
    BIAS_BEFORE,
    BIAS_AFTER,
    BIAS_INSIDE,
    TWO_MMAS,
    ALTERNATING_MMAS,
    REUSED_TILES,
    TWO_LOOPS,
    TWO_OUTPUTS,
    RUNNING_SUM,
    READ_BEFORE_MMA,
    INNER_ACCUMULATOR,
    STORE_IN_LOOP,
    ROW_SUMS,
    COPY,
    COPY_LOOP,
    TRANSPOSED_STORE,
    READ_THEN_REFILL,
    READ_AFTER_LOOP,
    VECTOR,
    NO_GRID,
    SCALED_OPERAND,
    IN_PLACE,
    COMPUTED_INDEX,
    COMPUTED_INDEX_TILES,
    OUTER_TILE,
    LAST_TILE_READ_OUTSIDE,
    UPDATE,
    TWO_HALVES,
    OVERWRITTEN,
    OVERWRITTEN_RESULT,
    OVERWRITTEN_IN_LOOP,
]
