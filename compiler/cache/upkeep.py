"""What is done with the whole folder at once: telling what it holds, making room, removing everything.

Each function looks through the folder while others may add and remove files; what is gone when its turn comes is gone.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tilec.cache.folder import CacheRefused
from tilec.cache.growth import GROWTH_NAME, counted
from tilec.cache.inventory import Inventory, Item, take_inventory

_ABANDONED = 3600
"""Seconds after which nobody finishes a file that somebody began."""
_LOW_WATER = 7 / 8
"""Of the limit: so much stays when entries must go, so that the next ones have room without another look."""


@dataclass(frozen=True)
class KindInfo:
    """The entries of one kind; `size` in bytes with their headers."""

    entries: int
    size: int


@dataclass(frozen=True)
class Info:
    """What the cache holds. Uses are in seconds since 1970, right to the hour; None where there is no entry.

    `leftovers` are files that writers that died have left, `foreign` those that are not the cache's.
    """

    kinds: dict[str, KindInfo]
    oldest_use: float | None
    newest_use: float | None
    leftovers: int
    foreign: int

    @property
    def entries(self) -> int:
        return sum(kind.entries for kind in self.kinds.values())

    @property
    def size(self) -> int:
        return sum(kind.size for kind in self.kinds.values())


@dataclass(frozen=True)
class Cleared:
    """What was removed, in files and bytes; the path of each file that could not be, and why; how many foreign ones stay."""

    entries: int
    size: int
    failed: tuple[tuple[str, str], ...]
    foreign: int


def describe(folder: Path) -> Info:
    """Raises CacheRefused where the folder cannot be listed."""
    found = _look_through(folder)
    kinds: dict[str, KindInfo] = {}
    for one in found.entries:
        had = kinds.get(one.kind, KindInfo(0, 0))
        kinds[one.kind] = KindInfo(had.entries + 1, had.size + one.size)
    uses = [one.used / 1e9 for one in found.entries]
    return Info(
        kinds=dict(sorted(kinds.items())),
        oldest_use=min(uses, default=None),
        newest_use=max(uses, default=None),
        leftovers=len(found.leftovers),
        foreign=found.foreign,
    )


def remove_all(folder: Path) -> Cleared:
    """Entries, what writers that died have left, and the count. Raises CacheRefused where the folder cannot be listed."""
    found = _look_through(folder)
    fates = [(one, _removed(one)) for one in (*found.entries, *found.leftovers)]
    with suppress(OSError):
        os.unlink(folder / GROWTH_NAME)
    removed = [one for one, failure in fates if failure is None]
    return Cleared(
        entries=len(removed),
        size=sum(one.size for one in removed),
        failed=tuple((one.path, failure) for one, failure in fates if failure is not None),
        foreign=found.foreign,
    )


def make_room(folder: Path, limit: int, kept: str) -> None:
    """Remove the entries least recently used until they fit into `limit` bytes with some room, but never the one at `kept`.

    Raises OSError where the folder cannot be listed or written.
    """
    found = take_inventory(folder)
    abandoned = (time.time() - _ABANDONED) * 1e9
    for one in found.leftovers:
        if one.used < abandoned:
            _removed(one)
    total = sum(one.size for one in found.entries)
    if total > limit:
        for one in sorted(found.entries, key=lambda one: (one.used, one.path)):
            if total <= limit * _LOW_WATER:
                break
            if one.path != kept and _removed(one) is None:
                total -= one.size
    counted(folder, total)


def _look_through(folder: Path) -> Inventory:
    try:
        return take_inventory(folder)
    except OSError as error:
        raise CacheRefused(f"{folder} cannot be listed: {error.strerror}") from error


def _removed(one: Item) -> str | None:
    """Why the file could not be removed; None if it is gone, whoever did it."""
    try:
        os.unlink(one.path)
    except FileNotFoundError:
        return None
    except OSError as error:
        return error.strerror or str(error)
    return None
