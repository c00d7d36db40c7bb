"""The kernels that are seeded with faults: those of other compilers, hand-written ones, and what tilec makes of a GEMM."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from by_hand.hand_written import KERNELS
from foreign import nvcc_control, nvcc_memory, nvcc_products
from foreign.cases import Case, Launch, Result, integers
from foreign.running import emulated
from foreign.triton_cases import TRITON

import tilec
from tilec.diagnostics import collect
from tilec.driver import compile_module
from tilec.source import parse_file

GEMM = Path(__file__).resolve().parents[3] / "examples" / "gemm.tile"


@dataclass(frozen=True)
class Subject:
    """A kernel that works: its text, of which `entry` is run, and a launch."""

    name: str
    entry: str
    text: Callable[[], str]
    launch: Callable[[], Launch]

    def run(self, text: str, order: Any, seed: int = 0) -> list[Result]:
        """Emulates a text in place of the kernel's own."""
        launch = self.launch()
        tilec.emulate(
            text,
            self.entry,
            launch.grid,
            launch.block,
            [emulated(argument) for argument in launch.arguments],
            cluster=launch.cluster,
            dynamic_smem=launch.dynamic_smem,
            order=order,
            seed=seed,
            file=f"{self.name}.ptx",
        )
        return launch.results


def _of_case(case: Case) -> Subject:
    return Subject(case.name, case.entry, case.text, case.launch)


@cache
def _gemm_text(target: str) -> str:
    with collect():
        return compile_module(parse_file(GEMM), pipeline="tma,pipeline(2)", target=target, emit="ptx").ptx


def _gemm(target: str, k: int) -> Subject:
    """One tile of D, with `k` / 64 steps through two stages."""

    def launch() -> Launch:
        random = np.random.default_rng(k)
        a, b = integers(random, (128, k), np.float16), integers(random, (128, k), np.float16)
        d = np.zeros((128, 128), np.float16)
        maps = [tilec.TensorMap(array, (128, 64)) for array in (a, b, d)]
        expected = (a.astype(np.float32) @ b.astype(np.float32).T).astype(np.float16)
        threads = 256 if target == "sm_90a" else 128
        extents = [np.uint32(128), np.uint32(128), np.uint32(k)]
        return Launch([*extents, *maps], [Result(d, expected)], block=(threads, 1, 1), dynamic_smem=98336)

    return Subject(f"gemm.{target}:k{k}", "gemm", lambda: _gemm_text(target), launch)


SUBJECTS = {
    subject.name: subject
    for subject in (
        *(_of_case(case) for module in (nvcc_control, nvcc_memory, nvcc_products) for case in module.NVCC.cases),
        *(_of_case(case) for case in TRITON.cases),
        *(Subject(kernel.name, kernel.entry, kernel.text, kernel.launch) for kernel in KERNELS),
        *(_gemm(target, k) for target in ("sm_90a", "sm_100a") for k in (64, 192)),
    )
}
