"""The page in a real browser: what it needs, what its controls do, who can use it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from html.parser import HTMLParser
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from page_driver import kpi, press, state

from tilec.timeline import Subject
from tilec.timeline.page import page
from tilec.timeline.rows import KIND_COLOURS, STAGE_COLOURS

_STEP7 = Path(__file__).resolve().parents[1] / "protocol" / "step7_roles.tile"
_CSS = Path(__file__).resolve().parents[2] / "compiler" / "timeline" / "page.css"


# ---- one file


class _Addresses(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value or "" for name, value in attrs if name in ("src", "href", "action", "poster", "srcset")]


def test_the_file_points_nowhere(gemm: Subject) -> None:
    html = page(gemm)
    parser = _Addresses()
    parser.feed(html)
    assert all(address.startswith(("#", "data:")) for address in parser.found), parser.found
    assert not re.search(r"@import|url\((?!#)", html)
    assert {address for address in re.findall(r"https?://[^\s\"'<]+", html)} == {"http://www.w3.org/2000/svg"}


def test_nothing_is_asked_of_the_network_and_nothing_goes_wrong(gemm: Subject, opened: Callable[..., Any]) -> None:
    browser = opened(gemm, "#mode=roles&depth=3&ktiles=13&ratio=3&costs=abstract")
    for mode in ("serial", "prefetch", "compiled"):
        browser.execute_script("document.querySelector(`input[name=mode][value=${arguments[0]}]`).click()", mode)
    assert browser.execute_script("return performance.getEntriesByType('resource').map((one) => one.name)") == []
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [one["params"]["request"]["url"] for one in messages if one["method"] == "Network.requestWillBeSent"]
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    assert browser.get_log("browser") == []


def test_a_program_cannot_end_the_data(
    examples: Path, subject_of: Callable[..., Subject], opened: Callable[..., Any], tmp_path: Path
) -> None:
    file = tmp_path / "gemm.tile"
    file.write_text(
        "// </script><script>document.title = 'broken'</script> {{style}}\n" + (examples / "gemm.tile").read_text()
    )
    browser = opened(subject_of(file, pipeline="tma"))
    assert browser.title == "gemm: timeline"
    assert "</script><script>" in browser.execute_script("return document.getElementById('source').textContent")


def test_the_colours_are_those_of_the_other_drawings() -> None:
    light = _CSS.read_text().partition("@media")[0]
    found = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", light))
    assert tuple(found[f"s{i}"] for i in range(8)) == STAGE_COLOURS
    names = {"epilogue": "work", "store": "store", "setup": "setup", "copy": "copy", "teardown": "setup"}
    assert {kind: found[names[kind]] for kind in KIND_COLOURS} == KIND_COLOURS


# ---- the drawing


def test_zoom_and_pan(gemm: Subject, opened: Callable[..., Any], keys: Any) -> None:
    browser = opened(gemm)

    def seen() -> tuple[float, float]:
        return tuple(browser.execute_script("return [Page.chart.from, Page.chart.to]"))

    whole = seen()
    chart = browser.find_element("id", "chart")
    chart.send_keys("+")
    closer = seen()
    assert closer[1] - closer[0] == pytest.approx(0.7 * whole[1])
    chart.send_keys(keys.ARROW_RIGHT)
    assert seen()[0] > closer[0] and seen()[1] - seen()[0] == pytest.approx(closer[1] - closer[0])
    chart.send_keys(keys.ARROW_LEFT, "-")
    assert seen()[1] - seen()[0] == pytest.approx(whole[1])
    browser.find_element("id", "zoom-in").click()
    assert seen()[1] - seen()[0] == pytest.approx(0.7 * whole[1])
    browser.find_element("id", "pan-left").click()
    assert seen()[0] < closer[0]
    chart.send_keys("0")
    assert seen() == whole
    wheel = "new WheelEvent('wheel', { deltaY: -100, ctrlKey: true, clientX: 400, bubbles: true, cancelable: true })"
    browser.execute_script(f"document.getElementById('chart').dispatchEvent({wheel})")
    assert seen()[1] - seen()[0] < whole[1]


def test_spans_by_keyboard(gemm: Subject, opened: Callable[..., Any], keys: Any) -> None:
    browser = opened(gemm, "#mode=serial&depth=1&ktiles=2&ratio=1&costs=abstract")
    browser.find_element("id", "chart").send_keys(keys.ENTER)

    def label() -> str:
        return browser.switch_to.active_element.get_attribute("aria-label")

    assert label().startswith("TMA: Load of K tile 0, from 0 to 1 MMAs. a[0] <- A[0, 0], b[0] <- B[0, 0]. issued after")
    press(browser, keys.ARROW_RIGHT)
    assert label().startswith("TMA: Load of K tile 1, from 2 to 3 MMAs.")
    press(browser, keys.ARROW_DOWN)
    assert label().startswith("tensor core: MMA of K tile 0") or label().startswith("tensor core: MMA of K tile 1")
    detail = browser.find_element("id", "detail").text
    assert "MMA of a[0] and b[0]" in detail and "issued after the wait for full[0]" in detail
    lit = browser.execute_script(
        "return [...document.querySelectorAll('#source .lit')].map((one) => one.textContent.trim())"
    )
    assert lit == ["tile.mma %acc, %a, %b"]
    press(browser, keys.ESCAPE)
    assert browser.switch_to.active_element.get_attribute("id") == "chart"


def test_pointing_at_a_span_shows_it(gemm: Subject, opened: Callable[..., Any]) -> None:
    chains = pytest.importorskip("selenium.webdriver.common.action_chains")
    browser = opened(gemm, "#mode=prefetch&depth=2&ktiles=8&ratio=1.2&costs=abstract")
    chains.ActionChains(browser).move_to_element(browser.find_element("css selector", ".span.mma")).perform()
    tip = browser.find_element("id", "tip")
    assert tip.is_displayed() and "MMA of K tile 0" in tip.text and "issued after the wait for full[0]" in tip.text
    assert browser.execute_script("return document.querySelectorAll('.link.active').length") >= 1


def test_a_pinned_span_is_in_the_address(gemm: Subject, opened: Callable[..., Any]) -> None:
    browser = opened(gemm, "#mode=serial&depth=1&ktiles=2&ratio=1&costs=abstract")
    browser.find_element("css selector", ".span.mma").click()
    assert re.search(r"&span=\d+$", browser.current_url)
    again = opened(gemm, f"#{browser.current_url.partition('#')[2]}")
    assert "MMA of K tile 0" in again.find_element("id", "detail").text
    again.find_element("id", "reset").click()
    assert "#" not in again.current_url


def test_the_table_has_each_span(gemm: Subject, opened: Callable[..., Any]) -> None:
    browser = opened(gemm)
    browser.find_element("css selector", "#table-card summary").click()
    browser.execute_async_script("setTimeout(arguments[0], 50)")
    assert browser.execute_script("return document.querySelectorAll('#table tbody tr').length") == len(gemm.trace.spans)


# ---- kernels without another schedule


@pytest.mark.parametrize(
    ("example", "pipeline"),
    [
        ("gemm", "tma,pipeline(3,0)"),
        ("gemm", "tma,pipeline(4,2)"),
        ("gemm", "tma,pipeline(4,2),persistent"),
        ("gemm", "tma(staging=4),pipeline(2),persistent"),
        ("bias_relu", "tma,pipeline(2)"),
        ("step4_tma", ""),
        ("step5_pipeline", ""),
    ],
)
def test_what_the_page_makes_of_its_facts_is_the_kernel(
    example: str, pipeline: str, examples: Path, subject_of: Callable[..., Subject], opened: Callable[..., Any]
) -> None:
    """The page looks at that itself: it has other schedules only where its own give what was compiled."""
    browser = opened(subject_of(examples / f"{example}.tile", pipeline=pipeline))
    assert not browser.find_element("id", "why-not").is_displayed()


def test_ctas_that_share_a_multiprocessor_share_its_engines(
    examples: Path, subject_of: Callable[..., Subject], opened: Callable[..., Any]
) -> None:
    """Two CTAs of 100 KiB each at a time, and more of them than there are places."""
    subject = subject_of(
        examples / "gemm.tile", pipeline="tma,pipeline(2)", shape={"M": 4096, "N": 2048, "K": 256}, target="sm_90a"
    )
    assert {"threads 0", "threads 1"} <= set(subject.trace.lanes)
    browser = opened(subject)
    assert not browser.find_element("id", "why-not").is_displayed()
    browser.execute_script("Page.show({ ...Page.state, mode: 'roles' })")
    assert "load 1" in browser.execute_script("return Page.shown.trace.lanes")
    assert browser.get_log("browser") == []


def test_ctas_of_unequal_numbers_of_tiles_have_other_schedules(
    examples: Path, subject_of: Callable[..., Subject], opened: Callable[..., Any]
) -> None:
    """Two and one output tiles. With roles each of the two places has a CTA that goes on: two tiles and one, too."""
    subject = subject_of(
        examples / "gemm.tile", pipeline="tma,pipeline(2),persistent", shape={"M": 1280, "N": 3840, "K": 256}
    )
    browser = opened(subject)
    assert not browser.find_element("id", "why-not").is_displayed()
    for mode in ("serial", "prefetch", "roles"):
        browser.execute_script("Page.show({ ...Page.state, mode: arguments[0], ktiles: 5 })", mode)
        mmas = browser.execute_script("return Page.shown.trace.spans.filter((one) => one.kind === 'mma')")
        assert [sum(mma["cta"] == cta for mma in mmas) for cta in (0, 1)] == [10, 5], mode


def test_a_loop_of_another_kind_has_no_other_schedule(
    examples: Path, subject_of: Callable[..., Subject], opened: Callable[..., Any]
) -> None:
    """Its prologue stands in its loop over tiles."""
    browser = opened(subject_of(examples / "step6_persistent.tile"))
    assert browser.find_element("id", "why-not").text == (
        "The tiles of this kernel do more than the plain GEMM loop that this page knows: its other schedules would not be "
        "those of this kernel."
    )


def test_a_loop_that_would_never_end_has_none_either(gemm: Subject, opened: Callable[..., Any]) -> None:
    """A slot of a ring of two that is loaded again two MMAs later would be waited for before."""
    assert gemm.gemm is not None
    browser = opened(replace(gemm, gemm=replace(gemm.gemm, lag=2)))
    assert browser.find_element("id", "why-not").text.startswith("The tiles of this kernel do more than")
    assert kpi(browser, "makespan-note") == "as compiled"
    assert browser.get_log("browser") == []


@pytest.mark.parametrize(
    ("path", "pipeline", "why"),
    [
        (_STEP7, "", "This kernel has roles of its own, so there is no pipeline pass whose choice could be another."),
        (
            Path("gemm.tile"),
            "",
            "Threads copy the tiles of this kernel, so there are no loads of TMA to run ahead: see the pass tma.",
        ),
    ],
)
def test_without_a_pipelined_loop_there_is_one_schedule(
    path: Path, pipeline: str, why: str, examples: Path, subject_of: Callable[..., Subject], opened: Callable[..., Any]
) -> None:
    browser = opened(subject_of(examples / path, pipeline=pipeline), "#mode=serial&depth=3")
    assert browser.find_element("id", "why-not").text == why
    assert browser.execute_script(
        "return [...document.querySelectorAll('#controls input')].every((one) => one.disabled)"
    )
    assert state(browser)["mode"] == "compiled"
    assert browser.get_log("browser") == []


# ---- for everybody


def test_everything_has_a_name(gemm: Subject, opened: Callable[..., Any]) -> None:
    browser = opened(gemm)
    unnamed = browser.execute_script("""
    const named = (one) => one.getAttribute("aria-label") || one.getAttribute("aria-labelledby") || one.textContent.trim() || [...(one.labels ?? [])].some((label) => label.textContent.trim());
    return [...document.querySelectorAll("button, input, select, [tabindex], [role=button], [role=img], a, summary")].filter((one) => !named(one)).map((one) => one.outerHTML);
    """)
    assert unnamed == []
    assert browser.execute_script("return document.documentElement.lang") == "en"
    ids = browser.execute_script("return [...document.querySelectorAll('[id]')].map((one) => one.id)")
    assert len(ids) == len(set(ids))
    labels = browser.execute_script(
        "return [...document.querySelectorAll('[aria-labelledby], [aria-describedby]')].flatMap((one) => [one.getAttribute('aria-labelledby'), one.getAttribute('aria-describedby')])"
    )
    assert set(filter(None, labels)) <= set(ids)
    assert (
        browser.execute_script("return [...document.querySelectorAll('h1, h2')].map((one) => one.tagName)")[0] == "H1"
    )
    assert browser.execute_script("return document.getElementById('kpis').getAttribute('aria-live')") == "polite"


def luminance(colour: tuple[float, float, float]) -> float:
    """WCAG 2.2: relative luminance."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    bright, dark = sorted((luminance(rgb(colour)) for colour in (one, other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


def rgb(colour: str) -> tuple[float, float, float]:
    return tuple(int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))


def schemes() -> Iterator[tuple[str, dict[str, str]]]:
    light_text, _, rest = _CSS.read_text().partition("@media (prefers-color-scheme: dark)")
    light = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", light_text))
    yield "light", light
    yield "dark", light | dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", rest.partition("* {")[0]))


@pytest.mark.parametrize(("scheme", "colours"), list(schemes()))
def test_text_can_be_read(scheme: str, colours: dict[str, str]) -> None:
    on_spans = [f"s{i}" for i in range(8)] + ["work", "store", "setup", "copy"]
    pairs = [
        *product(("ink", "soft", "accent", "good", "bad"), ("paper", "card")),
        *product(("ink",), ("lane", "idle", "mark", "code")),
        *product(("soft",), ("code", "lane")),
        *product(("on",), on_spans),
        ("card", "accent"),
    ]
    low = {pair: contrast(colours[pair[0]], colours[pair[1]]) for pair in pairs}
    assert {pair: round(value, 2) for pair, value in low.items() if value < 4.5} == {}, scheme


@pytest.mark.parametrize("width", [360, 700, 1400])
def test_no_width_is_too_narrow(width: int, gemm: Subject, opened: Callable[..., Any]) -> None:
    browser = opened(gemm)
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    )
    try:
        browser.execute_async_script("setTimeout(arguments[0], 100)")
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
