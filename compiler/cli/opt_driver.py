"""xDSL's opt driver, taught our parser, both forms of a pipeline, and expected diagnostics."""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass
from io import BytesIO
from itertools import accumulate
from typing import IO, ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import PassPipeline
from xdsl.universe import Universe
from xdsl.utils.exceptions import DiagnosticException, ShrinkException
from xdsl.utils.target import Target
from xdsl.xdsl_opt_main import xDSLOptMain

from tilec.cli.expected import expected_diagnostics, unmet
from tilec.cli.output import write_output
from tilec.cli.report import Report
from tilec.context import register_dialects
from tilec.diagnostics import InternalError, TilecError, collect, one_line
from tilec.driver import compile_module, run_pass
from tilec.passes import PASSES
from tilec.source import parse_text
from tilec.source_text import decode, read_bytes, refuse_python
from tilec.spec import parse_pipeline

_SPLIT = re.compile(rb"^// -----[ \t]*\r?$", re.MULTILINE)


@dataclass(frozen=True)
class _LlvmIr(Target):
    """``-t llvm``: the LLVM IR of lowered kernels, by our converter, which knows nvvm."""

    name = "llvm"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        output.write(compile_module(module, emit="llvm").llvm)


class OptMain(xDSLOptMain):
    """All of xDSL's switches work; ``--print-ir-after-all`` and ``--print-ir-after`` are ours."""

    exit_code = 0

    version_format: ClassVar[str] = "tilec opt, built from xdsl version {xdsl_version}"

    def register_all_dialects(self) -> None:
        # Not super's: two dialects of one name are an error, and our llvm has more operations than xDSL's.
        register_dialects(self.ctx)
        for name, factory in Universe.get_multiverse().all_dialects.items():
            if name not in self.ctx.registered_dialect_names:
                self.ctx.register_dialect(name, factory)

    def register_all_passes(self) -> None:
        super().register_all_passes()
        self.available_passes |= PASSES

    def register_all_targets(self) -> None:
        super().register_all_targets()
        self.available_targets["llvm"] = lambda: _LlvmIr

    def register_all_arguments(self, arg_parser: argparse.ArgumentParser) -> None:
        super().register_all_arguments(arg_parser)
        arg_parser.prog = "tilec opt"
        arg_parser.add_argument("--print-ir-after-all", action="store_true", help="Print the IR after each pass")
        arg_parser.add_argument(
            "--print-ir-after", action="append", default=[], metavar="PASS", help="Print the IR after this pass"
        )

    def setup_pipeline(self) -> None:
        passes = parse_pipeline(self.args.passes, self.available_passes)
        self.pipeline = PassPipeline(passes)
        self.report = Report(self.args.print_ir_after_all, self.args.print_ir_after, passes)

    def get_input_name(self) -> str:
        return self.args.input_file or "<stdin>"

    def get_input_stream(self) -> tuple[IO[bytes], str]:
        # One format, whatever the file's ending: xDSL refuses those that it does not know.
        return BytesIO(read_bytes(self.args.input_file) if self.args.input_file else sys.stdin.buffer.read()), "mlir"

    def prepare_input(self) -> tuple[list[tuple[IO[bytes], int]], str]:
        stream, extension = self.get_input_stream()
        refuse_python(self.get_input_name())
        # A line of its own, as for mlir-opt; xDSL also splits in the middle of a line, such as the header of an IR dump.
        chunks = _SPLIT.split(stream.read()) if self.args.split_input_file else [stream.read()]
        offsets = accumulate((chunk.count(b"\n") for chunk in chunks), initial=0)
        return [(BytesIO(chunk), offset) for chunk, offset in zip(chunks, offsets, strict=False)], extension

    def parse_chunk(self, chunk: IO[bytes], file_extension: str, start_offset: int = 0) -> ModuleOp:
        # Blank lines stand for the chunks before, so that locations are those of the file.
        return parse_text(
            "\n" * start_offset + decode(chunk.read(), self.get_input_name()),
            self.get_input_name(),
            self.ctx,
            check=not self.args.disable_verify,
            implicit_module=not self.args.no_implicit_module,
        )

    def apply_passes(self, prog: ModuleOp) -> None:
        for one in self.pipeline.passes:
            run_pass(one, prog, self.ctx, self.report, check=not self.args.disable_verify)
            if self.args.print_between_passes and one is not self.pipeline.passes[-1]:
                print(f"IR after {one.name}:\n{prog!s}\n\n\n")

    def run(self) -> None:
        """Process all chunks; `exit_code` is 1 if a diagnostic that was expected did not come, or one came unexpected."""
        chunks, extension = self.prepare_input()
        outputs: list[str] = []
        failures: list[str] = []
        try:
            for chunk, offset in chunks:
                outputs.append(self._process(chunk, extension, offset, failures))
        except ShrinkException:
            print("Success, can shrink")
            return
        finally:
            write_output(self.args.output_file or "-", "// -----\n".join(outputs))
        if self.args.shrink:
            failures.append("Failure, can't shrink")
        if self.args.time_passes:
            self.report.print_times()
        print("".join(f"{failure}\n" for failure in failures), file=sys.stderr, end="")
        self.exit_code = 1 if failures else 0

    def _process(self, chunk: IO[bytes], extension: str, offset: int, failures: list[str]) -> str:
        text = chunk.read()
        chunk.seek(0)
        expected = expected_diagnostics(text.decode("utf-8", "replace"), offset) if self.args.verify_diagnostics else []
        if not expected:
            try:
                return self._compile(chunk, extension, offset)
            except TilecError as error:
                if isinstance(error, InternalError) or not (
                    self.args.verify_diagnostics or self.args.parsing_diagnostics
                ):
                    raise
                return f"{error}\n"
        output = ""
        with collect() as diagnostics:
            try:
                output = self._compile(chunk, extension, offset)
            except InternalError:
                raise
            except TilecError as error:
                diagnostics.append(error.diagnostic)
        failures += unmet(expected, diagnostics, self.get_input_name())
        return output

    def _compile(self, chunk: IO[bytes], extension: str, offset: int) -> str:
        module = self.parse_chunk(chunk, extension, offset)
        self.apply_passes(module)
        try:
            return self.output_resulting_program(module)
        except DiagnosticException as error:  # a target of xDSL's that cannot say this module
            raise TilecError(one_line(error)) from error
