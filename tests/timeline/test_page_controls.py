"""The controls of the page, its figures, and the address that tells the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from page_driver import kpi, press, state

from tilec.timeline import Subject


def test_the_address_tells_the_schedule(gemm: Subject, opened: Callable[..., Any]) -> None:
    wanted = {"mode": "prefetch", "depth": 5, "ktiles": 13, "ratio": 1.2, "costs": "abstract", "span": None}
    browser = opened(gemm, "#mode=prefetch&depth=5&ktiles=13&ratio=1.2&costs=abstract")
    assert state(browser) == wanted
    browser.execute_script("Page.show({ ...Page.state, mode: 'roles', depth: 3 })")
    assert browser.current_url.endswith("#mode=roles&depth=3&ktiles=13&ratio=1.2&costs=abstract")
    browser.execute_script("location.hash = '#mode=serial&depth=1&ktiles=8&ratio=1.2&costs=abstract'")
    browser.execute_async_script("setTimeout(arguments[0], 50)")
    assert kpi(browser, "makespan") == "17.6 MMAs"
    browser.find_element("id", "reset").click()
    assert "#" not in browser.current_url and state(browser)["mode"] == "compiled"


def test_an_address_that_makes_no_sense_is_as_compiled(gemm: Subject, opened: Callable[..., Any]) -> None:
    browser = opened(gemm, "#mode=quick&depth=9&ktiles=2.5&ratio=-1&costs=gold")
    assert state(browser) == {"mode": "compiled", "depth": 2, "ktiles": 8, "ratio": None, "costs": "chip", "span": None}
    assert kpi(browser, "makespan-note") == "as compiled"


def test_the_compiled_schedule_is_the_one_embedded(gemm: Subject, opened: Callable[..., Any]) -> None:
    browser, kpis = opened(gemm), gemm.trace.kpis
    assert kpi(browser, "makespan").startswith(f"{kpis.makespan:,.0f} cycles, ")
    assert kpi(browser, "idle") == f"{100 * kpis.idle:.1f} %"
    assert kpi(browser, "flight") == str(kpis.loads_in_flight)
    assert browser.execute_script("return Page.shown.trace === Page.data.trace")


def reloaded(browser: Any) -> dict[str, Any]:
    """What the address gives alone."""
    return browser.execute_script("return State.fromHash(location.hash, Page.data)")


def choose_costs(browser: Any, kind: str) -> None:
    browser.execute_script("document.querySelector(`input[name=costs][value=${arguments[0]}]`).click()", kind)


@pytest.mark.parametrize(
    ("kind", "given", "other", "ratios"),
    [
        ("abstract", 2.0, "chip", (None, 2.0)),
        ("chip", 10.0, "abstract", (None, 10.0)),
        ("chip", None, "abstract", (None, None)),
    ],
)
def test_costs_there_and_back_are_those_of_the_start(
    kind: str,
    given: float | None,
    other: str,
    ratios: tuple[float | None, float | None],
    examples: Path,
    subject_of: Callable[..., Subject],
    opened: Callable[..., Any],
) -> None:
    """And an address leads to what was shown, at each step."""
    browser = opened(subject_of(examples / "gemm.tile", pipeline="tma,pipeline(2)", kind=kind, ratio=given))
    first = kpi(browser, "makespan")
    for costs, ratio in zip((other, kind), ratios, strict=True):
        choose_costs(browser, costs)
        assert (state(browser)["costs"], state(browser)["ratio"]) == (costs, ratio)
        assert reloaded(browser) == state(browser)
    assert kpi(browser, "makespan") == first


@pytest.mark.parametrize(("ratio", "limits"), [(10.0, ("0.1", "10")), (0.01, ("0.01", "4")), (1000.0, ("0.1", "1000"))])
def test_the_ratio_that_was_given_is_on_its_slider(
    ratio: float,
    limits: tuple[str, str],
    examples: Path,
    subject_of: Callable[..., Subject],
    opened: Callable[..., Any],
) -> None:
    browser = opened(subject_of(examples / "gemm.tile", pipeline="tma", ratio=ratio), f"#mode=roles&ratio={ratio}")
    slider = browser.find_element("id", "ratio")
    assert float(slider.get_attribute("value")) == ratio and state(browser)["ratio"] == ratio
    assert (slider.get_attribute("min"), slider.get_attribute("max")) == limits
    assert browser.find_element("id", "ratio-shown").text == f"{ratio:.2f}"


def test_better_is_shorter(gemm: Subject, opened: Callable[..., Any]) -> None:
    """Against a ring of two under abstract costs, 10.6: a serial loop has 17.6. And a ring of one is that loop."""
    browser = opened(gemm, "#mode=serial&ktiles=8&ratio=1.2&costs=abstract")
    note = browser.find_element("id", "kpi-makespan-note")
    assert note.text == "▲ 7 (+66 %) against 10.6 as compiled"
    assert note.find_element("tag name", "span").get_attribute("class") == "worse"
    assert browser.find_element("id", "kpi-idle-note").text == "▲ 30.0 points against 24.5 % as compiled"


def test_and_longer_is_worse(examples: Path, subject_of: Callable[..., Subject], opened: Callable[..., Any]) -> None:
    serial = subject_of(examples / "gemm.tile", pipeline="tma")
    browser = opened(serial, "#mode=prefetch&depth=2&ktiles=8&ratio=1.2&costs=abstract")
    note = browser.find_element("id", "kpi-makespan-note")
    assert note.text == "▼ 7 (\N{MINUS SIGN}40 %) against 17.6 as compiled"
    assert note.find_element("tag name", "span").get_attribute("class") == "better"


@pytest.mark.parametrize(
    ("ratio", "words"),
    [
        (1.2, "busy for 1.2 and the tensor core for 1, so loads set the pace."),
        (1.0, "busy for 1 and the tensor core for 1, so they are matched."),
        (0.5, "busy for 0.5 and the tensor core for 1, so MMAs can set the pace."),
    ],
)
def test_what_sets_the_pace_is_said(ratio: float, words: str, gemm: Subject, opened: Callable[..., Any]) -> None:
    browser = opened(gemm, f"#mode=prefetch&depth=2&ktiles=8&ratio={ratio}&costs=abstract")
    assert browser.find_element("id", "insight").text.startswith(f"A K tile keeps the TMA engine {words}")


def test_the_sweep_is_the_hand_calculation(gemm: Subject, opened: Callable[..., Any]) -> None:
    """17.6 without a ring, 10.6 with one of any depth above 1, where loads set the pace."""
    browser = opened(gemm, "#mode=serial&ktiles=8&ratio=1.2&costs=abstract")
    told = browser.execute_async_script("""
    const done = arguments[0], look = () => document.querySelector("#sweep svg")?.getAttribute("aria-label");
    (function wait() { look() ? done(look()) : setTimeout(wait, 20); })();
    """)
    ring = "; ".join(f"depth {depth}, {'17.6' if depth == 1 else '10.6'}" for depth in range(1, 9))
    serial = "; ".join(f"depth {depth}, 17.6" for depth in range(1, 9))
    assert told.startswith(f"serial: {serial}. prefetch: {ring}. roles: ")


def test_controls_follow_the_keyboard(gemm: Subject, opened: Callable[..., Any], keys: Any) -> None:
    browser = opened(gemm)
    press(browser, keys.TAB, keys.TAB)  # past the link to the timeline
    assert browser.switch_to.active_element.get_attribute("name") == "mode"
    press(browser, keys.ARROW_RIGHT)
    assert state(browser)["mode"] == "serial"
    press(browser, keys.ARROW_RIGHT)
    assert state(browser)["mode"] == "prefetch"
    press(browser, keys.TAB)
    assert browser.switch_to.active_element.get_attribute("id") == "depth"
    before = kpi(browser, "makespan")
    press(browser, keys.ARROW_RIGHT)
    assert state(browser)["depth"] == 3 and kpi(browser, "makespan") != before
    press(browser, keys.TAB, keys.ARROW_RIGHT)
    assert state(browser)["ktiles"] == 9
    press(browser, keys.TAB, keys.HOME)
    assert state(browser)["ratio"] == 0.1
    press(browser, keys.TAB, keys.ARROW_RIGHT)
    assert state(browser)["costs"] == "abstract"
    assert "MMAs" in kpi(browser, "makespan")


def test_a_moved_control_leaves_the_compiled_schedule(gemm: Subject, opened: Callable[..., Any]) -> None:
    browser = opened(gemm, "#ktiles=13")
    assert (state(browser)["mode"], state(browser)["depth"]) == ("prefetch", 2)
    assert kpi(browser, "makespan-note") == "the same as compiled"  # its schedule, with the same loop
    browser.execute_script("Page.show({ ...Page.state, mode: 'serial' })")
    assert "as compiled" in kpi(browser, "makespan-note") and "+" in kpi(browser, "makespan-note")


def test_a_ring_that_does_not_fit_is_said_not_to(gemm: Subject, opened: Callable[..., Any]) -> None:
    """A stage is 2 * 128 * 64 * 2 bytes, the staging ring as much once more: six stages fit into 227 KiB, seven do not."""
    stage, staging, limit = 2 * 128 * 64 * 2, 2 * 128 * 64 * 2, 227 * 1024
    assert 6 * stage + staging < limit < 7 * stage + staging
    browser = opened(gemm, "#mode=prefetch&depth=6")
    assert not browser.find_element("id", "no-room").is_displayed()
    browser = opened(gemm, "#mode=prefetch&depth=7")
    assert browser.find_element("id", "no-room").text.startswith(
        "A ring of 7 does not fit into shared memory: it takes about 256 KiB"
    )


def test_a_ring_that_just_fits_does(gemm: Subject, opened: Callable[..., Any]) -> None:
    fits = "return State.fits(2, { memory: { other: 100, stage: 50, limit: arguments[0] } })"
    browser = opened(gemm)
    assert [browser.execute_script(fits, limit) for limit in (199, 200, 201)] == [False, True, True]


def test_a_deeper_ring_may_leave_room_for_fewer_ctas(
    examples: Path, subject_of: Callable[..., Subject], opened: Callable[..., Any]
) -> None:
    """96 KiB and some: two of them fit into 228 KiB. 128 KiB: one, and the other follows it."""
    shape = {"M": 2048, "N": 2048, "K": 256}
    two = subject_of(examples / "gemm.tile", pipeline="tma,pipeline(2)", target="sm_90a", shape=shape)
    three = subject_of(examples / "gemm.tile", pipeline="tma,pipeline(3)", target="sm_90a", shape=shape)
    assert two.trace.kpis.loads_in_flight > 2 and three.trace.kpis.loads_in_flight <= 3
    browser = opened(two, "#mode=prefetch&depth=3&ktiles=4&costs=chip")
    assert browser.find_element("id", "no-room").text == (
        "A ring of 3 leaves room for 1 CTA at a time on a multiprocessor; as compiled it holds 2."
    )
    assert browser.execute_script("return Page.shown.trace.makespan") == pytest.approx(three.trace.makespan)
