"""What each mistake is, and who must find it: written down before the suite was run.

A cell of the table is one kind of mistake in one program of the kind's domain (`mutation_domains.py`). It has a mutant for each
place where the mistake can be made, and is excluded where there is none, with the reason that the kind gives. For each mutant the first rule that applies says which instrument convicts it, or why it is no mistake there.

* ``verifier``: the module does not verify;
* ``proof``: the protocol is refuted, for some K, some number of tiles per CTA and some order of events;
* ``scheduler``: some tile of the output is not stored by exactly one turn of one CTA;
* ``simulator``: the protocol is sound and the numbers are wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from mutation_programs import Program

Instrument = Literal["verifier", "proof", "scheduler", "simulator"]
Condition = Callable[[Program, str], bool]
"""Of a program and the label of a place."""


@dataclass(frozen=True)
class Bug:
    """A mistake that an instrument must find."""

    found_by: Instrument
    because: str


@dataclass(frozen=True)
class Harmless:
    """A change that breaks nothing: it must be proved."""

    because: str


Expectation = Bug | Harmless


@dataclass(frozen=True)
class Rule:
    expectation: Expectation
    when: Condition = lambda program, label: True


def _proof(because: str, when: Condition = lambda program, label: True) -> Rule:
    return Rule(Bug("proof", because), when)


def _harmless(because: str, when: Condition) -> Rule:
    return Rule(Harmless(because), when)


def _one_stage(program: Program, label: str) -> bool:
    return program.ring == 1


def _assumed(program: Program, label: str) -> bool:
    return program.assumes


def _copies(program: Program, label: str) -> bool:
    return program.copies_only


def _one_copied_tile(program: Program, label: str) -> bool:
    return program.copies_only and not program.persistent


def _by_rows(program: Program, label: str) -> bool:
    """Whether turns are rows of another view than the one that is stored to."""
    return program.copies_only and program.ring > 0


def _fresh_slots(program: Program, label: str) -> bool:
    """Whether each chunk of the only tile has a staging slot of its own."""
    return not (program.persistent or program.by_hand or program.copies_only) and label != "last"


def _meets_before_first_use(program: Program, label: str) -> bool:
    return program.threads or program.name == "bias_relu"


_NO_SECOND_USE = "one tile for each CTA, a staging slot for each chunk: none is written twice"
_ALREADY_READ = "every store has been read when its tile ends, which is all that an exit needs"
_EVEN = "K tiles % 4 = 0 is assumed: each barrier completes an even number of rounds per tile"
_ANY_BUDGET = "the announced bytes are not those that the copies bring"
_MET_ALREADY = "all threads meet once more before anyone but the issuer uses a barrier"

TABLE: dict[str, list[Rule]] = {
    "wait for a load dropped": [_proof("a tile is used while it is on its way")],
    "wait for an MMA dropped": [_proof("operands are overwritten, or sums read, while the MMA runs")],
    "wait for the last MMA dropped": [_proof("the accumulator is read while the MMA runs")],
    "wait for the wrong parity": [_proof("it finds the round before, or waits for one that never comes")],
    "wait for another stage": [_proof("with one K tile that stage is never filled")],
    "wait for a load by one thread only": [
        _harmless("the issuer alone uses what has landed", _copies),
        _proof("the other threads issue the MMA without knowing of the load"),
    ],
    "the ring's phase flips each iteration": [
        _harmless("a ring of one stage wraps at each iteration", _one_stage),
        _proof("stage 1 is first waited for with parity 1, which reads as complete"),
    ],
    "the MMA's phase flips once a trip": [
        _harmless("a ring of one stage makes a trip at each iteration", _one_stage),
        _proof("the second wait finds the first round complete"),
    ],
    "a phase never flips": [_proof("the wait for a slot's second round finds the first")],
    "phases reset per tile": [
        _harmless(_EVEN, _assumed),
        _proof("after an odd number of rounds the next tile's wait finds an old one, where K allows it"),
    ],
    "stage and phases reset per tile": [
        _harmless(_EVEN, _assumed),
        _proof("after an odd number of rounds the next tile's wait finds an old one, where K allows it"),
    ],
    "one barrier for all stages": [
        _harmless("there is one stage", _one_stage),
        _proof("rounds of several stages complete between two waits"),
    ],
    "two arrivals expected": [_proof("there is one: the round never completes")],
    "barriers used before init is visible": [
        _harmless(_MET_ALREADY, _meets_before_first_use),
        _proof("the other threads wait on memory that is not yet a barrier"),
    ],
    "barrier of threads ahead of init": [
        _harmless(_MET_ALREADY, _meets_before_first_use),
        _proof("the other threads wait on memory that is not yet a barrier"),
    ],
    "budget 16 bytes too large": [_proof(_ANY_BUDGET)],
    "budget 16 bytes too small": [_proof(_ANY_BUDGET)],
    "budget halved": [_proof(_ANY_BUDGET)],
    "budget doubled": [_proof(_ANY_BUDGET)],
    "budget counted per warp": [_proof(_ANY_BUDGET)],
    "loads issued by all threads": [_proof("each thread announces and copies")],
    "bytes announced by all threads": [_proof("each thread announces")],
    "refill before the MMA has read": [_proof("the load overwrites what the MMA reads")],
    "refill not guarded": [_proof("loads behind the last K tile are never waited for")],
    "prologue one short": [_proof("a stage is waited for that nobody fills")],
    "prologue one long": [_proof("a stage is filled again before its first tile is used")],
    "prologue not guarded": [_proof("with fewer K tiles than stages some loads are never waited for")],
    "MMA reads another stage": [_proof("that stage's load has not been waited for")],
    "A loaded into B's tile": [_proof("A's tile is never written, B's twice at once")],
    "slot with another swizzle": [Rule(Bug("verifier", "a slot has its ring's type"))],
    "store issued by all threads": [_proof("each thread stores")],
    "proxy fence dropped": [_proof("the async proxy need not see what the threads have written")],
    "barrier before the copy out dropped": [_proof("other threads' writes may come after the copy")],
    "barrier after wait_group dropped": [
        _harmless("nothing comes after the only tile", _one_copied_tile),
        _harmless(_NO_SECOND_USE, _fresh_slots),
        _proof(
            "the other threads write while the store reads; between tiles of copies, a thread can fall two rounds behind; "
            "with K = 0 no other barrier stands between two tiles"
        ),
    ],
    "barrier after a thread copy dropped": [
        _proof("other threads' part of the tile may be missing (bias: with K = 0)")
    ],
    "barrier before free dropped": [
        _harmless("the barrier of the last store already stands between the reads and the free", lambda p, label: True)
    ],
    "wait_group dropped": [
        _harmless(_ALREADY_READ, _one_copied_tile),
        _harmless(_NO_SECOND_USE, _fresh_slots),
        _proof("the tile is rewritten while the store reads"),
    ],
    "last wait_group dropped": [
        _harmless(_ALREADY_READ, _copies),
        _proof("a CTA ends, or rewrites the tile, while the store reads"),
    ],
    "wait_group leaves one more": [
        _harmless(_ALREADY_READ, _one_copied_tile),
        _harmless(_ALREADY_READ, lambda program, label: program.copies_only and label == "last"),
        _harmless(_NO_SECOND_USE, _fresh_slots),
        _proof("the newest store may still read when its tile is rewritten, or the CTA ends"),
    ],
    "last wait_group only for reads": [
        _harmless("a CTA may end when its stores have been read", lambda program, label: True)
    ],
    "commit_group dropped": [
        _harmless("the next chunk's group takes both stores, and the last wait is for all", _fresh_slots),
        _proof("the store is in no group, or in a later one than the wait counts"),
    ],
    "accumulator freed early": [_proof("it is read, or freed again, afterwards")],
    "accumulator leaked": [_proof("it is not freed when the CTA ends")],
    "first step accumulates": [_proof("it adds to what was never written")],
    "no step accumulates": [Rule(Bug("simulator", "the last K tile's product alone is stored: sound, and wrong"))],
    "commit dropped": [_proof("the wait for the MMA has nothing to come")],
    "wait_ld dropped": [_proof("registers are used before the load into them is complete")],
    "fence after a barrier dropped": [
        _harmless(
            "two stand at the end of a tile, around a barrier, and the next MMA has its own",
            lambda program, label: label.startswith("end of the tile"),
        ),
        _proof("tensor-core operations behind it are not ordered after what was waited for"),
    ],
    "fence before a barrier dropped": [
        _harmless("the fence behind the last read covers this one", lambda program, label: label == "earlier read"),
        _harmless("the fence behind the last read comes first", lambda program, label: label == "before free"),
        _harmless(
            "one tile for each CTA: the fence before the free covers this one",
            lambda program, label: not (program.persistent or program.by_hand),
        ),
        _proof("the next tile's first MMA, or the free, is not ordered after this read"),
    ],
    "every second turn": [
        Rule(Bug("simulator", "the rows of odd turns are never stored: sound, and wrong"), _by_rows),
        Rule(Bug("scheduler", "the tiles of odd turns are never stored")),
    ],
    "the same turn for ever": [
        _proof("the loop over turns never ends", _by_rows),
        Rule(Bug("scheduler", "a CTA stores its first tile again and again")),
    ],
    "turns start at 1": [
        Rule(Bug("simulator", "the first rows of each CTA are never stored: sound, and wrong"), _by_rows),
        Rule(Bug("scheduler", "the first tile of each CTA is never stored")),
    ],
    "loads with another tile's offsets": [
        Rule(Bug("simulator", "operands of one tile go into the sums of another: sound, and wrong"))
    ],
}


def rule_for(kind: str, program: Program, label: str) -> Rule:
    """What the table says of one mutant."""
    return next(rule for rule in TABLE[kind] if rule.when(program, label))
