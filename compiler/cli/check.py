"""``tilec check``: prove the protocol of a kernel, or show what breaks it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING

from tilec.cli.run import positive

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.passes import ModulePass

    from tilec.backend.protocol import Status
    from tilec.backend.protocol.contract import Contract
    from tilec.cli.verdict import Result, Run
    from tilec.diagnostics import Diagnostic
    from tilec.dialects.tile import KernelOp

NAME = "check"
SUMMARY = "prove a kernel's protocol (barriers, phases, fences), or show what breaks it"
_EXIT_CODES: dict[Status, int] = {"proved": 0, "refuted": 1, "checked": 2}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "exit code: 0 proved; 1 refuted, or the input is wrong; 2 only checked up to a bound"
    parser.add_argument("file", metavar="FILE", help="a file of tile code")
    parser.add_argument(
        "-p", "--pipeline", default="", metavar="SPEC", help="passes to run first, as for tilec compile"
    )
    parser.add_argument("--target", metavar="NAME", help="sm_100a (what a kernel without a target gets) or sm_90a")
    parser.add_argument(
        "--shape",
        metavar="M=..,N=..,K=..",
        help="also run it in the simulator with these extents, on whole numbers, and compare with the program",
    )
    parser.add_argument(
        "--like", metavar="FILE", help="compare that run with the program in FILE, a whole-tile one with the same views"
    )
    parser.add_argument("--ctas", type=positive, metavar="N", help="most CTAs of a persistent kernel in that run")
    parser.add_argument(
        "--table", action="store_true", help="print who does what, what lies where and how it is handed on"
    )
    parser.add_argument(
        "--verify-each", action="store_true", help="check after each pass, and name the first that broke"
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="of the output (default: text)")


def main(arguments: argparse.Namespace) -> int:
    from tilec.cli.output import write_output
    from tilec.diagnostics import InternalError, TilecError

    as_json = arguments.format == "json"
    try:
        result = _result(arguments)
    except InternalError:
        raise
    except TilecError as error:
        if not as_json:
            raise
        from tilec.cli.verdict import error_json

        write_output("-", error_json(error.diagnostic), hint=None)
        return 1
    write_output("-", result.json() if as_json else result.text(), hint=None)
    return _EXIT_CODES[result.status]


def _result(arguments: argparse.Namespace) -> Result:
    from tilec.cli.trial import check_shape, parse_shape
    from tilec.diagnostics import TilecError
    from tilec.driver import find_kernel
    from tilec.source import parse_file
    from tilec.spec import parse_pipeline
    from tilec.variants import for_shape

    passes = parse_pipeline(arguments.pipeline)
    shape = None if arguments.shape is None else parse_shape(arguments.shape)
    if arguments.like is not None and shape is None:
        raise TilecError(
            "--like is what a run is compared with, and there is none", hint="add --shape, for example --shape M=256"
        )
    if arguments.ctas is not None and shape is None:
        raise TilecError(
            "--ctas is the grid of a run, and there is none", hint="add --shape, for example --shape M=256"
        )
    program = parse_file(arguments.file)
    kernel = find_kernel(program)
    if shape is not None:
        check_shape(kernel, shape)
        program = for_shape(program, shape)
    return _check(arguments, program, passes, shape)


def _check(
    arguments: argparse.Namespace, program: ModuleOp, passes: Sequence[ModulePass], shape: dict[str, int] | None
) -> Result:
    from tilec.backend.protocol import Verdict, check
    from tilec.cli.trial import check_ctas, tile_kernel
    from tilec.cli.verdict import Result
    from tilec.driver import compile_module, find_kernel
    from tilec.verify_each import BrokenPass, VerifyEach

    kernel = find_kernel(program)
    name = kernel.sym_name.data
    try:
        observer = VerifyEach(program) if arguments.verify_each else None
        compiled = compile_module(program, pipeline=passes, target=arguments.target, emit="tile", observer=observer)
        module = compiled.asynchronous
    except BrokenPass as error:
        return Result(name, Verdict("refuted", error.what_broke, error.diagnostic))
    kernel = tile_kernel(kernel, module)
    check_ctas(kernel, arguments.ctas)
    start = perf_counter()
    verdict = check(module)
    seconds = perf_counter() - start
    run = None if shape is None else _run(program, module, shape, arguments.ctas, arguments.like)
    contract = _contract(kernel, asked=arguments.table) if arguments.table or arguments.format == "json" else None
    return Result(name, verdict, seconds, run, contract, _warnings(kernel))


def _warnings(kernel: KernelOp) -> tuple[Diagnostic, ...]:
    """The lowering refuses what does not fit into a CTA's memory."""
    from tilec.diagnostics import TilecError
    from tilec.verify_each import check_memory

    try:
        check_memory(kernel)
    except TilecError as error:
        return (error.diagnostic._replace(severity="warning"),)
    return ()


def _run(program: ModuleOp, module: ModuleOp, shape: dict[str, int], ctas: int | None, like: str | None) -> Run:
    from tilec.backend.simulator import Fault
    from tilec.cli.progress import progress
    from tilec.cli.trial import program_like
    from tilec.cli.verdict import Run
    from tilec.driver import find_kernel
    from tilec.passes.synchronous import is_synchronous
    from tilec.simulation import Mismatch, simulate

    kernel = find_kernel(program)
    with_what = like or ("the program" if is_synchronous(kernel) else None)
    other = None if like is None else program_like(like)
    try:
        with progress(kernel.sym_name.data) as bar:
            ran = simulate(program, module, shape, ctas=ctas, like=other, progress=bar)
    except Mismatch as error:
        return Run(shape, error.diagnostic, with_what)
    except Fault as error:
        return Run(shape, error.diagnostic, trace=error.trace)
    return Run(shape, ran.report, with_what, warnings=ran.unwritten)


def _contract(kernel: KernelOp, *, asked: bool) -> Contract | None:
    from tilec.backend.protocol.contract import contract
    from tilec.diagnostics import warn
    from tilec.dialects.tile import RolesOp
    from tilec.pass_error import PassError
    from tilec.passes.storage import plan

    for op in kernel.walk():
        if isinstance(op, RolesOp):
            if asked:
                warn(op, "no table of a kernel with roles yet: a table follows one control flow")
            return None
    try:
        storage = plan(kernel)
    except PassError:
        return contract(kernel)  # what does not fit has no addresses
    return contract(kernel, {block.value: block.offset for block in (*storage.tiles, *storage.barriers)})
