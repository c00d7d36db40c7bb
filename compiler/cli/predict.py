"""``tilec predict``: what a launch takes on a chip, step by step along the pipeline, without the chip."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilec.ladder import Rung

NAME = "predict"
SUMMARY = "predict time, TFLOP/s and what bounds them, after each pass"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "times are those of a launch among others of the same tensors; docs/prediction.md says how far off they are"
    )
    parser.add_argument("file", metavar="FILE", help="a file of tile code")
    parser.add_argument(
        "-p", "--pipeline", default="", metavar="SPEC", help="passes to run, as for tilec compile; each is a step"
    )
    parser.add_argument(
        "--shape", default="", metavar="M=..,N=..,K=..", help="an extent for each name in the kernel's view types"
    )
    parser.add_argument("--target", metavar="NAME", help="sm_100a or sm_90a (default: the GPU's, else sm_100a)")
    parser.add_argument(
        "--device",
        choices=("auto", "none", "cuda"),
        default="auto",
        help="measure too, where there is a GPU of the target (auto, the default), never (none), or insist on it (cuda)",
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="of the output (default: text)")


def main(arguments: argparse.Namespace) -> int:
    from tilec.cli.output import write_output
    from tilec.cli.trial import check_shape, parse_shape
    from tilec.diagnostics import TilecError
    from tilec.driver import find_kernel
    from tilec.ladder import device_target, ladder, measure
    from tilec.source import parse_file
    from tilec.spec import parse_pipeline

    passes = parse_pipeline(arguments.pipeline)
    shape = parse_shape(arguments.shape)
    program = parse_file(arguments.file)
    kernel = find_kernel(program)
    check_shape(kernel, shape)
    found = None if arguments.device == "none" else device_target()
    written = None if kernel.target is None else kernel.target.data
    target = arguments.target or written or found
    if arguments.device == "cuda" and (found is None or found != (target or found)):
        raise TilecError(
            "--device=cuda measures on a GPU of the target, and there is none",
            hint="leave it out, or choose the GPU's own with --target",
        )
    with_device = found is not None and found == target
    rungs = ladder(program, passes, shape, target, measure if with_device else None)
    name = kernel.sym_name.data
    as_json = arguments.format == "json"
    result = _json(name, rungs, shape) if as_json else _text(name, rungs, shape)
    write_output("-", result, hint=None)
    return 0


def _text(name: str, rungs: list[Rung], shape: dict[str, int]) -> str:
    from rich.table import Table

    from tilec.cli.output import rendered

    if not rungs[0].prediction.seconds:
        return f"{name}: no output tile, nothing is launched\n"
    where = " ".join(f"{extent_name}={extent}" for extent_name, extent in shape.items())
    table = Table(box=None, pad_edge=False, header_style="italic")
    measured = any(rung.measured is not None for rung in rungs)
    for heading in ("passes", "time", "TFLOP/s", "CTAs/SM", "bound by", "were it free"):
        table.add_column(heading, justify="left" if heading in ("passes", "bound by") else "right", overflow="fold")
    if measured:
        for heading in ("measured", "TFLOP/s", "predicted is"):
            table.add_column(heading, justify="right")
    for rung in rungs:
        found = rung.prediction
        row = [
            rung.pipeline or "(as written)",
            _time(found.seconds),
            f"{_tflops(found.flops, found.seconds):.3g}",
            f"{rung.residency.ctas}{'?' if rung.residency.evidence == 'estimated' else ''}",
            found.bound,
            f"-{found.gains[found.bound] / found.seconds:.0%}",
        ]
        if rung.measured is not None:
            row += [
                _time(rung.measured),
                f"{_tflops(found.flops, rung.measured):.3g}",
                f"{found.seconds / rung.measured - 1:+.0%}",
            ]
        table.add_row(*row)
    lines = [
        f"{name} for {rungs[0].target}, {where or 'its fixed extents'}: one launch among others of the same tensors"
    ]
    lines += _notes(rungs)
    return rendered(lines[0], "", table, *lines[1:])


def _notes(rungs: list[Rung]) -> list[str]:
    """What a reader of the table has to know."""
    from tilec.backend.timeline import model_of

    notes: list[str] = []
    if any(rung.residency.evidence == "estimated" for rung in rungs):
        notes.append("?: no ptxas has said how many registers a thread takes; pip install 'tilec[ptxas]'")
    if any(rung.residency.evidence == "unknown" for rung in rungs):
        notes.append("a kernel with roles is not lowered yet: it is taken to have a multiprocessor to itself")
    for rung in rungs:
        if rung.residency.spilled:
            what = rung.pipeline or "as written"
            notes.append(
                f"{what}: {rung.residency.spilled} bytes of registers a thread are spilled, which is not reckoned"
            )
    target = rungs[0].target
    if model_of(target).sources["mma_rate"].evidence != "measured":
        notes.append(
            f"nothing of {target} has been measured: docs/prediction.md has predictions beside figures that others published"
        )
    return notes


def _json(name: str, rungs: list[Rung], shape: dict[str, int]) -> str:
    from json import dumps

    def fields(rung: Rung) -> dict[str, Any]:
        found = rung.prediction
        return {
            "pipeline": rung.pipeline,
            "seconds": found.seconds,
            "tflops": _tflops(found.flops, found.seconds),
            "bound": found.bound,
            "gains": dict(found.gains),
            "clock_mhz": found.clock_mhz,
            "l2_load": found.l2_load,
            "load_latency_ns": found.load_latency,
            "ctas_per_sm": rung.residency.ctas,
            "registers": rung.residency.registers,
            "registers_from": rung.residency.evidence,
            "spilled_bytes": rung.residency.spilled,
            "measured": rung.measured,
        }

    record = {"kernel": name, "target": rungs[0].target, "shape": shape, "steps": [fields(rung) for rung in rungs]}
    return dumps(record, indent=2) + "\n"


def _tflops(flops: float, seconds: float) -> float:
    return flops / seconds / 1e12 if seconds else 0.0


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} us" if seconds < 1e-3 else f"{seconds * 1e3:.3f} ms"
