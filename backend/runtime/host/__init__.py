"""Warm calls in machine code: a call of a kernel that was launched before with such tensors goes to the driver at once.

`HostLauncher` holds the launches of one kernel. Its function `call` is written in LLVM IR (launcher.ll), is compiled once by
llvmlite, and reads tensors through DLPack's exchange API; no C compiler is involved. All of it is imported when it is first
used: a process that launches once does without. `callable_type` in the module of that name makes classes that are called in
the same way.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilec.backend.runtime.host.guards import ABSENT, CellGuard, GlobalGuard, Guard
    from tilec.backend.runtime.host.launcher import Host, HostLauncher, LaunchEntry, open_host
    from tilec.backend.runtime.host.unavailable import HostUnavailable

__all__ = [
    "ABSENT",
    "CellGuard",
    "GlobalGuard",
    "Guard",
    "Host",
    "HostLauncher",
    "HostUnavailable",
    "LaunchEntry",
    "open_host",
]

_HOMES = {
    "ABSENT": "guards",
    "CellGuard": "guards",
    "GlobalGuard": "guards",
    "Guard": "guards",
    "HostUnavailable": "unavailable",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'launcher')}"), name)
