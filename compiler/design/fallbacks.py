"""Alternative paths, for where hardware, tensors or resources are not what the design is made for. Each has been tried."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tilec.backend.target import TARGETS
from tilec.design.depths import Depths, ctas, roomier, stages
from tilec.design.subject import Subject
from tilec.diagnostics import TilecError, collect
from tilec.driver import compile_module
from tilec.passes.storage import plan


@dataclass(frozen=True)
class Fallback:
    """What to do, or what happens by itself, where a condition is not met."""

    when: str
    then: str


def fallbacks(subject: Subject, depths: Depths) -> Iterator[Fallback]:
    loads = [op for op in (*subject.loads, *subject.stores) if op.dispatch == "tma"]
    if loads and subject.by_hand:
        yield Fallback(
            "a tensor is not aligned to 16 bytes, or its rows end off the grid",
            "the launch is refused by name; write `dispatch threads` for those copies",
        )
    elif loads:
        yield Fallback(
            "a tensor is not aligned to 16 bytes, or its rows end off the grid",
            "the launch compiles the variant of that class: its threads copy, into the same swizzled tiles",
        )
    row = depths.chosen
    if row is not None and row.depth > 1:
        best = roomier(depths) or next(
            (one for one in reversed(depths.rows) if one.fits and one.depth < row.depth), None
        )
        if best is not None:
            yield Fallback(
                "shared memory is needed elsewhere, or more CTAs must be resident",
                f"{stages(best)}: {best.smem_bytes} bytes, {ctas(best)} a multiprocessor",
            )
    yield from _other_targets(subject)


def _other_targets(subject: Subject) -> Iterator[Fallback]:
    """Whether the same program and passes do for the other targets."""
    for name in TARGETS:
        if name == subject.target.name:
            continue
        passes = [one for one in subject.passes if one.name != "target"]
        how = f"--target {name}" if len(passes) == len(subject.passes) else f"target({name}) in the pass list"
        try:
            with collect():
                compiled = compile_module(subject.program, pipeline=passes, target=name, emit="tile")
                kernel = next(op for op in compiled.asynchronous.walk() if op.name == subject.kernel.name)
                assert isinstance(kernel, type(subject.kernel))
                storage, target = plan(kernel), TARGETS[name]
        except TilecError as error:
            yield Fallback(f"the chip is {name}", f"other tiles or passes: {error.diagnostic.message}")
            continue
        over = storage.total - target.smem_per_cta
        fits = f"{over} bytes too many" if over > 0 else f"{storage.total} bytes of shared memory"
        yield Fallback(f"the chip is {name}", f"{how}: the same program and passes, {fits}")
