"""``tilec run``: execute a kernel on random inputs and compare with float64 NumPy."""

from __future__ import annotations

import argparse


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("run", help="run a kernel on random inputs and check its numbers")
    parser.add_argument("file", metavar="FILE", help="a file of tile code")
    parser.set_defaults(main=main)


def main(arguments: argparse.Namespace) -> int:
    raise NotImplementedError
