"""The generated pages are up to date, and the docstrings that they come from say what they must."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tilec.dialects.tile import Tile

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_pages_are_up_to_date(tmp_path: Path) -> None:
    subprocess.run([sys.executable, DOCS / "generate.py", tmp_path], check=True)
    written = sorted(path.name for path in tmp_path.iterdir())
    assert written == ["costs.md", "dialect.md", "passes.md", "words.md"]
    for name in written:
        assert (DOCS / name).read_text() == (tmp_path / name).read_text(), "run: python docs/generate.py"


@pytest.mark.parametrize("name", [*(op.name for op in Tile.operations), *(f"!{type.name}" for type in Tile.attributes)])
def test_every_operation_and_type_shows_its_text(name: str) -> None:
    page = (DOCS / "dialect.md").read_text()
    section = page.split(f"### `{name}`\n", 1)[1].split("\n#", 1)[0]
    example = section.split("`")[1::2]
    assert any(name in text for text in example)
