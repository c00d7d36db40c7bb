"""``tilec design``: explain a kernel's pipeline so that it can be checked."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilec.design import Design

_WIDEST = 120
"""Columns of a report, however wide the terminal is."""
NAME = "design"
SUMMARY = "explain a pipeline: who copies, the contract, what each depth takes, validation, risks"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "exit code: 0 the design holds; 1 something in it is wrong (the report says what), or the input is; "
        "docs/design.md explains the sections and the JSON"
    )
    parser.add_argument("file", metavar="FILE", help="a file of tile code")
    parser.add_argument(
        "-p", "--pipeline", default="", metavar="SPEC", help="passes to run first, as for tilec compile"
    )
    parser.add_argument(
        "--shape", metavar="M=..,N=..,K=..", help="extents of a launch: the report has numbers for it (default: none)"
    )
    parser.add_argument("--target", metavar="NAME", help="sm_100a (what a kernel without a target gets) or sm_90a")
    parser.add_argument(
        "--like",
        metavar="FILE",
        help="compare the numbers of a kernel that has a schedule already with the program in FILE, a whole-tile one",
    )
    parser.add_argument(
        "--format", choices=("text", "md", "json"), default="text", help="of the report (default: text)"
    )


def main(arguments: argparse.Namespace) -> int:
    from tilec.cli.output import write_output
    from tilec.cli.trial import check_shape, parse_shape, program_like
    from tilec.design import design
    from tilec.driver import find_kernel
    from tilec.source import parse_file
    from tilec.spec import parse_pipeline

    parse_pipeline(arguments.pipeline)
    shape = None if arguments.shape is None else parse_shape(arguments.shape)
    program = parse_file(arguments.file)
    kernel = find_kernel(program)
    if shape is not None:
        check_shape(kernel, shape)
    like = None if arguments.like is None else program_like(arguments.like)
    made = design(program, pipeline=arguments.pipeline, target=arguments.target, shape=shape, like=like)
    match arguments.format:
        case "json":
            report = made.json()
        case "md":
            report = made.markdown()
        case _:
            report = _for_the_terminal(made)
    write_output("-", report, hint=None)
    return 0 if made.holds else 1


def _for_the_terminal(made: Design) -> str:
    from rich.console import Console

    from tilec.design.text import text

    console = Console()
    return text(made, min(console.width, _WIDEST), colours=True) if console.is_terminal else text(made)
