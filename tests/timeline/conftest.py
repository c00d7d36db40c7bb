"""Timelines of the examples, and a real browser."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tilec.source import parse_file
from tilec.timeline import Request, Subject, make
from tilec.timeline.page import page

CHROMIUM, DRIVER = "/usr/bin/chromium", "/usr/bin/chromedriver"
_QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip


@pytest.fixture(scope="session")
def subject_of() -> Callable[..., Subject]:
    """The timeline of a file."""

    def subject(path: Path, **request: Any) -> Subject:
        return make(parse_file(str(path)), Request(**request), file=path.name, source=path.read_text())

    return subject


@pytest.fixture
def gemm(examples: Path, subject_of: Callable[..., Subject]) -> Subject:
    """A ring of two, one output tile, 8 K tiles."""
    return subject_of(examples / "gemm.tile", pipeline="tma,pipeline(2)")


@pytest.fixture
def keys() -> Any:
    """Names of keys."""
    return pytest.importorskip("selenium.webdriver.common.keys").Keys


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Debian's chromium, driven through its own driver."""
    if not Path(CHROMIUM).exists() or shutil.which(DRIVER) is None:
        pytest.skip("no chromium and chromedriver in /usr/bin")
    webdriver = pytest.importorskip("selenium.webdriver")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in (*_QUIET, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}", "--window-size=1400,1400"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    try:
        yield driver
    finally:
        driver.quit()


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Callable[..., Any]:
    """Opens the page of a timeline."""

    def show(subject: Subject, hash: str = "") -> Any:
        path = tmp_path / "timeline.html"
        path.write_text(page(subject), encoding="utf-8")
        browser.get("about:blank")
        browser.get_log("browser")
        browser.get_log("performance")
        browser.get(f"{path.as_uri()}{hash}")
        return browser

    return show
