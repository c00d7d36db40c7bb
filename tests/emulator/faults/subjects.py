"""The kernels that are seeded with faults: those of other compilers, hand-written ones, and what tilec makes of a GEMM."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from foreign import nvcc_control, nvcc_memory, nvcc_products
from foreign.cases import Case, Launch, Result, Tiled, integers
from foreign.triton_cases import TRITON
from kernels.hand_written import KERNELS, Kernel

from tilec.backend.ptx import compile_module
from tilec.frontend.text import parse_file

ROOT = Path(__file__).resolve().parents[3]
