"""A report as Markdown."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING

from tilec.design.blocks import Block, Bullets, Code, Grid, Heading, Pairs, Paragraph
from tilec.design.page import page

if TYPE_CHECKING:
    from tilec.design.report import Design

WIDTH = 80
"""Of paragraphs and lists; rows of tables are as long as they are."""


def markdown(design: Design) -> str:
    """The report as a page of its own."""
    return "\n\n".join(made for block in page(design) if (made := _block(block))) + "\n"


def _block(block: Block) -> str:
    match block:
        case Heading(text, level):
            return f"{'#' * level} {_plain(text)}"
        case Paragraph(text):
            return _filled(_plain(text))
        case Bullets(items):
            return "\n".join(_filled(f"- {_plain(item)}", "  ") for item in items)
        case Pairs(rows):
            return "\n".join(_filled(f"- **{key}**: {_plain(value)}", "  ") for key, value in rows)
        case Grid():
            return _table(block)
        case Code(lines):
            return "\n".join(("```text", *lines, "```"))


def _filled(text: str, indent: str = "") -> str:
    return fill(text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _plain(text: str) -> str:
    """What Markdown would take for a mark, as itself."""
    return text.replace("\\", "\\\\").replace("*", "\\*").replace("_", "\\_").replace("|", "\\|").replace("<", "&lt;")


def _table(block: Grid) -> str:
    rules = ("---:" if place in block.numbers else "---" for place in range(len(block.headings)))
    rows = (" | ".join(_plain(cell) for cell in row) for row in block.rows)
    return "\n".join((f"| {' | '.join(block.headings)} |", f"|{'|'.join(rules)}|", *(f"| {row} |" for row in rows)))
