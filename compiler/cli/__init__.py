"""The command line: ``tilec compile | check | design | run | timeline | predict | opt | passes | cache``, one module each.

Nothing here imports a compiler module before a command runs, so that ``tilec --help`` is quick.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress

from tilec.cli import cache, check, design, opt, passes, predict, run, timeline
from tilec.cli import compile as compile_command

_COMMANDS = (compile_command, check, design, run, timeline, predict, opt, passes, cache)
_INTERRUPTED = 130
_BROKEN_PIPE = 141
_INTERNAL = 70


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; the exit code is 0, 1 for whatever the user can mend, 70 for a fault of tilec itself.

    2 is for `check` alone: neither proved nor refuted.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    if sys.stderr is None:  # closed: what belongs there must not go to stdout, where `print` puts it then
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    try:
        code = _run(arguments)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        _drop_output()
        return _BROKEN_PIPE
    except OSError as error:  # files that a user has named are dealt with where they are used
        _drop_output()
        where = f"use {error.filename}" if error.filename else "write the output"
        print(f"error: cannot {where}: {error.strerror or error}", file=sys.stderr)
        return 1
    except Exception as error:
        return _report(error)


def _run(arguments: list[str]) -> int:
    try:
        return _dispatch(arguments)
    except SystemExit as stop:  # argparse: 0 after --help and --version, 2 for wrong usage, which it has explained
        return 1 if stop.code else 0


def _drop_output() -> None:
    """Nobody can have what is still in stdout's buffer. Python writes it once more at its exit; let that go nowhere."""
    if sys.stdout is not None:
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _dispatch(arguments: list[str]) -> int:
    if arguments[:1] == [opt.NAME]:
        return opt.drive(arguments[1:])  # xDSL's driver has an argument parser of its own
    parser = argparse.ArgumentParser(
        prog="tilec", description="Compile tile programs to PTX.", epilog="tilec COMMAND --help tells more."
    )
    parser.add_argument("--version", action=_Version)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in _COMMANDS:
        subparser = commands.add_parser(command.NAME, help=command.SUMMARY)
        command.add_arguments(subparser)
        subparser.set_defaults(main=command.main)
    parsed = parser.parse_args(arguments)
    return parsed.main(parsed)


class _Version(argparse.Action):
    """Looks the version up only when it is asked for."""

    def __init__(self, option_strings: Sequence[str], dest: str) -> None:
        super().__init__(option_strings, dest, nargs=0, help="print the version")

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print(f"tilec {version('tilec')}")
        parser.exit()


def _report(error: Exception) -> int:
    from tilec.diagnostics import InternalError, TilecError

    debug = os.environ.get("TILEC_DEBUG") == "1"
    if debug:
        traceback.print_exception(error)
    if isinstance(error, TilecError) and not isinstance(error, InternalError):
        print(error, file=sys.stderr)
        return 1
    what = str(error) if isinstance(error, InternalError) else f"{type(error).__name__}: {error}"
    advice = "" if debug else "; TILEC_DEBUG=1 shows where it happened"
    print(f"internal error: {what}\nplease report this with the program{advice}", file=sys.stderr)
    return _INTERNAL
