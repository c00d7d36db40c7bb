"""What all tests share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tilec.cli import main

# The same examples in each run: a red test stays red until it is mended. Deadlines measure the machine, not the code.
settings.register_profile(
    "tilec", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
settings.load_profile("tilec")


@dataclass(frozen=True)
class Finished:
    """How a command ended."""

    code: int
    out: str
    err: str


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Callable[..., Finished]:
    """Runs the command line in this process."""

    def run(*arguments: str | Path) -> Finished:
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Finished(code, captured.out, captured.err)

    return run


@pytest.fixture(autouse=True)
def no_disk_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test finds what another one has left on disk; those of the cache set a folder of their own."""
    monkeypatch.setenv("TILEC_CACHE_DIR", "off")


@pytest.fixture
def examples() -> Path:
    """The folder of example programs."""
    return Path(__file__).resolve().parent.parent / "examples"
