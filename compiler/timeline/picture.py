"""A timeline as a picture, through matplotlib."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from io import BytesIO
from typing import Any, Literal

from tilec.backend.timeline import Span
from tilec.diagnostics import TilecError
from tilec.timeline.rows import colour, number, rows
from tilec.timeline.size import check_spans
from tilec.timeline.subject import Subject

Format = Literal["png", "svg"]
_INK, _SOFT, _IDLE = "#1c1b19", "#6b645b", "#f7e3da"
_WIDTH_INCHES, _ROW_INCHES = 14.0, 0.42
_LEAST_SHARE = 0.02
"""Of the picture's width, for a label inside a span."""
_MOST_ARROWS = 250
"""Beyond, they would hide what they join."""


def picture(subject: Subject, format: Format) -> bytes:
    """The bytes of a file. Raises TilecError for a timeline that is too large, and where matplotlib is not installed."""
    check_spans(subject.at, subject.trace, "a picture")
    try:
        matplotlib: Any = importlib.import_module("matplotlib")
        figures: Any = importlib.import_module("matplotlib.figure")
    except ImportError as error:
        raise TilecError(
            "a picture needs matplotlib, which is not installed", hint="pip install 'tilec[picture]'"
        ) from error
    lanes = rows(subject.trace)
    with matplotlib.rc_context({"hatch.linewidth": 0.6, "svg.hashsalt": "tilec", "svg.fonttype": "none"}):
        figure = figures.Figure(figsize=(_WIDTH_INCHES, 1.6 + _ROW_INCHES * len(lanes)), layout="constrained")
        axes = figure.add_subplot()
        place = {i: y for y, row in enumerate(lanes) for i in row.spans}
        for y, row in enumerate(lanes):
            if row.lane == "tensor core":
                axes.barh(y, subject.trace.makespan, height=0.9, color=_IDLE, zorder=0)
        for y, row in enumerate(lanes):
            _row(axes, [subject.trace.spans[i] for i in row.spans], y, subject.trace.makespan)
        for link in subject.trace.links if len(subject.trace.links) <= _MOST_ARROWS else ():
            ends = [(subject.trace.spans[i].end, place[i]) for i in (link.source, link.wait)]
            _arrow(axes, *ends)
        axes.set_yticks(range(len(lanes)), [row.name for row in lanes])
        axes.set_ylim(len(lanes) - 0.4, -0.6)
        axes.set_xlim(0, subject.trace.makespan or 1)
        axes.set_xlabel(subject.unit)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(axis="y", length=0)
        figure.suptitle(f"{subject.heading}\n{_figures(subject)}", fontsize=11, ha="left", x=0.01)
        file = BytesIO()
        figure.savefig(file, format=format, dpi=120, metadata={"Date": None} if format == "svg" else None)
    return file.getvalue()


def _row(axes: Any, spans: Sequence[Span], y: int, makespan: float) -> None:
    """Spans that look alike are one artist: there may be thousands."""
    looks: dict[tuple[str | None, bool], list[tuple[float, float]]] = {}
    for span in spans:
        length = span.end - span.start
        odd = span.phase == 1 and span.kind in ("load", "mma")
        looks.setdefault((colour(span), odd), []).append((span.start, length))
        text = (
            str(span.k) if span.kind in ("load", "mma") and span.k is not None else span.what.removeprefix("wait for ")
        )
        if span.kind in ("load", "mma", "wait") and length > makespan * _LEAST_SHARE * max(len(text) / 3, 0.5):
            axes.text(span.start + length / 2, y, text, ha="center", va="center", fontsize=8, color=_INK, zorder=4)
    for (fill, odd), boxes in looks.items():
        axes.broken_barh(
            boxes,
            (y - 0.4, 0.8),
            facecolor=fill or "white",
            edgecolor=_INK if fill else _SOFT,
            linewidth=0.6,
            linestyle="-" if fill else "--",
            hatch="////" if odd else None,
            zorder=2,
        )


def _arrow(axes: Any, source: tuple[float, int], wait: tuple[float, int]) -> None:
    down = 0.4 if source[1] < wait[1] else -0.4
    axes.annotate(
        "",
        xy=(wait[0], wait[1] - down),
        xytext=(source[0], source[1] + down),
        arrowprops={"arrowstyle": "->", "color": _SOFT, "linewidth": 0.8, "shrinkA": 0, "shrinkB": 0},
        zorder=3,
    )


def _figures(subject: Subject) -> str:
    kpis = subject.trace.kpis
    return (
        f"makespan {number(kpis.makespan)} {subject.unit}, tensor core idle {100 * kpis.idle:.1f} %, "
        f"MMA back to back: {'yes' if kpis.back_to_back else 'no'}, loads in flight: {kpis.loads_in_flight}"
    )
