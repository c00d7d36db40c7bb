"""TFLOP/s of our GEMM beside torch.matmul (cuBLAS) on one GPU, in one process.

    python benchmarks/gemm.py --shapes 4096x4096x4096 8192x8192x8192 --json out.json

Method: every round runs all contenders of a shape in a new random order, so that none always follows a cooler or a hotter
one (the chip is limited by power, whose controller remembers 50 to 100 ms). One measurement is a burst: a third of warm-up,
then at least `--burst` ms between two events. The figure is the median over the rounds. Inputs are normal random numbers:
zeros run faster. The output of every contender is compared with float64 before the rounds, and must still be bitwise that
after them. Clock and power are read through NVML while a burst runs. Differences below 3 % are noise.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import tilec

GEMM = Path(__file__).parents[1] / "examples" / "gemm.tile"
DEFAULT_SHAPES = ["4096x4096x4096", "8192x8192x8192", "8192x8192x512"]
DEFAULT_PIPELINES = [
    "retile(128,256,64),tma,pipeline(4),persistent",
    "retile(128,256,64),tma(staging=4),pipeline(3),persistent",
]
TOLERANCE = {"f16": 1e-3, "bf16": 8e-3}
DEADLINE_S = 20.0
TORCH = "torch.matmul"


@dataclass
class Result:
    """One contender at one shape: its measurements, a number a round."""

    shape: str
    dtype: str
    name: str
    error: float
    tflops: list[float] = field(default_factory=lambda: list[float]())
    mhz: list[float] = field(default_factory=lambda: list[float]())
    watts: list[float] = field(default_factory=lambda: list[float]())

    @property
    def median(self) -> float:
        return statistics.median(self.tflops)


class Meter:
    """SM clock (MHz) and power (W) of device 0, read through NVML; nothing where that is not installed."""

    def __init__(self) -> None:
        try:
            self._nvml: Any = importlib.import_module("pynvml")
            self._nvml.nvmlInit()
            self._device = self._nvml.nvmlDeviceGetHandleByIndex(0)
        except Exception as error:
            print(f"no clocks: {error}", file=sys.stderr)
            self._nvml = None

    def read(self) -> tuple[float, float] | None:
        if self._nvml is None:
            return None
        clock = self._nvml.nvmlDeviceGetClockInfo(self._device, self._nvml.NVML_CLOCK_SM)
        return float(clock), self._nvml.nvmlDeviceGetPowerUsage(self._device) / 1000


def wait(event: Any, meter: Meter | None = None) -> list[tuple[float, float]]:
    """Poll an event, reading clock and power; a kernel that hangs ends the process."""
    readings: list[tuple[float, float]] = []
    end = time.monotonic() + DEADLINE_S
    while not event.query():
        if time.monotonic() > end:
            print(f"a kernel did not finish within {DEADLINE_S:g} s", file=sys.stderr, flush=True)
            os._exit(86)
        reading = None if meter is None else meter.read()
        if reading is not None:
            readings.append(reading)
        time.sleep(1e-3)
    return readings


def timed(
    torch: Any, launch: Callable[[], object], count: int, meter: Meter | None
) -> tuple[float, list[tuple[float, float]]]:
    """Milliseconds of one of `count` launches, and what the meter read meanwhile."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(count):
        launch()
    end.record()
    readings = wait(end, meter)
    return begin.elapsed_time(end) / count, readings


def kernel_of(pipeline: str, dtype: str) -> tilec.Kernel:
    return tilec.compile(GEMM.read_text().replace("f16", dtype), pipeline=pipeline)


@dataclass
class Contender:
    """One way to compute a product: `launch` writes `output`; `checked` is what it held when it was found right."""

    result: Result
    launch: Callable[[], object]
    output: Any
    checked: Any
    count: int


def contender(torch: Any, name: str, dtype: str, a: Any, b: Any, want: Any, burst: float) -> Contender:
    """Compile, check against float64, and find out how many launches fill a burst."""
    m, n, k = *want.shape, a.shape[1]
    d = torch.full((m, n), float("nan"), dtype=a.dtype, device="cuda")
    kernel = None if name == TORCH else kernel_of(name, dtype)

    def launch() -> object:
        return torch.matmul(a, b.t(), out=d) if kernel is None else kernel(a, b, d)

    launch()
    first = torch.cuda.Event()
    first.record()
    wait(first)
    error = float((d.double() - want).norm() / want.norm())
    if not error < TOLERANCE[dtype]:
        raise SystemExit(f"{m}x{n}x{k} {dtype} {name}: relative error {error:.2e}: wrong result")
    milliseconds, _ = timed(torch, launch, 3, None)
    count = max(1, -int(-burst // milliseconds))
    return Contender(Result(f"{m}x{n}x{k}", dtype, name, error), launch, d, d.clone(), count)


def measure(torch: Any, shape: str, dtype: str, options: argparse.Namespace, meter: Meter) -> list[Result]:
    """All contenders at one shape."""
    m, n, k = map(int, shape.split("x"))
    kind = {"f16": torch.float16, "bf16": torch.bfloat16}[dtype]
    a, b = (torch.randn(rows, k, device="cuda").to(kind) for rows in (m, n))
    want = a.double() @ b.double().t()
    contenders = [contender(torch, c, dtype, a, b, want, options.burst) for c in (TORCH, *options.pipelines)]
    del want
    for _ in range(options.rounds):
        for one in random.sample(contenders, len(contenders)):
            timed(torch, one.launch, -(-one.count // 3), None)
            milliseconds, readings = timed(torch, one.launch, one.count, meter)
            one.result.tflops.append(2 * m * n * k / milliseconds / 1e9)
            if readings:
                one.result.mhz.append(statistics.median(clock for clock, _ in readings))
                one.result.watts.append(max(power for _, power in readings))
    for one in contenders:
        if not torch.equal(one.output, one.checked):
            raise SystemExit(f"{shape} {dtype} {one.result.name}: the result changed while it was timed")
    return [one.result for one in contenders]


def line(result: Result, torch_median: float) -> str:
    def middle(values: list[float]) -> str:
        return f"{statistics.median(values):6.0f}" if values else "     -"

    return (
        f"{result.shape:>20} {result.dtype:>5} | {result.median:6.0f} TFLOP/s "
        f"({min(result.tflops):.0f} to {max(result.tflops):.0f}) | {result.median / torch_median:5.3f} x torch |"
        f"{middle(result.mhz)} MHz |{middle(result.watts)} W | error {result.error:.1e} | {result.name}"
    )


def host_microseconds(torch: Any, pipeline: str) -> float:
    """Host time of one launch of a small problem, in microseconds."""
    kernel = kernel_of(pipeline, "f16")
    a, b, d = (torch.randn(128, 128, device="cuda").half() for _ in range(3))
    times: list[float] = []
    for _ in range(20):
        start = time.perf_counter()
        for _ in range(50):
            kernel(a, b, d)
        times.append((time.perf_counter() - start) / 50 * 1e6)
        event = torch.cuda.Event()
        event.record()
        wait(event)
    return statistics.median(times[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", nargs="+", default=DEFAULT_SHAPES, metavar="MxNxK")
    parser.add_argument("--pipelines", nargs="+", default=DEFAULT_PIPELINES, metavar="SPEC")
    parser.add_argument("--dtypes", nargs="+", default=["f16"], choices=list(TOLERANCE))
    parser.add_argument("--rounds", type=int, default=7, help="measurements of each contender (default: 7)")
    parser.add_argument("--burst", type=float, default=30.0, metavar="MS", help="timed part of one (default: 30 ms)")
    parser.add_argument("--at-least", type=float, metavar="RATIO", help="fail if a pipeline is below this x torch")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write all measurements")
    options = parser.parse_args()
    torch: Any = importlib.import_module("torch")
    meter = Meter()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, CUDA {torch.version.cuda}")
    results: list[Result] = []
    slow: list[str] = []
    for dtype in options.dtypes:
        for shape in options.shapes:
            found = measure(torch, shape, dtype, options, meter)
            results += found
            reference = next(r.median for r in found if r.name == TORCH)
            for result in found:
                print(line(result, reference), flush=True)
                if options.at_least is not None and result.median < options.at_least * reference:
                    slow.append(f"{shape} {dtype} {result.name}")
    host = {pipeline: host_microseconds(torch, pipeline) for pipeline in options.pipelines}
    for pipeline, microseconds in host.items():
        print(f"host time of one launch: {microseconds:.1f} us | {pipeline}")
    if options.json is not None:
        record = {
            "device": torch.cuda.get_device_name(),
            "torch": torch.__version__,
            "cuda": torch.version.cuda,
            "burst_ms": options.burst,
            "results": [{**asdict(r), "median_tflops": r.median} for r in results],
            "host_us": host,
        }
        options.json.write_text(json.dumps(record, indent=1))
    if slow:
        raise SystemExit(f"below {options.at_least} x torch: " + "; ".join(slow))


if __name__ == "__main__":
    main()
