"""Cases of nvcc's integer kernels: reductions, votes, scans, histograms, atomics, integer arithmetic."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .cases import Launch, Nvcc, Result, i32, integers

NVCC = Nvcc()
M32, M64 = (1 << 32) - 1, (1 << 64) - 1


def signed(value: int, bits: int = 32) -> int:
    """The two's complement reading of the low bits."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


@NVCC.case("reduce")
def block_sum(random: np.random.Generator) -> Launch:
    n, block = 900, 256
    x = integers(random, (n,), np.float32, -50, 50)
    out = np.full(5, np.nan, np.float32)
    padded = np.zeros(1024, np.float32)
    padded[:n] = x
    expected = np.append(padded.reshape(4, block).sum(1), np.float32(np.nan))
    return Launch([x, out, i32(n)], [Result(out, expected)], (4, 1, 1), (block, 1, 1))


def collectives(v: list[int]) -> list[list[int]]:
    """The 24 rows of warp_collectives."""
    lanes = range(32)
    s = [signed(a) for a in v]
    ballot = sum(1 << lane for lane in lanes if v[lane] & 1)
    xor = 0
    for a in v:
        xor ^= a
    both, either = M32, 0
    for a in v:
        both &= a | 0xFF
        either |= a & 0xF0F0
    wide = [a << 20 | lane for lane, a in enumerate(v)]
    evens = sum(1 << lane for lane in range(0, 32, 2) if v[lane] & 2)
    odds = sum(v[lane] for lane in range(1, 32, 2)) & M32
    threes = [lane for lane in lanes if v[lane] % 3 == 0]
    rows = [
        [sum(v) & M32] * 32,
        [min(v)] * 32,
        [max(v)] * 32,
        [min(s) & M32] * 32,
        [max(s) & M32] * 32,
        [both] * 32,
        [either] * 32,
        [xor] * 32,
        [ballot] * 32,
        [int(7 in v)] * 32,
        [int(7 not in v)] * 32,
        [sum(1 << other for other in lanes if v[other] % 5 == v[lane] % 5) for lane in lanes],
        [M32] * 32,
        [1] * 32,
        [v[lane * 7 % 32] for lane in lanes],
        [v[lane // 8 * 8 + (lane + 3) % 8] for lane in lanes],
        [v[lane - 5] if lane >= 5 else v[lane] for lane in lanes],
        [v[lane - 3] if lane % 16 >= 3 else v[lane] for lane in lanes],
        [v[lane + 6] if lane % 8 + 6 < 8 else v[lane] for lane in lanes],
        [v[lane ^ 12] for lane in lanes],
        [odds if lane % 2 else evens for lane in lanes],
        [len(threes) + 1000 * (lane in threes) for lane in lanes],
        [
            lane // 8 * 1000 + lane % 8 * 10 + any(v[other] % 11 == 0 for other in lanes if other // 8 == lane // 8)
            for lane in lanes
        ],
        [wide[min(lane + 1, 31)] >> 16 & M32 for lane in lanes],
    ]
    return rows


@NVCC.case("reduce")
def warp_collectives(random: np.random.Generator) -> Launch:
    x = random.integers(0, 1 << 32, 32).astype(np.uint32)
    x[9], x[20] = 7, 0x80000001
    out = np.zeros((24, 32), np.uint32)
    expected = np.array(collectives([int(a) for a in x]), dtype=np.uint32)
    return Launch([x, out], [Result(out, expected)])


@NVCC.case("reduce")
def apart_together(random: np.random.Generator) -> Launch:
    x = random.integers(0, 200, 32).astype(np.uint32)
    out = np.zeros(80, np.uint32)
    lane = np.arange(32)
    sent = np.where(lane < 16, x + 1, x * 3).astype(np.uint32)
    votes = sum(1 << i for i in range(32) if (x[i] > 100) == (i < 16))
    steps = 0
    for i in range(7):
        steps |= -(-int(x[i]) // (i + 1)) * (i + 1)
    expected = np.concatenate([sent[lane ^ 16] + (lane >= 16), np.full(32, votes ^ steps), np.ones(16)]).astype(
        np.uint32
    )
    return Launch([x, out], [Result(out, expected)])


@NVCC.case("reduce")
def exclusive_scan(random: np.random.Generator) -> Launch:
    n = 300
    x = integers(random, (n,), np.int32, -1000, 1000)
    out, total = np.zeros(n, np.int32), np.zeros(1, np.int32)
    sums = np.cumsum(x, dtype=np.int32)
    return Launch([x, out, total, i32(n)], [Result(out, sums - x), Result(total, sums[-1:])], block=(320, 1, 1))


@NVCC.case("reduce")
def last_block_sum(random: np.random.Generator) -> Launch:
    n, blocks, block = 500, 3, 64
    x = integers(random, (n,), np.int32, -1000, 1000)
    partial, ticket, out = np.zeros(blocks, np.int32), np.zeros(1, np.uint32), np.zeros(1, np.int32)
    sums = np.array([x[np.arange(n) // block % blocks == b].sum() for b in range(blocks)], dtype=np.int32)
    results = [
        Result(partial, sums),
        Result(ticket, np.zeros(1, np.uint32)),
        Result(out, sums.sum(keepdims=True, dtype=np.int32)),
    ]
    return Launch([x, partial, ticket, out, i32(n)], results, (blocks, 1, 1), (block, 1, 1))


@NVCC.case("reduce")
def barrier_votes(random: np.random.Generator) -> Launch:
    x = integers(random, (128,), np.int32, -90, 90)
    out = np.zeros(128, np.int32)
    v = x.copy()
    v[64:] += 3 * x[:64]
    expected = v + 1000 * int((x > 0).sum()) + 1000000 + 4000000 * bool((v > 10).any())
    return Launch([x, out], [Result(out, expected.astype(np.int32))], block=(128, 1, 1))


@NVCC.case("histogram")
def histogram_shared(random: np.random.Generator) -> Launch:
    n = 1000
    data = random.integers(0, 256, n).astype(np.uint8)
    bins = random.integers(0, 100, 64).astype(np.uint32)
    expected = bins + np.bincount(data & 63, minlength=64).astype(np.uint32)
    return Launch([data, bins, i32(n)], [Result(bins, expected)], (2, 1, 1), (128, 1, 1))


@NVCC.case("histogram")
def histogram_weighted(random: np.random.Generator) -> Launch:
    n = 300
    where = integers(random, (n,), np.int32, 0, 10)
    weight = (integers(random, (n,), np.float32, -40, 40) / 4).astype(np.float32)
    f, d, u = np.ones(10, np.float32), np.zeros(10, np.float64), np.zeros(10, np.uint64)
    sums = np.bincount(where, weights=weight.astype(np.float64), minlength=10)
    counted = np.zeros(10, np.uint64)
    for i in range(n):
        counted[where[i]] += np.uint64(i << 30)
    results = [Result(f, (1 + sums).astype(np.float32)), Result(d, sums / 2), Result(u, counted)]
    return Launch([where, weight, f, d, u, i32(n)], results, (3, 1, 1), (128, 1, 1))


@NVCC.case("histogram")
def cas_maximum(random: np.random.Generator) -> Launch:
    x = random.standard_normal(200)
    out = np.array([-np.inf])
    return Launch([x, out, i32(200)], [Result(out, x.max(keepdims=True))], (2, 1, 1), (128, 1, 1))


@NVCC.case("histogram")
def cas_short(random: np.random.Generator) -> Launch:
    start = int(random.integers(0, 50))
    counter = np.array([start, 999], np.uint16)
    expected = np.array([min(start + 128, 100), 999], np.uint16)
    return Launch([counter, np.uint16(100)], [Result(counter, expected)], (2, 1, 1), (64, 1, 1))


def atomic32(op: int, w: int, v: int) -> int:
    """What operation number `op` of atomics_each leaves in a 32-bit word."""
    table: list[Callable[[], int]] = [
        lambda: w + v,
        lambda: w - v,
        lambda: v,
        lambda: min(w, v),
        lambda: max(w, v),
        lambda: min(signed(w), signed(v)),
        lambda: max(signed(w), signed(v)),
        lambda: 0 if w >= v else w + 1,
        lambda: v if w == 0 or w > v else w - 1,
        lambda: w & v,
        lambda: w | v,
        lambda: w ^ v,
        lambda: 77 if w == v else w,
        lambda: int((np.uint32(w).view(np.float32) + np.float32(1.5)).view(np.uint32)),
    ]
    return table[op]() & M32


def atomic64(op: int, w: int, z: int) -> int:
    """The same for its 64-bit words."""
    table: list[Callable[[], int]] = [
        lambda: w + z,
        lambda: z,
        lambda: min(w, z),
        lambda: max(w, z),
        lambda: min(signed(w, 64), signed(z, 64)),
        lambda: max(signed(w, 64), signed(z, 64)),
        lambda: w & z,
        lambda: w | z,
        lambda: w ^ z,
        lambda: 5 if w == z else w,
    ]
    return table[op]() & M64


@NVCC.case("histogram")
def atomics_each(random: np.random.Generator) -> Launch:
    x = random.integers(0, 1 << 32, 32).astype(np.uint32)
    words = random.integers(0, 1 << 32, (32, 14)).astype(np.uint32)
    words[::2, 12] = x[::2]
    words[:4, 7] = x[:4] - 1
    words[4:8, 8] = 0
    words[:, 13] = integers(random, (32,), np.float32, -100, 100).view(np.uint32)
    z = x.astype(np.uint64) << np.uint64(32) | (~x).astype(np.uint64)
    wide = random.integers(0, 1 << 64, (32, 10), dtype=np.uint64)
    wide[::3, 9] = z[::3]
    old, old_wide = np.zeros_like(words), np.zeros_like(wide)
    after = np.array([[atomic32(op, int(words[t, op]), int(x[t])) for op in range(14)] for t in range(32)], np.uint32)
    after64 = np.array([[atomic64(op, int(wide[t, op]), int(z[t])) for op in range(10)] for t in range(32)], np.uint64)
    results = [Result(words, after), Result(old, words.copy()), Result(wide, after64), Result(old_wide, wide.copy())]
    return Launch([words, old, wide, old_wide, x], results)


@NVCC.case("histogram")
def atomics_shared_words(random: np.random.Generator) -> Launch:
    x = random.integers(0, 1 << 32, 128).astype(np.uint32)
    words = np.zeros(32, np.uint32)
    words[2] = M32
    h, b, vec = np.zeros(2, np.float16), np.zeros(2, np.uint16), np.zeros(4, np.float32)
    values = [int(a) for a in x]
    expected = words.copy()
    total = sum(values) & M32
    expected[[0, 1, 3]] = total
    expected[2], expected[4], expected[5] = x.min(), 128, np.bitwise_or.reduce(x)
    squares = sum(a * a for a in values) & M64
    expected[6], expected[7] = squares & M32, squares >> 32
    for block in range(2):
        part = x[64 * block : 64 * block + 64]
        low = sum(int(a) for a in part) & M32
        expected[8 + 4 * block : 12 + 4 * block] = [
            low,
            np.bitwise_xor.reduce(part),
            part.max(),
            np.bitwise_or.reduce(part & 0x00FF00FF),
        ]
        expected[24 + block] = low
    results = [
        Result(words, expected),
        Result(h, np.array([128, 256], np.float16)),
        Result(b, np.array([0x4300, 0x4280], np.uint16)),  # 128 and 64
        Result(vec, np.array([128, 256, 384, (x & 15).sum()], np.float32)),
    ]
    return Launch([words, h, b, vec, x], results, (2, 1, 1), (64, 1, 1))


def quotient(a: int, b: int) -> int:
    """C's division: toward zero."""
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


@NVCC.case("integers")
def wide_division(random: np.random.Generator) -> Launch:
    n = 150
    a = random.integers(-(1 << 63), 1 << 63, n) >> random.integers(0, 60, n)
    b = random.integers(-(1 << 63), 1 << 63, n) >> random.integers(0, 62, n)
    b[b == 0], b[5] = 3, -1
    out = np.zeros((13, n), np.int64)
    rows = np.zeros((13, n), np.uint64)
    for i in range(n):
        x, y = int(a[i]), int(b[i])
        ux, uy, s = x & M64, y & M64, i & 63
        narrow_x, narrow_y = signed(x), signed(y | 1)
        column = [
            quotient(x, y),
            x - y * quotient(x, y),
            ux // uy,
            ux % uy,
            quotient(narrow_x, narrow_y),
            (x & M32) % ((y | 1) & M32),
            quotient(x, 1000007),
            x * y >> 64,
            ux * uy >> 64,
            x * y + 12345,
            x * y + x >> 40,
            x >> s,
            ux << s | ux >> (64 - s & 63),
        ]
        rows[:, i] = [value & M64 for value in column]
    return Launch([a, b, out, i32(n)], [Result(out, rows.view(np.int64))], (2, 1, 1), (96, 1, 1))


def bytes_of(value: int) -> list[int]:
    return [value >> 8 * i & 255 for i in range(4)]


def halves_of(value: int, sign: bool) -> list[int]:
    return [signed(value >> 16 * i, 16) if sign else value >> 16 * i & 0xFFFF for i in range(2)]


def packed(parts: list[int], bits: int) -> int:
    return sum((part & ((1 << bits) - 1)) << bits * i for i, part in enumerate(parts))


def field_of(value: int, position: int, length: int, sign: bool) -> int:
    """bfe: bits past the word read as its sign bit (signed) or zero."""
    if length == 0:
        return 0
    fill = value >> min(position + length - 1, 31) & 1 if sign else 0
    return sum((value >> position + i & 1 if i < length and position + i <= 31 else fill) << i for i in range(32))


def highest_bit(value: int) -> int:
    """bfind: the place of the highest set bit, or all ones."""
    return value.bit_length() - 1 & M32


def float_of(value: int, toward_zero: bool) -> float:
    """An integer as float32."""
    near = np.float32(value)  # NumPy goes through float64, which holds every 32-bit integer
    if toward_zero and abs(float(near)) > abs(value):
        near = np.nextafter(near, np.float32(0))
    return float(near)


def intrinsic_column(x: int, y: int, z: int) -> list[int]:
    """The rows of intrinsics for one element."""
    sx, sy, sz, w = signed(x), signed(y), signed(z), x << 32 | y
    reverse32, reverse64 = int(f"{x:032b}"[::-1], 2), int(f"{w:064b}"[::-1], 2)
    pool = bytes_of(x) + bytes_of(y)
    permuted = packed([pool[z >> 4 * i & 7] for i in range(4)], 8)
    both = y << 32 | x
    xb, yb = bytes_of(x), bytes_of(y)
    sxb, syb = [signed(a, 8) for a in xb], [signed(a, 8) for a in yb]
    low24 = signed(x, 24) * signed(y, 24)
    length = y >> 8 & 31
    inserted = ((1 << length) - 1) << (z & 31) & M32
    lut = [0xB4 >> i & 1 for i in range(8)]
    bits = [lut[(x >> i & 1) * 4 + (y >> i & 1) * 2 + (z >> i & 1)] for i in range(32)]
    borrow = int(x < y)
    lows = (x * y & M32) + z
    sxh, syh = halves_of(x, True), halves_of(y, True)
    rounded = int(np.rint(float_of(x, False)))
    toward = int(np.float32(float_of(sy, True)).view(np.uint32))
    extended = signed(x, y & 31) if y & 31 else 0
    return [
        x.bit_count(),
        32 - x.bit_length(),
        reverse32,
        (x & -x).bit_length(),
        w.bit_count(),
        64 - w.bit_length(),
        reverse64 >> 16,
        (w & -w).bit_length(),
        permuted,
        permuted,
        (both << (z & 31)) >> 32,
        both >> (z & 31),
        (both << min(z & 63, 32)) >> 32,
        both >> min(z & 63, 32),
        sum(a * b for a, b in zip(sxb, syb, strict=True)) + sz,
        sum(a * b for a, b in zip(xb, yb, strict=True)) + z,
        sxh[0] * syb[0] + sxh[1] * syb[1] + sz,
        (x & 0xFFFF) * yb[2] + (x >> 16) * yb[3] + z,
        abs(sx - sy) + z,
        abs(x - y) + z,
        low24,
        (x & 0xFFFFFF) * (y & 0xFFFFFF),
        sx * sy >> 32,
        x * y >> 32,
        sx + sy >> 1,
        x + y + 1 >> 1,
        field_of(x, y & 31, z & 31, False),
        field_of(x, y & 63, z & 63, True),
        (y & ~inserted) | (x << (z & 31) & inserted),
        highest_bit(x if sx >= 0 else ~x & M32),
        31 - (x.bit_length() - 1) if x else M32,
        sum(bit << i for i, bit in enumerate(bits)),
        extended,
        ((1 << min(z & 63, 32)) - 1) << min(y & 63, 32),
        z + (x + y >> 32),
        z - x - borrow,
        (x * y >> 32) + z + (lows >> 32),
        packed([a + b for a, b in zip(xb, yb, strict=True)], 8),
        packed([abs(a - b) for a, b in zip(xb, yb, strict=True)], 8),
        packed([max(a, b) for a, b in zip(sxh, syh, strict=True)], 16),
        packed([255 * (a > b) for a, b in zip(xb, yb, strict=True)], 8),
        min(max(sx, sy), sz),
        abs(sx),
        max(sx, sy, sz),
        max(signed(sx + sy), sz, 0),
        min(rounded, (1 << 31) - 1) ^ toward,
        xb[0] + syb[0] + signed(z, 16),
        x % 7 + y // 10,
        sx >> (z & 31),
        x << (z & 31),
    ]


@NVCC.case("integers")
def intrinsics(random: np.random.Generator) -> Launch:
    n = 150
    a, b, c = (random.integers(0, 1 << 32, n) >> random.integers(0, 32, n) for _ in range(3))
    a[:6], b[6:9], c[9:12] = [0, 1, M32, 1 << 31, 0x7FFFFFFF, 0x00800000], 0, [0, 31, 32]
    a, b, c = a.astype(np.uint32), b.astype(np.uint32), c.astype(np.uint32)
    columns = [intrinsic_column(int(a[i]), int(b[i]), int(c[i])) for i in range(n)]
    expected = np.array([[value & M32 for value in column] for column in columns], np.uint32).T.copy()
    out = np.zeros_like(expected)
    return Launch([a, b, c, out, i32(n)], [Result(out, expected)], (2, 1, 1), (96, 1, 1))
