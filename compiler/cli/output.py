"""How the commands hand over their results. Nothing here imports a compiler module, so that those that need none are quick."""

from __future__ import annotations

import os
import sys
from errno import EBADF
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from tilec.diagnostics import TilecError

if TYPE_CHECKING:
    from rich.console import RenderableType


def write_output(path: str, result: str | bytes, hint: str | None = "choose another place with -o") -> None:
    """Write a result to a file, or to stdout for ``-``; `hint` says what to do where that cannot be written."""
    data = result.encode("utf-8") if isinstance(result, str) else result
    try:
        if path == "-":
            if sys.stdout is None:
                raise OSError(EBADF, os.strerror(EBADF))
            sys.stdout.flush()
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        else:
            Path(path).write_bytes(data)
    except BrokenPipeError:
        raise
    except (OSError, ValueError) as error:
        where = "standard output" if path == "-" else path
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise TilecError(f"cannot write {where}: {reason}", hint=hint) from error


def rendered(*parts: RenderableType) -> str:
    """Tables and headings as text: for a terminal as wide as it is, for a pipe as wide as they have to be."""
    from rich.console import Console

    console = Console()
    text = StringIO()
    Console(
        file=text,
        force_terminal=console.is_terminal,
        width=console.width if console.is_terminal else 200,
        highlight=False,
        markup=False,
    ).print(*parts, sep="\n")
    if console.is_terminal:
        return text.getvalue()
    return "".join(f"{line.rstrip()}\n" for line in text.getvalue().splitlines())
