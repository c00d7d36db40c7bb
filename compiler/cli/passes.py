"""``tilec passes``: what there is to put into a pipeline."""

from __future__ import annotations

import argparse
from io import StringIO

NAME = "passes"
SUMMARY = "list the passes and their options"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """There are none."""


def main(_: argparse.Namespace) -> int:
    from rich.console import Console
    from rich.table import Table

    from tilec.cli.report import write_output
    from tilec.passes import PASSES, summary
    from tilec.spec import describe_options

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("pass", "options", "what it does"):
        table.add_column(heading, overflow="fold")
    for name, load in PASSES.items():
        table.add_row(name, describe_options(load()), summary(name))
    # Piped into a file or another program, a line is as long as it has to be.
    console = Console()
    text = StringIO()
    Console(
        file=text,
        force_terminal=console.is_terminal,
        width=console.width if console.is_terminal else 200,
        highlight=False,
        markup=False,
    ).print(table)
    write_output("-", text.getvalue(), hint=None)
    return 0
