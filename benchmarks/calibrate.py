"""The constants of the cost model of one GPU, each isolated by small kernels (calibration_cases.py, calibration_kernels.py, calibration/*.tile).

    python benchmarks/calibrate.py --json out.json
    python benchmarks/calibrate.py --check            # no GPU: every kernel proved, assembled and run in the simulator

A kernel is a loop; its time is measured for three lengths of the loop, and the figure is the slope, so that what a launch
takes by itself cancels. That stands beside: "once" is where the line starts (launch, first and last pass). "off" says how far the
middle point is from the line through the others, in percent. One measurement is some ms of warm-up, then at least `--burst` ms
of launches between two events (more where a full chip has to find its clock); a point is the median of `--rounds` of them. Where
data have to come from memory, L2 is filled with other data before each launch, which is timed alone. Clock and power are read
through NVML meanwhile: cycles are ns times that clock. A kernel that does not end ends the process. All rows so far are written to the JSON after each group.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from calibration_cases import OWN_ROWS, STEPS, Case, cases
from calibration_kernels import Grid, Memory, kernel_text, tiles_only
from compile_ahead import Program, compile_ahead
from gemm import Meter, timed, wait

import tilec

POOL_ELEMENTS = 1 << 29
"""Random numbers that inputs are cut from, and as many elements for outputs (1 GiB each)."""
ALIGNMENT = 1 << 16
"""Elements between the starts of tensors."""
BURST_MS, LONG_BURST_MS, SETTLE_MS, LONG_SETTLE_MS = 2.0, 25.0, 15.0, 100.0
GRAPH_LAUNCHES = 200


@dataclass
class Row:
    """What was measured of one case. Times of one pass in ns, of the launches that it came from in us."""

    group: str
    name: str
    unit: str
    ctas: int
    bytes: int
    macs: int
    sizes: list[int] = field(default_factory=lambda: list[int]())
    launch_us: list[float] = field(default_factory=lambda: list[float]())
    ns: float = 0.0
    once_us: float = 0.0
    off_percent: float = 0.0
    mhz: float | None = None
    watts: float | None = None

    @property
    def cycles(self) -> float | None:
        return None if self.mhz is None else self.ns * self.mhz / 1000

    def as_text(self) -> str:
        cycles = "        -" if self.cycles is None else f"{self.cycles:9.1f}"
        clock = "   -" if self.mhz is None else f"{self.mhz:4.0f}"
        text = f"{self.ns:10.1f} ns {cycles} cycles | once {self.once_us:7.2f} us | off {self.off_percent:5.1f} % | {clock} MHz"
        if self.bytes:
            a_cycle = "" if self.cycles is None else f", {self.bytes / self.ctas / self.cycles:6.1f} B/cycle a CTA"
            text += f" | {self.bytes / self.ns:7.1f} GB/s{a_cycle}"
        if self.macs and self.cycles is not None:
            text += f" | {self.macs / self.cycles:6.0f} MAC/cycle"
        return f"{text} | per {self.unit}: {self.name}"


class GpuMemory(Memory):
    """Tensors of random numbers (or zeros) that do not overlap, cut from the same memory for each launch."""

    def __init__(self, torch: Any, elements: int, *, zeros: bool = False) -> None:
        make = torch.zeros if zeros else torch.randn
        self._pools = [make(elements, dtype=torch.float16, device="cuda") for _ in range(2)]
        self._used = [0, 0]

    def restart(self) -> None:
        self._used = [0, 0]

    def input(self, *shape: int) -> Any:
        return self._cut(0, shape)

    def output(self, *shape: int) -> Any:
        return self._cut(1, shape)

    def _cut(self, pool: int, shape: Sequence[int]) -> Any:
        size = shape[0] * (shape[1] if len(shape) == 2 else 1)
        start = self._used[pool]
        self._used[pool] = start + -(-size // ALIGNMENT) * ALIGNMENT
        return self._pools[pool][start : start + size].view(*shape)


class Bench:
    """One GPU, and how cases are timed on it."""

    def __init__(self, torch: Any, rounds: int, burst_ms: float) -> None:
        self.torch = torch
        self.rounds = rounds
        self.burst_ms = burst_ms
        self.meter = Meter()
        self._memory = GpuMemory(torch, POOL_ELEMENTS)
        self._zeros = GpuMemory(torch, POOL_ELEMENTS >> 4, zeros=True)
        self._other = torch.ones(1 << 27, dtype=torch.float32, device="cuda")
        self._kernels: dict[Program, tilec.Kernel] = {}

    def kernel(self, program: Program) -> tilec.Kernel:
        if program not in self._kernels:
            self._kernels[program] = program.kernel()
        return self._kernels[program]

    def measure(self, case: Case) -> Row:
        kernel = self.kernel(case.program)
        memory = self._zeros if case.zeros else self._memory
        launches: dict[int, Any] = {}
        options = {} if case.max_ctas is None else {"max_ctas": case.max_ctas}
        for size in case.sizes:
            memory.restart()
            tensors = case.arguments(memory, case.grid, size)
            launches[size] = partial(kernel, *tensors, **options)
            launches[size]()
            self._finish()
        row = Row(case.group, case.name, case.unit, case.grid.ctas, case.bytes, case.macs)
        readings: list[tuple[float, float]] = []
        times = {size: list[float]() for size in case.sizes}
        for _ in range(self.rounds):
            for size, launch in launches.items():
                measure = self._cold if case.cold else self._burst
                times[size].append(measure(launch, case, readings))
        fit(row, {size: statistics.median(values) for size, values in times.items()})
        if readings:
            row.mhz = statistics.median(clock for clock, _ in readings)
            row.watts = max(power for _, power in readings)
        return row

    def _finish(self) -> None:
        event = self.torch.cuda.Event()
        event.record()
        wait(event)

    def _burst(self, launch: Any, case: Case, readings: list[tuple[float, float]]) -> float:
        """Microseconds of one launch, among others of its kind."""
        settle, burst = (LONG_SETTLE_MS, LONG_BURST_MS) if case.long else (SETTLE_MS, self.burst_ms)
        one, _ = timed(self.torch, launch, 3, None)
        timed(self.torch, launch, max(1, int(settle / self.rounds / one)), None)
        milliseconds, read = timed(self.torch, launch, max(3, int(burst / one)), self.meter)
        readings += read
        return milliseconds * 1e3

    def _cold(self, launch: Any, case: Case, readings: list[tuple[float, float]]) -> float:
        """Microseconds of one launch that finds nothing of its data in L2."""
        del case
        self._other.sum()
        milliseconds, read = timed(self.torch, launch, 1, self.meter)
        readings += read
        return milliseconds * 1e3

    def launch_floor(self) -> list[Row]:
        """A kernel that does nothing, launched again and again: by calls (the host may be slower), and in a graph."""
        rows: list[Row] = []
        kernel = self.kernel(Program(kernel_text("cta")))
        for name, grid in (("one CTA", Grid(1, 1)), ("132 CTAs", OWN_ROWS)):
            self._memory.restart()
            (tensor,) = tiles_only(self._memory, grid, 1)
            kernel(tensor)
            self._finish()
            rows.append(self._launches(f"{name}, call after call", grid, partial(kernel, tensor), 1))
            graph = self.torch.cuda.CUDAGraph()
            with self.torch.cuda.graph(graph):
                for _ in range(GRAPH_LAUNCHES):
                    kernel(tensor)
            rows.append(self._launches(f"{name}, in a graph", grid, graph.replay, GRAPH_LAUNCHES))
        return rows

    def _launches(self, name: str, grid: Grid, launch: Any, launches: int) -> Row:
        row = Row("Launches", name, "launch", grid.ctas, 0, 0)
        times = {
            count * launches: [timed(self.torch, launch, count, None)[0] * count * 1e3 for _ in range(2 * self.rounds)]
            for count in ([200, 400, 800] if launches == 1 else [2, 4, 8])
        }
        fit(row, {size: statistics.median(values) for size, values in times.items()})
        return row


def fit(row: Row, us: dict[int, float]) -> None:
    """Put the line through the measured points into a row: microseconds of a launch by the passes through its loop."""
    row.sizes, row.launch_us = list(us), list(us.values())
    (first, begin), *middle, (last, end) = us.items()
    slope = (end - begin) / (last - first)
    row.ns, row.once_us = slope * 1e3, begin - slope * first
    row.off_percent = max((abs(t - row.once_us - slope * size) / t * 100 for size, t in middle), default=0.0)


def steps(rows: Sequence[Row]) -> list[str]:
    """Of each step of threads what it costs without the loop around it, and the loop."""
    by_name = {row.name: row for row in rows}
    lines: list[str] = []
    for name in STEPS:
        once, four = by_name[f"1 x {name}"], by_name[f"4 x {name}"]
        each = (four.ns - once.ns) / 3
        clock = once.mhz or 0.0
        lines.append(
            f"{each:8.1f} ns {each * clock / 1000:8.1f} cycles | the loop around it "
            f"{(once.ns - each) * clock / 1000:6.1f} cycles | {name}"
        )
    return lines


def check() -> None:
    """Every kernel is proved and assembled, and a small launch of it runs in the simulator; products are compared."""
    import numpy as np

    class HostMemory(Memory):
        def input(self, *shape: int) -> Any:
            return np.random.default_rng(len(shape)).integers(-2, 3, shape).astype(np.float16)

        def output(self, *shape: int) -> Any:
            return np.full(shape, np.nan, np.float16)

    programs = list(dict.fromkeys(case.program for case in cases()))
    compile_ahead(programs)
    small = {case.program: case for case in cases()}
    for program, case in small.items():
        grid = Grid(min(case.grid.rows, 2), min(case.grid.columns, 2))
        for size in (8, 24):
            tensors = case.arguments(HostMemory(), grid, size)
            kernel = tilec.compile(program.text, pipeline=program.pipeline, target="sm_90a")
            kernel(*tensors)
            written = [t for t, view in zip(tensors, kernel.signature.views, strict=True) if view.written]
            if any(np.isnan(t).any() for t in written):
                raise SystemExit(f"{case.group}, {case.name}: elements are not written")
            if "@mma" in program.text or "@gemm" in program.text:
                a, b, d = tensors[-3:]
                factor = 1
                if "@mma" in program.text:
                    factor = 1 + size * program.text.count("accumulate %true")
                wanted = factor * (a.astype(np.float64) @ b.astype(np.float64).T)[:, : d.shape[1]].astype(np.float16)
                if not np.array_equal(np.tile(wanted, (d.shape[0] // wanted.shape[0], 1)), d):
                    raise SystemExit(f"{case.group}, {case.name}: wrong numbers")
        print(f"right: {case.group}, {case.name}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="measurements of each point (default: 5)")
    parser.add_argument("--burst", type=float, default=BURST_MS, metavar="MS", help="timed part of one (default: 2 ms)")
    parser.add_argument("--only", default="", metavar="TEXT", help="cases with this in their group or name")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write all rows")
    parser.add_argument("--check", action="store_true", help="no GPU: prove, assemble and simulate every kernel")
    options = parser.parse_args()
    if options.check:
        check()
        return
    chosen = [case for case in cases() if options.only in f"{case.group}: {case.name}"]
    compile_ahead([*(case.program for case in chosen), Program(kernel_text("cta"))])
    torch: Any = importlib.import_module("torch")
    start = time.monotonic()
    bench = Bench(torch, options.rounds, options.burst)
    device = torch.cuda.get_device_properties(0)
    print(f"{device.name}, {device.multi_processor_count} SMs, torch {torch.__version__}, CUDA {torch.version.cuda}")
    rows: list[Row] = []

    def group_done(title: str, new: Sequence[Row]) -> None:
        rows.extend(new)
        print(f"\n{title}", *(row.as_text() for row in new), sep="\n", flush=True)
        if options.json is not None:
            record = {
                "device": device.name,
                "sms": device.multi_processor_count,
                "rows": [_record(row) for row in rows],
            }
            options.json.write_text(json.dumps(record, indent=1))

    if not options.only:
        group_done("Launches", bench.launch_floor())
    for group in dict.fromkeys(case.group for case in chosen):
        group_done(group, [bench.measure(case) for case in chosen if case.group == group])
        if group == "Steps of threads" and not options.only:
            print(*steps(rows), sep="\n", flush=True)
    print(f"\n{len(rows)} rows in {time.monotonic() - start:.0f} s", file=sys.stderr)


def _record(row: Row) -> dict[str, Any]:
    return {**asdict(row), "cycles": row.cycles}


if __name__ == "__main__":
    main()
