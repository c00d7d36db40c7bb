"""The mutation suite: every mistake is found by the instrument that the table names, and every harmless change is proved.

    python tests/protocol/test_mutations.py [PROGRAM...]

prints the table with what was found, and the counts.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from time import perf_counter

import numpy as np
import pytest
from mutation_anatomy import Anatomy
from mutation_domains import DOMAINS, domain_of
from mutation_programs import PROGRAMS, Program, build, meaning
from mutation_table import TABLE, Bug, Instrument, Rule, rule_for
from mutations import KINDS, Kind, mutants, places
from rich.console import Console
from rich.table import Table
from xdsl.dialects.builtin import ModuleOp

from tilec.backend import protocol, reference, simulator
from tilec.backend.protocol.inputs import integer_inputs
from tilec.backend.reference import Array
from tilec.diagnostics import TilecError
from tilec.driver import find_kernel
from tilec.source import parse_text
from tilec.verify import verify

INSTRUMENTS: tuple[Instrument, ...] = ("verifier", "proof", "scheduler", "simulator")
SCHEDULER_FAULTS: tuple[simulator.FaultKind, ...] = ("tiles", "deadlock")
"""A tile is not stored exactly once; or the turns never end."""
FEWEST_KINDS = 24
MOST_EXCLUDED = 0.1
"""Of the cells."""


@dataclass(frozen=True)
class Judged:
    """One mutant, what the table says of it, and what the instruments say."""

    program: Program
    kind: str
    label: str
    rule: Rule
    finding: str | None
    """What the instrument says is wrong; of a harmless change, why it is not proved."""

    @property
    def as_stated(self) -> bool:
        return isinstance(self.rule.expectation, Bug) == (self.finding is not None)

    def __str__(self) -> str:
        wanted = self.rule.expectation
        by = f"found by the {wanted.found_by}" if isinstance(wanted, Bug) else "harmless"
        said = "it says no such thing" if self.finding is None else self.finding
        return f"{self.program.name}: {self.kind} ({self.label}): {by}, since {wanted.because}; but {said}"


@cache
def _inputs_and_results(program: Program) -> tuple[list[Array], list[Array]]:
    """Small whole numbers, and what the synchronous program makes of them."""
    module = meaning(program)
    inputs = integer_inputs(find_kernel(module), program.sizes)
    results = [array.copy() for array in inputs]
    reference.run(module, results)
    return inputs, results


def _simulate(program: Program, module: ModuleOp) -> simulator.Fault | str | None:
    """Several tiles on one CTA: what is a fault, or that the numbers are wrong."""
    inputs, results = _inputs_and_results(program)
    arrays = [array.copy() for array in inputs]
    try:
        simulator.run(module, arrays, ctas=1)
    except simulator.Fault as fault:
        return fault
    same = all(np.array_equal(got, wanted, equal_nan=True) for got, wanted in zip(arrays, results, strict=True))
    return None if same else "the numbers are not those of the synchronous program"


def _schedule(program: Program, module: ModuleOp) -> str | None:
    """The fault that some tile is not stored exactly once; no other one."""
    found = _simulate(program, module)
    return found.diagnostic.message if isinstance(found, simulator.Fault) and found.kind in SCHEDULER_FAULTS else None


def _compare(program: Program, module: ModuleOp) -> str | None:
    """That a run without faults makes wrong numbers."""
    found = _simulate(program, module)
    return found if isinstance(found, str) else None


def _verify(module: ModuleOp) -> str | None:
    try:
        verify(module)
    except TilecError as error:
        return error.diagnostic.message
    return None


def _prove(module: ModuleOp, wanted: protocol.Status) -> str | None:
    """What is wrong: of a bug where it is refuted, of a harmless change where it is not proved."""
    verdict = protocol.check(module)
    if verdict.status == "proved" or (wanted == "refuted" and verdict.status == "checked"):
        return None
    return f"{verdict.status}: {verdict.summary}"


def _find(program: Program, module: ModuleOp, rule: Rule) -> str | None:
    if not isinstance(rule.expectation, Bug):
        return _prove(module, "proved")
    match rule.expectation.found_by:
        case "verifier":
            return _verify(module)
        case "proof":
            return _prove(module, "refuted")
        case "scheduler":
            return _schedule(program, module)
        case "simulator":
            return _compare(program, module)


def kinds_for(module: ModuleOp) -> list[Kind]:
    """Those whose domain the kernel belongs to."""
    anatomy = Anatomy(module)
    return [kind for kind in KINDS if domain_of(kind.name).holds(anatomy)]


def exclusions(programs: Iterable[Program]) -> tuple[int, Counter[tuple[str, str]]]:
    """The number of cells, and how many are excluded, by kind and reason."""
    cells, excluded = 0, Counter[tuple[str, str]]()
    for program in programs:
        module = build(program)
        for kind in kinds_for(module):
            cells += 1
            if isinstance(found := places(kind, module), str):
                excluded[kind.name, found] += 1
    return cells, excluded


def judge(program: Program) -> Iterator[Judged]:
    """All mutants of a program."""
    module = build(program)
    for kind in kinds_for(module):
        for mutant in mutants(kind, module):
            rule = rule_for(kind.name, program, mutant.label)
            broken = mutant.module
            if not _is_for_the_verifier(rule):
                assert not broken.is_structurally_equivalent(module), f"{kind.name} ({mutant.label}) changes nothing"
                verify(broken)
            yield Judged(program, kind.name, mutant.label, rule, _find(program, broken, rule))


def _is_for_the_verifier(rule: Rule) -> bool:
    return isinstance(rule.expectation, Bug) and rule.expectation.found_by == "verifier"


def _name(program: Program) -> str:
    return program.name


def _program(name: str) -> Program:
    (program,) = (program for program in PROGRAMS if program.name == name)
    return program


@pytest.mark.parametrize("program", PROGRAMS, ids=_name)
def test_programs_are_proved_and_right(program: Program) -> None:
    assert _prove(build(program), "proved") is None
    assert _simulate(program, build(program)) is None


@pytest.mark.parametrize("program", PROGRAMS, ids=_name)
def test_mistakes_are_found(program: Program) -> None:
    wrong = [str(one) for one in judge(program) if not one.as_stated]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("name", "kind", "label", "k"),
    [
        ("step6", "phases reset per tile", "", 256),
        ("step6", "stage and phases reset per tile", "", 256),
        ("tma,pipeline(4,lag=1),persistent", "stage and phases reset per tile", "", 512),
        ("tma,pipeline(4,lag=1)", "prologue not guarded", "prologue", 256),
        ("step6", "barrier after wait_group dropped", "end of the tile", 64),
        ("tma,pipeline(3,lag=0)", "refill before the MMA has read", "refill", 192),
    ],
)
def test_a_shape_that_hides_a_mistake(name: str, kind: str, label: str, k: int) -> None:
    """A run of it goes well, and yet it is refuted: for another K."""
    program = replace(_program(name), extents=(("M", 256), ("N", 128), ("K", k)))
    (chosen,) = (one for one in KINDS if one.name == kind)
    (module,) = (mutant.module for mutant in mutants(chosen, build(program)) if mutant.label == label)
    assert _simulate(program, module) is None
    assert _prove(module, "refuted") is not None


@pytest.mark.parametrize("name", ["step6", "tma,pipeline(3,lag=1),persistent", "threads"])
def test_mutants_are_texts(name: str) -> None:
    """What a mutant prints is read back as it is."""
    program = _program(name)
    module = build(program)
    for kind in kinds_for(module):
        for mutant in mutants(kind, module):
            if not _is_for_the_verifier(rule_for(kind.name, program, mutant.label)):
                text = str(mutant.module)
                assert str(parse_text(text)) == text, f"{kind.name} ({mutant.label})"
    assert module.is_structurally_equivalent(build(program))


def test_the_table_is_complete() -> None:
    """It speaks of each kind, and each of its rules of some mutant; where there is no mutant, the kind says why."""
    assert [kind.name for kind in KINDS] == list(TABLE)
    assert sorted(TABLE) == sorted(name for row in DOMAINS for name in row.kinds)
    spare = {id(rule): (name, rule.expectation) for name, rules in TABLE.items() for rule in rules}
    for program in PROGRAMS:
        module = build(program)
        for kind in kinds_for(module):
            labels = places(kind, module)
            assert labels, f"{program.name}, {kind.name}: no place, and no reason"
            if not isinstance(labels, str):
                assert len(set(labels)) == len(labels), f"{program.name}, {kind.name}: two places of one name"
                for label in labels:
                    spare.pop(id(rule_for(kind.name, program, label)), None)
    assert not spare


@pytest.mark.parametrize("program", PROGRAMS, ids=_name)
def test_no_place_is_outside_of_the_domain(program: Program) -> None:
    module = build(program)
    inside = kinds_for(module)
    for kind in KINDS:
        found = places(kind, module)
        assert kind in inside or not found or isinstance(found, str), f"{kind.name}: {found}"


def test_few_cells_are_excluded() -> None:
    cells, excluded = exclusions(PROGRAMS)
    print(_summary(cells, excluded))
    assert len(KINDS) >= FEWEST_KINDS
    assert excluded.total() <= MOST_EXCLUDED * cells


def _summary(cells: int, excluded: Counter[tuple[str, str]]) -> str:
    reasons = "; ".join(f"{number} of {kind!r}, since {reason}" for (kind, reason), number in excluded.items())
    share = 100 * excluded.total() / max(cells, 1)
    return f"{len(KINDS)} kinds, {cells} cells, {excluded.total()} excluded ({share:.1f} %): {reasons or 'none'}"


# The script.


def _table(judged: Iterable[Judged], programs: list[Program]) -> Table:
    """One row for each kind: its mutants, by what became of them."""
    table = Table(title=f"{len(KINDS)} kinds of mistakes in {len(programs)} programs", show_lines=False)
    table.add_column("mistake")
    table.add_column("in kernels with")
    for heading in ("programs", "mutants", *INSTRUMENTS, "harmless", "not as stated"):
        table.add_column(heading, justify="right")
    table.add_column("harmless where")
    by_kind: dict[str, list[Judged]] = {kind.name: [] for kind in KINDS}
    for one in judged:
        by_kind[one.kind].append(one)
    total: Counter[str] = Counter()
    for name, mine in by_kind.items():
        counts = Counter(_column(one) for one in mine)
        counts["mutants"] = len(mine)
        counts["programs"] = len({one.program.name for one in mine})
        reasons = {one.rule.expectation.because: None for one in mine if _column(one) == "harmless"}
        table.add_row(name, domain_of(name).name, *_numbers(counts), "; ".join(reasons))
        total += counts
    table.add_section()
    table.add_row("all", "", *_numbers(total), "")
    return table


def _numbers(counts: Counter[str]) -> list[str]:
    headings = ("programs", "mutants", *INSTRUMENTS, "harmless", "not as stated")
    return [str(counts[heading] or "") for heading in headings]


def _column(one: Judged) -> str:
    if not one.as_stated:
        return "not as stated"
    return one.rule.expectation.found_by if isinstance(one.rule.expectation, Bug) else "harmless"


def main(names: list[str]) -> int:
    programs = [program for program in PROGRAMS if program.name in names or not names]
    console = Console(width=200)
    start = perf_counter()
    judged = [one for program in programs for one in judge(program)]
    seconds = perf_counter() - start
    console.print(_table(judged, programs))
    wrong = [one for one in judged if not one.as_stated]
    for one in wrong:
        console.print(str(one), style="red", highlight=False)
    bugs = sum(isinstance(one.rule.expectation, Bug) for one in judged)
    console.print(_summary(*exclusions(programs)))
    console.print(
        f"{len(judged)} mutants: {bugs} bugs and {len(judged) - bugs} harmless changes, {len(wrong)} not as stated; "
        f"{seconds:.0f} s"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
