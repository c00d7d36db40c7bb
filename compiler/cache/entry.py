"""An entry as a file: its name, a header that tells whether the rest is whole, then the bytes that were put.

``ab/abcdef....kernel.tilec`` in the folder of the cache is the entry of kind `kernel` with that key:

    offset  bytes
    0       6      b"TILEC\\0"
    6       2      version of this format, little-endian
    8       8      length of the payload
    16      32     SHA-256 of the file's name, a zero byte and the payload
    48             payload

The name is in the sum so that a file under another's name is none. Nothing is synced to the disk: what a power failure leaves
is not whole, and then not an entry.
"""

from __future__ import annotations

import os
import re
import stat
import struct
from contextlib import suppress
from hashlib import sha256
from typing import NamedTuple

from tilec.cache.folder import distrust, tell_distrusted

FORMAT = 1
_MAGIC = b"TILEC\0"
_HEADER = struct.Struct("<6sHQ32s")
HEADER_BYTES = _HEADER.size
_BINARY = getattr(os, "O_BINARY", 0)
# Neither a link, nor a pipe that nobody writes into.
_READ = os.O_RDONLY | _BINARY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY
ENTRY_NAME = re.compile(r"[0-9a-f]{8,128}\.([a-z][a-z0-9_-]{0,63})\.tilec")
LEFTOVER_SUFFIX = ".tilec-tmp"


class Entry(NamedTuple):
    """The payload of an entry, and when it was last used, in seconds since 1970."""

    payload: bytes
    used: float


def entry_name(kind: str, key: str) -> str:
    """The name of an entry's file. Raises ValueError for what is no kind or no key (lower-case hexadecimal digits)."""
    name = f"{key}.{kind}.tilec"
    if ENTRY_NAME.fullmatch(name) is None:
        raise ValueError(f"not a kind and a key of the cache: {kind!r}, {key!r}")
    return name


def read_entry(path: str, name: str) -> Entry | None:
    """The entry `name` at `path`; None where it is not whole, of another format, or not to be trusted (a warning says so).

    Raises OSError where the file cannot be read.
    """
    file = os.open(path, _READ)
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode) or found.st_size < HEADER_BYTES:
            return None
        if (why := distrust(found)) is not None:
            tell_distrusted(path, why)
            return None
        magic, version, length, digest = _HEADER.unpack(_read(file, HEADER_BYTES))
        if (magic, version, length) != (_MAGIC, FORMAT, found.st_size - HEADER_BYTES):
            return None
        payload = _read(file, length)
    except struct.error:  # shorter than it was
        return None
    finally:
        os.close(file)
    return Entry(payload, found.st_mtime) if digest == _digest(name, payload) else None


def _read(file: int, size: int) -> bytes:
    """`size` bytes, or fewer at the end of the file."""
    data = os.read(file, size)
    while len(data) < size and (more := os.read(file, size - len(data))):
        data += more
    return data


def write_entry(path: str, name: str, payload: bytes) -> None:
    """Put an entry at `path`, at once for all who look. Raises OSError, and leaves nothing behind then."""
    header = _HEADER.pack(_MAGIC, FORMAT, len(payload), _digest(name, payload))
    replace_file(path, header + payload)


def replace_file(path: str, data: bytes) -> None:
    """Make `path` a file of `data`, for this user alone, at once: whoever opens it sees all of the old or all of the new."""
    # Its own name among all processes of all machines that share the folder.
    temporary = os.path.join(os.path.dirname(path), f".{os.urandom(12).hex()}{LEFTOVER_SUFFIX}")
    try:
        with open(os.open(temporary, _CREATE, 0o600), "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _digest(name: str, payload: bytes) -> bytes:
    hashed = sha256(name.encode() + b"\0")
    hashed.update(payload)
    return hashed.digest()
