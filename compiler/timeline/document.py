"""A timeline as plain data: what the page is made of, and nothing that JSON has no word for."""

from __future__ import annotations

from dataclasses import asdict, fields
from math import isfinite
from typing import Any

from tilec.backend.timeline import Costs, Model
from tilec.timeline.subject import Subject

VERSION = 1


def document(subject: Subject) -> dict[str, Any]:
    """Times are in `unit`. A rate without a bound is null."""
    trace = subject.trace
    return {
        "version": VERSION,
        "kernel": subject.kernel,
        "file": subject.file,
        "source": subject.source,
        "target": subject.target,
        "pipeline": subject.pipeline,
        "shape": dict(subject.shape),
        "shape_was_chosen": subject.chosen,
        "amount": subject.amount,
        "unit": subject.unit,
        "clock_ghz": subject.model.clock_mhz / 1e3,
        "costs": {"kind": subject.kind, "ratio": subject.ratio, "chip": _rates(subject.model.costs)},
        "sources": _sources(subject.model),
        "gemm": None if subject.gemm is None else subject.gemm.json(),
        "why_not": subject.why_not,
        "memory": None if subject.memory is None else asdict(subject.memory),
        "trace": {
            "lanes": list(trace.lanes),
            "makespan": trace.makespan,
            "spans": [asdict(span) for span in trace.spans],
            "links": [asdict(link) for link in trace.links],
        },
        "kpis": asdict(trace.kpis),
    }


def _rates(costs: Costs) -> dict[str, float | None]:
    return {name: value if isfinite(value) else None for name, value in asdict(costs).items()}


def _sources(model: Model) -> list[dict[str, Any]]:
    """Of each constant: its value, and where it comes from."""
    known = model.sources
    return [
        {
            "name": field.name,
            "value": _rates(model.costs)[field.name],
            "evidence": known[field.name].evidence if field.name in known else None,
            "where": known[field.name].where if field.name in known else None,
        }
        for field in fields(Costs)
    ]
