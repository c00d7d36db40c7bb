"""A timeline as text: rows of cells, whose digit is the slot of the ring, for a terminal or a pipe."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich.text import Text

from tilec.backend.timeline import Span, Trace
from tilec.backend.timeline.trace import TENSOR_CORE
from tilec.timeline.rows import Row, colour, number, rows
from tilec.timeline.subject import Subject

_CELLS = {"wait": "-", "epilogue": "e", "store": "#", "setup": "s", "copy": "c", "teardown": "x"}
_WORDS = {
    "-": "wait",
    "e": "epilogue",
    "#": "TMA store",
    "s": "set-up",
    "x": "exit",
    "c": "copy by threads",
    ".": "tensor core idle",
}
_LEAST_CELLS = 1.5
"""Of an MMA where the whole trace is drawn; with fewer, two of them cannot be told apart."""
_CUT_CELLS = 3
"""Of an MMA where only the start and the end of a trace are drawn."""
_LEAST_WIDTH = 20
_TICK = 12
_BETWEEN = "   "


@dataclass(frozen=True)
class _Window:
    """A part of the trace, and how much time a cell is."""

    start: float
    cell: float
    width: int

    @property
    def end(self) -> float:
        return self.start + self.cell * self.width

    def cells(self, span: Span) -> range:
        """The cells of a span; at least one, and none of what is not in sight."""
        first = round((span.start - self.start) / self.cell)
        last = max(round((span.end - self.start) / self.cell), first + 1)
        return range(max(first, 0), min(last, self.width))


def drawing(subject: Subject, width: int) -> list[Text]:
    """Lines of at most `width` characters, or 20: the lanes, an axis, figures and what the characters mean. Half of a narrow line
    is kept for the cells, and the names of the lanes are cut."""
    trace = subject.trace
    lanes = rows(trace)
    width = max(width, _LEAST_WIDTH)
    names = min(max((len(row.name) for row in lanes), default=0) + 2, width // 2)
    parts = _windows(trace, width - names - 1)
    lines = [*_folded(subject.heading, width, "bold"), *_folded(subject.amount, width)]
    if subject.chosen:
        lines += _folded("a small shape, since none is given (--shape M=..,N=..,K=..)", width)
    elif subject.kind == "chip":
        lines += _folded(
            "as if it were alone: tilec predict reckons with the other multiprocessors and with power", width
        )
    for i, window in enumerate(parts):
        lines.append(Text())
        if i:
            lines += [*_folded(_left_out(trace, parts[0], window, subject), width, "italic"), Text()]
        lines.append(_axis(window, names, subject.unit))
        lines += [_row(trace, row, window, names) for row in lanes]
    return [*lines, Text(), *_figures(subject, width), *_folded(_legend(trace), width, separator=_BETWEEN)]


def _windows(trace: Trace, width: int) -> list[_Window]:
    """All of it; or the start, and the end, where MMAs would be too narrow."""
    mmas = [span.end - span.start for span in trace.spans if span.kind == "mma" and span.end > span.start]
    whole = _Window(0.0, trace.makespan / width if trace.makespan else 1.0, width)
    if not mmas or min(mmas) / whole.cell >= _LEAST_CELLS:
        return [whole]
    cell = min(mmas) / _CUT_CELLS
    return [_Window(0.0, cell, width), _Window(trace.makespan - cell * width, cell, width)]


def _left_out(trace: Trace, before: _Window, after: _Window, subject: Subject) -> str:
    hidden = [span for span in trace.spans if before.end < span.start and span.end < after.start]
    mmas = sum(span.kind == "mma" for span in hidden)
    length = number(max(after.start - before.end, 0))
    return f"... {mmas} more MMAs in {length} {subject.unit} (all of them: -o timeline.html) ..."


def _axis(window: _Window, names: int, unit: str) -> Text:
    cells = [" "] * window.width
    for at in range(0, window.width, _TICK):
        text = "|" + number(window.start + at * window.cell)
        if at + len(text) <= window.width:
            cells[at : at + len(text)] = text
    return Text(unit[: names - 1].ljust(names) + "".join(cells).rstrip(), style="dim")


def _row(trace: Trace, row: Row, window: _Window, names: int) -> Text:
    cells: list[tuple[str, str]] = [(".", "dim") if row.lane == TENSOR_CORE else (" ", "")] * window.width
    spans = [trace.spans[i] for i in row.spans]
    # A wait is drawn beneath what is so short that it has only one cell.
    for span in sorted(spans, key=lambda span: span.kind != "wait"):
        if span.end < window.start or span.start > window.end or span.end == span.start:
            continue
        for at in window.cells(span):
            cells[at] = (_cell(span), _style(span))
    line = Text(row.name[: names - 1].ljust(names))
    for character, style in cells:
        line.append(character, style or None)
    line.rstrip()
    return line


def _cell(span: Span) -> str:
    if span.kind in _CELLS:
        return _CELLS[span.kind]
    return "m" if span.stage is None else str(span.stage % 10)


def _style(span: Span) -> str:
    """Colour of the slot; of odd rounds of its barrier underlined."""
    fill = colour(span)
    if fill is None:
        return "dim"
    return f"{'underline ' if span.phase == 1 and span.kind in ('load', 'mma') else ''}black on {fill}"


def _figures(subject: Subject, width: int) -> Iterator[Text]:
    kpis, gigahertz = subject.trace.kpis, subject.clock_ghz
    nanoseconds = "" if gigahertz is None else f" ({number(kpis.makespan / gigahertz)} ns)"
    figures = [
        f"makespan {number(kpis.makespan)} {subject.unit}{nanoseconds}",
        f"tensor core idle {100 * kpis.idle:.1f} %",
        f"MMA back to back: {'yes' if kpis.back_to_back else 'no'}",
        f"loads in flight: {kpis.loads_in_flight}",
    ]
    return _folded(_BETWEEN.join(figures), width, "bold", separator=_BETWEEN)


def _legend(trace: Trace) -> str:
    seen = {_cell(span) for span in trace.spans if span.end > span.start}
    words = [f"{mark} {word}" for mark, word in _WORDS.items() if mark in seen]
    if any(span.kind == "mma" for span in trace.spans):
        words.append(f". {_WORDS['.']}")
    digits = sorted(mark for mark in seen if mark.isdigit())
    ring = [f"{digits[0]}{f'-{digits[-1]}' if len(digits) > 1 else ''} slot of the ring"] if digits else []
    return _BETWEEN.join([*ring, *words])


def _folded(text: str, width: int, style: str = "", separator: str = " ") -> Iterator[Text]:
    """Lines that break between words, and inside of those that are too long."""
    line = ""
    for word in text.split(separator):
        longer = f"{line}{separator}{word}" if line else word
        if len(longer) > width and line:
            yield Text(line, style=style)
            longer = word
        while len(longer) > width:
            yield Text(longer[:width], style=style)
            longer = longer[width:]
        line = longer
    yield Text(line, style=style)
