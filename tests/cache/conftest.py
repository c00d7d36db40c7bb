"""A cache of the test's own, and what is warned of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tilec.cache import folder as cache_folder_module
from tilec.cache import store as store_module
from tilec.cache.store import Store
from tilec.diagnostics import Diagnostic, collect


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder that the environment names; it is not there yet. Nothing has been warned of so far."""
    path = tmp_path / "cache"
    monkeypatch.setenv("TILEC_CACHE_DIR", str(path))
    monkeypatch.delenv("TILEC_CACHE_SIZE", raising=False)
    monkeypatch.setattr(cache_folder_module, "_told", {})
    opened = store_module._opened  # pyright: ignore[reportPrivateUsage]
    opened.cache_clear()
    yield path
    opened.cache_clear()


@pytest.fixture
def store(folder: Path) -> Store:
    return Store(folder, 1 << 30)


@pytest.fixture
def warned() -> Iterator[list[Diagnostic]]:
    """What has been told so far."""
    with collect() as diagnostics:
        yield diagnostics
