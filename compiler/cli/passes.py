"""``tilec passes``: what there is to put into a pipeline."""

from __future__ import annotations

import argparse

NAME = "passes"
SUMMARY = "list the passes and their options"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """There are none."""


def main(_: argparse.Namespace) -> int:
    from rich.table import Table

    from tilec.cli.output import rendered, write_output
    from tilec.passes import PASSES, summary
    from tilec.spec import describe_options

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("pass", "options", "what it does"):
        table.add_column(heading, overflow="fold")
    for name, load in PASSES.items():
        table.add_row(name, describe_options(load()), summary(name))
    write_output("-", rendered(table), hint=None)
    return 0
