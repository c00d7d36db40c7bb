"""Kernels compiled before they are timed, in processes beside each other: they find each other's code in the disk cache."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import NamedTuple

import tilec


class Program(NamedTuple):
    """The text of a kernel, and its passes."""

    text: str
    pipeline: str = ""

    def kernel(self) -> tilec.Kernel:
        return tilec.compile(self.text, pipeline=self.pipeline)


def compile_ahead(programs: Iterable[Program], target: str = "sm_90a") -> None:
    """Put the code of all of them on disk, for the classes of tensors that their views declare.

    Raises TilecError for one that is refused. Call it before the process uses CUDA.
    """
    distinct = list(dict.fromkeys(programs))
    start = time.monotonic()
    # Code generation is one at a time in a process; and a new one is not a copy of this one's memory.
    workers = min(len(distinct), os.cpu_count() or 1)
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        list(pool.map(_compile, distinct, [target] * len(distinct)))
    print(f"{len(distinct)} kernels compiled in {time.monotonic() - start:.1f} s", file=sys.stderr, flush=True)


def _compile(program: Program, target: str) -> None:
    _ = program.kernel().variant(target=target).artifact
