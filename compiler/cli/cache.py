"""``tilec cache``: what is kept on disk for the next process, and a way to be rid of it."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from tilec.cache.store import Store
    from tilec.cache.upkeep import Info

NAME = "cache"
SUMMARY = "show or clear the compiled kernels on disk"
_OFF = "the disk cache is switched off by TILEC_CACHE_DIR"
_SHOWN = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    info = actions.add_parser("info", help="tell where the disk cache is and what it holds")
    info.add_argument("--json", action="store_true", help="print JSON: sizes in bytes, times in seconds since 1970")
    info.set_defaults(action=_info)
    clear = actions.add_parser("clear", help="remove all entries; files that are not tilec's stay")
    clear.set_defaults(action=_clear)


def main(arguments: argparse.Namespace) -> int:
    from tilec.cache.store import find_store

    return arguments.action(find_store(), arguments)


def _info(store: Store | None, arguments: argparse.Namespace) -> int:
    from tilec.cli.output import write_output

    if store is None:
        write_output("-", '{\n  "folder": null\n}\n' if arguments.json else f"{_OFF}\n", hint=None)
        return 0
    info = store.info()
    show = _json if arguments.json else _text
    write_output("-", show(store.folder, store.limit, info), hint=None)
    return 0


def _json(folder: Path, limit: int, info: Info) -> str:
    from dataclasses import asdict
    from json import dumps

    fields = {"folder": str(folder), "limit": limit, "entries": info.entries, "size": info.size, **asdict(info)}
    return f"{dumps(fields, indent=2)}\n"


def _text(folder: Path, limit: int, info: Info) -> str:
    from rich.table import Table

    from tilec.cache.limit import size_text
    from tilec.cli.output import rendered
    from tilec.wording import many

    facts = Table(box=None, pad_edge=False, show_header=False)
    facts.add_column()
    facts.add_column(overflow="fold")
    facts.add_row("folder", str(folder))
    facts.add_row("limit", size_text(limit))
    if info.oldest_use is not None and info.newest_use is not None:
        facts.add_row("oldest use", _time(info.oldest_use))
        facts.add_row("newest use", _time(info.newest_use))
    if info.leftovers:
        facts.add_row("left by writers that died", many(info.leftovers, "file"))
    if info.foreign:
        facts.add_row("not tilec's", many(info.foreign, "file"))
    kinds = Table(box=None, pad_edge=False, header_style="bold")
    kinds.add_column("kind")
    for heading in ("entries", "size"):
        kinds.add_column(heading, justify="right")
    for name, kind in info.kinds.items():
        kinds.add_row(name, str(kind.entries), size_text(kind.size))
    kinds.add_row("all", str(info.entries), size_text(info.size))
    return rendered(facts, "", kinds)


def _time(seconds: float) -> str:
    from datetime import datetime

    return datetime.fromtimestamp(seconds).astimezone().isoformat(" ", "minutes")


def _clear(store: Store | None, _: argparse.Namespace) -> int:
    from tilec.cache.limit import size_text
    from tilec.cli.output import write_output
    from tilec.wording import many

    if store is None:
        write_output("-", f"{_OFF}\n", hint=None)
        return 0
    cleared = store.clear()
    lines = [f"removed {many(cleared.entries, 'file')}, {size_text(cleared.size)}, from {store.folder}"]
    if cleared.foreign:
        stay = "stays" if cleared.foreign == 1 else "stay"
        lines.append(f"{many(cleared.foreign, 'file')} in it that tilec did not make {stay}")
    write_output("-", "".join(f"{line}\n" for line in lines), hint=None)
    for path, why in cleared.failed[:_SHOWN]:
        print(f"error: cannot remove {path}: {why}", file=sys.stderr)
    if (more := len(cleared.failed) - _SHOWN) > 0:
        print(f"error: cannot remove {many(more, 'more file')} there", file=sys.stderr)
    return 1 if cleared.failed else 0
