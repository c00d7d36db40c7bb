"""Runs the ladder on the emulator, as much as is left of it, and keeps a record.

    python tests/emulator/ladder/climb.py [--seed 1] [--all-depths] [--jobs 2] [--record ladder.jsonl]

Each rung that has run is a line of the record; what has passed there is not run again. Prints the total time.
"""

from __future__ import annotations

import argparse
import json
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from time import perf_counter

from rungs import Rung, climb, covering, every_depth_and_order


def attempt(rung: Rung) -> tuple[str, float, str]:
    """Name, seconds and what went wrong, empty if nothing."""
    start = perf_counter()
    try:
        climb(rung)
    except Exception as error:
        return rung.name, perf_counter() - start, f"{type(error).__name__}: {error}"
    return rung.name, perf_counter() - start, ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1, help="of the covering set")
    parser.add_argument("--all-depths", action="store_true", help="instead: all depths and orders, on three shapes")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--record", type=Path, default=Path("ladder.jsonl"))
    arguments = parser.parse_args()
    rungs = list(every_depth_and_order()) if arguments.all_depths else covering(arguments.seed)
    lines = (
        [json.loads(line) for line in arguments.record.read_text().splitlines()] if arguments.record.exists() else []
    )
    done = {line["name"]: line["seconds"] for line in lines if not line["problem"]}
    left = [rung for rung in rungs if rung.name not in done]
    seconds = sum(done.get(rung.name, 0.0) for rung in rungs)
    failed = 0
    with ProcessPoolExecutor(arguments.jobs) as pool, arguments.record.open("a") as record:
        for future in as_completed([pool.submit(attempt, rung) for rung in left]):
            name, took, problem = future.result()
            record.write(json.dumps({"name": name, "seconds": round(took, 3), "problem": problem}) + "\n")
            record.flush()
            seconds += took
            failed += bool(problem)
            if problem:
                print(f"FAIL {name}\n     {problem}", file=sys.stderr)
    print(f"{len(rungs)} rungs, {len(left)} of them run now, {failed} failed; {seconds:.0f} s of one core in all")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
