"""Runs one instruction on rows of operands, one row a thread, and what it needs to say what must come out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import numpy as np
import pytest

from tilec.backend.emulator.faults import UnsupportedInstruction
from tilec.backend.emulator.launch import emulate

Row = tuple[int, ...]
LETTERS = "abce"


def specials(bits: int) -> list[int]:
    """Integers at which something changes, as unsigned."""
    top = 1 << bits - 1
    return [0, 1, 2, 3, bits - 1, bits, top - 1, top, top + 1, 2 * top - 2, 2 * top - 1]


def rows(*widths: int, count: int = 300, seed: int = 0) -> list[Row]:
    """Rows of operands: all pairs of special values for the first two, then random ones of all sizes."""
    rng = Random(f"{widths}{seed}")

    def anything(bits: int) -> int:
        return rng.choice(specials(bits)) if rng.random() < 0.3 else rng.getrandbits(rng.randint(1, bits))

    made: list[Row] = []
    if len(widths) >= 2:
        made = [(a, b, *(anything(w) for w in widths[2:])) for a in specials(widths[0]) for b in specials(widths[1])]
    else:
        made = [(a,) for a in specials(widths[0])]
    return [*made, *(tuple(anything(w) for w in widths) for _ in range(count))][:512]


def signed(value: int, bits: int) -> int:
    """The low bits as a signed integer."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


def unsigned(value: int, bits: int) -> int:
    return value & ((1 << bits) - 1)


def typed(value: int, type: str) -> int:
    """Bits as a value of a type like s32 or u16."""
    bits = int(type[1:])
    return signed(value, bits) if type[0] == "s" else unsigned(value, bits)


def halves(value: int, kind: str = "u") -> list[int]:
    return [typed(value >> shift, f"{kind}16") for shift in (0, 16)]


def bytes_of(value: int, kind: str = "u") -> list[int]:
    return [typed(value >> shift, f"{kind}8") for shift in (0, 8, 16, 24)]


def joined(parts: Sequence[int], bits: int) -> int:
    """Elements side by side, the first lowest."""
    return sum(unsigned(part, bits) << bits * at for at, part in enumerate(parts))


def clamp(value: int, lowest: int, highest: int) -> int:
    return min(max(value, lowest), highest)


def module(body: str, parameters: str = "", target: str = "sm_90a", top: str = "") -> str:
    return f".version 8.8\n.target {target}\n.address_size 64\n{top}\n.visible .entry k({parameters})\n{{\n{body}\n}}\n"


def run(text: str, result: int, widths: Sequence[int], operands: Sequence[Row], target: str = "sm_90a") -> list[int]:
    """What `text` computes in `d`, of `result` bits (1: a predicate), from `a`, `b`, `c` and `e`, of `widths` bits (1: predicates)."""
    count = len(operands)
    body, arrays, names = [".reg .b64 at; .reg .b32 t; mov.u32 t, %tid.x;"], [], []
    for at, width in enumerate(widths):
        stored, letter = max(width, 8), LETTERS[at]
        names.append(letter)
        arrays.append(np.array([row[at] for row in operands], f"u{stored // 8}"))
        body.append(f"ld.param.u64 at, [{letter}_in]; mad.wide.u32 at, t, {stored // 8}, at;")
        if width == 1:
            body.append(f".reg .pred {letter}; {{ .reg .b16 x; ld.global.u8 x, [at]; setp.ne.b16 {letter}, x, 0; }}")
        else:
            body.append(f".reg .b{width} {letter}; ld.global.b{width} {letter}, [at];")
    stored = max(result, 16)
    out = np.zeros(count, f"u{stored // 8}")
    body.append(f"ld.param.u64 at, [d_out]; mad.wide.u32 at, t, {stored // 8}, at;")
    if result == 1:
        body.append(f".reg .pred d; {text} {{ .reg .b16 x; selp.b16 x, 1, 0, d; st.global.b16 [at], x; }}")
    else:
        body.append(f".reg .b{result} d; {text} st.global.b{result} [at], d;")
    parameters = ", ".join(f".param .u64 {name}" for name in (*(f"{n}_in" for n in names), "d_out"))
    emulate(module("\n".join(body) + "\nret;", parameters, target), "k", 1, count, [*arrays, out])
    return [int(value) for value in out]


def check(
    text: str, result: int, widths: Sequence[int], model: Callable[..., int], operands: Sequence[Row] | None = None
) -> None:
    """`text` gives what `model` says for each row, taken as `result` bits."""
    given = rows(*widths) if operands is None else operands
    found = run(text, result, widths, given)
    wrong = [
        f"{text} of {[hex(x) for x in row]} is {got:#x}, not {want:#x}"
        for row, got in zip(given, found, strict=True)
        if got != (want := unsigned(model(*row), result))
    ]
    assert not wrong, "\n".join(wrong[:5])


def refused(text: str, top: str = "") -> str:
    """Why the emulator refuses `text`: the message, of which the place, the line and the hint are checked here."""
    registers = ".reg .b16 h<4>; .reg .b32 r<8>; .reg .b64 x<4>; .reg .pred p<4>; .reg .f32 f<4>;"
    whole = module(f"{registers}\n{text}\nret;", top=top)
    with pytest.raises(UnsupportedInstruction) as caught:
        emulate(whole, "k", 1, 1, [], file="k.ptx")
    line = whole.split("\n").index(text) + 1
    head, tail = f"k.ptx:{line}:1: error: ", f"\n{text}\n^\nhint: docs/emulator.md lists the forms that it executes"
    said = str(caught.value)
    assert said.startswith(head) and said.endswith(tail), said
    return said[len(head) : -len(tail)]
