"""``tilec run``: execute a kernel on random inputs and compare with float64 NumPy."""

from __future__ import annotations

import argparse

NAME = "run"
SUMMARY = "run a kernel on random inputs and check its numbers"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a file of tile code")
    parser.add_argument("--pipeline", default="", metavar="SPEC", help="passes to run first, as for tilec compile")
    parser.add_argument(
        "--shape", default="", metavar="M=..,N=..,K=..", help="an extent for each name in the kernel's view types"
    )
    parser.add_argument(
        "--device", choices=("reference", "cuda"), help="NumPy or a GPU (default: a GPU if torch finds one)"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the random inputs (default: 0)")
    parser.add_argument("--target", metavar="NAME", help="sm_100a or sm_90a (default: the GPU's, else sm_100a)")


def main(arguments: argparse.Namespace) -> int:
    from tilec.cli.trial import Trial, has_gpu, parse_shape
    from tilec.source import parse_file
    from tilec.spec import parse_pipeline

    parse_pipeline(arguments.pipeline)
    shape = parse_shape(arguments.shape)
    trial = Trial.prepare(parse_file(arguments.file), shape, arguments.seed)
    device = arguments.device or ("cuda" if has_gpu() else "reference")
    if device == "cuda":
        trial.run_on_gpu(arguments.pipeline, arguments.target)
    else:
        trial.run_on_reference(arguments.pipeline, arguments.target)
    print(f"{trial.name} on {device}, {' '.join(f'{name}={extent}' for name, extent in shape.items())}")
    results = trial.compare()
    for result in results:
        limits = f"(limit {result.limit:g})", f"(limit {result.worst_limit:g})"
        print(f"  {result.name}: relative error {result.error:.3g} {limits[0]}, largest {result.worst:.3g} {limits[1]}")
    passed = all(result.passed for result in results)
    print("PASS" if passed else "FAIL")
    return 0 if passed else 1
