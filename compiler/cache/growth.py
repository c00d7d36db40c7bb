"""How large the cache is by now, without looking through it: a file to which every writer appends the size of what it wrote.

It starts with the time and the total of the last look through the whole folder, each number as 8 bytes. Nothing is locked: what
two writers lose between them is found again at the next look, which comes at the latest after a day or some thousand entries.
"""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path

from tilec.cache.entry import replace_file

GROWTH_NAME = "growth.tilec"
_MOST_NUMBERS = 4096
_DAY = 86400
_NUMBER = struct.Struct("<Q")
_FLAGS = os.O_RDWR | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


def grown(folder: Path, size: int) -> int | None:
    """Add `size` bytes; the total by now, or None where it is time to look through the folder again."""
    try:
        file = os.open(folder / GROWTH_NAME, _FLAGS)
        try:
            os.write(file, _NUMBER.pack(size))
            os.lseek(file, 0, os.SEEK_SET)
            data = os.read(file, (_MOST_NUMBERS + 1) * _NUMBER.size)
        finally:
            os.close(file)
    except OSError:
        return None
    if len(data) % _NUMBER.size != 0 or not 3 <= len(data) // _NUMBER.size <= _MOST_NUMBERS:
        return None
    looked, *sizes = (number for (number,) in _NUMBER.iter_unpack(data))
    return sum(sizes) if abs(time.time() - looked) < _DAY else None


def counted(folder: Path, total: int) -> None:
    """Start anew from what a look through the folder found. Raises OSError if it cannot be written."""
    replace_file(str(folder / GROWTH_NAME), _NUMBER.pack(int(time.time())) + _NUMBER.pack(total))
