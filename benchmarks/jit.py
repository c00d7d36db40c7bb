"""What a call of a Python kernel costs on the host, beside the driver alone, Triton and torch: one GPU, one run.

    python benchmarks/jit.py --json out.json

Warm calls, of a 128x128x64 product in f16: every round measures all contenders in a new random order, each a batch of calls
with the garbage collector off and a wait for the GPU outside of the timed part. Batches are short enough that the driver's
queue never fills. Figures are medians over the rounds, and the least.

First calls: fresh processes (first_call.py), tilec and Triton in turn, with empty caches and then with warm ones. The clock
starts after the libraries are imported and CUDA is ready. The first row is of the call alone; the second includes the
definition of the kernel, the third is the first call of the same function with another tile, in the same process.

Inputs are random numbers; every contender's output is compared with float64 before and after the rounds.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import importlib.util
import json
import os
import random
import runpy
import sys
import time
import timeit
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from first_call import first_calls
from measurements import Measurements, table_of
from rich.console import Console

import tilec

EXAMPLE = Path(__file__).parents[1] / "examples" / "gemm.py"
SHAPE = (128, 128, 64)
QUEUE = 500
"""Launches that the driver's queue certainly holds."""
OURS = "tilec: gemm(a, b, out=d)"
OURS_NEW = "tilec: gemm(a, b)"
DRIVER = "driver: cuLaunchKernelEx through ctypes"
DRIVER_ALONE = "driver: cuLaunchKernelEx in a loop of machine code"
TRITON_TMA = "Triton: TMA, descriptors made for the call"
TRITON_POINTERS = "Triton: pointers"


@dataclass(frozen=True)
class Contender:
    """`batch` makes so many calls and gives the seconds of all; `result` is the product that one call computes, if it does."""

    name: str
    batch: Callable[[int], float]
    result: Callable[[], Any] | None


class Problem:
    """Operands, the product that is wanted, and an output that is NaN before each check."""

    def __init__(self, torch: Any) -> None:
        m, n, k = SHAPE
        self.torch = torch
        self.a, self.b = (torch.randn(rows, k, device="cuda").half() for rows in (m, n))
        self.d = torch.empty(m, n, dtype=torch.float16, device="cuda")
        self.want = self.a.double() @ self.b.double().t()

    def error(self, call: Callable[[], Any]) -> float:
        self.d.fill_(float("nan"))
        got = call()
        self.torch.cuda.synchronize()
        return float((got.double() - self.want).norm() / self.want.norm())

    def check(self, contender: Contender) -> None:
        if contender.result is None:
            return
        error = self.error(contender.result)
        if not error < 1e-3:
            raise SystemExit(f"{contender.name}: relative error {error:.2e}: wrong result")


def written(problem: Problem, name: str, statement: str, **names: Any) -> Contender:
    """A contender that is a Python statement, timed as `timeit` times it; it writes ``d``, or its value is the result."""
    namespace = {"a": problem.a, "b": problem.b, "d": problem.d, **names}
    timer = timeit.Timer(statement, globals=namespace)

    def result() -> Any:
        value = eval(statement, namespace)
        return value if isinstance(value, problem.torch.Tensor) else problem.d

    return Contender(name, timer.timeit, result)


def contenders_of(problem: Problem) -> list[Contender]:
    torch, tensors = problem.torch, (problem.a, problem.b, problem.d)
    gemm: Any = runpy.run_path(str(EXAMPLE))["gemm"]
    kernel = gemm.kernel(problem.a, problem.b)
    kernel(*tensors)
    found = [
        written(problem, OURS, "gemm(a, b, out=d)", gemm=gemm),
        written(problem, "tilec: kernel(a, b, d)", "kernel(a, b, d)", kernel=kernel),
        written(problem, OURS_NEW, "gemm(a, b)", gemm=gemm),
        written(problem, "torch.matmul(a, bT, out=d)", "matmul(a, t, out=d)", matmul=torch.matmul, t=problem.b.t()),
        written(problem, "torch.matmul(a, b.T)", "matmul(a, b.T)", matmul=torch.matmul),
        *of_driver(problem, kernel),
        nothing_but_memory(problem),
    ]
    if importlib.util.find_spec("triton") is not None:
        found += of_triton(problem)
    return found


def of_driver(problem: Problem, kernel: tilec.Kernel) -> list[Contender]:
    """The driver's launch of the very kernel, with everything prebuilt: from Python, and from machine code."""
    from bare_launch import BareLaunch

    stream: int = problem.torch.cuda.current_stream().cuda_stream
    bare = BareLaunch(kernel, (problem.a, problem.b, problem.d), stream)
    config, function, parameters, none = bare.arguments

    def from_machine_code(count: int) -> float:
        start = time.perf_counter()
        bare.loop(count)
        return time.perf_counter() - start

    def result() -> Any:
        bare.loop(1)
        return problem.d

    return [
        written(
            problem,
            DRIVER,
            "launch(config, function, parameters, none)",
            launch=bare.call,
            config=config,
            function=function,
            parameters=parameters,
            none=none,
        ),
        Contender(DRIVER_ALONE, from_machine_code, result),
    ]


def nothing_but_memory(problem: Problem) -> Contender:
    """What torch takes to make an output."""
    names = {"empty": problem.torch.empty, "shape": tuple(problem.d.shape), "dtype": problem.d.dtype}
    timer = timeit.Timer("empty(shape, dtype=dtype, device='cuda')", globals=names)
    return Contender("torch.empty, alone", timer.timeit, None)


def of_triton(problem: Problem) -> list[Contender]:
    """Written as a user would who cares for the host's time: no function of ours stands around the launch."""
    from triton.tools.tensor_descriptor import TensorDescriptor  # pyright: ignore[reportMissingImports]
    from triton_gemm import BLOCKS, OPTIONS, descriptors, with_descriptors, with_pointers

    made = descriptors(problem.a, problem.b, problem.d)
    (m, n, k), (bm, bn, bk) = SHAPE, BLOCKS
    grid = (-(-m // bm), -(-n // bn))
    options = ", ".join(f"{name}={value}" for name, value in OPTIONS.items())
    launch = f"launch[grid]({{}}, {bm}, {bn}, {bk}, {options})"
    strides = "a.stride(0), b.stride(0), d.stride(0)"
    return [
        written(
            problem,
            TRITON_TMA,
            launch.format("of(a, box_a), of(b, box_b), of(d, box_d), a.shape[1]"),
            launch=with_descriptors,
            of=TensorDescriptor.from_tensor,
            box_a=[bm, bk],
            box_b=[bn, bk],
            box_d=[bm, bn],
            grid=grid,
        ),
        written(
            problem,
            "Triton: TMA, descriptors made once",
            launch.format("x, y, z, k"),
            launch=with_descriptors,
            **dict(zip("xyz", made, strict=True)),
            k=k,
            grid=grid,
        ),
        written(
            problem,
            TRITON_POINTERS,
            launch.format(f"a, b, d, d.shape[0], d.shape[1], a.shape[1], {strides}"),
            launch=with_pointers,
            grid=grid,
        ),
    ]


def warm_calls(problem: Problem, rounds: int, batch: int) -> list[Measurements]:
    """Microseconds of host time a call."""
    contenders = contenders_of(problem)
    measured = {c.name: Measurements("warm call", c.name, "us") for c in contenders}
    for one in contenders:
        problem.check(one)
        one.batch(20)
    for _ in range(rounds):
        for one in random.sample(contenders, len(contenders)):
            one.batch(5)
            problem.torch.cuda.synchronize()
            gc.collect()
            gc.disable()
            try:
                seconds = one.batch(batch)
            finally:
                gc.enable()
            problem.torch.cuda.synchronize()
            measured[one.name].values.append(seconds / batch * 1e6)
    for one in contenders:
        problem.check(one)
    return list(measured.values())


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def what_is_held(problem: Problem) -> dict[str, int]:
    problem.torch.cuda.synchronize()
    gc.collect()
    references = sum(sys.getrefcount(t) for t in (problem.a, problem.b, problem.d))
    return {
        "bytes of this process": resident_bytes(),
        "bytes of torch on the GPU": problem.torch.cuda.memory_allocated(),
        "references to the tensors": references,
        "objects": len(gc.get_objects()),
    }


def leaks(problem: Problem, launches: int) -> list[Measurements]:
    """What so many calls leave behind: each figure after the calls, less that before."""
    gemm: Any = runpy.run_path(str(EXAMPLE))["gemm"]
    calls: dict[str, Callable[[], object]] = {
        OURS: lambda: gemm(problem.a, problem.b, out=problem.d),
        OURS_NEW: lambda: gemm(problem.a, problem.b),
    }
    rows: list[Measurements] = []
    for name, call in calls.items():
        for _ in range(QUEUE):
            call()
        what_is_held(problem)
        before = what_is_held(problem)
        for i in range(launches):
            call()
            if i % QUEUE == 0:
                problem.torch.cuda.synchronize()
        after = what_is_held(problem)
        for what, held in before.items():
            rows.append(Measurements(f"left by {launches} calls", f"{name}: {what}", "", [float(after[what] - held)]))
    return rows


def ratios_of(rows: Sequence[Measurements]) -> dict[str, float]:
    """Ratios of medians, by what is divided by what."""
    median = {(row.group, row.name): row.median for row in rows}

    def ratio(group: str, other: str, ours: str) -> float | None:
        above, below = median.get((group, other)), median.get((group, ours))
        return above / below if above is not None and below else None

    warm = "warm call"
    complete = [name for name in (TRITON_TMA, TRITON_POINTERS) if (warm, name) in median]
    wanted = {
        "warm call: tilec / driver alone": ratio(warm, OURS, DRIVER_ALONE),
        "warm call: tilec / driver through ctypes": ratio(warm, OURS, DRIVER),
        "warm call: Triton with TMA / tilec": ratio(warm, TRITON_TMA, OURS),
        "warm call: torch.matmul(out=) / tilec": ratio(warm, "torch.matmul(a, bT, out=d)", OURS),
        "warm call, new output: torch.matmul / tilec": ratio(warm, "torch.matmul(a, b.T)", OURS_NEW),
    }
    if complete:
        fastest = min(complete, key=lambda name: median[warm, name])
        wanted[f"warm call: fastest complete Triton ({fastest.partition(': ')[2]}) / tilec"] = ratio(
            warm, fastest, OURS
        )
    for group in dict.fromkeys(row.group for row in rows if row.group.startswith("first call")):
        for what in dict.fromkeys(row.name.partition(": ")[2] for row in rows if row.group == group):
            wanted[f"{group}, {what}: Triton / tilec"] = ratio(group, f"triton: {what}", f"tilec: {what}")
    return {name: value for name, value in wanted.items() if value is not None}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=25, help="measurements of each warm contender (default: 25)")
    parser.add_argument("--batch", type=int, default=200, help="calls in one measurement, at most 500 (default: 200)")
    parser.add_argument("--processes", type=int, default=5, help="fresh processes of each library (default: 5)")
    parser.add_argument("--launches", type=int, default=10_000, help="calls of the test for leaks (default: 10,000)")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write all measurements")
    options = parser.parse_args()
    if not 1 <= options.batch <= QUEUE:
        parser.error(f"a batch has 1 to {QUEUE} calls")
    torch: Any = importlib.import_module("torch")
    if not torch.cuda.is_available():
        raise SystemExit("torch sees no CUDA GPU")
    console = Console(width=110)
    versions = {"torch": torch.__version__, "cuda": torch.version.cuda, "python": sys.version.split()[0]}
    if importlib.util.find_spec("triton") is None:
        console.print("triton is not installed: nothing is compared with it")
    else:
        versions["triton"] = importlib.import_module("triton").__version__
    console.print(f"{torch.cuda.get_device_name()}, {', '.join(f'{k} {v}' for k, v in versions.items())}")
    problem = Problem(torch)
    rows: list[Measurements] = []
    for measure in (
        lambda: warm_calls(problem, options.rounds, options.batch),
        lambda: leaks(problem, options.launches),
        lambda: first_calls(options.processes, warm=False),
        lambda: first_calls(options.processes, warm=True),
    ):
        found = measure()
        rows += found
        console.print(table_of(found))
    ratios = ratios_of(rows)
    warm = {row.name: row.median for row in rows if row.group == "warm call"}
    beyond = {other: warm[OURS] - warm[other] for other in (DRIVER_ALONE, DRIVER)}
    for other, microseconds in beyond.items():
        console.print(f"{OURS}, beyond {other}: {microseconds:.2f} us")
    for name, ratio in ratios.items():
        console.print(f"{ratio:8.2f} x  {name}")
    if options.json is not None:
        record = {
            "device": torch.cuda.get_device_name(),
            **versions,
            "measurements": [{**asdict(r), "median": r.median} for r in rows],
            "ratios": ratios,
            "us_beyond": beyond,
        }
        options.json.write_text(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
