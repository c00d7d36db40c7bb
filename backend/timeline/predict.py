"""What a whole launch takes, without the chip: the busiest multiprocessor in time, and what all of them share.

The busiest multiprocessor is played step by step, fed at the rate that L2 and memory have for it when all of them ask. Two
floors lie under the whole launch: the bytes that memory has to bring, and the power that the tensor cores draw. What bounds
the launch is found by taking away one cost after another. It is the time of a launch among others of the same tensors: what
fits into the L2 cache is there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import ceil, inf, prod
from typing import Literal

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument

from tilec.backend.kernels import find_kernel
from tilec.backend.protocol.extents import dims_of
from tilec.backend.target import DEFAULT_TARGET
from tilec.backend.timeline import steps
from tilec.backend.timeline.costs import Costs
from tilec.backend.timeline.models import Model, model_of
from tilec.backend.timeline.record import views_of
from tilec.backend.timeline.replay import replay
from tilec.backend.timeline.share import Launch
from tilec.backend.timeline.steps import Recording
from tilec.dialects.tile import CopyAsyncOp, GridOp, KernelOp, ScheduleOp

Bound = Literal["power", "memory", "tensor core", "load bandwidth", "latency", "epilogue", "launch"]

_PLAYED, _STEP = 6, 3
"""Output tiles that are played of a CTA with more, and those over which the time of one more is taken."""


@dataclass(frozen=True)
class Prediction:
    """One launch. Times in seconds."""

    seconds: float
    flops: float
    """Operations, two for each multiply-add; what tiles have outside of the tensors is not counted."""
    bound: Bound
    """What would shorten it most, were it free."""
    gains: Mapping[Bound, float]
    """By how many seconds it would."""
    schedule: float
    """Of the busiest multiprocessor, at the chip's clock."""
    memory: float
    """Until memory has brought what it must."""
    power: float
    """Of the tensor cores at the power limit."""


def predict(module: ModuleOp, shape: Mapping[str, int], *, resident: int = 1, model: Model | None = None) -> Prediction:
    """Of an asynchronous kernel (L1), of which a multiprocessor holds `resident` CTAs at a time.

    `shape` has an extent for each name in the kernel's view types. Raises TilecError for a kernel that is not asynchronous,
    and at a wait that never ends.
    """
    kernel = find_kernel(module, None)
    chip = model or model_of(DEFAULT_TARGET if kernel.target is None else kernel.target.data)
    whole = _Whole.of(kernel, Launch.of(module, shape, resident=resident))
    total = whole.seconds(chip)
    gains: dict[Bound, float] = {name: total - whole.seconds(other) for name, other in _without(chip)}
    schedule, memory, power = whole.parts(chip)
    bound: Bound = max(gains, key=lambda name: gains[name])
    return Prediction(total, whole.useful, bound, gains, schedule, memory, power)


@dataclass(frozen=True)
class _Whole:
    """What a launch asks of the chip."""

    launch: Launch
    long: tuple[Recording, ...]
    """The busiest multiprocessor, some output tiles short of what it has."""
    short: tuple[Recording, ...]
    """And some more."""
    left_out: int
    loaded: int
    """Bytes that the multiprocessors load."""
    from_memory: float
    """Bytes that are not in the L2 cache when they are first asked for."""
    touched: int
    """Bytes of all tensors."""
    flops: int
    """Of all MMAs, and of them what lies inside the tensors."""
    useful: float

    @staticmethod
    def of(kernel: KernelOp, launch: Launch) -> _Whole:
        left_out = max(launch.rounds - _PLAYED, 0)
        long = launch.busiest(left_out)
        short = launch.busiest(left_out + _STEP) if left_out else ()
        loaded, macs, useful = _per_tile(long)
        tiles = prod(launch.tiles)
        touched = sum(view.array.size * view.type.dtype.bytes for view in views_of(kernel, launch.shape))
        asked = _first_asked(kernel, launch)
        inside = 2 * useful * tiles * launch.inside
        return _Whole(launch, long, short, left_out, loaded * tiles, asked, touched, 2 * macs * tiles, inside)

    def seconds(self, chip: Model) -> float:
        return chip.launch_us * 1e-6 + max(self.parts(chip))

    def parts(self, chip: Model) -> tuple[float, float, float]:
        """The schedule, memory, power."""
        hertz = chip.clock_mhz * 1e6
        if not self.launch.ctas:
            return 0.0, 0.0, 0.0
        misses = 0.0 if self.touched <= chip.l2_bytes else self.from_memory
        rate = min(chip.costs.load_rate, chip.l2_rate / self.launch.active)
        if misses:
            rate = min(rate, chip.hbm_rate * self.loaded / misses / self.launch.active)
        latency = chip.costs.load_latency + (chip.hbm_latency if misses else 0.0)
        costs = replace(chip.costs, load_rate=rate, load_latency=latency)
        cycles = self._play(costs)
        return cycles / hertz, misses / chip.hbm_rate / hertz, self.flops / chip.power_tflops * 1e-12

    def _play(self, costs: Costs) -> float:
        resident = self.launch.resident
        long = replay(self.long, costs, resident=resident).makespan
        if not self.left_out:
            return long
        return long + self.left_out / _STEP * (long - replay(self.short, costs, resident=resident).makespan)


def _per_tile(ctas: tuple[Recording, ...]) -> tuple[int, int, int]:
    """Bytes that are loaded, multiply-adds, and those inside the tensors, of one output tile."""
    if not ctas:
        return 0, 0, 0
    done = [step for flow in ctas[0].flows for step in flow]
    loads = sum(step.bytes for step in done if isinstance(step, steps.Load))
    gathered = sum(step.bytes for step in done if isinstance(step, steps.Work) and step.kind == "gather")
    mmas = [step for step in done if isinstance(step, steps.Mma)]
    totals = loads + gathered, sum(step.macs for step in mmas), sum(step.useful for step in mmas)
    loaded, macs, useful = (total // ctas[0].tiles for total in totals)
    return loaded, macs, useful


def _first_asked(kernel: KernelOp, launch: Launch) -> float:
    """Bytes of the tensors that are loaded, each once for all CTAs that run at a time.

    Of a tensor that shares an extent with the output, a wave of CTAs asks for the part along which its tiles lie.
    """
    if not launch.ctas:
        return 0.0
    rows, columns = launch.tiles
    at_a_time = min(launch.ctas, launch.multiprocessors * launch.resident)
    if launch.group is None:
        wave = min(ceil(at_a_time / columns), rows), min(at_a_time, columns)
    else:
        high = min(launch.group, rows)
        wave = high, min(ceil(at_a_time / high), columns)
    ruler = next((op for op in kernel.walk() if isinstance(op, GridOp | ScheduleOp)), None)
    names = dims_of(ruler.view) if ruler is not None and isinstance(ruler.view, BlockArgument) else []
    asked = 0.0
    for argument, view in zip(kernel.body.block.args, views_of(kernel, launch.shape), strict=True):
        if any(isinstance(use.operation, CopyAsyncOp) and use.operation.is_load for use in argument.uses):
            parts = [w / t for name, w, t in zip(names, wave, launch.tiles, strict=False) if name in dims_of(argument)]
            size = view.array.size * view.type.dtype.bytes
            asked += max(size, size * prod(parts) * ceil(rows * columns / at_a_time))
    return asked


def _without(chip: Model) -> Iterator[tuple[Bound, Model]]:
    """The chip, with one thing free."""
    costs = chip.costs
    yield "power", replace(chip, power_tflops=inf)
    yield "memory", replace(chip, hbm_rate=inf, hbm_latency=0.0)
    yield "tensor core", replace(chip, costs=replace(costs, mma_rate=inf))
    yield "load bandwidth", replace(chip, costs=replace(costs, load_rate=inf, gather_rate=inf), l2_rate=inf)
    waits = replace(
        costs, load_latency=0.0, mma_latency=0.0, wait=0.0, sync=0.0, iterate=0.0, arrive=0.0, load_issue=0.0,
        mma_issue=0.0, gather_latency=0.0,
    )  # fmt: skip
    yield "latency", replace(chip, costs=waits, hbm_latency=0.0)
    quick = replace(
        costs, work=0.0, accumulator_rate=inf, shared_rate=inf, compute_rate=inf, scatter_rate=inf, store_issue=0.0,
        store_rate=inf, store_latency=0.0,
    )  # fmt: skip
    yield "epilogue", replace(chip, costs=quick)
    yield "launch", replace(chip, launch_us=0.0, costs=replace(costs, start=0.0, end=0.0, schedule=0.0))
