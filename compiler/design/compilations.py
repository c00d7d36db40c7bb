"""A kernel under other depths than its own: the pass list is run with each, and the result assembled."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from xdsl.passes import ModulePass

from tilec.collector import seldom_collecting
from tilec.design.subject import Subject
from tilec.diagnostics import TilecError, collect
from tilec.driver import Compiled, compile_module
from tilec.passes.pipeline import Pipeline
from tilec.program import compiling

if TYPE_CHECKING:
    from tilec.backend.ptxas import Assembled


def at_depth(subject: Subject, depth: int) -> Compiled | None:
    """The kernel with another depth, where the pass list decides the depth."""
    made = compiled_at(subject, depth)
    return None if isinstance(made, TilecError) else made


def compiled_at(subject: Subject, depth: int) -> Compiled | TilecError:
    """The subject under another depth, made once; what refuses it."""
    if depth not in subject.by_depth:
        subject.by_depth[depth] = _compile(subject, depth)
    return subject.by_depth[depth]


def _compile(subject: Subject, depth: int) -> Compiled | TilecError:
    if depth == subject.depth:
        return subject.compiled
    if subject.by_hand:
        return TilecError("the rings are written by hand")
    try:
        with collect():
            return compile_module(
                subject.program, pipeline=_with_depth(subject.passes, depth), target=subject.asked_target, emit="tile"
            )
    except TilecError as error:
        return error


def _with_depth(passes: Sequence[ModulePass], depth: int) -> list[ModulePass]:
    """The pass list with another depth, and the lag of the given one as far as the depth allows."""
    if any(isinstance(one, Pipeline) for one in passes):
        return [
            Pipeline(depth, None if one.lag is None else min(one.lag, depth - 1)) if isinstance(one, Pipeline) else one
            for one in passes
        ]
    from tilec.passes import PASSES

    made = list(passes)
    place = next((i for i, one in enumerate(made) if one.name in ("tma", "threads")), None)
    if place is None:
        place = next((i for i, one in enumerate(made) if one.name not in ("target", "retile")), len(made))
        made.insert(place, PASSES["threads"]()())
    made.insert(place + 1, Pipeline(depth))
    return made


def assemble_all(made: dict[int, Compiled | TilecError]) -> tuple[dict[int, Assembled], str]:
    """What ptxas makes of each depth, which it does beside the compilation of the next."""
    from tilec.backend.ptxas import PtxasError, find_ptxas, probe_ptxas

    if find_ptxas() is None:
        return {}, "unknown: no ptxas"
    try:
        build = probe_ptxas().build
    except PtxasError as error:
        return {}, f"unknown: {error.diagnostic.message}"
    futures: dict[int, Future[Assembled]] = {}
    with ThreadPoolExecutor(2) as pool, compiling(), seldom_collecting():
        for depth, compiled in made.items():
            if isinstance(compiled, Compiled):
                try:
                    with collect():
                        _ = compiled.ptx
                except TilecError:
                    continue
                futures[depth] = pool.submit(getattr, compiled, "resources")  # which ptxas says, once
    done = {depth: future.result() for depth, future in futures.items() if future.exception() is None}
    return done, f"ptxas {build}"
