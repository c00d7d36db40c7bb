"""`target`: name the chip that the kernels are compiled for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.passes import ModulePass

from tilec.backend.target import TARGETS
from tilec.dialects.tile import KernelOp


@dataclass(frozen=True)
class SetTarget(ModulePass):
    """Choose the chip by its name in the target table."""

    name: ClassVar[str] = "target"

    chip: str

    def __post_init__(self) -> None:
        if self.chip not in TARGETS:
            raise ValueError(f"there is no target {self.chip}: the targets are {', '.join(TARGETS)}.")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in op.walk():
            if isinstance(kernel, KernelOp):
                kernel.attributes["target"] = StringAttr(self.chip)
