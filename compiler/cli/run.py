"""``tilec run``: execute a kernel on random inputs and compare with float64 NumPy."""

from __future__ import annotations

import argparse

NAME = "run"
SUMMARY = "run a kernel on random inputs and check its numbers"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a file of tile code")


def main(arguments: argparse.Namespace) -> int:
    raise NotImplementedError
