"""What `tilec check` has found, as text and as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from json import dumps
from typing import Any

from tilec.backend.protocol import Status, Verdict
from tilec.backend.protocol.contract import Contract
from tilec.backend.simulator import Report, Step
from tilec.cli.output import rendered
from tilec.cli.report import describe_run
from tilec.diagnostics import Diagnostic, SourceLocation

_NOT_COMPARED = (
    "compared with nothing, since this kernel has a schedule already: --like FILE compares with a program without one"
)


@dataclass(frozen=True)
class Run:
    """What the simulator made of one shape: a report, or what went wrong."""

    shape: dict[str, int]
    outcome: Report | Diagnostic
    compared: str | None = None
    """With what: ``the program``, or the path of another. None for a kernel that is asynchronous already."""
    trace: tuple[Step, ...] = ()
    """What led to a fault, oldest first."""
    warnings: tuple[Diagnostic, ...] = ()
    """Of elements that are never written."""

    @property
    def failure(self) -> Diagnostic | None:
        return self.outcome if isinstance(self.outcome, Diagnostic) else None

    @property
    def where(self) -> str:
        return ", ".join(f"{name}={extent}" for name, extent in self.shape.items()) or "its fixed extents"

    def lines(self) -> list[str]:
        if isinstance(self.outcome, Report):
            ran = f"run with {self.where}: {describe_run(self.outcome)}"
            if self.compared is None:
                return [f"{ran}; {_NOT_COMPARED}", *self._warned()]
            return [f"{ran}; the numbers are those of {self.compared}", *self._warned()]
        steps = [f"  line {'?' if s.location is None else s.location.line}: {s.text}" for s in self.trace]
        return [f"run with {self.where}:", self.outcome.render(), *(["what led to it:", *steps] if steps else [])]

    def _warned(self) -> list[str]:
        return [one.render() for one in self.warnings]

    def fields(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "compared": self.compared,
            "report": asdict(self.outcome) if isinstance(self.outcome, Report) else None,
            "diagnostic": None if self.failure is None else diagnostic_fields(self.failure),
            "warnings": [diagnostic_fields(one) for one in self.warnings],
            "trace": [{"message": step.text, **_place(step.location)} for step in self.trace],
        }


@dataclass(frozen=True)
class Result:
    """All that is known of one kernel; `seconds` is the time of the proof."""

    kernel: str
    verdict: Verdict
    seconds: float = 0.0
    run: Run | None = None
    contract: Contract | None = None
    warnings: tuple[Diagnostic, ...] = ()
    """What a proof of the protocol does not see: a kernel that does not fit its target."""

    @property
    def status(self) -> Status:
        """What the proof says; a run that goes wrong refutes whatever else is known."""
        return "refuted" if self.run is not None and self.run.failure is not None else self.verdict.status

    @property
    def summary(self) -> str:
        if self.run is not None and self.status != self.verdict.status:
            return f"by a run with {self.run.where}"
        return self.verdict.summary

    def text(self) -> str:
        """The verdict in the first line, then why, then what it rests on."""
        first = f"{self.status}: {self.kernel}, {self.summary}"
        if self.status == "checked":
            first = f"checked up to {self.summary}: {self.kernel}"
        lines = [first]
        if self.verdict.diagnostic is not None:
            lines.append(self.verdict.diagnostic.render())
        lines += [warning.render() for warning in self.warnings]
        lines += [f"assuming {assumption}" for assumption in self.verdict.assumptions]
        if self.verdict.states:
            lines.append(f"{self.verdict.states} states in {self.seconds:.1f} s")
        if self.run is not None:
            lines += self.run.lines()
        text = "\n".join(lines) + "\n"
        if self.contract is None:
            return text
        from tilec.cli.table import tables

        return f"{text}\n{rendered(*tables(self.contract))}"

    def json(self) -> str:
        found = self.verdict.diagnostic
        if found is None and self.run is not None:
            found = self.run.failure
        fields = {
            "verdict": self.status,
            "kernel": self.kernel,
            "summary": self.summary,
            "diagnostic": None if found is None else diagnostic_fields(found),
            "warnings": [diagnostic_fields(one) for one in self.warnings],
            "assumptions": list(self.verdict.assumptions),
            "states": self.verdict.states,
            "seconds": round(self.seconds, 6),
            "run": None if self.run is None else self.run.fields(),
            "contract": None if self.contract is None else asdict(self.contract),
        }
        return dumps(fields, indent=2) + "\n"


def error_json(diagnostic: Diagnostic) -> str:
    """What there is to say where there is no kernel to judge."""
    return dumps({"verdict": "error", "diagnostic": diagnostic_fields(diagnostic)}, indent=2) + "\n"


def diagnostic_fields(diagnostic: Diagnostic) -> dict[str, Any]:
    """A diagnostic with its notes."""
    return {
        "severity": diagnostic.severity,
        "message": diagnostic.message,
        **_place(diagnostic.location),
        "hint": diagnostic.hint,
        "notes": [diagnostic_fields(note) for note in diagnostic.notes],
    }


def _place(place: SourceLocation | None) -> dict[str, Any]:
    return {
        "file": None if place is None else place.file,
        "line": None if place is None else place.line,
        "column": None if place is None else place.column,
    }
