"""Runs a case on the emulator."""

from __future__ import annotations

from typing import Any, Literal

import tilec

from .cases import Case, Tiled


def emulated(argument: Any) -> Any:
    """An argument as the emulator takes it."""
    if isinstance(argument, Tiled):
        return tilec.TensorMap(argument.array, box=argument.box, swizzle=argument.swizzle)
    return argument


def run(case: Case, order: Literal["fifo", "random", "adversarial"] = "fifo", seed: int = 0) -> None:
    """Emulates the case and checks all its results."""
    launch = case.launch()
    tilec.emulate(
        case.text(),
        case.entry,
        launch.grid,
        launch.block,
        [emulated(argument) for argument in launch.arguments],
        cluster=launch.cluster,
        dynamic_smem=launch.dynamic_smem,
        order=order,
        seed=seed,
        file=case.file,
    )
    for result in launch.results:
        result.check()
