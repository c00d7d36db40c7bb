"""A report as plain text, wrapped to a width."""

from __future__ import annotations

from io import StringIO
from typing import TYPE_CHECKING

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from tilec.design.blocks import Block, Bullets, Code, Grid, Heading, Pairs, Paragraph
from tilec.design.page import page

if TYPE_CHECKING:
    from tilec.design.report import Design

WIDTH = 80
_KEYS = 15
"""Columns of the names of values."""


def text(design: Design, width: int = WIDTH, *, colours: bool = False) -> str:
    """The report for a terminal of that width; without `colours` it is plain ASCII where the program is."""
    out = StringIO()
    console = Console(file=out, force_terminal=colours, width=width, highlight=False, markup=False, emoji=False)
    for block in page(design):
        for part in _parts(block):
            console.print(part)
        if isinstance(block, Code):  # is copied as it stands: it is never wrapped
            out.write("".join(f"    {line}\n" for line in block.lines))
        console.print()
    lines = (line.rstrip() for line in out.getvalue().splitlines())
    return "\n".join(lines).rstrip() + "\n"


def _parts(block: Block) -> list[RenderableType]:
    match block:
        case Heading(text, level):
            mark = {1: "=", 2: "-"}.get(level)
            title = Text(text, "bold")
            return [title] if mark is None else [title, Text(mark * min(len(text), WIDTH))]
        case Paragraph(text):
            return [Text(text)]
        case Bullets(items):
            table = Table.grid(padding=(0, 1))
            for item in items:
                table.add_row("-", Text(item))
            return [table] if items else []
        case Pairs(rows):
            table = Table.grid(padding=(0, 1))
            table.add_column(width=_KEYS)
            for key, value in rows:
                table.add_row(key, Text(value))
            return [table]
        case Grid():
            return [_table(block)]
        case Code():
            return []


def _table(block: Grid) -> Table:
    table = Table(box=None, pad_edge=False, header_style="italic", padding=(0, 2, 0, 0))
    for place, heading in enumerate(block.headings):
        table.add_column(heading, justify="right" if place in block.numbers else "left", vertical="top")
    for row in block.rows:
        table.add_row(*(Text(cell) for cell in row))
    return table
