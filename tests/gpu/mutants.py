"""What a GPU does with kernels that the checker refutes.

    python tests/gpu/mutants.py [--jobs 6] [--program NAME ...]

Each mutant of `tests/protocol/mutations.py` is compiled without the check and launched in a process of its own, several times,
on integers, beside the kernel that it was made from. Prints one line a kind: what the checker says (`numbers`: the protocol
is proved, and the simulator computes something else than the program), and what the card did: right numbers, wrong numbers,
a fault, or a hang (nothing for some seconds; the process is then killed). A mutant that the checker proves and that is not
right convicts the checker. A mutant that it refutes may do anything, right numbers among it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[1] / "protocol")]

DEADLINE_S = 12.0
LAUNCHES = 25
K_TILES = (1, 3, 8)
PROGRAMS = ("step6", "tma,pipeline(2,lag=0),persistent", "tma,pipeline(3,lag=1),persistent")
NOT_ON_HOPPER = {
    "fence after a barrier dropped",
    "fence before a barrier dropped",
    "wait_ld dropped",
    "accumulator leaked",
}
"""Of tensor memory: these are nothing on sm_90a."""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--jobs", type=int, default=6)
    parser.add_argument("--program", action="append", default=[])
    parser.add_argument("--one", nargs=3, metavar=("PROGRAM", "KIND", "PLACE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(_one(*arguments.one)))
        return 0
    from mutation_programs import PROGRAMS as known
    from mutation_programs import build
    from mutations import KINDS, places

    tasks = [(program, "none", 0) for program in arguments.program or PROGRAMS]
    for program in known:
        if program.name in (arguments.program or PROGRAMS):
            for kind in KINDS:
                labels = places(kind, build(program))
                if kind.name not in NOT_ON_HOPPER and not isinstance(labels, str):
                    tasks += [(program.name, kind.name, place) for place in range(min(len(labels), 2))]
    with ThreadPoolExecutor(arguments.jobs) as pool:
        results = list(pool.map(lambda task: (task, _in_process(*task)), tasks))
    convicting = 0
    rows: dict[tuple[str, str], Counter[str]] = {}
    for (_, kind, _), (verdict, outcome) in results:
        rows.setdefault((kind, verdict), Counter())[outcome] += 1
        convicting += verdict == "proved" and outcome != "right"
    print(f"{'mutation':45} {'checker':10} card")
    for (kind, verdict), outcomes in rows.items():
        print(f"{kind:45} {verdict:10} {', '.join(f'{count} {outcome}' for outcome, count in outcomes.most_common())}")
    totals: dict[str, Counter[str]] = {}
    for (_, verdict), outcomes in rows.items():
        totals.setdefault(verdict, Counter()).update(outcomes)
    for verdict, outcomes in totals.items():
        print(f"{verdict}: {sum(outcomes.values())} kernels: {dict(outcomes)}")
    print(f"proved, but not right: {convicting}")
    return 1 if convicting else 0


def _in_process(program: str, kind: str, place: int) -> tuple[str, str]:
    """(what the checker says, what the card does), in a process that can be killed."""
    command = [sys.executable, __file__, "--one", program, kind, str(place)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60 + DEADLINE_S, check=False)
    except subprocess.TimeoutExpired as late:
        text = late.stdout.decode() if isinstance(late.stdout, bytes) else late.stdout or ""
        return (text.split() or ["?"])[0], "hang"
    lines = done.stdout.split("\n")
    verdict = lines[0].strip() or "?"
    if done.returncode or len(lines) < 2:
        return (
            verdict,
            "hang" if done.returncode == 86 else f"error: {(done.stderr.strip() or '?').splitlines()[-1][:60]}",
        )
    return verdict, json.loads(lines[1])


def _one(program_name: str, kind_name: str, place: str) -> str:
    """Build the mutant, ask the checker (first line of the output), then launch it."""
    import threading

    import numpy as np
    from mutation_programs import PROGRAMS as known
    from mutation_programs import build, meaning
    from mutations import KINDS, mutants

    import tilec
    from tilec.backend import reference, simulator
    from tilec.backend.protocol import check
    from tilec.backend.protocol.inputs import integer_inputs
    from tilec.diagnostics import TilecError
    from tilec.driver import find_kernel
    from tilec.verify import verify

    program = next(one for one in known if one.name == program_name)
    module = build(program)
    if kind_name != "none":
        kind = next(one for one in KINDS if one.name == kind_name)
        module = list(mutants(kind, module))[int(place)].module
    try:
        verify(module)
    except TilecError:
        print("verifier", flush=True)
        return "not launched"
    spec = meaning(program)

    def problem(tiles: int) -> tuple[list[Any], list[Any]]:
        """Inputs, and all arrays as the program leaves them."""
        arrays = integer_inputs(find_kernel(spec), {"M": 640, "N": 384, "K": 64 * tiles})
        wanted = [array.copy() for array in arrays]
        reference.run(spec, wanted)
        return arrays, wanted

    verdict = check(module).status
    if verdict == "proved":
        simulated, wanted = problem(K_TILES[1])
        simulator.run(module, simulated, ctas=4)
        if not np.array_equal(simulated[-1], wanted[-1]):
            verdict = "numbers"
    print(verdict, flush=True)
    import torch

    def give_up() -> None:
        import os

        os._exit(86)

    try:
        kernel = tilec.compile(module, target="sm_90a", check=False)
        for tiles in K_TILES:
            arrays, wanted = problem(tiles)
            tensors = [torch.from_numpy(array).cuda() for array in arrays]
            for _ in range(LAUNCHES):
                tensors[-1].fill_(float("nan"))
                timer = threading.Timer(DEADLINE_S, give_up)
                timer.start()
                kernel(*tensors, max_ctas=4)
                torch.cuda.synchronize()
                timer.cancel()
                if not np.array_equal(tensors[-1].cpu().numpy(), wanted[-1]):
                    return "wrong"
    except TilecError as error:
        return f"refused by the lowering: {error.diagnostic.message[:40]}"
    except Exception as error:
        return f"fault: {type(error).__name__} {str(error).splitlines()[0][:40]}"
    return "right"


if __name__ == "__main__":
    raise SystemExit(main())
