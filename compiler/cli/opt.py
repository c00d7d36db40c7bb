"""``tilec opt``: xDSL's opt driver with our dialects, passes and parser, for lit tests and for looking into a pipeline."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

NAME = "opt"


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    commands.add_parser(NAME, add_help=False, help="run passes one by one, with all of xDSL's switches")


def main(arguments: Sequence[str]) -> int:
    from xdsl.utils.exceptions import ArgSpecParseError

    from tilec.cli.opt_driver import OptMain
    from tilec.diagnostics import TilecError, one_line

    try:
        return OptMain("Run passes over tile code, one by one.", arguments).run()
    except ArgSpecParseError as error:  # from --target; no Exception, by its class
        raise TilecError(one_line(error)) from error
