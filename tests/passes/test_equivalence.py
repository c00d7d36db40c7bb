"""Every pass keeps a program's meaning: integer-valued inputs give the same numbers after each pass as before all."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tile_programs import (
    BIAS_AFTER,
    BIAS_INSIDE,
    COPY_LOOP,
    GEMMS,
    INNER_ACCUMULATOR,
    NO_GRID,
    OVERWRITTEN,
    PROGRAMS,
    ROW_SUMS,
    RUNNING_SUM,
    TWO_MMAS,
    Program,
    gemm_program,
)
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from tilec.backend.simulator import Fault, run
from tilec.context import make_context
from tilec.diagnostics import collect
from tilec.dialects.tile import CtaSyncOp, FenceOp, KernelOp
from tilec.driver import run_pass
from tilec.source import parse_text
from tilec.spec import parse_pipeline

Array = npt.NDArray[np.generic]

EXTENTS = {"M": 72, "N": 104, "K": 80, "L": 40}


class Case:
    """A program with its inputs, and what it computes from them."""

    def __init__(self, program: Program, extents: dict[str, int] | None = None):
        self.program = program
        self.module = parse_text(program.text)
        self.arrays = _inputs(self.module, program, extents or EXTENTS)
        self.expected = self._run(self.module, ctas=1)

    def check(self, pipeline: str, ctas: int = 2) -> None:
        """Run what a pipeline makes of the program."""
        self.check_module(compiled(self.module, pipeline), pipeline, ctas)

    def check_module(self, module: ModuleOp, what: str, ctas: int = 2) -> None:
        for got, wanted in zip(self._run(module, ctas), self.expected, strict=True):
            np.testing.assert_array_equal(got, wanted, err_msg=f"{self.program.name} by {what}")

    def _run(self, module: ModuleOp, ctas: int) -> list[Array]:
        copies = [array.copy() for array in self.arrays]
        run(module, copies, ctas=ctas)
        return copies[len(copies) - self.program.outputs :]


def _inputs(module: ModuleOp, program: Program, extents: dict[str, int]) -> list[Array]:
    """Small whole numbers in the inputs, a number that no program computes in the outputs."""
    kernel = next(op for op in module.walk() if isinstance(op, KernelOp))
    random = np.random.default_rng(7)
    arrays: list[Array] = []
    for place, type in enumerate(kernel.views):
        shape = [extents[d] if isinstance(d, str) else d or 0 for d in type.dims]
        values = random.integers(-2, 3, shape).astype(np.float32)
        if place >= len(kernel.views) - program.outputs:
            values[...] = -999
        arrays.append(values.astype(np.float16) if type.dtype.name == "f16" else values)
    return arrays


def compiled(module: ModuleOp, pipeline: str) -> ModuleOp:
    module = module.clone()
    with collect():
        for one in parse_pipeline(pipeline):
            run_pass(one, module, make_context())
    return module


def _rings(program: Program, *rings: str) -> list[str]:
    return list(rings) if "tile.for" in program.text else [""]


def _line(program: Program, *passes: str) -> str:
    """A pipeline that ends in `persistent` where there is a grid."""
    return ",".join(one for one in (*passes, "" if program is NO_GRID else "persistent") if one)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_programs(program: Program) -> None:
    case = Case(program)
    for ring in _rings(program, "pipeline(2)", "pipeline(3)", "pipeline(4, lag=2)"):
        case.check(_line(program, "tma(0)", ring))
    for first in ("tma", "threads"):
        for ring in ("", *_rings(program, "pipeline(2)")):
            case.check(_line(program, first, ring))
    clean = "canonicalize,cse,dce"
    for ring in _rings(program, "pipeline(3)"):
        case.check(_line(program, "tma(0)", clean, ring, clean) + "," + clean)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_other_stagings(program: Program) -> None:
    case = Case(program)
    for first in ("tma(0)", "tma(0, staging=3)", "tma", "threads"):
        for ring in _rings(program, "pipeline(3)"):
            case.check(_line(program, first, ring))
    case.check("tma(0)")


@pytest.mark.parametrize("stages", [1, 2, 3, 4, 5])
def test_short_loops(stages: int) -> None:
    """No K tile up to four more than there are stages, several tiles a CTA."""
    for program in (gemm_program("gemm", n=48), BIAS_INSIDE):
        module = parse_text(program.text)
        pipelines = [
            f"tma(0),pipeline({stages}, lag={lag}){end}" for lag in range(stages) for end in ("", ",persistent")
        ]
        modules = {pipeline: compiled(module, pipeline) for pipeline in pipelines}
        for tiles in range(stages + 5):
            case = Case(program, {"M": 64, "N": 136, "K": 16 * tiles})
            for pipeline, made in modules.items():
                case.check_module(made, f"{pipeline} with {tiles} K tiles", ctas=1)


@pytest.mark.parametrize("program", [GEMMS[1], BIAS_INSIDE, INNER_ACCUMULATOR], ids=lambda program: program.name)
def test_every_prefix(program: Program) -> None:
    case = Case(program)
    passes = ["tma(0)", "pipeline(3)", "persistent(1)"]
    for length in range(1, len(passes) + 1):
        for ctas in (1, 7):
            case.check(",".join(passes[:length]), ctas)


@given(
    m=st.sampled_from([64, 128]),
    n=st.sampled_from([8, 16, 40, 64, 96]),
    k=st.sampled_from([16, 48, 64]),
    last=st.sampled_from(["", ",tma(0),pipeline(3),persistent"]),
)
@settings(max_examples=12)
def test_retile(m: int, n: int, k: int, last: str) -> None:
    if m == 128 and n % 16:
        n *= 2
    for program in (gemm_program("gemm"), BIAS_AFTER, TWO_MMAS, RUNNING_SUM):
        # The maximum of partial sums is one of larger steps over K where these are the same.
        depth = 16 if program is RUNNING_SUM else k
        Case(program).check(f"retile({m},{n},{depth}){last}")


@pytest.mark.parametrize(
    ("program", "pipeline"),
    [
        (GEMMS[0], "tma(0),pipeline(3),persistent"),
        (ROW_SUMS, "tma(0),pipeline(2),persistent"),
        (COPY_LOOP, "tma(0),pipeline(2),persistent"),
        (RUNNING_SUM, "tma(0),persistent"),
        (OVERWRITTEN, "threads,persistent"),
    ],
    ids=lambda value: value.name if isinstance(value, Program) else None,
)
def test_ordering_is_needed(program: Program, pipeline: str) -> None:
    """The simulator sees each barrier of threads and each fence that is missing in the tile's loop."""
    module = compiled(parse_text(program.text), pipeline)
    arrays = _inputs(module, program, EXTENTS)

    def ordering_ops(module: ModuleOp) -> list[Operation]:
        tiles = next(op for op in module.walk() if isinstance(op, scf.WhileOp))
        return [op for op in tiles.walk() if isinstance(op, CtaSyncOp | FenceOp)]

    for place in range(len(ordering_ops(module))):
        broken = module.clone()
        op = ordering_ops(broken)[place]
        op.detach()
        op.erase()
        with pytest.raises(Fault):
            run(broken, [array.copy() for array in arrays], ctas=1)
