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
_GAP = 2
"""Columns between those of a table."""


def text(design: Design, width: int = WIDTH, *, colours: bool = False) -> str:
    """The report for a terminal of that width; without `colours` it is plain ASCII where the program is."""
    out = StringIO()
    console = Console(file=out, force_terminal=colours, width=width, highlight=False, markup=False, emoji=False)
    for block in page(design):
        for part in _parts(block, width):
            console.print(part)
        if isinstance(block, Code):  # is copied as it stands: it is never wrapped
            out.write("".join(f"    {line}\n" for line in block.lines))
        console.print()
    lines = (line.rstrip() for line in out.getvalue().splitlines())
    return "\n".join(lines).rstrip() + "\n"


def _parts(block: Block, width: int) -> list[RenderableType]:
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
            widths = _widths(block, width)
            return _records(block) if widths is None else [_table(block, widths)]
        case Code():
            return []


def _widths(block: Grid, width: int) -> list[int] | None:
    """Of the columns, in which no word is torn apart; None where they do not go beside each other."""
    columns = [(heading, *cells) for heading, *cells in zip(block.headings, *block.rows, strict=True)]
    widths = [max(map(len, cells)) for cells in columns]
    least = [max((len(word) for cell in cells for word in cell.split()), default=0) for cells in columns]
    for place in block.numbers:
        least[place] = max(least[place], *(len(row[place]) for row in block.rows), 0)
    room = width - _GAP * (len(columns) - 1)
    if sum(least) > room:
        return None
    while sum(widths) > room:
        place = max((i for i in range(len(widths)) if widths[i] > least[i]), key=widths.__getitem__)
        widths[place] -= 1
    return widths


def _table(block: Grid, widths: list[int]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="italic", padding=(0, _GAP, 0, 0))
    for place, heading in enumerate(block.headings):
        justify = "right" if place in block.numbers else "left"
        table.add_column(heading, justify=justify, vertical="top", width=widths[place])
    for row in block.rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


def _records(block: Grid) -> list[RenderableType]:
    """A table for a narrow terminal: each row as lines of its own."""
    made: list[RenderableType] = []
    for number, row in enumerate(block.rows):
        made += [Text("")] if number else []
        made += [
            Text(f"{heading}: {cell}" if heading else cell)
            for heading, cell in zip(block.headings, row, strict=True)
            if cell
        ]
    return made
