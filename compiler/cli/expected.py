"""Diagnostics that a test file says it expects, in MLIR's words: ``// expected-error@+1 {{substring}}``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tilec.diagnostics import Diagnostic

_EXPECTED = re.compile(r"expected-(?P<severity>error|warning|remark|note)(?P<offset>@[+-]\d+)?\s*\{\{(?P<text>.*?)\}\}")


@dataclass(frozen=True)
class Expected:
    """A diagnostic of this severity, whose message (or hint) holds `text`, at this line."""

    severity: str
    line: int
    text: str

    def is_met_by(self, diagnostic: Diagnostic) -> bool:
        return (
            diagnostic.severity == self.severity
            and diagnostic.location is not None
            and diagnostic.location.line == self.line
            and self.text in f"{diagnostic.message}\n{diagnostic.hint}"
        )


def expected_diagnostics(text: str, line_offset: int = 0) -> list[Expected]:
    """All annotations in a text whose first line is `line_offset` lines into its file."""
    return [
        Expected(found["severity"], line + int((found["offset"] or "@0")[1:]), found["text"])
        for line, content in enumerate(text.split("\n"), line_offset + 1)
        for found in _EXPECTED.finditer(content)
    ]


def unmet(expected: Sequence[Expected], diagnostics: Iterable[Diagnostic], file: str) -> list[str]:
    """What differs: annotations that no diagnostic meets, and errors that meet no annotation."""
    open_ = list(expected)
    failures: list[str] = []
    for diagnostic in (each for one in diagnostics for each in (one, *one.notes)):
        met = next((one for one in open_ if one.is_met_by(diagnostic)), None)
        if met is not None:
            open_.remove(met)
        elif diagnostic.severity == "error":
            failures.append(f"unexpected {diagnostic.render()}")
    return failures + [
        f"{file}:{one.line}: expected {one.severity} was not produced: {{{{{one.text}}}}}" for one in open_
    ]
