"""The pictures that the documentation shows are there, and fetch nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

_DOCS = Path(__file__).resolve().parents[2] / "docs"
_SHOWN = [
    pytest.param(page.parent / found, id=f"{page.name}: {found}")
    for page in sorted(_DOCS.glob("*.md"))
    for found in re.findall(r"!\[[^]]*\]\(([^)]+)\)", page.read_text())
]


@pytest.mark.parametrize("path", _SHOWN)
def test_a_picture_is_there(path: Path) -> None:
    data = path.read_bytes()
    if path.suffix == ".png":
        assert data.startswith(b"\x89PNG\r\n")
    else:
        assert data.startswith(b"<svg") and b"url(http" not in data and b"@import" not in data


def test_each_picture_is_shown() -> None:
    assert {path.values[0] for path in _SHOWN} >= set((_DOCS / "pictures").iterdir())
