"""What is drawn: a kernel, compiled, at a shape, played in time on one multiprocessor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from xdsl.dialects.builtin import ModuleOp

from tilec.backend.timeline import Costs, Launch, Model, Trace, model_of, replay, steps
from tilec.backend.timeline.steps import Recording
from tilec.diagnostics import collect, fail
from tilec.dialects.tile import KernelOp
from tilec.driver import Compiled, compile_module, find_kernel
from tilec.passes.storage import plan, target_of
from tilec.residency import residency
from tilec.timeline.gemm import Gemm, NoGemm, bytes_of_mma, gemm_of
from tilec.timeline.size import are_few, recorded, small_shape
from tilec.variants import for_shape
from tilec.wording import many

CostKind = Literal["chip", "abstract"]
DEFAULT_RATIO = 1.2
"""Of the abstract costs: the lesson's."""


@dataclass(frozen=True)
class Memory:
    """Shared memory of a CTA. Bytes."""

    stage: int
    """Of one more stage of the ring."""
    other: int
    limit: int
    of_multiprocessor: int
    """That its CTAs share."""
    reserved: int
    """Of each CTA, by the driver."""


@dataclass(frozen=True)
class Subject:
    """One timeline, and what it is of."""

    at: KernelOp
    """The kernel as it is executed."""
    kernel: str
    file: str
    source: str
    """The text of the program."""
    target: str
    pipeline: str
    shape: Mapping[str, int]
    chosen: bool
    """Nobody gave the shape, and it is not fixed either."""
    trace: Trace
    model: Model
    costs: Costs
    kind: CostKind
    ratio: float | None
    """Load:MMA, where it was given or is that of the abstract costs."""
    gemm: Gemm | None
    why_not: str | None
    """Why there is no other schedule to compare with."""
    memory: Memory | None
    """Of a CTA with a ring; None without one."""
    tiles: tuple[int, ...]
    """Output tiles of each CTA that the multiprocessor executes."""

    @property
    def clock_ghz(self) -> float | None:
        """Cycles per nanosecond; None where the unit of time is no cycle."""
        return self.model.clock_mhz / 1e3 if self.kind == "chip" else None

    @property
    def unit(self) -> str:
        return "cycles" if self.kind == "chip" else "MMAs"

    @property
    def heading(self) -> str:
        """``gemm for sm_90a, tma,pipeline(2), M=128 N=128 K=512``"""
        shape = " ".join(f"{name}={extent}" for name, extent in self.shape.items())
        return ", ".join(part for part in (f"{self.kernel} for {self.target}", self.pipeline, shape) if part)

    @property
    def amount(self) -> str:
        """``one multiprocessor: 2 CTAs of 2 and 1 output tiles, 8 K tiles each``"""
        *others, last = sorted(set(self.tiles), reverse=True)
        tiles = f"{', '.join(map(str, others))} and {last} output tiles" if others else many(last, "output tile")
        each = " each" if max(self.tiles) > 1 else ""
        loop = "" if self.gemm is None else f", {many(self.gemm.ktiles, 'K tile')}{each}"
        return f"one multiprocessor: {many(len(self.tiles), 'CTA')} of {tiles}{loop}"


@dataclass(frozen=True)
class Request:
    """How a program is to be compiled and played."""

    pipeline: str = ""
    target: str | None = None
    shape: Mapping[str, int] | None = None
    """None: one output tile, or two on one CTA where it loops over them, and 8 K tiles."""
    ctas: int | None = None
    """The grid of a persistent kernel."""
    kind: CostKind = "chip"
    ratio: float | None = None


def make(program: ModuleOp, request: Request, *, file: str, source: str) -> Subject:
    """Compile a program and play what it becomes. `file` is its name and `source` its text. Raises TilecError for what the
    passes refuse, and for what cannot be executed."""
    shape = request.shape
    if shape is None:
        with collect():  # it is compiled once more, with these extents
            shape = small_shape(find_kernel(_compile(program, request).asynchronous))
    compiled = _compile(for_shape(program, shape), request)
    return _play(compiled, dict(shape), request, file=file, source=source)


def _compile(program: ModuleOp, request: Request) -> Compiled:
    return compile_module(program, pipeline=request.pipeline, target=request.target, emit="tile")


def _play(compiled: Compiled, shape: Mapping[str, int], request: Request, *, file: str, source: str) -> Subject:
    module = compiled.asynchronous
    kernel = find_kernel(module)
    launch = Launch.of(module, shape, ctas=request.ctas)
    if launch.ctas >= launch.multiprocessors:
        resident = max(residency(compiled).ctas, 1)
        launch = Launch.of(module, shape, resident=resident, ctas=request.ctas)
    elif request.shape is None and request.ctas is None and launch.group is not None and are_few(launch):
        launch = Launch.of(module, shape, ctas=1)
    recordings = recorded(launch, kernel, request.ctas)
    if not recordings:
        fail(kernel, "this shape has no output tile: there is nothing to show", "give extents above 0")
    gemm, why_not = _gemm(recordings, launch.resident)
    assert kernel.target is not None  # the driver sets it
    model = model_of(kernel.target.data)
    if request.ratio is not None and gemm is None:
        fail(kernel, f"no load:MMA ratio can be set here. {why_not}", "leave the ratio out")
    ratio = request.ratio if request.ratio is not None or request.kind == "chip" else DEFAULT_RATIO
    costs = _costs(model.costs, request.kind, ratio, recordings, gemm)
    return Subject(
        at=kernel,
        kernel=kernel.sym_name.data,
        file=file,
        source=source,
        target=kernel.target.data,
        pipeline=request.pipeline,
        shape=shape,
        chosen=request.shape is None and bool(shape),
        trace=replay(recordings, costs, resident=launch.resident),
        model=model,
        costs=costs,
        kind=request.kind,
        ratio=ratio,
        gemm=gemm,
        why_not=why_not,
        memory=None if gemm is None else _memory(kernel, gemm),
        tiles=tuple(recording.tiles for recording in recordings),
    )


def _memory(kernel: KernelOp, gemm: Gemm) -> Memory:
    total, chip = plan(kernel).total, target_of(kernel)
    other = total - gemm.depth * gemm.load_bytes
    return Memory(gemm.load_bytes, other, chip.smem_per_cta, chip.smem_per_sm, chip.smem_reserved)


def _gemm(recordings: Sequence[Recording], resident: int) -> tuple[Gemm | None, str | None]:
    try:
        return gemm_of(recordings, resident), None
    except NoGemm as reason:
        return None, str(reason)


def _costs(
    chip: Costs, kind: CostKind, ratio: float | None, recordings: Sequence[Recording], gemm: Gemm | None
) -> Costs:
    if kind == "abstract":
        done = (step for flow in recordings[0].flows for step in flow)
        macs = next((step.macs for step in done if isinstance(step, steps.Mma)), 1)
        ratio = DEFAULT_RATIO if ratio is None else ratio
        return Costs.abstract(ratio=ratio, load_bytes=bytes_of_mma(recordings[0]), macs=macs)
    return chip if ratio is None or gemm is None else gemm.with_ratio(chip, ratio)
