"""Threads exchange values between random branches and loops: in every order, each computes what it computes on its own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from emulator.instructions.per_thread import ORDERS, OrderName, run_threads
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

REGISTERS = 4
Registers = NDArray[np.uint32]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Compute:
    """r[target] = r[target] * factor + r[source]"""

    target: int
    source: int
    factor: int


@dataclass(frozen=True)
class Branch:
    """The one or the other, by a bit of a register."""

    register: int
    bit: int
    then: tuple[Statement, ...]
    other: tuple[Statement, ...]


@dataclass(frozen=True)
class Loop:
    """As often as the low two bits of a register say, and once more."""

    register: int
    body: tuple[Statement, ...]


@dataclass(frozen=True)
class Exchange:
    """r[target] += the register of another lane; all threads of the warp do this together."""

    target: int
    lanes: int
    instruction: str


Statement = Compute | Branch | Loop | Exchange


def _several(statements: st.SearchStrategy[Statement]) -> st.SearchStrategy[tuple[Statement, ...]]:
    return st.lists(statements, max_size=2).map(tuple)


registers = st.integers(0, REGISTERS - 1)
computes = st.builds(Compute, registers, registers, st.sampled_from((3, 5, 2**16 + 1)))
inner = st.recursive(
    computes,
    lambda deeper: st.one_of(
        st.builds(Branch, registers, st.integers(0, 6), _several(deeper), _several(deeper)),
        st.builds(Loop, registers, _several(deeper)),
    ),
    max_leaves=12,
)
exchanges = st.builds(Exchange, registers, st.integers(1, 31), st.sampled_from(("shfl", "bar.warp", "bar", "barrier")))
programs = st.lists(inner | exchanges, min_size=1, max_size=6)


class Writer:
    """Writes a program as PTX; labels are numbered."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._labels = 0
        self._depth = 0

    def label(self) -> str:
        self._labels += 1
        return f"L{self._labels}"

    def write(self, statement: Statement) -> None:
        match statement:
            case Compute(target, source, factor):
                self.lines.append(f"    mad.lo.u32 %r{target}, %r{target}, {factor}, %r{source};")
            case Branch(register, bit, then, other):
                otherwise, end = self.label(), self.label()
                self.lines += [f"    and.b32 %r9, %r{register}, {1 << bit};", "    setp.ne.u32 %p1, %r9, 0;"]
                self.lines.append(f"    @!%p1 bra {otherwise};")
                self._all(then)
                self.lines += [f"    bra {end};", f"{otherwise}:"]
                self._all(other)
                self.lines.append(f"{end}:")
            case Loop(register, body):
                self._depth += 1
                count, head = f"%r{10 + self._depth}", self.label()
                self.lines += [f"    and.b32 {count}, %r{register}, 3;", f"{head}:"]
                self._all(body)
                self.lines += [f"    setp.ne.u32 %p1, {count}, 0;", f"    sub.u32 {count}, {count}, 1;"]
                self.lines.append(f"    @%p1 bra {head};")
                self._depth -= 1
            case Exchange(target, lanes, instruction):
                self._exchange(target, lanes, instruction)

    def _all(self, statements: tuple[Statement, ...]) -> None:
        for statement in statements:
            self.write(statement)

    def _exchange(self, target: int, lanes: int, instruction: str) -> None:
        if instruction == "shfl":
            self.lines.append(f"    shfl.sync.bfly.b32 %r9, %r{target}, {lanes}, 31, 0xffffffff;")
        else:
            barrier = {"bar.warp": "bar.warp.sync 0xffffffff;", "bar": "bar.sync 0;", "barrier": "barrier.sync 1;"}[
                instruction
            ]
            self.lines += [
                f"    {barrier}",
                "    mov.u32 %r8, words;",
                "    mad.lo.u32 %r7, %t, 4, %r8;",
                f"    st.shared.u32 [%r7], %r{target};",
                f"    {barrier}",
                f"    xor.b32 %r9, %t, {lanes};",
                "    mad.lo.u32 %r7, %r9, 4, %r8;",
                "    ld.shared.u32 %r9, [%r7];",
            ]
        self.lines.append(f"    add.u32 %r{target}, %r{target}, %r9;")


def compute(statement: Statement, r: Registers, active: Mask) -> None:
    """The statement for the active threads; `r` has a row for each register."""
    match statement:
        case Compute(target, source, factor):
            r[target, active] = r[target, active] * np.uint32(factor) + r[source, active]
        case Branch(register, bit, then, other):
            taken = (r[register] >> np.uint32(bit) & 1) != 0
            for inside, mask in ((then, active & taken), (other, active & ~taken)):
                for each in inside:
                    compute(each, r, mask)
        case Loop(register, body):
            left = (r[register] & 3).astype(int) + 1
            turn = active & (left > 0)
            while turn.any():
                for each in body:
                    compute(each, r, turn)
                left -= 1
                turn = active & (left > 0)
        case Exchange(target, lanes, _):
            everyone = np.arange(r.shape[1])
            r[target] += r[target, everyone ^ lanes].copy()


@settings(max_examples=150, deadline=None)
@given(program=programs, order=st.sampled_from(ORDERS), seed=st.integers(0, 1000), values=st.integers(0, 2**32 - 1))
def test_random_programs(program: list[Statement], order: OrderName, seed: int, values: int) -> None:
    threads = 64
    r = np.random.default_rng(values).integers(0, 2**32, (REGISTERS, threads), np.uint32)
    writer = Writer()
    writer.lines += [f"    mov.b32 %r{i}, %a{i};" for i in range(REGISTERS)]
    for statement in program:
        writer.write(statement)
    writer.lines += [f"    mov.b32 %d{i}, %r{i};" for i in range(REGISTERS)]
    found = run_threads(
        "\n".join([*writer.lines, ""]),
        list(r),
        [np.uint32] * REGISTERS,
        shared=".shared .align 4 .b32 words[64];",
        order=order,
        seed=seed,
    )
    for statement in program:
        compute(statement, r, np.ones(threads, np.bool_))
    assert [f.tolist() for f in found] == r.tolist()
