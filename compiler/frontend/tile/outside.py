"""What the words of a kernel do where there is no kernel."""

from __future__ import annotations

from typing import NoReturn


def only_in_kernels(word: str) -> NoReturn:
    from tilec.diagnostics import TilecError

    raise TilecError(
        f"tile.{word} has a meaning only inside a kernel function",
        hint="decorate the function that uses it with @tilec.jit",
    )
