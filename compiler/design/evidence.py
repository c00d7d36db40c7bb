"""What the design rests on: each statement measured, derived or still to be verified, with its source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from xdsl.ir import SSAValue

from tilec.backend.protocol.contract_walk import line_of
from tilec.design.blocks import counted
from tilec.design.conclusion import Conclusion
from tilec.design.depths import Depths
from tilec.design.descriptors import Descriptor
from tilec.design.forecast import Forecast
from tilec.design.protocols import Protocols
from tilec.design.subject import Subject
from tilec.design.validation import Validation
from tilec.dialects.tile import CopyAsyncOp, ViewType

Kind = Literal["measured", "derived", "to be verified"]
_MEASURED_ON = "sm_90a"
_RULES = "docs/checking.md, `Memory` and `TMA`: one H200"


@dataclass(frozen=True)
class Evidence:
    statement: str
    kind: Kind
    source: str
    lines: tuple[int, ...] = ()


def evidence(
    subject: Subject,
    maps: tuple[Descriptor, ...],
    protocols: Protocols,
    depths: Depths,
    forecast: Forecast,
    conclusion: Conclusion,
    validation: Validation,
) -> tuple[Evidence, ...]:
    return (
        *_program(subject),
        *_maps(maps),
        *_engine(subject, protocols),
        *_schedule(subject, conclusion),
        *_machine(subject, depths),
        *_runs(validation),
        *_time(subject, forecast),
    )


def _program(subject: Subject) -> Iterator[Evidence]:
    copied = {
        value
        for op in (*subject.loads, *subject.stores)
        if op.dispatch == "tma"
        for value in (op.source, op.dest)
        if value is not None and isinstance(value.type, ViewType)
    }
    classes: dict[tuple[int, str], list[SSAValue]] = {}
    for argument in subject.kernel.body.block.args:
        if argument in copied:
            assert isinstance(argument.type, ViewType)
            classes.setdefault((argument.type.align, argument.type.tail), []).append(argument)
    for (align, tail), views in classes.items():
        names = ", ".join(view.name_hint or "a view" for view in views)
        grid = f"rows end {'on' if tail == 'grid' else 'off'} the 16-byte grid"
        lines = {line for view in views if (line := line_of(view)) is not None}
        yield Evidence(
            f"{names}: base and pitches are multiples of {align} bytes, {grid}",
            "derived",
            "the views' types; a launch checks it",
            tuple(sorted(lines)),
        )
    for assumption in subject.verdict.assumptions:
        yield Evidence(assumption, "derived", "tile.assume; a launch checks it")
    if subject.shape is not None:
        words = ", ".join(f"{name} = {extent}" for name, extent in subject.shape.items())
        yield Evidence(f"extents {words}, dense tensors", "to be verified", "--shape, as given")


def _maps(maps: tuple[Descriptor, ...]) -> Iterator[Evidence]:
    if not maps:
        return
    lowered = all(one.in_abi for one in maps)
    yield Evidence(
        "the descriptors are those that a launch encodes" if lowered else "the descriptors are those of the types",
        "derived" if lowered else "to be verified",
        "tile.abi of the lowered kernel" if lowered else "the kernel is not lowered",
        tuple(sorted({line for one in maps for line in one.lines})),
    )


def _engine(subject: Subject, protocols: Protocols) -> Iterator[Evidence]:
    measured: Kind = "measured" if subject.target.name == _MEASURED_ON else "to be verified"
    only = "" if measured == "measured" else f" (measured on {_MEASURED_ON} only)"
    tma = [op for op in (*subject.loads, *subject.stores) if op.dispatch == "tma"]
    lines = _lines([op for op in tma if op.is_load])
    if lines or any(op.is_load for op in tma):
        yield Evidence(f"a load over the edge brings zeros, and all its bytes count{only}", measured, _RULES, lines)
    if protocols.budgets:
        yield Evidence(
            f"a budget that is off hangs, or releases its wait early{only}",
            measured,
            "docs/gpu-runs.md, kernels that the checker refutes",
        )
    if any(not op.is_load for op in tma):
        yield Evidence(
            f"a store clips in 16-byte units{only}", measured, _RULES, _lines([op for op in tma if not op.is_load])
        )
    yield Evidence(
        f"TMA pays from {subject.least_tma_bytes} bytes a copy on",
        "to be verified",
        f"tma_min_bytes of {subject.target.name} in backend/target.py, a rule of thumb",
    )


def _lines(ops: list[CopyAsyncOp]) -> tuple[int, ...]:
    return tuple(sorted({line for op in ops if (line := line_of(op)) is not None}))


def _schedule(subject: Subject, conclusion: Conclusion) -> Iterator[Evidence]:
    pipeline = conclusion.pipeline
    yield Evidence(
        f"depth {pipeline.depth}; at most {_loads(pipeline.loads_ahead)} in flight beside an MMA, and "
        f"{counted(pipeline.mmas_queued, 'MMA')} queued",
        "derived",
        "one execution of the kernel without data",
    )
    if pipeline.lag == 0 and pipeline.mmas_queued:
        yield Evidence(
            "waiting for each MMA before the next costs 17 % at large K (128x256 tiles)",
            "measured" if subject.target.name == _MEASURED_ON else "to be verified",
            "docs/performance.md, `lag`: one H200",
        )


def _loads(number: int) -> str:
    return "the load of 1 K tile" if number == 1 else f"the loads of {number} K tiles"


def _machine(subject: Subject, depths: Depths) -> Iterator[Evidence]:
    target, row = subject.target, depths.chosen
    yield Evidence(
        f"{target.smem_per_cta} bytes of shared memory a CTA, {target.smem_per_sm} a multiprocessor, "
        f"{target.tmem_columns} columns of tensor memory",
        "derived",
        f"{target.name} in backend/target.py",
    )
    if row is not None and row.registers is not None:
        yield Evidence(f"{row.registers} registers a thread", "derived", depths.registers_from)
    else:
        why = subject.not_lowered or depths.registers_from
        yield Evidence("registers a thread, and what they allow", "to be verified", why)


def _runs(validation: Validation) -> Iterator[Evidence]:
    proof = validation.proof
    proved = proof.verdict == "proved"
    yield Evidence(
        f"the protocol is {'proved' if proved else proof.verdict} {'' if proof.verdict != 'checked' else 'up to '}{proof.summary}",
        "derived" if proof.verdict != "checked" else "to be verified",
        f"the proof, {proof.states} states" if proved else "simulated launches",
    )
    exact = sum(run.outcome in ("exact", "no fault") for run in validation.runs)
    ran = sum(run.outcome != "skipped" for run in validation.runs)
    compared = next((run.compared for run in validation.runs if run.compared), None)
    if compared is None:
        yield Evidence(f"{exact} of {ran} launches break no rule", "derived", "the simulator, now")
        yield Evidence("what the kernel computes", "to be verified", "no program to compare with: --like FILE")
    else:
        yield Evidence(
            f"{exact} of {ran} launches give the numbers of {compared}, exactly", "derived", "the simulator, now"
        )


def _time(subject: Subject, forecast: Forecast) -> Iterator[Evidence]:
    if forecast.chosen is not None:
        words = "the given extents" if forecast.given else "extents of a common size, for want of --shape"
        yield Evidence(
            f"{forecast.chosen.seconds * 1e6:.1f} us a launch and its bound, with {words}",
            "to be verified",
            forecast.evidence,
        )
    yield Evidence(
        "the best depth for real shapes and clocks",
        "to be verified",
        "the experiment of this report, on the chip",
    )
