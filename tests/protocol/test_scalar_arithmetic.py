"""Arithmetic on offsets: no expression is too much for the proof, and what it knows of a number is true of the number."""

from __future__ import annotations

import itertools
import operator
import runpy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block, Operation

from tilec import JitFunction
from tilec.backend.protocol import check
from tilec.backend.protocol.machine import Machine, OutcomeUnknown, OutOfScope, Restart
from tilec.backend.protocol.scalars import binary, compare
from tilec.backend.protocol.state import State
from tilec.backend.protocol.values import INFINITY, UNKNOWN, Bound, Coordinate, Interval, Linear, Residue, Value
from tilec.source import parse_text

# Expressions as offsets

EXPRESSIONS = [
    "n // 2 + 64",
    "64 + n // 2",
    "n + m + 1",
    "n + m",
    "n - m + 1",
    "min(n, 64) + 64",
    "max(n, m) + n",
    "(n >> 1) + 1",
    "(n << 1) + 8",
    "n * n + 1",
    "n * m",
    "tile.cdiv(n, 128) + 1",
    "tile.cdiv(n + m, 128) * 64 + 1",
    "n % 128 + m",
    "n // 2 % 3 + 5",
    "(n & 127) + 3",
    "(n | m) + 1",
    "(n ^ 64) + 1",
    "A.shape[1] - n + 1",
    "A.shape[1] // 2 + A.shape[0]",
    "(64 if n < m else n) + 1",
]
KERNEL = """\
import tilec
from tilec import tile

@tilec.jit
def kernel(A: tile.View["M", "K"]):
    D = tile.empty("M", "K", dtype=A.dtype)
    for m, n in tile.grid(D, step=(64, 64)):
        a = tile.smem(64, 64, A.dtype)
        tile.copy(A[m, EXPRESSION], a)
        tile.copy(a, D[m, n])
    return D
"""


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_an_offset_is_any_arithmetic(expression: str, target: str, tmp_path: Path) -> None:
    path = tmp_path / "kernel.py"
    path.write_text(KERNEL.replace("EXPRESSION", expression))
    kernel: JitFunction = runpy.run_path(str(path))["kernel"]
    assert ".visible .entry kernel(" in kernel.variant("f16", target=target).artifact.ptx


BY_HAND = """\
tile.kernel @by_hand(%A: !tile.view<MxKxf16>, %D: !tile.view<MxKxf16>) {
  %a = tile.alloc : !tile.smem<64x64xf16, swizzle = 128>
  %full = tile.mbarrier.init count 1 : !tile.mbarrier<1>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %p0 = arith.constant 0 : i32
  tile.cta_sync
  tile.grid (%m, %k) over %D step (64, 64) {
    %K = tile.dim %A, 1
    %y = arith.OPERATION %k, %K : index
    %x = arith.addi %y, %c1 : index
    tile.single_thread {
      tile.mbarrier.arrive.expect_tx %full, 8192
      tile.copy_async %A[%m, %x] to %a dispatch tma signal %full
    }
    tile.mbarrier.try_wait %full, %p0
    tile.single_thread {
      tile.copy_async %a to %D[%m, %k] dispatch tma
      tile.bulk.commit_group
      tile.bulk.wait_group 0
    }
  }
}
"""


@pytest.mark.parametrize("name", ["addi", "subi", "muli", "minui", "maxui", "andi", "ori", "xori", "shli", "shrui"])
def test_an_offset_of_unknown_numbers_is_no_obstacle(name: str) -> None:
    verdict = check(parse_text(BY_HAND.replace("OPERATION", name), "by_hand.tile"))
    assert (verdict.status, verdict.diagnostic) == ("proved", None)


# What is known, and what is so. Numbers of the chip have 32 bits.


def unsigned(value: int) -> int:
    return value % (1 << 32)


def signed(value: int) -> int:
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


EXACT: dict[type[Operation], Callable[[int, int], int]] = {
    arith.AddiOp: operator.add,
    arith.SubiOp: operator.sub,
    arith.MuliOp: operator.mul,
    arith.AndIOp: operator.and_,
    arith.OrIOp: operator.or_,
    arith.XOrIOp: operator.xor,
}
SHIFTS: dict[type[Operation], Callable[[int, int], int]] = {
    arith.ShLIOp: operator.lshift,
    arith.ShRUIOp: lambda a, b: unsigned(a) >> b,
}
UNSIGNED: dict[type[Operation], Callable[[int, int], int]] = {
    arith.MinUIOp: min,
    arith.MaxUIOp: max,
    arith.RemUIOp: operator.mod,
    arith.DivUIOp: operator.floordiv,
    arith.CeilDivUIOp: lambda a, b: -(-a // b),
}
OPERATIONS = [*EXACT, *SHIFTS, *UNSIGNED]
DIVISIONS = (arith.RemUIOp, arith.DivUIOp, arith.CeilDivUIOp)


def computed(kind: type[Operation], a: int, b: int) -> int | None:
    """The result of an operation on the chip; None where it has none, or leaves 32 bits."""
    if (kind in DIVISIONS and b == 0) or (kind in SHIFTS and not 0 <= b < 32):
        return None
    if kind in UNSIGNED:
        return signed(UNSIGNED[kind](unsigned(a), unsigned(b)))
    result = (EXACT | SHIFTS)[kind](a, b)
    return signed(result) if kind is arith.ShRUIOp or abs(result) < 1 << 31 else None


@dataclass(frozen=True)
class Leaf:
    """What is known of a number, and the number."""

    known: Value
    number: int


@dataclass(frozen=True)
class Node:
    kind: type[Operation]
    left: Leaf | Node
    right: Leaf | Node


@dataclass
class World:
    """A state, and the numbers that one launch has in it."""

    machine: Machine
    state: State
    bounds: list[int]
    counters: list[int]
    starts: list[int]

    def base(self, base: int) -> int:
        if base >= 0:
            return self.counters[base]
        _, parent, divisor, addend, *_ = self.machine.bounds[~base]
        return self.bounds[~base] if parent is None else (self.bounds[parent] + addend) // divisor

    def is_true(self, known: Value, number: int) -> bool:
        match known:
            case int():
                return number == known
            case Linear(base, offset, scale):
                return number == scale * self.base(base) + offset
            case Residue(modulus, residue):
                return number >= 0 and number % modulus == residue % modulus
            case Coordinate(_, dimension, offset):
                return number == self.starts[dimension] + offset
            case _:
                return known is UNKNOWN

    def is_in(self, state: State) -> bool:
        """Whether a state that was made of this one speaks of this launch."""
        intervals = zip(self.bounds, state.bounds, strict=False)
        return all(one.low <= number <= one.high for number, one in intervals) and all(
            known.low <= self.base(~bound) - scale * self.counters[counter] <= known.high
            for (bound, counter, scale), known in state.differences.items()
        )


def world_of(
    bounds: Sequence[tuple[int, Interval]],
    counters: Sequence[tuple[int, Interval]],
    moduli: Sequence[int],
    start: int,
) -> World:
    """Numbers of extents and of counters, and between what they are known to be; of counters also a residue."""
    machine, s = Machine(), State()
    s.pc, s.environment, s.path, s.differences, s.stored = 1, [], {}, {}, -1
    s.known, s.snapshots, s.present, s.barriers, s.accumulators = [], [], 0, [], []
    s.later_commits, s.pending_loads, s.open, s.groups = [], (), (), ()
    s.regions, s.covered = frozenset(), frozenset()
    for place, (_, interval) in enumerate(bounds):
        machine.bound(Bound(f"b{place}"), interval)
    s.bounds = list(machine.initial)
    for modulus in moduli:
        machine.counter(1, modulus)
    s.counters = [interval for _, interval in counters]
    s.moduli = [number % modulus for (number, _), modulus in zip(counters, moduli, strict=True)]
    return World(machine, s, [number for number, _ in bounds], [number for number, _ in counters], [start])


SMALL = st.integers(0, 40)


@st.composite
def _known(draw: st.DrawFn) -> tuple[int, Interval]:
    number = draw(SMALL)
    low, high = max(0, number - draw(st.integers(0, 8))), draw(st.sampled_from([number, number + 5, INFINITY]))
    return number, draw(st.sampled_from([Interval(number, number), Interval(low, high)]))


PAIRS = st.tuples(_known(), _known())
MODULI = st.tuples(*[st.sampled_from([1, 2, 4, 6, 16])] * 2)
WORLDS = st.builds(world_of, PAIRS, PAIRS, MODULI, SMALL)
EXACT_WORLD = (((0, Interval(0, 9)), (24, Interval(20, INFINITY))), ((2, Interval(2, 2)), (12, Interval(12, 12))))
WIDE_WORLD = (((7, Interval(7, 7)), (5, Interval(0, INFINITY))), ((6, Interval(4, 8)), (9, Interval(0, INFINITY))))


def linear(world: World, base: int, offset: int, scale: int = 1) -> Leaf:
    return Leaf(Linear(base, offset, scale), scale * world.base(base) + offset)


def leaves(world: World) -> st.SearchStrategy[Leaf]:
    def counted(base: int, offset: int, scale: int) -> Leaf:
        return linear(world, base, offset, scale if base >= 0 else 1)

    return st.one_of(
        st.integers(-3, 70).map(lambda n: Leaf(n, n)),
        st.builds(counted, st.sampled_from([0, 1, ~0, ~1]), st.integers(-4, 9), st.integers(1, 4)),
        st.builds(lambda modulus, n: Leaf(Residue(modulus, n % modulus), n), st.integers(1, 16), st.integers(0, 99)),
        st.integers(-4, 9).map(lambda n: Leaf(Coordinate(None, 0, n), world.starts[0] + n)),
        st.integers(-9, 99).map(lambda n: Leaf(UNKNOWN, n)),
    )


def some_leaves(world: World) -> list[Leaf]:
    """A few of each kind."""
    return [
        *(Leaf(n, n) for n in (-3, -1, 0, 1, 2, 3, 4, 7, 8, 16, 31, 64)),
        *(linear(world, base, offset) for base in (0, 1, ~0, ~1) for offset in (-9, -3, 0, 1, 8)),
        *(linear(world, base, offset, scale) for base in (0, 1) for offset in (-8, 0, 5) for scale in (2, 3)),
        *(Leaf(Residue(modulus, n % modulus), n) for modulus in (2, 6, 8) for n in (0, 3, 10, 53)),
        *(Leaf(Coordinate(None, 0, n), world.starts[0] + n) for n in (-4, 0, 5)),
        *(Leaf(UNKNOWN, n) for n in (-1, 0, 6, 64)),
    ]


def trees(world: World) -> st.SearchStrategy[Leaf | Node]:
    return st.recursive(
        leaves(world), lambda inner: st.builds(Node, st.sampled_from(OPERATIONS), inner, inner), max_leaves=4
    )


def operation(kind: Any) -> Operation:
    block = Block(arg_types=[IndexType(), IndexType()])
    return kind(*block.args)


def both(world: World, tree: Leaf | Node) -> Leaf | None:
    """What the proof makes of an expression, and the number that it is; each step is checked. None without a number."""
    if isinstance(tree, Leaf):
        assert world.is_true(tree.known, tree.number)
        return tree
    left, right = both(world, tree.left), both(world, tree.right)
    if left is None or right is None:
        return None
    number = computed(tree.kind, left.number, right.number)
    try:
        known = binary(operation(tree.kind), world.machine, world.state, left.known, right.known)
    except OutOfScope:
        assert tree.kind in DIVISIONS and right.number == 0
        return None
    if number is None:
        return None
    assert world.is_true(known, number), (tree.kind.name, left, right, known, number)
    return Leaf(known, number)


@pytest.mark.parametrize("known", [EXACT_WORLD, WIDE_WORLD], ids=["exact", "wide"])
@pytest.mark.parametrize("kind", OPERATIONS, ids=lambda kind: kind.name)
def test_what_is_known_after_an_operation_is_true(kind: type[Operation], known: Any) -> None:
    world = world_of(*known, (4, 6), 64)
    for left, right in itertools.product(some_leaves(world), repeat=2):
        both(world, Node(kind, left, right))


@given(st.data())
def test_what_is_known_of_a_result_is_true(data: st.DataObject) -> None:
    world = data.draw(WORLDS)
    both(world, data.draw(trees(world)))


PREDICATES: list[Callable[[int, int], bool]] = [
    operator.eq,
    operator.ne,
    operator.lt,
    operator.le,
    operator.gt,
    operator.ge,
    *(
        (lambda a, b, test=test: test(unsigned(a), unsigned(b)))
        for test in (operator.lt, operator.le, operator.gt, operator.ge)
    ),
]
"""As `arith.cmpi` numbers them."""


def outcomes(world: World, predicate: int, a: Value, b: Value) -> list[tuple[bool, State]]:
    """All that a comparison can say, and the states in which it says so."""
    found: list[tuple[bool, State]] = []
    left = [world.state]
    while left:
        s = left.pop()
        try:
            found.append((compare(world.machine, s, predicate, a, b, 64), s))
        except OutcomeUnknown:
            return [(True, s), (False, s)]
        left += world.machine.waiting
        world.machine.waiting.clear()
    return found


def check_comparison(world: World, predicate: int, left: Leaf, right: Leaf) -> None:
    world.state.bounds += world.machine.initial[len(world.state.bounds) :]
    try:
        found = outcomes(world, predicate, left.known, right.known)
    except Restart:  # a counter of several values is told apart up to that constant, from the start
        return
    true = PREDICATES[predicate](left.number, right.number)
    assert any(outcome == true and world.is_in(s) for outcome, s in found), (predicate, left, right)


@pytest.mark.parametrize("known", [EXACT_WORLD, WIDE_WORLD], ids=["exact", "wide"])
@pytest.mark.parametrize("predicate", range(10))
def test_a_comparison_can_say_what_is_so(predicate: int, known: Any) -> None:
    world = world_of(*known, (4, 6), 64)
    for left, right in itertools.product(some_leaves(world), repeat=2):
        check_comparison(
            World(world.machine, world.state.clone(), world.bounds, world.counters, world.starts),
            predicate,
            left,
            right,
        )


@given(st.data(), st.integers(0, 9))
def test_a_comparison_of_results_can_say_what_is_so(data: st.DataObject, predicate: int) -> None:
    world = data.draw(WORLDS)
    left, right = both(world, data.draw(trees(world))), both(world, data.draw(trees(world)))
    assume(left is not None and right is not None)
    assert left is not None and right is not None
    check_comparison(world, predicate, left, right)
