"""How much is drawn: a small shape where none is given, and what is too much of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import prod

from xdsl.ir import BlockArgument, SSAValue

from tilec.backend.protocol.extents import dims_of, extent_names, extents_of
from tilec.backend.timeline import Launch, Trace, record
from tilec.backend.timeline.steps import Recording
from tilec.diagnostics import TilecError, fail
from tilec.dialects.tile import CopyAsyncOp, GridOp, KernelOp, ScheduleOp, SmemType

MOST_STEPS = 200_000
"""That are played: some seconds."""
MOST_SPANS = 20_000
"""That a page holds and a picture shows. Trace events may be more: Perfetto is made for them."""
_K_TILES, _TILES, _OTHER_EXTENT = 8, 2, 256


def small_shape(kernel: KernelOp) -> dict[str, int]:
    """An extent for each name in the kernel's views: few tiles, so that each can be seen."""
    names = extent_names(kernel)
    shape: dict[str, int] = {}
    ruler = _ruler(kernel)
    outer: Sequence[tuple[str, int]] = () if ruler is None else _named(ruler.view, ruler.step)
    shape |= dict(outer)
    for op in kernel.walk():
        if isinstance(op, CopyAsyncOp) and op.is_load and op.dest is not None:
            tile = op.dest.type
            assert isinstance(tile, SmemType)
            loop = {name: _K_TILES * extent for name, extent in _named(op.source, tile.shape)}
            shape = loop | shape
    if isinstance(ruler, ScheduleOp) and outer:
        name, step = outer[0]
        shape[name] = _TILES * step
    of_output = [name for name, _ in outer]
    ordered = [*of_output, *(name for name in names if name not in of_output)]
    return {name: shape.get(name, _OTHER_EXTENT) for name in ordered}


def are_few(launch: Launch) -> bool:
    """Whether one CTA can take all output tiles, so that it is seen to loop: fixed extents may make them any number."""
    return prod(launch.tiles) <= _TILES


def _ruler(kernel: KernelOp) -> GridOp | ScheduleOp | None:
    return next((op for op in kernel.walk() if isinstance(op, GridOp | ScheduleOp)), None)


def _named(view: SSAValue, extents: Sequence[int]) -> Sequence[tuple[str, int]]:
    if not isinstance(view, BlockArgument):
        return ()
    return [(dim, extent) for dim, extent in zip(dims_of(view), extents, strict=False) if isinstance(dim, str)]


def recorded(launch: Launch, kernel: KernelOp, ctas: int | None) -> tuple[Recording, ...]:
    """What the busiest multiprocessor executes. Raises TilecError before there is too much of it to wait for: recording takes
    longer than playing, so that a launch is sized up first. `ctas` is what was asked for."""
    _check_steps(kernel, _estimate(launch, kernel), ctas, "about ")
    recordings = launch.busiest()
    _check_steps(kernel, sum(map(_steps, recordings)), ctas)
    return recordings


def _check_steps(kernel: KernelOp, steps: int, ctas: int | None, about: str = "") -> None:
    if steps <= MOST_STEPS:
        return
    hint = "give a smaller --shape"
    if not extent_names(kernel):
        hint = "name extents in its view types, such as MxKxf16, and give a small --shape"
    fail(
        kernel,
        f"{about}{steps:,} steps on one multiprocessor are too many to play: at most {MOST_STEPS:,}",
        hint if ctas is None else f"{hint}, or more --ctas",
    )


def check_spans(kernel: KernelOp, trace: Trace, what: str) -> None:
    """Raises TilecError where a trace is more than `what` can show."""
    if (count := len(trace.spans)) > MOST_SPANS:
        fail(
            kernel,
            f"{count:,} spans are too many for {what}: at most {MOST_SPANS:,}",
            "give a smaller --shape; without -o the start and the end are drawn here, and a .json for Perfetto has them all",
        )


def _steps(recording: Recording) -> int:
    return sum(len(flow) for flow in recording.flows)


def _estimate(launch: Launch, kernel: KernelOp) -> int:
    """Steps of all output tiles, of which one is recorded at a small shape, and at one with twice the extent along each loop: they
    grow evenly. 0 for a kernel that does not take such shapes. Extents that are fixed cannot be made small: where they alone make
    it too much, that is the estimate."""
    if (loads := _loads(launch, kernel)) > MOST_STEPS:
        return loads
    small, ruler = small_shape(kernel), _ruler(kernel)
    of_output = {name for name, _ in _named(ruler.view, ruler.step)} if ruler is not None else set[str]()
    ctas = None if launch.group is None else 1

    def of_tile(shape: Mapping[str, int]) -> int:
        return _steps(record(launch.module, shape, ctas=ctas, most=1))

    with suppress(TilecError):
        steps = shortest = of_tile(small)
        for name in small.keys() - of_output:
            growth = of_tile({**small, name: 2 * small[name]}) - shortest
            steps += growth * (launch.shape[name] - small[name]) // small[name]
        return max(steps, 0) * _tiles(launch)
    return 0


def _loads(launch: Launch, kernel: KernelOp) -> int:
    """Of a multiprocessor at least, where the tensor of most tiles is loaded once."""
    most = 0
    for op in kernel.walk():
        if isinstance(op, CopyAsyncOp) and op.is_load and op.dest is not None and isinstance(op.source, BlockArgument):
            assert isinstance(op.dest.type, SmemType)
            extents = extents_of(op.source, launch.shape)
            most = max(
                most, prod(-(-extent // tile) for extent, tile in zip(extents, op.dest.type.shape, strict=False))
            )
    return most // max(launch.active, 1)


def _tiles(launch: Launch) -> int:
    """Output tiles of the busiest multiprocessor."""
    numbers = range(0, launch.ctas, launch.multiprocessors)
    if launch.group is None:
        return len(numbers)
    return sum(-(-(prod(launch.tiles) - number) // launch.ctas) for number in numbers)
