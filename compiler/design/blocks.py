"""What a report consists of before it is text or Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Heading:
    text: str
    level: int


@dataclass(frozen=True)
class Paragraph:
    text: str


@dataclass(frozen=True)
class Bullets:
    items: tuple[str, ...]


@dataclass(frozen=True)
class Pairs:
    """Names and values, a line each."""

    rows: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Grid:
    """A table; columns in `numbers` are set to the right."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Code:
    lines: tuple[str, ...]


Block = Heading | Paragraph | Bullets | Pairs | Grid | Code


def grid(headings: Sequence[str], rows: Iterable[Sequence[str]], numbers: Iterable[int] = ()) -> Grid:
    return Grid(tuple(headings), tuple(tuple(row) for row in rows), frozenset(numbers))


def counted(number: int, what: str) -> str:
    """``1 stage``, ``2 stages``."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def listed(lines: Sequence[int]) -> str:
    """``line 8``, ``lines 8, 9``; nothing of none."""
    return f"line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines))}" if lines else ""
