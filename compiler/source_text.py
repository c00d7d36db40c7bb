"""Files that users name, as text; all that can be wrong with one is a `TilecError`."""

from __future__ import annotations

from pathlib import Path

from tilec.diagnostics import SourceLocation, TilecError


def refuse_python(name: str) -> None:
    """Say so at once where a file of Python is given as one of tile code."""
    if name.endswith(".py"):
        raise TilecError(
            f"{name} is Python, and what is read here is tile code",
            hint="call its tilec.jit function from Python; its `ir()` returns the tile code of the last call",
        )


def read_source(path: str | Path) -> str:
    """The text of a file of tile code."""
    return decode(read_bytes(path), str(path))


def read_bytes(path: str | Path) -> bytes:
    """The contents of a file that a user has named."""
    try:
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL in it
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise TilecError(f"cannot read {path}: {reason}", hint="give the path of a file of tile code") from error


def decode(data: bytes, name: str) -> str:
    """The contents of a file as text; a binary file is refused at its first byte that no text has."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        offset = error.start
    else:
        if "\0" not in text:
            return text.removeprefix("\ufeff")
        offset = data.index(0)
    start_of_line = data.rfind(b"\n", 0, offset) + 1
    column = len(data[start_of_line:offset].decode("utf-8", "replace")) + 1
    raise TilecError(
        f"not a text file: byte {offset} is 0x{data[offset]:02x}",
        SourceLocation(name, data.count(b"\n", 0, offset) + 1, column),
        hint="tile code is UTF-8 text; is this a compiled file?",
    )
