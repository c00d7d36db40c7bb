"""The disk cache: entries under a kind and a key, shared by processes and machines, bounded in size.

Nothing is locked. An entry comes into being at once (`os.replace`), and whoever finds it gone, broken or unreadable has a miss.
What cannot be written is not kept; a warning says so once, and the work goes on.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from errno import ENOENT, ESTALE
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tilec.cache.entry import HEADER_BYTES, entry_name, read_entry, write_entry
from tilec.cache.folder import (
    DIR_VARIABLE,
    CacheRefused,
    cache_folder,
    check_folder,
    make_folder,
    tell_unreadable,
    tell_unused,
    tell_unwritable,
)
from tilec.cache.growth import grown
from tilec.cache.limit import SIZE_VARIABLE, size_limit

if TYPE_CHECKING:
    from tilec.cache.upkeep import Cleared, Info

_HOUR = 3600
_GONE = (ENOENT, ESTALE)


class Store:
    """The cache in `folder`, of at most about `limit` bytes: writers that come together may exceed it for a moment."""

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder = folder
        self.limit = limit

    def get(self, kind: str, key: str) -> bytes | None:
        """What was last put under this kind and key (lower-case hexadecimal digits), or None."""
        name = entry_name(kind, key)
        path = self._path(name)
        try:
            found = read_entry(path, name)
        except OSError as error:
            if error.errno not in _GONE:
                tell_unreadable(self.folder, error)
            return None
        if found is None:
            return None
        # Once an hour is enough to know what is used, and spares the disk.
        if time.time() - found.used > _HOUR:
            with suppress(OSError):
                os.utime(path)
        return found.payload

    def put(self, kind: str, key: str, data: bytes) -> None:
        """Keep `data` under this kind and key, and let go of what has not been used for longest if there is too much.

        What alone is larger than the limit is not kept.
        """
        name = entry_name(kind, key)
        size = HEADER_BYTES + len(data)
        if size > self.limit:
            return
        path = self._path(name)
        try:
            if self._is_written(path, name, data):
                total = grown(self.folder, size)
                if total is None or total > self.limit:
                    from tilec.cache.upkeep import make_room

                    make_room(self.folder, self.limit, kept=path)
        except CacheRefused as refused:
            tell_unused(refused)
        except OSError as error:
            if error.errno not in _GONE:  # with all else, by somebody who clears the cache
                tell_unwritable(self.folder, error)

    def _is_written(self, path: str, name: str, data: bytes) -> bool:
        """False where somebody who clears the cache came between."""
        for _ in range(2):
            try:
                write_entry(path, name, data)
                return True
            except OSError as error:
                if error.errno not in _GONE:
                    raise
                make_folder(self.folder)
                os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        return False

    def info(self) -> Info:
        """What the cache holds, by looking through it. Raises CacheRefused where that is not possible."""
        from tilec.cache.upkeep import describe

        return describe(self.folder)

    def clear(self) -> Cleared:
        """Remove all that is the cache's own. Raises CacheRefused where the folder cannot be looked through."""
        from tilec.cache.upkeep import remove_all

        return remove_all(self.folder)

    def _path(self, name: str) -> str:
        return os.path.join(self.folder, name[:2], name)


def open_store() -> Store | None:
    """The cache of this process as the environment says now; None where it is off, or refused, which is told once.

    Raises TilecError for a size that is none.
    """
    return _opened(os.environ.get(DIR_VARIABLE), os.environ.get(SIZE_VARIABLE))


@cache
def _opened(_dir: str | None, _size: str | None) -> Store | None:
    try:
        return find_store()
    except CacheRefused as refused:
        tell_unused(refused)
        return None


def find_store() -> Store | None:
    """As `open_store`, but a folder that must not be used raises CacheRefused, each time."""
    limit = size_limit()
    folder = cache_folder()
    if folder is None:
        return None
    check_folder(folder)
    return Store(folder, limit)
