"""Cases of nvcc's matrix products on tensor cores: wmma, mma.sync, wgmma, tcgen05."""

from __future__ import annotations

import numpy as np

from .cases import Array, Launch, Nvcc, Result, Tiled, i32, integers
from .formats import E4M3, E5M2, decode, to_bf16

NVCC = Nvcc()


@NVCC.case("wmma")
def wmma_f16(random: np.random.Generator) -> Launch:
    m, n, k = 32, 16, 48
    a, b, c = (
        integers(random, (m, k), np.float16),
        integers(random, (n, k), np.float16),
        integers(random, (m, n), np.float32),
    )
    expected = c + a.astype(np.float32) @ b.astype(np.float32).T
    return Launch([a, b, c, i32(n), i32(k)], [Result(c, expected)], (n // 16, m // 16, 1))


@NVCC.case("wmma")
def wmma_f16_tall(random: np.random.Generator) -> Launch:
    m, n, k = 64, 16, 32
    a, b, c = integers(random, (m, k), np.float16), integers(random, (k, n), np.float16), np.zeros((n, m), np.float16)
    expected = (a.astype(np.float32) @ b.astype(np.float32) / 2).T.astype(np.float16)
    return Launch([a, b, c, i32(m), i32(n), i32(k)], [Result(c, expected)], (n // 8, m // 32, 1))


@NVCC.case("wmma")
def wmma_bf16(random: np.random.Generator) -> Launch:
    m, n, k = 16, 32, 32
    a, b, c = integers(random, (m, k), np.float32), integers(random, (n, k), np.float32), np.zeros((m, n), np.float32)
    return Launch([to_bf16(a), to_bf16(b), c, i32(n), i32(k)], [Result(c, a @ b.T)], (n // 32, m // 8, 1))


@NVCC.case("wmma")
def wmma_tf32(random: np.random.Generator) -> Launch:
    m, n, k = 16, 32, 24
    a, b, c = integers(random, (m, k), np.float32), integers(random, (k, n), np.float32), np.zeros((m, n), np.float32)
    return Launch([a, b, c, i32(n), i32(k)], [Result(c, a @ b)], (n // 16, m // 16, 1))


@NVCC.case("wmma")
def wmma_s8(random: np.random.Generator) -> Launch:
    m, n, k = 32, 16, 48
    a, b = integers(random, (m, k), np.int8, -128, 128), integers(random, (n, k), np.int8, -128, 128)
    c = np.zeros((m, n), np.int32)
    expected = a.astype(np.int32) @ b.astype(np.int32).T
    return Launch([a, b, c, i32(n), i32(k)], [Result(c, expected)], (n // 16, m // 16, 1))


@NVCC.case("wmma")
def wmma_f64(random: np.random.Generator) -> Launch:
    m, n, k = 16, 8, 12
    a, b, c = integers(random, (m, k), np.float64), integers(random, (n, k), np.float64), np.zeros((m, n), np.float64)
    return Launch([a, b, c, i32(n), i32(k)], [Result(c, a @ b.T)], (n // 8, m // 8, 1))


@NVCC.case("mma")
def mma_f16(random: np.random.Generator) -> Launch:
    m, n, k = 32, 32, 48
    a, b, c = integers(random, (m, k), np.float16), integers(random, (k, n), np.float16), np.zeros((m, n), np.float32)
    expected = a.astype(np.float32) @ b.astype(np.float32)
    return Launch([a, b, c, i32(n), i32(k)], [Result(c, expected)], (n // 16, m // 16, 1))


@NVCC.case("mma")
def mma_bf16_stmatrix(random: np.random.Generator) -> Launch:
    a, b = integers(random, (16, 16), np.float32), integers(random, (8, 16), np.float32)
    c, turned = np.zeros((16, 8), np.uint16), np.zeros((8, 16), np.uint16)
    product = to_bf16(a @ b.T + 1)
    return Launch([to_bf16(a), to_bf16(b), c, turned], [Result(c, product), Result(turned, product.T.copy())])


def fragment(registers: Array, per_register: int, rows: int) -> Array:
    """A 16 x K (rows = 2) or 8 x K (rows = 1) operand from its registers, [register, lane, element of the register].

    Lane l holds rows l/4 (+ 8 in odd registers if there are two row blocks) and, per register, `per_register` neighbouring
    columns from (l % 4) * per_register, each further (pair of) register 4 * per_register columns on.
    """
    count = registers.shape[0]
    out = np.zeros((8 * rows, count // rows * 4 * per_register), registers.dtype)
    for r, lane, e in np.ndindex(*registers.shape):
        column = lane % 4 * per_register + e + r // rows * 4 * per_register
        out[lane // 4 + 8 * (r % rows), column] = registers[r, lane, e]
    return out


def scattered(matrix: Array) -> Array:
    """A 16 x 8 result in fragment order: register r of lane l at [r, l]."""
    out = np.zeros((4, 32), matrix.dtype)
    for r, lane in np.ndindex(4, 32):
        out[r, lane] = matrix[lane // 4 + 8 * (r // 2), lane % 4 * 2 + r % 2]
    return out


@NVCC.case("mma")
def mma_kinds(random: np.random.Generator) -> Launch:
    a, b = (random.integers(0, 1 << 32, (count, 32)).astype(np.uint32) for count in (4, 2))
    da, db = integers(random, (2, 32), np.float64), integers(random, (32,), np.float64)
    out, dout = np.zeros((6, 4, 32), np.uint32), np.zeros((4, 32), np.float64)
    expected = np.zeros_like(out)

    chosen = ((1.0, 2.0), (1.0, -2.0), (3.0, 0.0), (0.5, 4.0))
    ta = np.stack([np.where(a[r] & 7, *chosen[r]) for r in range(4)])
    tb = np.stack([np.where(b[0] & 7, 1.0, 5.0), np.where(b[1] & 7, -1.0, 2.0)])
    tf32 = fragment(ta[..., None], 1, 2) @ fragment(tb[..., None], 1, 1).T
    expected[0] = scattered(tf32.astype(np.float32)).view(np.uint32)

    ba, bb = a.view(np.uint8).reshape(4, 32, 4), b.view(np.uint8).reshape(2, 32, 4)
    sa, sb = (fragment(part.view(np.int8).astype(np.int64), 4, rows) for part, rows in ((ba, 2), (bb, 1)))
    ua = fragment(ba.astype(np.int64), 4, 2)
    expected[1] = scattered((sa @ sb.T + 7).astype(np.int32)).view(np.uint32)
    saturated = np.minimum(ua @ sb.T + 2147483000, (1 << 31) - 1)
    expected[2] = scattered(saturated.astype(np.int32)).view(np.uint32)

    ea, eb = decode(ba & 0x87 | 0x38, E4M3), decode(bb & 0x83 | 0x3C, E5M2)
    fp8 = fragment(ea, 4, 2) @ fragment(eb, 4, 1).T
    expected[3] = scattered(fp8.astype(np.float32)).view(np.uint32)

    signs_a = np.where(a[:2, :, None] >> np.array([15, 31]) & 1, -1.0, 1.0) * np.array([1.0, 2.0])
    signs_b = np.where(b[:1, :, None] >> np.array([15, 31]) & 1, -1.0, 1.0)
    half = scattered((fragment(signs_a, 2, 2) @ fragment(signs_b, 2, 1).T + 1).astype(np.float16)).view(np.uint16)
    pairs = half.astype(np.uint32).reshape(2, 2, 32)
    expected[4, :2] = pairs[:, 0] | pairs[:, 1] << 16

    bits_a, bits_b = (words[..., None] >> np.arange(32, dtype=np.uint32) & 1 for words in (a, b))
    ones = fragment(bits_a.astype(np.int64), 32, 2) @ fragment(bits_b.astype(np.int64), 32, 1).T
    expected[5] = scattered(ones).astype(np.uint32)

    doubles = fragment(da[..., None], 1, 2) @ fragment(db[None, :, None], 1, 1).T + 0.5
    return Launch([a, b, da, db, out, dout], [Result(out, expected), Result(dout, scattered(doubles))])


@NVCC.case("wgmma", ("sm_90a",))
def wgmma_gemm(random: np.random.Generator) -> Launch:
    m, n, k = 128, 64, 144
    a, b, c = integers(random, (m, k), np.float16), integers(random, (n, k), np.float16), np.zeros((m, n), np.float32)
    arguments = [Tiled(a, (64, 64), "128B"), Tiled(b, (64, 64), "128B"), c, i32(n), i32(k)]
    expected = a.astype(np.float32) @ b.astype(np.float32).T
    return Launch(arguments, [Result(c, expected)], (n // 64, m // 64, 1), (160, 1, 1), dynamic_smem=32768)


@NVCC.case("tcgen05", ("sm_100a",))
def tcgen05_gemm(random: np.random.Generator) -> Launch:
    m, n, k = 128, 128, 144
    a, b, c = integers(random, (m, k), np.float32), integers(random, (n, k), np.float32), np.zeros((m, n), np.float32)
    arguments = [Tiled(to_bf16(a), (128, 64), "128B"), Tiled(to_bf16(b), (64, 64), "128B"), c, i32(n), i32(k)]
    return Launch(arguments, [Result(c, a @ b.T)], (n // 64, m // 128, 1), (128, 1, 1), dynamic_smem=49152)
