"""Measurements of a benchmark, and how they are shown."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.table import Table


@dataclass
class Measurements:
    """What was measured of one thing, in `unit`."""

    group: str
    name: str
    unit: str
    values: list[float] = field(default_factory=lambda: list[float]())

    @property
    def median(self) -> float:
        return statistics.median(self.values)


def table_of(rows: Sequence[Measurements]) -> Table:
    table = Table("what", "median", "least", "rounds", title=rows[0].group, title_justify="left")
    for column in table.columns[1:]:
        column.justify = "right"
    for row in rows:
        digits = 2 if row.unit == "us" else 1 if row.unit == "ms" else 0
        shown = [f"{value:.{digits}f} {row.unit}".strip() for value in (row.median, min(row.values))]
        table.add_row(row.name, *shown, str(len(row.values)))
    return table
