"""Kernels to design for, and sections of their reports without those that nobody asks for."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

from xdsl.dialects.builtin import ModuleOp

from tilec.design import Design
from tilec.design.depths import depths
from tilec.design.forecast import Forecast
from tilec.design.subject import Subject
from tilec.driver import compile_module
from tilec.source import parse_file, parse_text

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
ROLES = Path(__file__).resolve().parents[1] / "protocol" / "step7_roles.tile"
GEMM = (EXAMPLES / "gemm.tile").read_text()


def subject(text: str, pipeline: str = "", **options: object) -> Subject:
    """Of a program in text."""
    return Subject(parse_text(text, "kernel.tile"), pipeline=pipeline, **options)  # pyright: ignore[reportArgumentType]


def lowered_to_l1(pipeline: str, example: str = "gemm.tile") -> ModuleOp:
    """What passes make of an example, as one would write it by hand."""
    return compile_module(parse_file(EXAMPLES / example), pipeline=pipeline, emit="tile").tile


def quick(made: Subject, rows: tuple[int, ...] = ()) -> Design:
    """A design without a forecast, with few depths, and without registers: nothing becomes machine code."""
    design = Design(made)
    with patch("tilec.backend.ptxas.find_ptxas", lambda: None), patch("tilec.residency.find_ptxas", lambda: None):
        vars(design)["_depths"] = depths(made, rows)
    vars(design)["_forecast"] = Forecast({}, True, None, {}, "none", False, "not asked for")
    return design
