"""``tilec run``: execute a kernel on random inputs and compare with the same program, as written, in float64."""

from __future__ import annotations

import argparse

NAME = "run"
SUMMARY = "run a kernel on random inputs and compare with float64"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a file of tile code")
    parser.add_argument(
        "-p", "--pipeline", default="", metavar="SPEC", help="passes to run first, as for tilec compile"
    )
    parser.add_argument(
        "--shape", default="", metavar="M=..,N=..,K=..", help="an extent for each name in the kernel's view types"
    )
    parser.add_argument(
        "--device",
        choices=("sim", "emulator", "cuda"),
        help="the simulator, which runs tile code; the emulator, which runs its PTX; or a GPU (default: a GPU if torch finds one)",
    )
    parser.add_argument(
        "--seed", type=_natural, default=0, metavar="N", help="of the random inputs, and of --order (default: 0)"
    )
    parser.add_argument(
        "--ctas",
        type=positive,
        metavar="N",
        help="most CTAs of a persistent kernel (default: on a GPU what it holds; in the simulator and the emulator also at most half as many "
        "as there are tiles, so that CTAs go from one tile to the next)",
    )
    parser.add_argument(
        "--order",
        choices=("fifo", "random", "adversarial"),
        help="in which order the emulator lets threads and engines go on (default: fifo)",
    )
    parser.add_argument(
        "--like",
        metavar="FILE",
        help="compare with the program in FILE, a whole-tile one with the same views (default: with this one)",
    )
    parser.add_argument("--target", metavar="NAME", help="sm_100a or sm_90a (default: the GPU's, else sm_100a)")


def _natural(text: str) -> int:
    return _at_least(0, text)


def positive(text: str) -> int:
    """The type of an option that counts something."""
    return _at_least(1, text)


def _at_least(least: int, text: str) -> int:
    try:
        number = int(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"invalid int value: {text!r}") from error
    if number < least:
        raise argparse.ArgumentTypeError(f"expected an integer from {least} on, not {text}")
    return number


def main(arguments: argparse.Namespace) -> int:
    from tilec.cli.output import write_output
    from tilec.cli.progress import progress
    from tilec.cli.report import describe_emulation, describe_run
    from tilec.cli.trial import Trial, has_gpu, parse_shape
    from tilec.diagnostics import TilecError
    from tilec.source import parse_file
    from tilec.spec import parse_pipeline

    parse_pipeline(arguments.pipeline)
    shape = parse_shape(arguments.shape)
    trial = Trial.prepare(parse_file(arguments.file), shape, arguments.seed, arguments.like)
    device = arguments.device or ("cuda" if has_gpu() else "sim")
    if arguments.order is not None and device != "emulator":
        raise TilecError("--order is the emulator's", hint="add --device=emulator")
    lines = [f"{trial.name} on {device}, {' '.join(f'{name}={extent}' for name, extent in shape.items())}"]
    if device == "cuda":
        trial.run_on_gpu(arguments.pipeline, arguments.target, arguments.ctas)
    elif device == "emulator":
        order = arguments.order or "fifo"
        ran = trial.emulate(arguments.pipeline, arguments.target, arguments.ctas, order, arguments.seed)
        lines.append(f"  {describe_emulation(ran)}")
    else:
        with progress(trial.name) as bar:
            lines.append(f"  {describe_run(trial.simulate(arguments.pipeline, arguments.target, arguments.ctas, bar))}")
    results = trial.compare()
    if trial.with_what is not None:
        lines.append(f"  compared with {trial.with_what}")
    for result in results:
        if result.unwritten is not None:
            lines.append(f"  warning: {result.unwritten}")
            continue
        limits = f"(limit {result.limit:g})", f"(limit {result.worst_limit:g})"
        lines.append(
            f"  {result.name}: relative error {result.error:.3g} {limits[0]}, largest {result.worst:.3g} {limits[1]}"
        )
    passed = all(result.passed for result in results)
    write_output("-", "\n".join([*lines, "PASS\n" if passed else "FAIL\n"]), hint=None)
    return 0 if passed else 1
