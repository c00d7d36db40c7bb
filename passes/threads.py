"""`threads`: a synchronous kernel becomes asynchronous, its copies by the threads of the CTA."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from tilec.dialects.tile import KernelOp
from tilec.passes.asynchronous import convert
from tilec.passes.dispatch import Dispatch


@dataclass(frozen=True)
class Threads(ModulePass):
    """Make copies asynchronous, all of them done by the threads: what every chip and every layout can do."""

    name: ClassVar[str] = "threads"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in op.walk():
            if isinstance(kernel, KernelOp):
                convert(kernel, Dispatch(None))
