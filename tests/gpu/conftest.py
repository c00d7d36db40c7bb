"""The GPU suite: skipped by name without a GPU, watched so that a hang ends a process, and reported as a table.

    python -m pytest tests/gpu -q --report=docs/gpu.md

`--report` also keeps a line for each finished test beside the table; with `--resume` those are not run again, and the test
that was running when a process ended is reported as hung. `run_all.sh` goes on in new processes until all have run.
"""

from __future__ import annotations

import faulthandler
import json
import os
import threading
from collections.abc import Callable, Generator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from harness import Errors, hang_listeners, hung, torch, why_no_gpu

TEST_DEADLINE_S = 90.0
"""Compilation included; a wait for a kernel has its own, shorter one."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--report", metavar="PATH", help="write a markdown table of the GPU tests")
    parser.addoption("--resume", action="store_true", help="leave out what --report has from an earlier process")


class Record:
    """The results of one suite over several processes: one JSON line when a test starts, one when it ends."""

    def __init__(self, path: Path, *, resume: bool) -> None:
        self.path = path
        self.lines = path.with_suffix(".jsonl")
        self.results: dict[str, dict[str, Any]] = {}
        if resume and self.lines.exists():
            for line in self.lines.read_text().splitlines():
                entry = json.loads(line)
                self.results[entry["test"]] = entry
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            self.lines.write_text("")

    def write(self, entry: dict[str, Any]) -> None:
        self.results[entry["test"]] = entry
        with self.lines.open("a") as file:
            file.write(json.dumps(entry) + "\n")

    def hang(self, reason: str) -> None:
        """Write down that the running test hangs, and where each thread is, while there still is a process to do it."""
        test = os.environ.get("PYTEST_CURRENT_TEST", "").rsplit(" (", 1)[0]
        self.write({"test": test, "outcome": "hung", "reason": reason})
        with self.path.with_suffix(".hung.txt").open("a") as file:
            print(f"{test}: {reason}", file=file, flush=True)
            faulthandler.dump_traceback(file)

    def table(self) -> str:
        groups: dict[str, list[dict[str, Any]]] = {}
        for test, entry in self.results.items():
            groups.setdefault(test.split("::")[-1].split("[")[0], []).append(entry)
        rows = ["| test | cases | passed | skipped | worst relative error | seconds |", "|---|---|---|---|---|---|"]
        for name, entries in groups.items():
            passed, skipped = (sum(e["outcome"] == outcome for e in entries) for outcome in ("passed", "skipped"))
            worst: dict[str, float] = {}
            for dtype, error in (pair for e in entries for pair in e.get("errors", {}).items()):
                worst[dtype] = max(error, worst.get(dtype, 0.0))
            shown = ", ".join(f"{dtype} {error:.1e}" for dtype, error in sorted(worst.items()))
            seconds = sum(e.get("seconds", 0.0) for e in entries)
            rows.append(f"| {name} | {len(entries)} | {passed} | {skipped} | {shown} | {seconds:.1f} |")
        wrong = [e for e in self.results.values() if e["outcome"] not in ("passed", "skipped")]
        skips = [e for e in self.results.values() if e["outcome"] == "skipped"]
        parts = [f"Run of {datetime.now(UTC):%Y-%m-%d %H:%M} UTC.", *(f"* {line}" for line in machine()), "", *rows, ""]
        parts += [f"**{e['outcome']}**: `{e['test']}`: {e.get('reason', '')}\n" for e in wrong]
        parts += [f"skipped: `{e['test']}`: {e.get('reason', '')}\n" for e in skips]
        return "\n".join(parts) + ("" if wrong else "All passed.\n")


def machine() -> list[str]:
    """The card, the driver and the versions that matter."""
    if torch is None:
        return [f"no GPU: {why_no_gpu()}"]
    from tilec.backend.ptxas import probe_ptxas
    from tilec.backend.runtime.driver import cuda_driver
    from tilec.diagnostics import TilecError

    def version_of(what: str, ask: Callable[[], tuple[int, int]]) -> str:
        try:
            return "{} of CUDA {}.{}".format(what, *ask())
        except TilecError as error:
            return f"no {what} ({error.diagnostic.message})"

    properties = torch.cuda.get_device_properties(0)
    driver = version_of("driver", lambda: cuda_driver().version())
    assembler = version_of("ptxas", lambda: probe_ptxas().release)
    return [
        f"{properties.name}, compute capability {properties.major}.{properties.minor}, "
        f"{properties.multi_processor_count} multiprocessors",
        f"{driver}, {assembler}, torch {torch.__version__}",
    ]


_record = pytest.StashKey[Record]()


def pytest_configure(config: pytest.Config) -> None:
    path: str | None = config.getoption("--report", default=None)
    if path is not None:
        record = config.stash[_record] = Record(Path(path), resume=bool(config.getoption("--resume")))
        hang_listeners.append(record.hang)


def pytest_report_header() -> list[str]:
    return machine()


def _here(item: pytest.Item) -> bool:
    return Path(__file__).parent in item.path.parents


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    reason = why_no_gpu()
    record = config.stash.get(_record, None)
    mine = [item for item in items if _here(item)]
    for item in mine:
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=reason))
    if record is None:
        return
    for test, entry in record.results.items():
        if entry["outcome"] == "started":
            record.write({"test": test, "outcome": "hung", "reason": "the process ended in this test"})
    done = [item for item in mine if item.nodeid in record.results]
    if done:
        config.hook.pytest_deselected(items=done)
        items[:] = [item for item in items if item not in done]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Watch a test from outside of its thread, which may be caught in a call of the driver."""
    record = item.config.stash.get(_record, None)
    if not _here(item) or torch is None:
        return (yield)
    if record is not None:
        record.write({"test": item.nodeid, "outcome": "started"})
    timer = threading.Timer(TEST_DEADLINE_S, hung, [f"{item.nodeid} took more than {TEST_DEADLINE_S:g} s"])
    timer.daemon = True
    timer.start()
    try:
        return (yield)
    finally:
        timer.cancel()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    record = item.config.stash.get(_record, None)
    if record is not None and _here(item) and (call.when == "call" or report.outcome != "passed"):
        errors: dict[str, float] = dict(sorted((n, float(str(e))) for n, e in item.user_properties))
        entry: dict[str, Any] = {"test": item.nodeid, "outcome": report.outcome, "seconds": round(call.duration, 3)}
        if errors:
            entry["errors"] = errors
        if call.excinfo is not None:
            entry["reason"] = str(call.excinfo.value).split("\n")[0]
        record.write(entry)
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    record = session.config.stash.get(_record, None)
    if record is not None:
        record = Record(record.path, resume=True)  # what other processes have written as well
        record.path.write_text(record.table())
        if any(e["outcome"] not in ("passed", "skipped") for e in record.results.values()):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture
def errors(request: pytest.FixtureRequest) -> Errors:
    return Errors(request.node)


@pytest.fixture(autouse=True)
def exact_reference() -> Iterator[None]:
    """Nothing that a test compares with is computed in tf32."""
    if torch is not None:
        torch.backends.cuda.matmul.allow_tf32 = False
    yield
