"""The timeline as one HTML file, which needs nothing else: no network, no library, no other file."""

from __future__ import annotations

import json
from html import escape
from importlib.resources import files

from tilec.timeline.document import document
from tilec.timeline.size import check_spans
from tilec.timeline.subject import Subject

_SCRIPTS = (
    "waiting.js", "trace.js", "replay.js", "schedules.js", "state.js", "dom.js", "words.js", "sight.js", "layout.js", "scenery.js",
    "drawing.js", "chart.js", "figures.js", "panels.js", "sweep.js", "page.js",
)  # fmt: skip
"""In the order in which they use each other."""


def page(subject: Subject) -> str:
    """The page of a timeline; its data is embedded as JSON. Raises TilecError for one that is too large to be explored."""
    check_spans(subject.at, subject.trace, "a page")
    parts = {
        "title": escape(f"{subject.kernel}: timeline"),
        "style": _text("page.css"),
        "script": "\n".join(_text(name) for name in _SCRIPTS),
        "document": _embedded(document(subject)),
    }
    html = _text("page.html")
    for name, text in parts.items():
        before, _, after = html.partition(f"{{{{{name}}}}}")
        html = before + text + after
    return html


def _text(name: str) -> str:
    return (files("tilec.timeline") / name).read_text(encoding="utf-8")


def _embedded(data: object) -> str:
    """JSON in which no tag ends, whatever the program's text holds."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
