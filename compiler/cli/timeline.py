"""``tilec timeline``: a kernel on the clock of one multiprocessor, as a page, a picture, a trace, or in the terminal."""

from __future__ import annotations

import argparse
from pathlib import PurePath
from typing import TYPE_CHECKING

from tilec.cli.run import positive

if TYPE_CHECKING:
    from tilec.timeline import Subject

NAME = "timeline"
SUMMARY = "show in time what engines and threads do, and what waits for what"
_ENDINGS = (".html", ".json", ".png", ".svg")
_LEAST_RATIO, _MOST_RATIO = 0.001, 1000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "times are those of the cost model that tilec predict has too; docs/timeline.md tells more"
    parser.add_argument("file", metavar="FILE", help="a file of tile code")
    parser.add_argument(
        "-p", "--pipeline", default="", metavar="SPEC", help="passes to run first, as for tilec compile"
    )
    parser.add_argument(
        "--shape",
        metavar="M=..,N=..,K=..",
        help="an extent for each name in the kernel's view types (default: one output tile, or two on one CTA of a persistent "
        "kernel, and 8 K tiles)",
    )
    parser.add_argument("--target", metavar="NAME", help="sm_100a (what a kernel without a target gets) or sm_90a")
    parser.add_argument(
        "--costs",
        choices=("chip", "abstract"),
        default="chip",
        help="what steps take: as on the target, or a unit for the MMA of a K tile, RATIO for its loads, and nothing else",
    )
    parser.add_argument(
        "--ratio",
        type=_ratio,
        metavar="RATIO",
        help="time of the loads of a K tile over that of its MMA, 0.001 to 1000 (default: the target's own, or 1.2 with "
        "--costs=abstract)",
    )
    parser.add_argument("--ctas", type=positive, metavar="N", help="most CTAs of a persistent kernel")
    parser.add_argument(
        "-o",
        "--output",
        metavar="OUT",
        help="where to: .html, a page to explore; .json, trace events for Perfetto; .png or .svg, a picture (default: draw it here)",
    )


def _ratio(text: str) -> float:
    try:
        number = float(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"invalid float value: {text!r}") from error
    if not _LEAST_RATIO <= number <= _MOST_RATIO:  # a NaN is not
        raise argparse.ArgumentTypeError(f"expected a number from {_LEAST_RATIO} to {_MOST_RATIO}, not {text}")
    return number


def main(arguments: argparse.Namespace) -> int:
    from tilec.cli.output import write_output

    output: str | None = arguments.output
    ending = "" if output is None else PurePath(output).suffix.lower()
    if output is not None and ending not in _ENDINGS:
        from tilec.diagnostics import TilecError

        raise TilecError(
            f"no timeline is written as '{ending or output}': its name tells the kind of file",
            hint="end with .html for a page, .json for Perfetto, .png or .svg for a picture; without -o it is drawn here",
        )
    subject = _subject(arguments)
    if output is None:
        write_output("-", _drawn(subject), hint=None)
        return 0
    write_output(output, _written(subject, ending))
    print(f"wrote {output}")
    return 0


def _subject(arguments: argparse.Namespace) -> Subject:
    import os

    from tilec.cli.trial import check_ctas, check_shape, parse_shape
    from tilec.driver import find_kernel
    from tilec.source import parse_text
    from tilec.source_text import read_source, refuse_python
    from tilec.spec import parse_pipeline
    from tilec.timeline import Request, make

    parse_pipeline(arguments.pipeline)
    shape = None if arguments.shape is None else parse_shape(arguments.shape)
    source = read_source(arguments.file)  # once: a pipe has nothing more
    refuse_python(arguments.file)
    program = parse_text(source, arguments.file)
    if shape is not None:
        check_shape(find_kernel(program), shape)
    request = Request(arguments.pipeline, arguments.target, shape, arguments.ctas, arguments.costs, arguments.ratio)
    # What of a name is no text cannot be written as text either.
    name = os.fsencode(PurePath(arguments.file).name).decode(errors="replace")
    subject = make(program, request, file=name, source=source)
    check_ctas(subject.at, arguments.ctas)
    return subject


def _drawn(subject: Subject) -> str:
    """As wide as the terminal; 80 columns of plain text for a pipe."""
    from io import StringIO

    from rich.console import Console

    from tilec.timeline.terminal import drawing

    console = Console()
    width = console.width if console.is_terminal else 80
    text = StringIO()
    Console(file=text, force_terminal=console.is_terminal, width=width, highlight=False, markup=False).print(
        *drawing(subject, width), sep="\n", soft_wrap=True
    )
    return text.getvalue()


def _written(subject: Subject, ending: str) -> str | bytes:
    match ending:
        case ".html":
            from tilec.timeline.page import page

            return page(subject)
        case ".json":
            from tilec.timeline.chrome_trace import chrome_trace

            return chrome_trace(subject)
        case _:
            from tilec.timeline.picture import picture

            return picture(subject, "png" if ending == ".png" else "svg")
