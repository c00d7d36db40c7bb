"""What README, tutorial and other pages show of a command's output is what it prints: the lines in this order, ``...`` for others."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(r"```console\n\$ tilec (?P<command>[^\n]*)\n(?P<lines>.*?)```", re.DOTALL)
BLOCKS = [
    pytest.param(found["command"], found["lines"].splitlines(), id=f"{page}: {found['command']}")
    for page in ("README.md", "docs/tutorial.md", "docs/design.md")
    for found in _BLOCK.finditer((ROOT / page).read_text())
]


@pytest.mark.parametrize(("command", "lines"), BLOCKS)
def test_the_command_prints_this(
    command: str, lines: list[str], cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    printed = iter(cli(*shlex.split(command)).out.splitlines())
    for line in lines:
        assert line == "..." or line in printed, f"not after what came before: {line}"


def test_there_are_some() -> None:
    assert len(BLOCKS) >= 5
