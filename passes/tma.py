"""`tma`: a synchronous kernel becomes asynchronous, its copies by TMA where that is legal and pays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from tilec.dialects.tile import KernelOp
from tilec.passes.asynchronous import convert
from tilec.passes.dispatch import Dispatch
from tilec.passes.storage import target_of
from tilec.passes.stores import STAGING_SLOTS


@dataclass(frozen=True)
class Tma(ModulePass):
    """Make copies asynchronous: TMA on mbarriers where it is legal and pays, else thread copies with a remark.

    `min_bytes`: the smallest copy that TMA does; the target's own number by default. `staging`: the slots of shared memory
    through which a result goes out in chunks; more of them wait less where a tile's K loop is short.
    """

    name: ClassVar[str] = "tma"

    min_bytes: int | None = None
    staging: int = STAGING_SLOTS

    def __post_init__(self) -> None:
        if self.min_bytes is not None and self.min_bytes < 0:
            raise ValueError(f"tma(min_bytes = {self.min_bytes}): a number of bytes is not negative.")
        if self.staging < 1:
            raise ValueError(f"tma(staging = {self.staging}): a result goes out through at least 1 slot.")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in op.walk():
            if isinstance(kernel, KernelOp):
                least = target_of(kernel).tma_min_bytes if self.min_bytes is None else self.min_bytes
                convert(kernel, Dispatch(least), self.staging)
