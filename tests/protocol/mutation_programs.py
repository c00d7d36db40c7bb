"""The asynchronous kernels that the mutation suite breaks: the lesson's steps by hand, and what our passes make."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from tilec.context import make_context
from tilec.diagnostics import collect
from tilec.driver import run_pass
from tilec.source import parse_text
from tilec.spec import parse_pipeline

sys.path.append(str(Path(__file__).parents[1]))
sys.path.append(str(Path(__file__).parents[1] / "passes"))
from tile_programs import COPY, COPY_LOOP

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@dataclass(frozen=True)
class Program:
    """A kernel at L1 and the facts that the expectation table speaks of."""

    name: str
    text: str
    """The source: an example by hand, or an L0 program."""
    pipeline: str = ""
    spec: str = ""
    """The L0 program that says what `text` computes, where that is not `text` itself."""
    extents: tuple[tuple[str, int], ...] = (("M", 256), ("N", 128), ("K", 192))
    """Where mistakes in values show: several K tiles, and several tiles for a CTA."""
    ring: int = 0
    """Stages of the operands' ring; 0 where there is none."""
    persistent: bool = False
    by_hand: bool = False
    copies_only: bool = False
    """Whether there is no MMA."""
    threads: bool = False
    """Whether the threads copy in place of TMA."""
    assumes: bool = False
    """Whether it is assumed that each barrier completes an even number of rounds per tile."""

    @property
    def sizes(self) -> dict[str, int]:
        return dict(self.extents)


@cache
def _original(text: str, pipeline: str) -> ModuleOp:
    module = parse_text(text)
    with collect():
        for one in parse_pipeline(pipeline):
            run_pass(one, module, make_context())
    return module


def build(program: Program) -> ModuleOp:
    """The kernel, unbroken."""
    return _original(program.text, program.pipeline).clone()


def meaning(program: Program) -> ModuleOp:
    """The synchronous program that the kernel implements."""
    return _original(program.spec or program.text, "").clone()


def _example(name: str) -> str:
    return (EXAMPLES / name).read_text(encoding="utf-8")


_GEMM = _example("gemm.tile")
_STEP_6 = _example("step6_persistent.tile")
_BODY = "tile.view<MxNxf16>) {\n"
_STEP_6_EVEN = _STEP_6.replace(_BODY, _BODY + "  tile.assume %A dim 1 step 64 multiple 4\n")
_EVEN_K = (("M", 256), ("N", 128), ("K", 256))


_WHOLE_ROWS = "tile.grid (%m, %whole) over %D step (64, 65536)"
"""A grid over rows: over %D it would be proved only up to so many columns."""


def _pipelined(stages: int, lag: int, persistent: bool) -> Program:
    text = f"tma,pipeline({stages},lag={lag})" + (",persistent" if persistent else "")
    return Program(text, _GEMM, text, ring=stages, persistent=persistent)


PROGRAMS = [
    Program("step4", _example("step4_tma.tile"), spec=_GEMM, by_hand=True),
    Program("step5", _example("step5_pipeline.tile"), spec=_GEMM, by_hand=True, ring=2),
    Program("step6", _STEP_6, spec=_GEMM, by_hand=True, ring=2, persistent=True),
    Program(
        "step6, K tiles % 4 = 0",
        _STEP_6_EVEN,
        spec=_GEMM,
        by_hand=True,
        ring=2,
        persistent=True,
        assumes=True,
        extents=_EVEN_K,
    ),
    Program("tma", _GEMM, "tma"),
    Program("tma,persistent", _GEMM, "tma,persistent", persistent=True),
    *(
        _pipelined(stages, lag, persistent)
        for stages in (1, 2, 3, 4)
        for lag in range(min(stages, 2))
        for persistent in (False, True)
    ),
    Program(
        "64x64x64,pipeline(6),persistent",
        _GEMM,
        "retile(64,64,64),tma,pipeline(6),persistent",
        ring=6,
        persistent=True,
    ),
    Program("bias_relu", _example("bias_relu.tile"), "tma,pipeline(2),persistent", ring=2, persistent=True),
    Program("threads", _GEMM, "threads", threads=True),
    Program("copy", COPY.text, "tma", extents=(("M", 128), ("K", 64)), copies_only=True),
    Program(
        "copy,persistent",
        COPY.text,
        "tma,persistent",
        extents=(("M", 128), ("K", 64)),
        persistent=True,
        copies_only=True,
    ),
    Program(
        "copy loop,pipeline(2),persistent",
        COPY_LOOP.text.replace("(%A", "(%R: !tile.view<Mxf16>, %A").replace(
            _WHOLE_ROWS, "tile.grid (%m) over %R step (64)"
        ),
        "tma,pipeline(2),persistent",
        extents=(("M", 128), ("K", 96)),
        ring=2,
        persistent=True,
        copies_only=True,
    ),
]
