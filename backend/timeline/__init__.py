"""Time: an asynchronous kernel on the clock of one multiprocessor, without its data, and what a whole launch takes.

`record` walks the kernel, `replay` plays what it recorded with the costs of a chip.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import ModuleOp

from tilec.backend.timeline.costs import Costs
from tilec.backend.timeline.models import MODELS, Model, Source, model_of
from tilec.backend.timeline.prediction import Bound, Prediction, predict, predict_seconds
from tilec.backend.timeline.record import record
from tilec.backend.timeline.replay import replay
from tilec.backend.timeline.share import Launch
from tilec.backend.timeline.trace import Kpis, Link, Span, Trace

__all__ = [
    "MODELS",
    "Bound",
    "Costs",
    "Kpis",
    "Launch",
    "Link",
    "Model",
    "Prediction",
    "Source",
    "Span",
    "Trace",
    "model_of",
    "predict",
    "predict_seconds",
    "record",
    "replay",
    "trace_kernel",
]


def trace_kernel(
    module: ModuleOp, shape: Mapping[str, int], costs: Costs, *, resident: int = 1, ctas: int | None = None
) -> Trace:
    """The timeline of the busiest multiprocessor, which holds `resident` CTAs at a time.

    `shape` has an extent for each name in the kernel's view types; `ctas` limits the grid of a persistent kernel. Raises
    TilecError for a kernel that is not asynchronous, and at a wait that never ends.
    """
    launch = Launch.of(module, shape, resident=resident, ctas=ctas)
    return replay(launch.busiest(), costs, resident=resident)
