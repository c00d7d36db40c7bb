"""``tilec compile``: a file of tile code to IR, PTX or machine code."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilec.driver import Emit


NAME = "compile"
SUMMARY = "compile a file to PTX (or IR, or a cubin)"
_ENDINGS: dict[Emit, str] = {"tile": ".tile", "nvvm": ".mlir", "llvm": ".ll", "ptx": ".ptx", "cubin": ".cubin"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a file of tile code")
    parser.add_argument(
        "-p", "--pipeline", default="", metavar="SPEC", help="passes to run, for example 'tma,pipeline(2),persistent'"
    )
    parser.add_argument("--target", metavar="NAME", help="sm_100a (what a kernel without a target gets) or sm_90a")
    parser.add_argument("--emit", choices=_ENDINGS, default="ptx", help="what to write (default: ptx)")
    parser.add_argument(
        "-o", "--output", metavar="OUT", help="where to; - is stdout (default: FILE's name with a new ending, here)"
    )
    parser.add_argument("--print-ir-after-all", action="store_true", help="print the IR after each pass to stderr")
    parser.add_argument(
        "--print-ir-after", action="append", default=[], metavar="PASS", help="print the IR after this pass to stderr"
    )
    parser.add_argument(
        "--no-check", action="store_true", help="lower without a proof of the protocol (see tilec check)"
    )
    parser.add_argument(
        "--verify-each",
        action="store_true",
        help="after each pass check memory, protocol and the numbers of a small run, and name the first that broke",
    )
    parser.add_argument("--time-passes", action="store_true", help="print the time that each step took to stderr")


def main(arguments: argparse.Namespace) -> int:
    from tilec.cli.output import write_output
    from tilec.cli.report import Report, print_summary
    from tilec.diagnostics import TilecError
    from tilec.driver import compile_module
    from tilec.source import parse_file
    from tilec.spec import parse_pipeline

    emit: Emit = arguments.emit
    source = Path(arguments.file)
    passes = parse_pipeline(arguments.pipeline)
    report = Report(arguments.print_ir_after_all, arguments.print_ir_after, passes)
    module = parse_file(source)
    output = arguments.output or source.with_suffix(_ENDINGS[emit]).name
    if output != "-" and os.path.exists(output) and source.samefile(output):
        raise TilecError(f"{output} would overwrite the program itself", hint="name the output with -o")
    observer = report
    if arguments.verify_each:
        from tilec.verify_each import VerifyEach  # and with it the simulator

        observer = VerifyEach(module, report)
    compiled = compile_module(
        module, pipeline=passes, target=arguments.target, emit=emit, observer=observer, check=not arguments.no_check
    )
    result = compiled.get(emit)
    write_output(output, result if isinstance(result, bytes) else f"{str(result).rstrip()}\n")
    described = None
    if emit == "cubin" and output != "-":
        from tilec.ahead_of_time import beside, write_sidecar
        from tilec.program import artifact_of

        described = beside(Path(output))
        write_sidecar(artifact_of(compiled, compiled.target.name), Path(output))
    if emit != "tile":
        print_summary(compiled, emit)
    if arguments.output is None:
        print(f"wrote {output}" if described is None else f"wrote {output} and {described}", file=sys.stderr)
    if arguments.time_passes:
        report.print_times()
    return 0
