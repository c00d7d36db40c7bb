"""tilec: a compiler for tile programs.

`compile` makes a `Kernel` from tile code, `jit` from a Python function written with `tile`, `load` from files that were compiled
ahead of time; `torch_op` makes an operator of torch of it. `emulate` runs PTX, whoever made it, on the CPU. All of it is
imported at its first use, so that ``import tilec`` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilec.ahead_of_time import load
    from tilec.backend.emulator.faults import EmulatorFault, FaultKind, UnsupportedInstruction
    from tilec.backend.emulator.launch import Emulation, emulate
    from tilec.backend.emulator.tensor_map import TensorMap
    from tilec.diagnostics import TilecError
    from tilec.frontend import tile
    from tilec.frontend.jit import JitFunction, jit
    from tilec.frontend.tile import constexpr
    from tilec.kernel import Kernel, compile
    from tilec.resources import Resources
    from tilec.torch_op import torch_op
    from tilec.variant import Variant

    __version__: str

__all__ = [
    "Emulation",
    "EmulatorFault",
    "FaultKind",
    "JitFunction",
    "Kernel",
    "Resources",
    "TensorMap",
    "TilecError",
    "UnsupportedInstruction",
    "Variant",
    "__version__",
    "compile",
    "constexpr",
    "emulate",
    "jit",
    "load",
    "tile",
    "torch_op",
]

_HOMES = {
    "Emulation": "tilec.backend.emulator.launch",
    "EmulatorFault": "tilec.backend.emulator.faults",
    "FaultKind": "tilec.backend.emulator.faults",
    "JitFunction": "tilec.frontend.jit",
    "Kernel": "tilec.kernel",
    "Resources": "tilec.resources",
    "TensorMap": "tilec.backend.emulator.tensor_map",
    "TilecError": "tilec.diagnostics",
    "UnsupportedInstruction": "tilec.backend.emulator.faults",
    "Variant": "tilec.variant",
    "compile": "tilec.kernel",
    "constexpr": "tilec.frontend.tile",
    "emulate": "tilec.backend.emulator.launch",
    "jit": "tilec.frontend.jit",
    "load": "tilec.ahead_of_time",
    "torch_op": "tilec.torch_op",
}


def __getattr__(name: str) -> object:
    value: object
    if name == "tile":
        value = import_module("tilec.frontend.tile")
    elif name == "__version__":
        value = import_module("importlib.metadata").version("tilec")
    elif name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    else:
        raise AttributeError(f"module 'tilec' has no attribute '{name}'")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
