from __future__ import annotations

import pytest
from fake_compiler import FakeCompiler, install_compiler
from fake_driver import FakeDriver, FakeTorch, install_torch


@pytest.fixture
def driver() -> FakeDriver:
    return FakeDriver()


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> FakeTorch:
    return install_torch(monkeypatch)


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> FakeCompiler:
    return install_compiler(monkeypatch)
