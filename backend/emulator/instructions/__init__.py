"""The instructions, one file a family. Importing this package registers them all."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules


@cache
def register_all() -> None:
    """Import every family."""
    for family in iter_modules(__path__):
        import_module(f"{__name__}.{family.name}")
