"""What each pass of a pipeline is worth: a prediction after every step, and beside it what a GPU measures."""

from __future__ import annotations

import ctypes
import importlib
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from tilec.backend.protocol.extents import extents_of
from tilec.backend.reference.arguments import is_written
from tilec.backend.target import DEFAULT_TARGET, TARGETS
from tilec.backend.timeline import Prediction, predict
from tilec.diagnostics import collect, fail, report
from tilec.dialects.tile import ViewType
from tilec.driver import Compiled, compile_module, find_kernel
from tilec.residency import Residency, residency
from tilec.spec import print_pipeline
from tilec.variants import for_shape

_SETTLE_MS, _BURST_MS = 250.0, 25.0
_ROUNDS = 5


@dataclass(frozen=True)
class Rung:
    """A prefix of the pipeline."""

    pipeline: str
    """Empty for the program as it is written: copies by threads."""
    target: str
    prediction: Prediction
    residency: Residency
    measured: float | None = None
    """Seconds of a launch; None where no device was asked."""


Measure = Callable[[ModuleOp, str, str, Mapping[str, int]], float]
"""Seconds of a launch: of a program, under a pipeline, for a target, with extents."""


def ladder(
    program: ModuleOp,
    passes: Sequence[ModulePass],
    shape: Mapping[str, int],
    target: str | None,
    measure: Measure | None = None,
) -> list[Rung]:
    """One rung for the program as written, and one for each pass behind it that leaves another program.

    Raises TilecError for what the passes refuse, and for passes that leave no tile code.
    """
    program = for_shape(program, shape)
    for one in passes:
        if one.name == "lower":
            fail(
                find_kernel(program),
                "the pipeline leaves no tile code: lower is in it",
                "leave lower out of --pipeline",
            )
    rungs: list[Rung] = []
    before: str | None = None
    for length in range(len(passes) + 1):
        with collect() as remarks:  # each rung would say them again
            compiled = compile_module(program, pipeline=passes[:length], target=target, emit="tile")
            text = str(compiled.asynchronous)
        if length == len(passes):
            for one in remarks:
                report(one)
        if text != before:
            rungs.append(rung(program, compiled, print_pipeline(passes[:length]), shape, measure))
        before = text
    return rungs


def rung(
    program: ModuleOp, compiled: Compiled, pipeline: str, shape: Mapping[str, int], measure: Measure | None = None
) -> Rung:
    """Of what `pipeline` made of a program."""
    module = compiled.asynchronous
    found = residency(compiled)
    predicted = predict(module, shape, resident=max(found.ctas, 1))
    kernel = find_kernel(module)
    chip = DEFAULT_TARGET if kernel.target is None else kernel.target.data
    measured = None
    if measure is not None and found.evidence != "unknown" and predicted.seconds > 0:
        measured = measure(program, pipeline, chip, shape)
    return Rung(pipeline, chip, predicted, found, measured)


def device_target() -> str | None:
    """The target of the GPU that torch finds, if there is one that tilec compiles for."""
    try:
        ctypes.CDLL("libcuda.so.1")  # torch takes a second to say that there is none
        torch: Any = importlib.import_module("torch")
    except (ImportError, OSError):
        return None
    if not torch.cuda.is_available():
        return None
    major, minor = torch.cuda.get_device_capability()
    name = f"sm_{major}{minor}a"
    return name if name in TARGETS else None


def measure(program: ModuleOp, pipeline: str, target: str, shape: Mapping[str, int]) -> float:
    """Seconds of a launch on the GPU, on random normal numbers: the median of bursts, after so long a start that the clock is
    what the kernel's own power makes of it."""
    from tilec.kernel import compile

    torch: Any = importlib.import_module("torch")
    kernel = compile(program, pipeline=pipeline, target=target)
    tensors: list[Any] = []
    for argument in find_kernel(program).body.block.args:
        assert isinstance(argument.type, ViewType)
        view = argument.type
        extents = extents_of(argument, shape)
        slowest_first = view.order[::-1]
        kind = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}[view.dtype.name]
        make = torch.zeros if is_written(argument) else torch.randn
        dense = make([extents[dim] for dim in slowest_first], device="cuda").to(kind)
        tensors.append(dense.permute([slowest_first.index(dim) for dim in range(view.rank)]))
    with collect():  # what the passes remark has been said
        kernel(*tensors)
    once = _timed(torch, lambda: kernel(*tensors), 3)
    _timed(torch, lambda: kernel(*tensors), math.ceil(_SETTLE_MS * 1e-3 / once))
    count = math.ceil(_BURST_MS * 1e-3 / once)
    return statistics.median(_timed(torch, lambda: kernel(*tensors), count) for _ in range(_ROUNDS))


def _timed(torch: Any, launch: Callable[[], object], count: int) -> float:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(count):
        launch()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / count * 1e-3
