"""What a wheel would hold."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parent.parent


def _project() -> dict[str, Any]:
    return tomllib.loads((_ROOT / "pyproject.toml").read_text())


def test_every_package_is_listed() -> None:
    setuptools = _project()["tool"]["setuptools"]
    folders: dict[str, str] = setuptools["package-dir"]
    found = {
        ".".join([name, *path.parent.relative_to(_ROOT / folder).parts])
        for name, folder in folders.items()
        for path in (_ROOT / folder).rglob("__init__.py")
    }
    assert sorted(setuptools["packages"]) == sorted(found)


def test_what_is_tested_is_in_the_ranges() -> None:
    """Each direct dependency that the tests need has its version in constraints.txt."""
    pinned = {
        line.split("==")[0].lower()
        for line in (_ROOT / "constraints.txt").read_text().splitlines()
        if "==" in line and not line.startswith("#")
    }
    project = _project()["project"]
    extras = project["optional-dependencies"]
    for requirement in (*project["dependencies"], *extras["test"], *extras["dev"]):
        name = requirement.split(">")[0].split("[")[0].lower()
        assert name in pinned | {"tilec"}, requirement
