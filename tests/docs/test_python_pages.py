"""Each snippet of Python in the docs runs, one after another on a page, and prints what stands below it."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("docs/python.md",)
_BLOCK = re.compile(r"```(?P<kind>python|text)\n(?P<text>.*?)```", re.DOTALL)


def snippets(page: str) -> list[tuple[str, list[str] | None]]:
    """The code of each snippet, and the lines that it is shown to print."""
    found: list[tuple[str, list[str] | None]] = []
    for block in _BLOCK.finditer((ROOT / page).read_text()):
        if block["kind"] == "python":
            found.append((block["text"], None))
        else:
            code, printed = found.pop()
            assert printed is None, "two outputs of one snippet"
            found.append((code, block["text"].splitlines()))
    return found


@pytest.mark.parametrize("page", PAGES)
def test_snippets_print_what_is_shown(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "torch" in (ROOT / page).read_text():
        pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TILEC_CACHE_DIR", str(tmp_path / "cache"))
    names: dict[str, Any] = {"__name__": "page"}
    for number, (code, shown) in enumerate(snippets(page)):
        file = tmp_path / f"snippet{number}.py"  # kernels are read, so that their text must stand in a file
        file.write_text(code)
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile(code, str(file), "exec"), names)
        printed = iter(output.getvalue().replace(str(file), "gemm.py").splitlines())
        for line in shown or ():
            where = f"snippet {number} of {page} does not print, after what came before: {line}"
            assert line == "..." or any(line.strip() == one.strip() for one in printed), f"{where}\n{output.getvalue()}"


def test_there_are_some() -> None:
    assert sum(len(snippets(page)) for page in PAGES) >= 10
