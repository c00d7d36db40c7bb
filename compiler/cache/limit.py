"""How large the disk cache may become: ``$TILEC_CACHE_SIZE``."""

from __future__ import annotations

import os
import re

from tilec.diagnostics import TilecError

SIZE_VARIABLE = "TILEC_CACHE_SIZE"
_DEFAULT = 1 << 30
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_TEXT = r"(\d{1,30}(?:\.\d{1,30})?)\s*([kmgt]?)(?:i?b)?"


def size_limit() -> int:
    """The limit in bytes, 1 GiB unless the variable says another. Nothing is kept with 0."""
    text = os.environ.get(SIZE_VARIABLE)
    if text is None:
        return _DEFAULT
    found = re.fullmatch(_TEXT, text.strip(), re.IGNORECASE | re.ASCII)
    if found is None:
        raise TilecError(
            f"{SIZE_VARIABLE} is '{text}', which is not a size",
            hint="write a number of bytes, or one with K, M, G or T, such as 512M",
        )
    number, unit = found[1], _UNITS[found[2].lower()]
    return int(number) * unit if number.isdigit() else int(float(number) * unit)


def size_text(size: int) -> str:
    """A number of bytes to read: the largest unit that leaves at least 1."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        scale = _UNITS[unit[0].lower()]
        if size >= scale:
            return f"{size / scale:.1f} {unit}"
    return "1 byte" if size == 1 else f"{size} bytes"
