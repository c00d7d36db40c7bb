"""ldmatrix, stmatrix and movmatrix against a plain model of bytes (PTX 9.7.14.5.15 to 9.7.14.5.17)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from taken_forms import taken, vector
from warp_kernels import kernel

from tilec.backend.emulator.faults import EmulatorFault, FaultKind
from tilec.backend.emulator.launch import emulate

_BYTES = 2048
_SPACES = (".shared", ".shared::cta", "")


def _run(
    body: str, tile: NDArray[np.uint8], offsets: NDArray[np.int64], words: NDArray[np.uint32], target: str
) -> tuple[NDArray[np.uint8], NDArray[np.uint32]]:
    """Runs `body` with the tile in shared memory; each lane has its address in `at` (in `generic` for the generic space) and four
    words in v0 to v3. The tile and these words afterwards."""
    lines = f"""
.shared .align 16 .b8 tile[{_BYTES}];
.reg .b32 at, base32, v0, v1, v2, v3, i, x;
.reg .b64 generic, mine;
mov.u32 base32, tile;
ld.param.u64 base, [tile_in]; mad.wide.u32 base, tid, {_BYTES // 32}, base;
mad.lo.u32 at, tid, {_BYTES // 32}, base32;
"""
    for i in range(0, _BYTES // 32, 4):
        lines += f"ld.global.b32 x, [base+{i}]; st.shared.b32 [at+{i}], x;\n"
    lines += (
        "ld.param.u64 mine, [words]; mad.wide.u32 mine, tid, 16, mine;\nld.global.v4.b32 {v0, v1, v2, v3}, [mine];\n"
    )
    lines += "ld.param.u64 base, [offsets]; mad.wide.u32 base, tid, 4, base; ld.global.b32 at, [base]; add.u32 at, at, base32;\n"
    lines += "cvt.u64.u32 generic, at; cvta.shared.u64 generic, generic; bar.warp.sync 0xffffffff;\n"
    lines += body + "\nbar.warp.sync 0xffffffff;\nst.global.v4.b32 [mine], {v0, v1, v2, v3};\n"
    lines += f"ld.param.u64 base, [tile_in]; mad.wide.u32 base, tid, {_BYTES // 32}, base; mad.lo.u32 at, tid, {_BYTES // 32}, base32;\n"
    for i in range(0, _BYTES // 32, 4):
        lines += f"ld.shared.b32 x, [at+{i}]; st.global.b32 [base+{i}], x;\n"
    text = kernel(".param .u64 tile_in, .param .u64 words, .param .u64 offsets", lines, target)
    tile, words = tile.copy(), words.copy()
    emulate(text, "k", 1, 32, [tile, words, offsets.astype(np.uint32)])
    return tile, words


def _random(seed: int) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.uint32]]:
    """A tile of random bytes, 32 different rows of 16 bytes in it, and random words."""
    rng = np.random.default_rng(seed)
    rows = rng.permutation(_BYTES // 16)[:32] * 16
    return rng.integers(0, 256, _BYTES, np.uint8), rows, rng.integers(0, 2**32, (32, 4), dtype=np.uint32)


def _address(space: str) -> str:
    return "[at]" if space else "[generic]"


@pytest.mark.parametrize("trans", ["", ".trans"])
@pytest.mark.parametrize("number", [1, 2, 4])
@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), space=st.sampled_from(_SPACES))
def test_ldmatrix_of_16_bits(number: int, trans: str, seed: int, space: str) -> None:
    tile, rows, words = _random(seed)
    body = f"ldmatrix.sync.aligned.m8n8.x{number}{trans}{space}.b16 {{{', '.join(f'v{i}' for i in range(number))}}}, {_address(space)};"
    _, got = _run(body, tile, rows, words, "sm_90a")
    for matrix, lane in product(range(number), range(32)):
        halves: list[int] = []
        for e in range(2):
            row, column = lane // 4, 2 * (lane % 4) + e
            if trans:
                row, column = column, row
            at = int(rows[8 * matrix + row]) + 2 * column
            halves.append(int(tile[at]) | int(tile[at + 1]) << 8)
        assert got[lane, matrix] == halves[0] | halves[1] << 16, (matrix, lane)
    np.testing.assert_array_equal(got[:, number:], words[:, number:])


def _byte(tile: NDArray[np.uint8], row: int, column: int) -> int:
    return int(tile[row + column])


def _six(tile: NDArray[np.uint8], row: int, column: int) -> int:
    """Element of 6 bits; behind 16 of them come 32 bits of padding."""
    return int.from_bytes(tile[row : row + 12].tobytes(), "little") >> (6 * column) & 63


def _four(tile: NDArray[np.uint8], row: int, column: int) -> int:
    return int.from_bytes(tile[row : row + 8].tobytes(), "little") >> (4 * column) & 15


_SOURCES: dict[str, Callable[[NDArray[np.uint8], int, int], int]] = {
    "b8": _byte,
    "b8x16.b6x16_p32": _six,
    "b8x16.b4x16_p64": _four,
}


@pytest.mark.parametrize("source", _SOURCES)
@pytest.mark.parametrize("number", [1, 2])
@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), space=st.sampled_from(_SPACES))
def test_ldmatrix_of_16x16(number: int, source: str, seed: int, space: str) -> None:
    """Two registers a matrix: the rows of the transpose that are the lane's quarter's, and 8 below; four columns each."""
    tile, rows, words = _random(seed)
    registers = ", ".join(f"v{i}" for i in range(2 * number))
    body = f"ldmatrix.sync.aligned.m16n16.x{number}.trans{space}.{source} {{{registers}}}, {_address(space)};"
    _, got = _run(body, tile, rows, words, "sm_100a")
    for matrix, half, lane in product(range(number), range(2), range(32)):
        row = lane // 4 + 8 * half
        expected = 0
        for e in range(4):
            column = 4 * (lane % 4) + e
            # Memory holds the columns of what is loaded.
            expected |= _SOURCES[source](tile, int(rows[16 * matrix + column]), row) << 8 * e
        assert got[lane, 2 * matrix + half] == expected, (matrix, half, lane)


@pytest.mark.parametrize("source", ["b8x16.b6x16_p32", "b8x16.b4x16_p64"])
@pytest.mark.parametrize("number", [1, 2, 4])
@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), space=st.sampled_from(_SPACES))
def test_ldmatrix_of_8x16(number: int, source: str, seed: int, space: str) -> None:
    tile, rows, words = _random(seed)
    registers = ", ".join(f"v{i}" for i in range(number))
    body = f"ldmatrix.sync.aligned.m8n16.x{number}{space}.{source} {{{registers}}}, {_address(space)};"
    _, got = _run(body, tile, rows, words, "sm_100a")
    for matrix, lane in product(range(number), range(32)):
        row = int(rows[8 * matrix + lane // 4])
        expected = sum(_SOURCES[source](tile, row, 4 * (lane % 4) + e) << 8 * e for e in range(4))
        assert got[lane, matrix] == expected, (matrix, lane)


@pytest.mark.parametrize("trans", ["", ".trans"])
@pytest.mark.parametrize("number", [1, 2, 4])
@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), space=st.sampled_from(_SPACES))
def test_stmatrix_of_16_bits(number: int, trans: str, seed: int, space: str) -> None:
    tile, rows, words = _random(seed)
    body = f"stmatrix.sync.aligned.m8n8.x{number}{trans}{space}.b16 {_address(space)}, {{{', '.join(f'v{i}' for i in range(number))}}};"
    got, _ = _run(body, tile, rows, words, "sm_90a")
    expected = tile.copy()
    for matrix, lane, e in product(range(number), range(32), range(2)):
        row, column = lane // 4, 2 * (lane % 4) + e
        if trans:
            row, column = column, row
        at = int(rows[8 * matrix + row]) + 2 * column
        half = int(words[lane, matrix]) >> 16 * e & 0xFFFF
        expected[at], expected[at + 1] = half & 0xFF, half >> 8
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("number", [1, 2, 4])
@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), space=st.sampled_from(_SPACES))
def test_stmatrix_of_16x8_bytes(number: int, seed: int, space: str) -> None:
    """Memory gets the columns of a 16x8 matrix: lane t has rows 4 (t % 4) to 4 (t % 4) + 3 of column t / 4."""
    tile, rows, words = _random(seed)
    registers = ", ".join(f"v{i}" for i in range(number))
    body = f"stmatrix.sync.aligned.m16n8.x{number}.trans{space}.b8 {_address(space)}, {{{registers}}};"
    got, _ = _run(body, tile, rows, words, "sm_100a")
    expected = tile.copy()
    for matrix, lane, e in product(range(number), range(32), range(4)):
        expected[int(rows[8 * matrix + lane // 4]) + 4 * (lane % 4) + e] = int(words[lane, matrix]) >> 8 * e & 0xFF
    np.testing.assert_array_equal(got, expected)


def test_movmatrix_transposes() -> None:
    words = np.random.default_rng(5).integers(0, 2**32, (64, 1), dtype=np.uint32)
    load = ".reg .b32 s;\nld.param.u64 base, [in0]; mad.wide.u32 base, tid, 4, base; ld.global.b32 s, [base];"
    text = ".reg .b32 d;\n" + load + "\nmovmatrix.sync.aligned.m8n8.trans.b16 d, s;\nst.global.b32 [base], d;"
    given_words = words.copy()
    emulate(kernel(".param .u64 in0", text), "k", 1, 64, [given_words])
    for warp in range(2):
        before = words[32 * warp : 32 * warp + 32].view(np.uint16).reshape(8, 8)
        after = given_words[32 * warp : 32 * warp + 32].view(np.uint16).reshape(8, 8)
        np.testing.assert_array_equal(after, before.T)


def test_rows_must_be_aligned() -> None:
    tile, rows, words = _random(6)
    rows[3] += 8
    with pytest.raises(EmulatorFault) as raised:
        _run("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {v0}, [at];", tile, rows, words, "sm_90a")
    assert raised.value.kind is FaultKind.MISALIGNED
    # Of lanes that supply no row the address does not matter.
    _run("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {v0}, [at];", tile, np.roll(rows, 8), words, "sm_90a")


@pytest.mark.parametrize(
    "move",
    [
        "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {x}, [tile];",
        "stmatrix.sync.aligned.m8n8.x1.shared.b16 [tile], {x};",
        "movmatrix.sync.aligned.m8n8.trans.b16 x, x;",
    ],
)
def test_moves_need_the_whole_warp(move: str) -> None:
    body = f".shared .align 16 .b8 tile[512];\n.reg .b32 x;\nsetp.eq.u32 p, tid, 7;\n@p exit;\n{move}"
    with pytest.raises(EmulatorFault) as raised:
        emulate(kernel("", body), "k", 1, 32, [])
    assert raised.value.kind is FaultKind.DIVERGENT
    assert "needs all 32 threads of the warp, and some have exited" in str(raised.value)


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_forms(target: str) -> None:
    """What ptxas 13.0 takes, and no more."""
    narrow = ("b8x16.b6x16_p32", "b8x16.b4x16_p64")
    legal: set[tuple[str, str, int, str, str, int]] = set()
    for space in _SPACES:
        for number in (1, 2, 4):
            for opcode, trans in product(("ldmatrix", "stmatrix"), ("", ".trans")):
                legal.add((opcode, "m8n8", number, trans + space, "b16", number))
            if target == "sm_100a":
                legal.add(("stmatrix", "m16n8", number, ".trans" + space, "b8", number))
                legal |= {("ldmatrix", "m8n16", number, space, kind, number) for kind in narrow}
                if number < 4:
                    legal |= {("ldmatrix", "m16n16", number, ".trans" + space, k, 2 * number) for k in ("b8", *narrow)}
    texts: dict[str, tuple[str, str, int, str, str, int]] = {}
    for opcode, shape, number, trans, space, kind, registers in product(
        ("ldmatrix", "stmatrix"), ("m8n8", "m16n16", "m8n16", "m16n8"), (1, 2, 4), ("", ".trans"), _SPACES,
        ("b16", "b8", "b8x16", *narrow), (1, 2, 4),
    ):  # fmt: skip
        held = vector("b32", registers)
        operands = f"{held}, [q0]" if opcode == "ldmatrix" else f"[q0], {held}"
        text = f"{opcode}.sync.aligned.{shape}.x{number}{trans}{space}.{kind} {operands};"
        texts[text] = opcode, shape, number, trans + space, kind, registers
    assert {texts[text] for text in taken(list(texts), target)} == legal
