"""Every message of the dialect is produced by a test under `lit/dialect`."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
REFUSED = "\n".join(path.read_text() for path in sorted((ROOT / "lit" / "dialect").glob("*_invalid.tile")))


def messages() -> list[tuple[str, str]]:
    """The longest fixed part of each message that the dialect raises, and where it is raised."""
    found: list[tuple[str, str]] = []
    for path in sorted((ROOT / "dialects" / "tile").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("VerifyException", "parser.raise_error"):
                texts = [
                    n.value for n in ast.walk(node.args[0]) if isinstance(n, ast.Constant) and isinstance(n.value, str)
                ]
                found.append((f"{path.name}:{node.lineno}", max(texts, key=len)))
    return found


@pytest.mark.parametrize(("where", "text"), messages())
def test_a_message_has_a_test(where: str, text: str) -> None:
    assert text.strip() in REFUSED, where
