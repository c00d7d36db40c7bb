"""The sections of a report as headings, paragraphs and tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tilec.design.blocks import Block, Bullets, Code, Grid, Heading, Pairs, Paragraph, grid, listed
from tilec.design.page_contract import contract

if TYPE_CHECKING:
    from tilec.design.report import Design
    from tilec.design.validation import Run


def page(design: Design) -> Iterator[Block]:
    """All of it, in order."""
    under = design.pipeline or "no passes"
    yield Heading(f"{design.kernel} for {design.target}, {under}", 1)
    yield from _conclusion(design)
    yield from _evidence(design)
    yield Heading("3 Contract", 2)
    yield from contract(design.contract)
    yield from _validation(design)
    yield from _risks(design)


def _conclusion(design: Design) -> Iterator[Block]:
    made = design.conclusion
    yield Heading("1 Conclusion", 2)
    yield Paragraph(f"{made.verdict}.")
    if made.copies:
        names = [criterion.name for criterion in made.copies[0].criteria]
        yield grid(
            ("copy", "bytes", *names, "done by"),
            (
                (
                    f"{copy.view} -> {copy.tile}" if copy.direction == "load" else f"{copy.tile} -> {copy.view}",
                    str(copy.bytes),
                    *("yes" if criterion.holds else "no" for criterion in copy.criteria),
                    copy.engine,
                )
                for copy in made.copies
            ),
            numbers=(1,),
        )
        if said := tuple(f"{copy.choice}; {listed(copy.lines)}" for copy in made.copies if copy.reason is not None):
            yield Bullets(said)
    yield Paragraph(f"Pipeline: {made.pipeline.words}.")
    yield Paragraph(f"Bound: {made.bound.words}.")
    if made.remarks:
        yield Bullets(tuple(f"the passes said: {remark}" for remark in made.remarks))


def _evidence(design: Design) -> Iterator[Block]:
    yield Heading("2 Evidence and assumptions", 2)
    yield grid(
        ("kind", "statement", "source"),
        (
            (one.kind, one.statement, f"{one.source}{f'; {listed(one.lines)}' if one.lines else ''}")
            for one in design.evidence
        ),
    )


def _validation(design: Design) -> Iterator[Block]:
    made = design.validation
    yield Heading("4 Validation, run now", 2)
    looped = any(run.k_tiles is not None for run in made.runs)
    yield grid(
        ("launch", "shape", *(("K tiles",) if looped else ()), "tiles", "MMAs", "waits", "result"),
        (
            (
                run.what,
                _shape(run.shape),
                *((str(run.k_tiles),) if looped else ()),
                *map(str, (run.tiles, run.mmas, run.waits)),
                _result(run),
            )
            for run in made.runs
        ),
        numbers=(2, 3, 4, 5) if looped else (2, 3, 4),
    )
    compared = next((run.compared for run in made.runs if run.compared is not None), None)
    yield Paragraph(
        f"Exact: the numbers are those of {compared}, to the last bit."
        if compared
        else "No fault: no rule is broken. The numbers are compared with nothing: --like FILE names a program."
    )
    proof = made.proof
    words = "Proof: checked up to" if proof.verdict == "checked" else f"Proof: {proof.verdict}"
    found = "" if proof.message is None else f": {proof.message}"
    place = "" if proof.line is None else f" (line {proof.line})"
    yield Paragraph(f"{words} {proof.summary}{found}{place}.")
    if made.handoffs:
        yield grid(
            ("barrier", "one producer", "one consumer", "holds"),
            (
                (one.barrier, "; ".join(one.producers), "; ".join(one.consumers), one.problem or "yes")
                for one in made.handoffs
            ),
        )
    asked = made.experiment
    yield Heading("Experiment", 3)
    yield Pairs((("expected", asked.prediction), ("refuted if", asked.refuted_if)))
    if asked.save is not None:
        yield Paragraph("In Python, once:")
        yield Code((asked.save,))
        yield Paragraph("Then:")
    yield Code((asked.command,) if asked.command == asked.beside else (asked.command, asked.beside))


def _shape(shape: dict[str, int]) -> str:
    return " ".join(f"{name}={extent}" for name, extent in shape.items()) or "fixed"


def _result(run: Run) -> str:
    if run.outcome in ("exact", "no fault"):
        return run.outcome
    place = "" if run.line is None else f" (line {run.line})"
    return f"{run.outcome}: {run.message}{place}"


def _risks(design: Design) -> Iterator[Block]:
    made = design.risks
    yield Heading("5 Risks and fallback", 2)
    for risk in made.modes:
        yield Heading(f"{risk.mode}: {risk.status}", 3)
        place = "" if risk.line is None else f" (line {risk.line})"
        here = () if risk.where is None else (f"here: {risk.where}{place}",)
        facts = (f"{fact.what}{f' ({listed(fact.lines)})' if fact.lines else ''}" for fact in risk.facts)
        yield Bullets((*here, *facts))
    if made.fallbacks:
        yield Heading("Where a condition is not met", 3)
        yield Grid(("if", "then"), tuple((one.when, one.then) for one in made.fallbacks))
