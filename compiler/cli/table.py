"""The contract of a kernel as tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.table import Table

from tilec.backend.protocol.contract import Contract, Handoff, Place, Storage


def tables(contract: Contract) -> Iterator[Table]:
    """Roles, storage, hand-offs and lifetimes."""
    yield _table(
        f"{contract.kernel} for {contract.target}: roles",
        ("who", "does", "lines"),
        (
            (role.name if i == 0 else "", action.what, _lines(action.lines))
            for role in contract.roles
            for i, action in enumerate(role.does)
        ),
    )
    yield _table(
        "storage", ("name", "bytes", "stages", "where", "layout"), (_storage(storage) for storage in contract.storage)
    )
    yield _table(
        "hand-offs",
        ("tiles", "are", "by", "for", "signal", "arrivals", "bytes", "phase", "fence or drain"),
        (_handoff(handoff) for handoff in contract.handoffs),
    )
    yield _table(
        "lifetimes",
        ("name", "allocated", "first written by", "last read by", "given back by"),
        (
            (
                life.name,
                "" if life.allocated.line is None else f"line {life.allocated.line}",
                _place(life.first_written),
                _place(life.last_read),
                _place(life.given_back) or "the end of the CTA",
            )
            for life in contract.lifetimes
        ),
    )


def _table(title: str, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    # No lines around cells: what is piped into a file is plain ASCII.
    table = Table(
        title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, header_style="italic"
    )
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*row)
    table.add_row()
    return table


def _lines(lines: Sequence[int]) -> str:
    return ", ".join(map(str, lines))


def _storage(storage: Storage) -> Sequence[str]:
    where = storage.where if storage.address is None else f"{storage.where} at {storage.address:#x}"
    return storage.name, str(storage.bytes), str(storage.stages), where, storage.layout


def _handoff(handoff: Handoff) -> Sequence[str]:
    return (
        ", ".join(handoff.tiles),
        handoff.state,
        handoff.producer,
        handoff.consumer,
        handoff.signal,
        "" if handoff.arrivals is None else str(handoff.arrivals),
        " or ".join(map(str, handoff.bytes)),
        " / ".join(handoff.phase),
        ", ".join(handoff.order),
    )


def _place(place: Place | None) -> str:
    if place is None:
        return ""
    return place.what if place.line is None else f"{place.what}, line {place.line}"
