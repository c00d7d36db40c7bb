"""What each depth from 1 to 8 takes of a multiprocessor: the pass list is run with each, and the result assembled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from xdsl.dialects.builtin import ModuleOp
from xdsl.rewriter import Rewriter

from tilec.backend.protocol.contract_walk import root_of
from tilec.backend.target import Target
from tilec.design.blocks import counted
from tilec.design.compilations import assemble_all, compiled_at
from tilec.design.subject import Subject, depth_of
from tilec.diagnostics import TilecError, collect
from tilec.dialects.tile import AllocOp, CopyAsyncOp, KernelOp, MbarrierInitOp, MbarrierType, RingType
from tilec.driver import Compiled
from tilec.passes.pipeline import Pipeline
from tilec.passes.storage import StoragePlan, plan
from tilec.residency import Residency, residency

if TYPE_CHECKING:
    from tilec.backend.ptxas import Assembled

DEPTHS = range(1, 9)
NEAR = 0.05
"""Depths whose times differ by no more are equally good."""
_SAME = 0.01
Source = Literal["passes", "plan"]


@dataclass(frozen=True)
class Depth:
    """One depth. `registers` are a thread's; what is not known is None, and `note` says why."""

    depth: int
    chosen: bool
    fits: bool
    smem_bytes: int
    over_bytes: int
    """By how much it does not fit; 0 where it does."""
    tmem_columns: int
    threads: int | None
    registers: int | None
    spill_bytes: int | None
    ctas_per_sm: int | None
    """Of a depth whose registers are unknown, what all else allows."""
    bound_by: str | None
    """What allows no more CTAs."""
    seconds: float | None
    """Of one launch, by the cost model; None where the depth does not fit, or was not compiled."""
    source: Source
    """``passes``: the pass list was run with this depth. ``plan``: the storage of the chosen kernel with deeper or shallower rings."""
    note: str | None


@dataclass(frozen=True)
class Depths:
    """The table, and the assembler that the registers are from."""

    rows: tuple[Depth, ...]
    registers_from: str
    how: str

    @property
    def chosen(self) -> Depth | None:
        return next((row for row in self.rows if row.chosen), None)

    @property
    def fastest(self) -> Depth | None:
        """By the cost model, among those that spill nothing; None where less than two have a time. Of equal ones the shallowest."""
        timed = [row for row in self.rows if row.seconds and not row.spill_bytes]
        return min(timed, key=lambda row: row.seconds or 0.0) if len(timed) > 1 else None

    @property
    def faster(self) -> Depth | None:
        """The fastest, if the chosen one takes notably more."""
        row, best = self.chosen, self.fastest
        if row is None or best is None or not row.seconds or not best.seconds:
            return None
        return best if row.seconds > (1 + NEAR) * best.seconds else None

    @property
    def changes_nothing(self) -> bool:
        """Whether all depths take the same, as far as the cost model goes."""
        times = [row.seconds for row in self.rows if row.seconds]
        return len(times) > 1 and max(times) <= (1 + _SAME) * min(times)

    def timed(self, times: Mapping[int, float]) -> Depths:
        """With the seconds of a launch, by depth."""
        return replace(self, rows=tuple(replace(row, seconds=times.get(row.depth)) for row in self.rows))


def depths(subject: Subject, wanted: Sequence[int] = DEPTHS) -> Depths:
    """The rows of all depths, and of the chosen one if it is another."""
    wanted = sorted({*wanted, subject.depth})
    made: dict[int, Compiled | TilecError] = {depth: compiled_at(subject, depth) for depth in wanted}
    how = _how(subject)
    refused = [one.diagnostic.message for one in made.values() if isinstance(one, TilecError)]
    if not subject.by_hand and len(refused) == len(made) - 1 and len(set(refused)) == 1:
        # Whatever the depth: there is nothing to put into a ring.
        made = {depth: one for depth, one in made.items() if depth == subject.depth}
        how = f"There is no other depth: {refused[0]}"
    assembled, assembler = assemble_all(made)
    base = next((one.tile for one in reversed(made.values()) if isinstance(one, Compiled)), subject.module)
    mine = made[subject.depth]
    taken = _residency(mine) if isinstance(mine, Compiled) else None
    rows = tuple(_row(subject, depth, one, assembled.get(depth), base, taken) for depth, one in made.items())
    return Depths(rows, assembler, how)


def _how(subject: Subject) -> str:
    if subject.by_hand:
        return "The rings were written by hand: other depths are the plan of the storage with other rings"
    if not any(isinstance(one, Pipeline) for one in subject.passes):
        return "pipeline(depth) was added to the pass list"
    return "The pass list was run with each depth"


def roomier(depths: Depths) -> Depth | None:
    """The deepest of the shallower rings that leaves room for twice the CTAs on a multiprocessor, else for more."""
    row = depths.chosen
    if row is None or not row.ctas_per_sm:
        return None
    held = row.ctas_per_sm
    more = [one for one in depths.rows if one.depth < row.depth and (one.ctas_per_sm or 0) > held]
    return max(more, key=lambda one: ((one.ctas_per_sm or 0) >= 2 * held, one.depth), default=None)


def stages(row: Depth) -> str:
    return counted(row.depth, "stage")


def ctas(row: Depth) -> str:
    return "CTAs by a number that is not known" if row.ctas_per_sm is None else counted(row.ctas_per_sm, "CTA")


# ---- rows


def _row(
    subject: Subject,
    depth: int,
    made: Compiled | TilecError,
    assembled: Assembled | None,
    base: ModuleOp,
    taken: Residency | None,
) -> Depth:
    """`taken` is what the chosen depth takes of registers: other rings of a kernel that was written by hand take as much."""
    target = subject.target
    if isinstance(made, Compiled):
        kernel, source, note = _kernel_of(made.asynchronous), "passes", _lowering_problem(made)
        storage = _plan(kernel)
    else:
        storage, source = _plan(_with_rings(base, depth)), "plan"
        note = None if subject.by_hand else made.diagnostic.message
    if storage is None:
        return Depth(depth, depth == subject.depth, False, 0, 0, 0, None, None, None, None, None, None, source, note)
    over = max(storage.total - target.smem_per_cta, 0)
    threads = made.abi.threads if isinstance(made, Compiled) and note is None else None
    registers = None if assembled is None else assembled.registers
    found = (_residency(made) if isinstance(made, Compiled) else None) or taken
    if over:
        resident, bound = None, None
    elif subject.roles:
        resident, bound = 1, "roles"
    else:
        held = threads if threads is not None or found is None or subject.abi is None else subject.abi.threads
        resident, bound = _resident(target, held, None if found is None else found.registers, storage)
    return Depth(
        depth,
        depth == subject.depth,
        not over,
        storage.total,
        over,
        storage.tmem_columns,
        threads,
        registers,
        None if assembled is None else assembled.spill_stores + assembled.spill_loads,
        resident,
        bound,
        None,
        source,
        f"{over} bytes too many" if over else note,
    )


def _kernel_of(module: ModuleOp) -> KernelOp:
    return next(op for op in module.walk() if isinstance(op, KernelOp))


def _lowering_problem(compiled: Compiled) -> str | None:
    try:
        with collect():
            _ = compiled.abi
    except TilecError as error:
        return error.diagnostic.message
    return None


def _residency(compiled: Compiled) -> Residency | None:
    """None where the kernel cannot be lowered, or ptxas does not take it."""
    try:
        with collect():
            return residency(compiled)
    except TilecError:
        return None


def _plan(kernel: KernelOp) -> StoragePlan | None:
    try:
        return plan(kernel)
    except TilecError:
        return None


def _with_rings(module: ModuleOp, depth: int) -> KernelOp:
    """A copy of the kernel whose rings of loads, and the mbarriers of as many stages, have another depth: for its plan only."""
    kernel = _kernel_of(module.clone())
    loads = [op for op in kernel.walk() if isinstance(op, CopyAsyncOp) and op.is_load and op.dest is not None]
    rings = {root_of(op.dest) for op in loads if op.dest is not None}
    old = max((depth_of(ring) for ring in rings), default=1)
    for op in list(kernel.walk()):
        if isinstance(op, AllocOp) and op.res in rings and isinstance(op.res.type, RingType):
            if op.res.type.depth == old:
                Rewriter.replace_value_with_new_type(op.res, RingType.of(depth, op.res.type.slot))
        elif isinstance(op, MbarrierInitOp) and op.res.type.depth == old > 1:
            Rewriter.replace_value_with_new_type(op.res, MbarrierType.of(depth))
    return kernel


def _resident(target: Target, threads: int | None, registers: int | None, storage: StoragePlan) -> tuple[int, str]:
    """CTAs of one multiprocessor, and what allows no more."""

    def count(**given: int) -> int:
        wanted = {"threads": 32, "registers": 1, "smem_bytes": 0, "tmem_columns": 0, **given}
        return target.occupancy(**wanted)

    alone = {
        "shared memory": count(smem_bytes=storage.total),
        "tensor memory": count(tmem_columns=storage.tmem_columns),
    }
    if threads is not None:
        alone["threads"] = count(threads=threads)
        if registers is not None:
            alone["registers"] = count(threads=threads, registers=registers)
    least = min(alone.values())
    return least, next(name for name, ctas in alone.items() if ctas == least)
