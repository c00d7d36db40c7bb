"""The proof against an oracle that tries all orders of small launches: what goes wrong in one of them must be refuted.

    python tests/protocol/test_interleavings.py

prints how many states both have seen, and what the proof refutes though no order of a small launch is bad.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from time import perf_counter

import pytest
from interleavings import Explored, Launch, TooMany, Unsupported, explore, unroll
from mutation_programs import PROGRAMS, Program, build
from mutations import KINDS, mutants
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.rewriter import InsertPoint, Rewriter

from tilec.backend import protocol
from tilec.diagnostics import TilecError
from tilec.driver import find_kernel
from tilec.source import parse_text
from tilec.verify import verify

BY_NAME = {program.name: program for program in PROGRAMS}
SOUND = [name for name in BY_NAME if "pipeline(6)" not in name]
BROKEN = ["step6", "tma,pipeline(2,lag=1),persistent", "copy loop,pipeline(2),persistent"]
EDITED = ["step5", "tma,persistent", "bias_relu"]
FEW = 5_000
"""States up to which each step of an engine is taken by itself."""

NOT_MODELLED = {
    "fence after a barrier dropped": "fences of the tensor core",
    "fence before a barrier dropped": "fences of the tensor core",
    "slot with another swizzle": "layouts",
    "store issued by all threads": "bulk groups of a thread other than the issuer",
    "the same turn for ever": "a kernel that never ends cannot be unrolled",
}
STRICTER = {
    "wait for a load by one thread only": "on sm_90a the other threads issue the MMA too, and must know of the load",
    "every second turn": "which tiles are stored is not modelled",
    "turns start at 1": "which tiles are stored is not modelled",
}
"""What the proof refutes and the oracle does not see, by kind of mistake, and why."""


def _extents(program: Program, trips: int, turns: int) -> dict[str, int]:
    """So many K tiles, and so many tiles of the output."""
    if program.copies_only:
        return {"M": 64 * turns, "K": 32 * trips}
    return {"M": 128 * turns, "N": 128, "K": 64 * trips}


def _sizes(program: Program, most_turns: int = 3) -> list[tuple[int, int]]:
    """K tiles and turns, smallest first."""
    turns = range(1, most_turns + 1 if program.persistent else 2)
    pairs = [(trips, turn) for trips in range(2 * max(program.ring, 1) + 2) for turn in turns]
    return sorted(pairs, key=lambda pair: ((pair[0] + 1) * pair[1], pair))


def _launches(program: Program, module: ModuleOp, *, every_step: bool, turns: int = 3) -> Iterator[Launch]:
    kernel = find_kernel(module)
    for size in _sizes(program, turns):
        try:
            yield unroll(kernel, _extents(program, *size), every_step=every_step)
        except Unsupported:
            continue


def _first_bad(program: Program, module: ModuleOp, turns: int = 3) -> Explored | None:
    outcomes = (explore(launch) for launch in _launches(program, module, every_step=False, turns=turns))
    return next((outcome for outcome in outcomes if outcome.finding is not None), None)


@pytest.mark.parametrize("name", SOUND)
def test_what_is_proved_is_right_in_all_orders(name: str) -> None:
    program = BY_NAME[name]
    module = build(program)
    assert protocol.check(module).status == "proved"
    launches, states, whole = _all_right(program, module)
    assert launches and whole
    print(f"{name}: {launches} launches, {states} states, {whole} of them with every step by itself")


def _all_right(program: Program, module: ModuleOp) -> tuple[int, int, int]:
    launches = states = whole = 0
    for every_step in (False, True):
        for launch in _launches(program, module, every_step=every_step, turns=2 if every_step else 3):
            assert not launch.mismatches
            try:
                outcome = explore(launch, most=FEW if every_step else 100_000)
            except TooMany:
                assert every_step
                continue
            assert outcome.finding is None, f"{outcome.finding}:\n" + "\n".join(outcome.trace)
            launches, states, whole = launches + 1, states + outcome.states, whole + every_step
    return launches, states, whole


@dataclass(frozen=True)
class Mistake:
    """A mutant, as both see it."""

    kind: str
    label: str
    status: protocol.Status
    bad: str | None
    """What goes wrong in some order."""


@cache
def _mistakes(name: str) -> list[Mistake]:
    program, found = BY_NAME[name], list[Mistake]()
    for kind in KINDS:
        if kind.name not in NOT_MODELLED:
            for mutant in mutants(kind, build(program)):
                bad = _first_bad(program, mutant.module)
                status = protocol.check(mutant.module).status
                found.append(Mistake(kind.name, mutant.label, status, None if bad is None else bad.finding))
    return found


@pytest.mark.parametrize("name", BROKEN)
def test_what_goes_wrong_in_some_order_is_refuted(name: str) -> None:
    wrong = [one for one in _mistakes(name) if one.bad is not None and one.status != "refuted"]
    assert not wrong
    silent = {one.kind for one in _mistakes(name) if one.bad is None and one.status == "refuted"}
    assert silent <= set(STRICTER)
    seen = sum(one.bad is not None for one in _mistakes(name))
    print(f"{name}: {len(_mistakes(name))} mutants, {seen} of them bad in some order, {len(silent)} kinds only refuted")


@pytest.mark.parametrize("name", ["tma,persistent", "copy loop,pipeline(2),persistent", "tma,pipeline(2,lag=1)"])
def test_steps_taken_together_hide_nothing(name: str) -> None:
    """The oracle's own shortcuts: with every step by itself the same launches are bad."""
    program = BY_NAME[name]
    compared = 0
    for kind in KINDS:
        if kind.name not in NOT_MODELLED:
            for mutant in mutants(kind, build(program)):
                kernel = find_kernel(mutant.module)
                for size in [(0, 2), (1, 1), (2, 1), (3, 1), (1, 2), (2, 2)]:
                    if size[1] == 1 or program.persistent:
                        extents = _extents(program, *size)
                        try:
                            outcomes = [
                                explore(unroll(kernel, extents, every_step=every), most=FEW) for every in (False, True)
                            ]
                        except (TooMany, Unsupported):
                            continue
                        bad = [outcome.finding is not None for outcome in outcomes]
                        assert bad[0] == bad[1], f"{kind.name} ({mutant.label}), {extents}: {outcomes}"
                        compared += 1
    assert compared > 100
    print(f"{name}: {compared} launches compared")


def _edited(module: ModuleOp) -> Iterator[tuple[str, ModuleOp]]:
    """The kernel with one operation left out, done twice, or exchanged with the next."""
    for place, original in enumerate(find_kernel(module).body.walk()):
        if original.results or not original.name.startswith(("tile.", "scf.if")):
            continue
        for edit in ("left out", "done twice", "exchanged with the next"):
            copy = module.clone()
            op = list(find_kernel(copy).body.walk())[place]
            if _edit(op, edit):
                try:
                    verify(copy)
                except TilecError:
                    continue
                yield f"operation {place}, {op.name}, is {edit}", copy


def _edit(op: Operation, edit: str) -> bool:
    following = op.next_op
    if edit == "left out":
        op.detach()
        op.erase()
    elif edit == "done twice":
        Rewriter.insert_op(op.clone(), InsertPoint.after(op))
    elif following is None or following.results or following.name == "scf.yield":
        return False
    else:
        op.detach()
        Rewriter.insert_op(op, InsertPoint.after(following))
    return True


@pytest.mark.parametrize("name", EDITED)
def test_small_edits(name: str) -> None:
    """Mistakes that nobody has thought of: whatever is bad in some order has no proof."""
    program, counts = BY_NAME[name], Counter[str]()
    for what, module in _edited(build(program)):
        bad = _first_bad(program, module, turns=2)
        counts["bad" if bad else "not bad"] += 1
        if bad is not None:
            assert protocol.check(module).status != "proved", f"{what}: {bad}"
    assert counts["bad"] > 20
    print(f"{name}: {dict(counts)}")


_ONE_BARRIER = """
tile.kernel @f(%A: !tile.view<MxKxf16>, %D: !tile.view<MxKxf16>) {{
  tile.grid (%m, %k) over %D step (64, 64) {{
    %a = tile.alloc : !tile.smem<64x64xf16, swizzle = 128>
    %b = tile.alloc : !tile.smem<64x64xf16, swizzle = 128>
    %bar = tile.mbarrier.init count {count} : !tile.mbarrier<1>
    tile.cta_sync
    %p0 = arith.constant 0 : i32
    %p1 = arith.constant 1 : i32
    {body}
  }}
}}
"""
_ANNOUNCE = "tile.mbarrier.arrive.expect_tx %bar, 8192\n"
_LOAD_A = "tile.copy_async %A[%m, %k] to %a dispatch tma signal %bar\n"
_LOAD_B = "tile.copy_async %A[%m, %k] to %b dispatch tma signal %bar\n"
_ARRIVE = "tile.mbarrier.arrive %bar\n"
_WAIT_0 = "tile.mbarrier.try_wait %bar, %p0\n"
_WAIT_1 = "tile.mbarrier.try_wait %bar, %p1\n"
_READ_A = "%x = tile.load %a : !tile.reg<64x64xf16>\n"
_READ_B = "%y = tile.load %b : !tile.reg<64x64xf16>\n"
_SYNC = "tile.cta_sync\n"


def _issuer(*ops: str) -> str:
    return f"tile.single_thread {{ {''.join(ops)} }}\n"


ROUNDS = {
    # The others' wait for round 1 may come before round 0 is complete, and then passes.
    "a wait too early": (
        1,
        _issuer(_ANNOUNCE, _LOAD_A, _WAIT_0, _ANNOUNCE, _LOAD_A) + _WAIT_1 + _READ_A,
    ),
    # B's bytes, not announced yet, may land before A's, and complete A's round.
    "a load too early": (
        1,
        _issuer(_ANNOUNCE, _LOAD_A, _LOAD_B) + _WAIT_0 + _READ_A + _SYNC + _issuer(_ANNOUNCE) + _WAIT_1 + _READ_B,
    ),
    # The third arrival comes while A may be on its way, which keeps round 0 open.
    "an arrival too early": (
        2,
        _issuer(_ANNOUNCE, _LOAD_A, _ARRIVE, _ARRIVE)
        + (_WAIT_0 + _READ_A + _SYNC)
        + _issuer(_ANNOUNCE, _LOAD_B)
        + (_WAIT_1 + _READ_B),
    ),
}


@pytest.mark.parametrize("name", ROUNDS)
def test_rounds_that_are_not_complete_yet(name: str) -> None:
    count, body = ROUNDS[name]
    module = parse_text(_ONE_BARRIER.format(count=count, body=body))
    assert explore(unroll(find_kernel(module), {"M": 64, "K": 64})).finding is not None
    assert protocol.check(module).status != "proved"


def main() -> None:
    start = perf_counter()
    for name in SOUND:
        launches, states, whole = _all_right(BY_NAME[name], build(BY_NAME[name]))
        proof = protocol.check(build(BY_NAME[name])).states
        print(f"{name}: {states} states in {launches} launches ({whole} with every step by itself); proof: {proof}")
    for name in BROKEN:
        found = _mistakes(name)
        pairs = Counter((one.status, "bad" if one.bad else "not bad") for one in found)
        print(f"{name}: " + ", ".join(f"{status} and {bad}: {count}" for (status, bad), count in pairs.items()))
        for kind in dict.fromkeys(one.kind for one in found if one.status == "refuted" and one.bad is None):
            print(f"  refuted only: {kind}: {STRICTER.get(kind, 'unexplained')}")
    print(f"{perf_counter() - start:.0f} s")


if __name__ == "__main__":
    sys.exit(main())
