"""``tilec opt``: xDSL's opt driver with our dialects, passes and parser, for lit tests and for looking into a pipeline."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

NAME = "opt"
SUMMARY = "run passes one by one, with all of xDSL's switches"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """xDSL's driver reads its own."""


def main(_: argparse.Namespace) -> int:
    """Only reached by ``tilec opt`` behind another argument."""
    return drive(())


def drive(arguments: Sequence[str]) -> int:
    from xdsl.ir import Attribute
    from xdsl.utils.exceptions import ArgSpecParseError

    from tilec.cli.opt_driver import OptMain
    from tilec.diagnostics import TilecError, one_line

    # --disable-verify takes the check out of the class of all attributes; a process may go on after this command.
    check = Attribute.__post_init__
    try:
        driver = OptMain("Run passes over tile code, one by one.", arguments)
        driver.run()
        return driver.exit_code
    except ArgSpecParseError as error:  # from --target; no Exception, by its class
        raise TilecError(one_line(error)) from error
    finally:
        Attribute.__post_init__ = check
