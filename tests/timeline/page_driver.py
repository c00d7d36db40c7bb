"""What a page in a browser shows, and how it is told something."""

from __future__ import annotations

from typing import Any


def kpi(browser: Any, name: str) -> str:
    return browser.find_element("id", f"kpi-{name}").text


def press(browser: Any, *what: str) -> None:
    for key in what:
        browser.switch_to.active_element.send_keys(key)


def state(browser: Any) -> dict[str, Any]:
    return browser.execute_script("return { ...Page.state }")
