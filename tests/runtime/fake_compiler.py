"""A stand-in for the compiler: gives the ABI that a lowering of the module would have, and counts."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any

import pytest
from xdsl.dialects.builtin import ModuleOp

from tilec import driver as driver_module
from tilec import program as program_module
from tilec.backend import ptxas as ptxas_module
from tilec.backend.abi import (
    ExtentParam,
    GridRule,
    KernelABI,
    Param,
    PitchParam,
    PointerParam,
    TensorMapParam,
    ViewFacts,
)
from tilec.backend.target import TARGETS, Target
from tilec.dialects.tile import KernelOp, ViewType

_SIZES = {"tensor_map": 128, "pointer": 8, "extent": 4, "pitch": 8}


def sizes(abi: KernelABI) -> list[int]:
    """Bytes of each parameter."""
    return [_SIZES[p.kind] for p in abi.params]


def abi_of(views: tuple[ViewType, ...], names: tuple[str, ...], target: str, *, persistent: bool = True) -> KernelABI:
    """The last view is the output. Views on the 16-byte grid go by TMA, others by address and pitch."""
    params: list[Param] = []
    for i, view in enumerate(views):
        written = i == len(views) - 1
        if view.align == 16 and (view.tail == "grid" or not written):
            params.append(TensorMapParam(i, (64, 128)[: view.rank], 128, view.order, view.dtype.name))
        else:
            params += [PointerParam(i), *(PitchParam(i, d) for d in view.order[1:])]
    params += [ExtentParam(i, d) for i, view in enumerate(views) for d in range(view.rank)]
    return KernelABI(
        name="gemm",
        target=target,
        views=tuple(
            ViewFacts(n, v.dims, v.dtype.name, v.order, v.align, v.tail == "grid")
            for n, v in zip(names, views, strict=True)
        ),
        outputs=(len(views) - 1,),
        params=tuple(params),
        grid=GridRule(len(views) - 1, (128,) * views[-1].rank, persistent),
        threads=256,
        smem_bytes=100_000,
    )


@dataclass(frozen=True)
class FakeAssembled:
    cubin: bytes
    registers: int = 64
    spill_stores: int = 0
    spill_loads: int = 0
    stack: int = 0


@dataclass(frozen=True)
class FakeCompiled:
    abi: KernelABI
    module: ModuleOp
    ptx: str
    resources: FakeAssembled
    target: Target

    def get(self, emit: str) -> None:
        """Go as far as `emit`."""


class FakeCompiler:
    """`delay` seconds a compilation; `persistent` kernels unless told otherwise."""

    def __init__(self) -> None:
        self.compiled: list[FakeCompiled] = []
        self.persistent = True
        self.delay = 0.0
        self.threads: list[int] = []

    def compile_module(self, module: ModuleOp, **options: Any) -> FakeCompiled:
        self.threads.append(threading.get_ident())
        time.sleep(self.delay)
        (kernel,) = (op for op in module.walk() if isinstance(op, KernelOp))
        names = tuple(a.name_hint or "" for a in kernel.body.block.args)
        target: str = options["target"]
        abi = abi_of(kernel.views, names, target, persistent=self.persistent)
        number = len(self.compiled)
        ptx = f"// {number}\n.version {TARGETS[target].ptx_version // 10}.{TARGETS[target].ptx_version % 10}\n"
        assembled = FakeAssembled(f"cubin {number}".encode())
        self.compiled.append(FakeCompiled(abi, module, ptx, assembled, TARGETS[target]))
        return self.compiled[-1]


def install_compiler(monkeypatch: pytest.MonkeyPatch) -> FakeCompiler:
    """Let kernels compile with a stand-in; an assembler is there."""
    compiler = FakeCompiler()
    monkeypatch.setattr(driver_module, "compile_module", compiler.compile_module)
    monkeypatch.setattr(ptxas_module, "find_ptxas", lambda: "ptxas")
    monkeypatch.setattr(ptxas_module, "probe_ptxas", lambda: TARGETS["sm_100a"])
    monkeypatch.setattr(program_module, "ptxas_identity", lambda: "13.0")
    return compiler
