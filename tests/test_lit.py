"""The FileCheck suite under ``lit/``, one test a folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_LIT = Path(__file__).resolve().parent.parent / "lit"
_FOLDERS = sorted({path.parent for path in _LIT.rglob("*") if path.suffix in (".tile", ".mlir", ".test")})


@pytest.mark.parametrize("folder", _FOLDERS, ids=lambda path: str(path.relative_to(_LIT)))
def test_lit(folder: Path) -> None:
    files = [str(path) for path in sorted(folder.iterdir()) if path.suffix in (".tile", ".mlir", ".test")]
    command = [str(Path(sys.executable).parent / "lit"), "-v", "--no-progress-bar", "-j2", *files]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert f"Passed: {len(files)}" in finished.stdout, finished.stdout  # nothing was skipped or left out
