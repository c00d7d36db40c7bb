"""A timeline as trace events, which Perfetto and chrome://tracing show.

The format is that of "Trace Event Format" (Google, 2016): complete events (``X``), flow events (``s`` and ``f``), metadata (``M``);
times in microseconds. A process is a CTA; a thread is a row of a lane, since what overlaps on one thread would have to nest.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tilec.timeline.rows import Row, rows, title
from tilec.timeline.subject import Subject

_Event = dict[str, Any]


def chrome_trace(subject: Subject) -> str:
    """The JSON of a timeline. Where the unit of time is no cycle, it is shown as a microsecond."""
    gigahertz = subject.clock_ghz
    scale = 1.0 if gigahertz is None else 1e-3 / gigahertz
    lanes = rows(subject.trace)
    events = [*_names(subject, lanes), *_spans(subject, lanes, scale), *_flows(subject, lanes, scale)]
    about = {
        "program": subject.file,
        "kernel": subject.heading,
        "unit": "MMA of a K tile, shown as 1 us" if gigahertz is None else f"cycles at {gigahertz:g} GHz",
    }
    return (
        json.dumps({"traceEvents": events, "displayTimeUnit": "ns", "otherData": about}, indent=1, allow_nan=False)
        + "\n"
    )


def _names(subject: Subject, lanes: list[Row]) -> Iterator[_Event]:
    spans = subject.trace.spans
    for cta in sorted({span.cta for span in spans}):
        yield _meta("process_name", cta, 0, name=f"{subject.kernel}, CTA {cta}")
        yield _meta("process_sort_index", cta, 0, sort_index=cta)
        for thread, row in enumerate(lanes):
            if any(spans[i].cta == cta for i in row.spans):
                yield _meta("thread_name", cta, thread, name=row.name)
                yield _meta("thread_sort_index", cta, thread, sort_index=thread)


def _meta(event: str, process: int, thread: int, **arguments: object) -> _Event:
    return {"ph": "M", "name": event, "pid": process, "tid": thread, "args": arguments}


def _spans(subject: Subject, lanes: list[Row], scale: float) -> Iterator[_Event]:
    for thread, row in enumerate(lanes):
        for span in (subject.trace.spans[i] for i in row.spans):
            facts = {
                "what": span.what,
                "why": span.why,
                "lines": ", ".join(map(str, span.lines)),
                "tile": span.tile,
                "K tile": span.k,
                "slot": span.stage,
                "phase": span.phase,
                f"issued ({subject.unit})": span.issued,
                f"start ({subject.unit})": span.start,
                f"end ({subject.unit})": span.end,
            }
            yield {
                "ph": "X",
                "name": title(span),
                "cat": span.kind,
                "pid": span.cta,
                "tid": thread,
                "ts": span.start * scale,
                "dur": (span.end - span.start) * scale,
                "args": {name: value for name, value in facts.items() if value is not None},
            }


def _flows(subject: Subject, lanes: list[Row], scale: float) -> Iterator[_Event]:
    """An arrow from each completion to the wait that it ends. Its ends lie inside of the two spans, which is how they are found."""
    thread_of = {i: thread for thread, row in enumerate(lanes) for i in row.spans}
    for number, link in enumerate(subject.trace.links):
        source, wait = subject.trace.spans[link.source], subject.trace.spans[link.wait]
        inside = min(source.end - source.start, wait.end - wait.start) / 100
        flow = {"cat": "wait", "name": link.signal, "id": number}
        for phase, span, i in (("s", source, link.source), ("f", wait, link.wait)):
            bound = {"bp": "e"} if phase == "f" else {}
            place = {"pid": span.cta, "tid": thread_of[i], "ts": (span.end - inside) * scale}
            yield {"ph": phase, **flow, **place, **bound}
