"""What lies in the folder of the cache. Files with other names than its own are foreign: they are counted, never touched."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tilec.cache.entry import ENTRY_NAME, LEFTOVER_SUFFIX
from tilec.cache.growth import GROWTH_NAME

_LEFTOVER = re.compile(rf"\.[0-9a-f]{{24}}{re.escape(LEFTOVER_SUFFIX)}")
_FAN = re.compile(r"[0-9a-f]{2}")


@dataclass(frozen=True)
class Item:
    """A file of the cache: its size in bytes, and when it was last used (or written) in nanoseconds since 1970.

    `kind` is empty for what a writer has begun and not finished.
    """

    path: str
    size: int
    used: int
    kind: str


@dataclass(frozen=True)
class Inventory:
    """All files of the cache that could be seen; `foreign` counts the others in the folder."""

    entries: tuple[Item, ...]
    leftovers: tuple[Item, ...]
    foreign: int


def take_inventory(folder: Path) -> Inventory:
    """Look through the folder. Others may add and remove files meanwhile.

    Raises OSError where the folder is there but cannot be listed.
    """
    entries: list[Item] = []
    leftovers: list[Item] = []
    foreign = 0
    for fan, file in _files(folder):
        if _LEFTOVER.fullmatch(file.name) is not None:
            kind = ""
        elif (named := ENTRY_NAME.fullmatch(file.name)) is not None and file.name[:2] == fan:
            kind = named[1]
        else:
            foreign += file.name != GROWTH_NAME
            continue
        try:
            found = file.stat(follow_symlinks=False)
        except OSError:  # gone
            continue
        if not stat.S_ISREG(found.st_mode):
            foreign += 1
            continue
        item = Item(file.path, found.st_size, found.st_mtime_ns, kind)
        (entries if kind else leftovers).append(item)
    return Inventory(tuple(entries), tuple(leftovers), foreign)


def _files(folder: Path) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """What is directly in the folder, under an empty name, and what is in its folders of two digits, under theirs."""
    try:
        top = list(os.scandir(folder))
    except FileNotFoundError:
        return
    for one in top:
        if _FAN.fullmatch(one.name) is None or not one.is_dir(follow_symlinks=False):
            yield "", one
            continue
        with suppress(OSError), os.scandir(one.path) as inside:
            for file in inside:
                yield one.name, file
