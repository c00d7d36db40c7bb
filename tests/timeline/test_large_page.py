"""The page of a long trace: what is in sight is made, and everything can be reached."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tilec.timeline import Subject

_K_TILES = 700


@pytest.fixture
def long(examples: Path, subject_of: Callable[..., Subject]) -> Subject:
    return subject_of(
        examples / "gemm.tile", pipeline="tma,pipeline(2)", shape={"M": 128, "N": 128, "K": 64 * _K_TILES}
    )


def count(browser: Any, selector: str) -> int:
    return browser.execute_script("return document.querySelectorAll(arguments[0]).length", selector)


def test_each_mma_can_be_made_to_fill_the_window(long: Subject, opened: Callable[..., Any]) -> None:
    browser = opened(long)
    mma = browser.execute_script("return Page.data.trace.spans.findLastIndex((one) => one.kind === 'mma')")
    browser.execute_script("Page.chart.focus(arguments[0]); for (let i = 0; i < 60; i += 1) Page.chart.zoom(0.7);", mma)
    window = browser.execute_script("return Page.chart.to - Page.chart.from")
    assert window == pytest.approx(long.trace.spans[mma].end - long.trace.spans[mma].start, rel=1e-6)
    browser.execute_script("Page.chart.zoom(1e-9, Page.chart.end / 2)")
    assert browser.execute_script("return Page.chart.to - Page.chart.from") == pytest.approx(window, rel=1e-6)


def test_what_cannot_be_told_apart_is_one_shape(long: Subject, opened: Callable[..., Any]) -> None:
    assert len(long.trace.spans) > 3 * _K_TILES
    browser = opened(long)
    browser.execute_script("Page.chart.all()")
    assert count(browser, ".span") < 100
    assert count(browser, ".span.crowd.mma.s0") == count(browser, ".span.crowd.mma.s1") == 1
    # Where they are wide enough, each has a part of its own.
    browser.execute_script("Page.chart.to = Page.chart.end / 50; Page.chart.draw();")
    assert count(browser, ".span.crowd") == 0
    assert count(browser, ".span.mma") == pytest.approx(_K_TILES / 50, abs=2)


def test_a_span_among_very_many_gets_the_focus(long: Subject, opened: Callable[..., Any]) -> None:
    browser = opened(long)
    mma = browser.execute_script("return Page.data.trace.spans.findLastIndex((one) => one.kind === 'mma')")
    browser.execute_script("Page.chart.all(); Page.chart.focus(arguments[0])", mma)
    focused = browser.switch_to.active_element
    assert focused.get_attribute("data-index") == str(mma)
    assert "active" in focused.get_attribute("class").split()
    assert f"MMA of K tile {_K_TILES - 1}" in browser.find_element("id", "detail").text
    browser.execute_script("Page.chart.step(arguments[0], -1)", mma)
    assert f"MMA of K tile {_K_TILES - 2}" in browser.find_element("id", "detail").text


def test_of_very_many_links_those_of_the_active_span_are_made(long: Subject, opened: Callable[..., Any]) -> None:
    browser = opened(long)
    source = long.trace.links[0].source
    own = sum(source in (link.source, link.wait) for link in long.trace.links)
    browser.execute_script("Page.chart.all()")
    assert count(browser, "#chart .link") == 0
    browser.execute_script("Page.chart.activate(arguments[0])", source)
    assert count(browser, "#chart .link") == count(browser, "#chart .link.active") == own > 0
    browser.execute_script("Page.chart.activate(null)")
    assert count(browser, "#chart .link") == 0


def test_the_table_says_how_many_it_leaves_out(long: Subject, opened: Callable[..., Any]) -> None:
    browser = opened(long)
    browser.find_element("css selector", "#table-card summary").click()
    browser.execute_async_script("setTimeout(arguments[0], 100)")
    spans = len(long.trace.spans)
    assert count(browser, "#table tbody tr") == 1000
    assert browser.find_element("css selector", "#table caption").text == (
        f"The first 1,000 of {spans:,} spans; {spans - 1000:,} are not shown. A .json for Perfetto has all of the compiled "
        "schedule."
    )


def test_what_is_in_sight(long: Subject, opened: Callable[..., Any]) -> None:
    """Against a look at each of the intervals."""
    random = Random(1)
    intervals = sorted((start := random.uniform(0, 100), start + random.choice((0, 1, 2, 40))) for _ in range(200))
    windows = [
        (-5, -1),
        (0, 100),
        (150, 160),
        *((at := random.uniform(0, 120), at + random.uniform(0, 9)) for _ in range(50)),
    ]
    script = """
    const sight = new Sight(arguments[0], ([start]) => start, ([, end]) => end);
    return arguments[1].map(([from, to]) => sight.within(from, to));
    """
    found = opened(long).execute_script(script, intervals, windows)
    for (left, right), seen in zip(windows, found, strict=True):
        assert seen == [[start, end] for start, end in intervals if start <= right and end >= left]
