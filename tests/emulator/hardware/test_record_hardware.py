"""The recorder, with stand-ins for the GPU and for its child processes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import record_hardware
from record_hardware import Refused, digest, merge, record, supervise
from suite import all_cases
from suite.cases import Argument, Case, array_of

CASES = all_cases()


class Adder:
    """Adds to the last array; `steps` are what each launch adds."""

    def __init__(self, steps: Sequence[int], error: Exception | None = None) -> None:
        self.steps = list(steps)
        self.error = error

    def launch(self, case: Case, arguments: Sequence[Argument]) -> None:
        if self.error is not None:
            raise self.error
        array = array_of(arguments[-1])
        assert array is not None
        array += np.asarray(self.steps.pop(0)).astype(array.dtype)


def outcome(folder: Path, name: str) -> dict[str, str]:
    return json.loads((folder / f"{name}.json").read_text())


def test_only_what_changed_is_kept(tmp_path: Path) -> None:
    case = CASES["bits_32"]
    record(case, Adder([3, 3]), tmp_path)
    assert outcome(tmp_path, "bits_32") == {"status": "ran", "digest": digest(case), "message": ""}
    before = array_of(case.seeded()[-1])
    assert before is not None
    with np.load(tmp_path / "bits_32.npz") as kept:
        assert kept.files == [str(len(case.seeded()) - 1)]
        assert np.array_equal(kept[kept.files[0]], before + np.uint32(3))


def test_a_result_that_varies_is_marked(tmp_path: Path) -> None:
    record(CASES["bits_32"], Adder([3, 4]), tmp_path)
    assert outcome(tmp_path, "bits_32")["status"] == "unstable"


def test_a_refusal_leaves_the_process_running(tmp_path: Path) -> None:
    record(CASES["bits_32"], Adder([], Refused("INVALID_VALUE")), tmp_path)
    assert outcome(tmp_path, "bits_32") == {
        "status": "refused",
        "digest": digest(CASES["bits_32"]),
        "message": "INVALID_VALUE",
    }


def test_a_fault_ends_the_process_and_says_why(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="illegal instruction"):
        record(CASES["bits_32"], Adder([], RuntimeError("illegal instruction")), tmp_path)
    assert outcome(tmp_path, "bits_32")["message"] == "illegal instruction"


class Processes:
    """Runs cases by an Adder; a process ends at a case of `dying` (with an outcome) or of `hanging` (without)."""

    def __init__(self, folder: Path, *, dying: str = "", hanging: str = "", silent: str = "") -> None:
        self.folder = folder
        self.dying, self.hanging, self.silent = dying, hanging, silent
        self.attempts: list[list[str]] = []

    def __call__(self, names: Sequence[str]) -> str:
        self.attempts.append(list(names))
        for name in names:
            if name == self.silent:
                return "exit -11: "
            if name == self.hanging:
                return "no end within 60 s"
            if name == self.dying:
                with pytest.raises(RuntimeError):
                    record(CASES[name], Adder([], RuntimeError("illegal address")), self.folder)
                return "exit 1: illegal address"
            record(CASES[name], Adder([1, 1]), self.folder)
        return ""


def test_the_rest_runs_in_new_processes(tmp_path: Path) -> None:
    names = ["bits_32", "bits_64", "dots", "fields_32", "fields_64"]
    processes = Processes(tmp_path, dying="bits_64", hanging="fields_32", silent="fields_64")
    supervise(names, tmp_path, processes)
    statuses = {name: outcome(tmp_path, name)["status"] for name in names}
    assert statuses == {
        "bits_32": "ran",
        "bits_64": "failed",
        "dots": "ran",
        "fields_32": "hung",
        "fields_64": "failed",
    }
    assert outcome(tmp_path, "bits_64")["message"] == "illegal address"
    for name in ("bits_32", "dots"):
        assert sum(name in attempt for attempt in processes.attempts) == 1 + (name == "dots")


def test_merge_keeps_the_evidence_alone(tmp_path: Path) -> None:
    names = ["bits_32", "bits_64", "dots"]
    supervise(names, tmp_path, Processes(tmp_path, dying="bits_64"))
    report = merge(names, tmp_path, tmp_path)
    assert list(report["cases"]) == names
    with np.load(tmp_path / "h200.npz") as kept:
        assert {key.split("/")[0] for key in kept.files} == {"bits_32", "dots"}


def test_a_recording_goes_on_from_an_earlier_one(tmp_path: Path) -> None:
    earlier, later = tmp_path / "earlier", tmp_path / "later"
    for folder, names, step in ((earlier, ["bits_32", "bits_64"], 1), (later, ["bits_64", "dots"], 2)):
        folder.mkdir()
        for name in names:
            record(CASES[name], Adder([step, step]), folder)
        merge(names, folder, folder, earlier if folder == later else None)
    outcomes, arrays = record_hardware.recording(later)
    assert set(outcomes) == {"bits_32", "bits_64", "dots"}
    assert arrays["bits_32/1"][0] == np.uint32(0xA5A5A5A5 + 1)
    assert arrays["bits_64/1"][0] == np.uint32(0xA5A5A5A5 + 2)


def test_the_digest_sees_text_and_arguments() -> None:
    case = CASES["bits_32"]
    assert digest(case) != digest(Case(**{**vars(case), "ptx": case.ptx + "\n"}))
    assert digest(case) != digest(Case(**{**vars(case), "arguments": lambda rng: [a + 1 for a in case.arguments(rng)]}))


def test_a_process_without_progress_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "program.py"
    program.write_text("import time\ntime.sleep(60)\n")
    monkeypatch.setattr(record_hardware, "HERE", program)
    supervise(["dots"], tmp_path, record_hardware.in_process(tmp_path, stall=0.3))
    assert outcome(tmp_path, "dots")["status"] == "hung"


def test_a_process_that_cannot_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "program.py"
    program.write_text("raise SystemExit('no driver')\n")
    monkeypatch.setattr(record_hardware, "HERE", program)
    supervise(["dots"], tmp_path, record_hardware.in_process(tmp_path))
    assert outcome(tmp_path, "dots") == {"status": "failed", "digest": "", "message": "exit 1: no driver"}
