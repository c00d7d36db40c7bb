"""Records which forms of instructions ran where, for the table of docs/emulator.md.

With the environment variable ``EMULATOR_FORMS`` set to a path, each process of the tests appends a line for every opcode that
a passing test executed: the kind of evidence and the opcode.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import pytest

from tilec.backend.emulator.execution.steps import Step, Steps

_EVIDENCE = {"hardware": "hardware", "foreign": "foreign"}
"""By folder; what runs elsewhere is judged by the rule."""


@pytest.fixture(autouse=True)
def _record_forms(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    path = os.environ.get("EMULATOR_FORMS")
    if path is None:
        yield
        return
    seen: set[str] = set()
    build = Steps._build

    def recording(steps: Steps, pc: int) -> Step:
        step = build(steps, pc)
        seen.add(step.instruction.opcode)
        return step

    monkeypatch.setattr(Steps, "_build", recording)
    failed = request.session.testsfailed
    yield
    if request.session.testsfailed == failed:
        folder = request.path.relative_to(Path(__file__).parent).parts[0]
        with open(path, "a") as record:
            record.writelines(f"{_EVIDENCE.get(folder, 'rule')} {opcode}\n" for opcode in sorted(seen))
