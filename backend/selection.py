"""Which operations LLVM's NVPTX back end is known to select."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from tilec.backend.target import Target
from tilec.diagnostics import TilecError


class CodegenError(TilecError):
    """L2 holds something that is not known to become PTX."""


def verify_selectable(module: ModuleOp, target: Target) -> None:
    pass
