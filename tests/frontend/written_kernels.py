"""Kernel functions from texts, for tests of what is wrong in them: written to a file, as Python wants them."""

from __future__ import annotations

import runpy
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tilec.diagnostics import TilecError
from tilec.frontend.function import Function
from tilec.frontend.lowering import lower

HEAD = """\
import functools
import math

from tilec import tile

N = 64


def helper(x):
    return x + 1


def first(x):
    return second(x)


def second(x):
    return first(x)


def smaller(a, b):
    if a < b:
        return a
    return b


def kernel(A: tile.View["M", "K"], B: tile.View["N", "K"]):
    D = tile.empty("M", "N", dtype=A.dtype)
"""
TAIL = """

def moved(A, m, a):
    tile.copy(A[m, 0], a)
    return m


def least(m):
    while m > 3:
        m = m // 2
    return m
"""
GRID = "    for m, n in tile.grid(D, step=(64, 64)):\n"


def function_in(path: Path, text: str, name: str = "kernel") -> Callable[..., Any]:
    """The function of this name in a file with this text."""
    path.write_text(text)
    return runpy.run_path(str(path))[name]


def kernel_of(body: str) -> str:
    """The text of a file with a kernel whose body ends with these statements, directly or (indented) in its grid."""
    lines = textwrap.indent(body.strip("\n"), "    ")
    return f"{HEAD}{GRID if body.startswith(' ') else ''}{lines}\n    return D\n{TAIL}"


def refusal_of(body: str, folder: Path) -> str:
    """What is said of a kernel with such a body, in which the file is called kernel.py; empty if nothing."""
    path = folder / "kernel.py"
    try:
        lower(Function.read(function_in(path, kernel_of(body))), ("f16", "f16"), {})
    except TilecError as error:
        return str(error).replace(str(path), "kernel.py")
    return ""


def cases(folder: Path) -> dict[str, tuple[str, str]]:
    """Bodies and what is said of them, from files of ``body ---- message ====``, by file and first line."""
    found: dict[str, tuple[str, str]] = {}
    for path in sorted(folder.glob("*.txt")):
        for case in path.read_text().split("\n====\n"):
            body, _, message = case.partition("\n----\n")
            found[f"{path.stem}: {body.strip()}"] = body, message.strip("\n")
    return found
