"""Ways to break the protocol of an asynchronous kernel, each a small change of the IR.

A `Kind` finds its places in a kernel by what operations do, and changes one of them at a time. A place has a label, by which
`mutation_table.py` tells places apart. Where a kernel of the kind's domain has no such place, the kind says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import mutation_loads as loads
import mutation_stores as stores
import mutation_turns as turns
import mutation_waits as waits
from mutation_anatomy import Anatomy, Sites
from mutation_edits import drop
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation


@dataclass(frozen=True)
class Kind:
    """One kind of mistake."""

    name: str
    find: Callable[[Anatomy], Sites | str]
    """The places in a kernel, or why there is none."""
    change: Callable[[Anatomy, Operation], None]
    """Make the mistake at one of them."""


@dataclass(frozen=True)
class Mutant:
    label: str
    module: ModuleOp


def places(kind: Kind, module: ModuleOp) -> list[str] | str:
    """The labels of the places where the mistake can be made; or why there is none."""
    sites = kind.find(Anatomy(module))
    return sites if isinstance(sites, str) else [label for label, _ in sites]


def mutants(kind: Kind, module: ModuleOp) -> Iterator[Mutant]:
    """The kernel with the mistake, once for each place."""
    labels = places(kind, module)
    if isinstance(labels, str):
        return
    for place, label in enumerate(labels):
        copy = module.clone()
        anatomy = Anatomy(copy)
        sites = kind.find(anatomy)
        assert not isinstance(sites, str)
        kind.change(anatomy, sites[place][1])
        yield Mutant(label, copy)


KINDS = [
    Kind("wait for a load dropped", waits.full_waits, drop),
    Kind("wait for an MMA dropped", waits.done_waits, drop),
    Kind("wait for the last MMA dropped", waits.drains, drop),
    Kind("wait for the wrong parity", waits.all_waits, waits.wrong_parity),
    Kind("wait for another stage", waits.waits_of_several_stages, waits.wait_for_next_stage),
    Kind("wait for a load by one thread only", waits.full_waits, waits.by_one_thread),
    Kind("the ring's phase flips each iteration", waits.ring_waits, waits.flip_each_iteration),
    Kind("the MMA's phase flips once a trip", waits.own_done_waits, waits.flip_each_trip),
    Kind("a phase never flips", waits.carried_phases, waits.never_flip),
    Kind("phases reset per tile", turns.turns, turns.reset_phases),
    Kind("stage and phases reset per tile", turns.turns_with_stages, turns.reset_stage_and_phases),
    Kind("one barrier for all stages", waits.staged_barriers, waits.one_stage),
    Kind("two arrivals expected", waits.inits, waits.two_arrivals),
    Kind("barriers used before init is visible", waits.setup_syncs, drop),
    Kind("barrier of threads ahead of init", waits.setup_syncs, waits.ahead_of_inits),
    Kind("budget 16 bytes too large", loads.announcements, loads.budget(lambda n: n + 16)),
    Kind("budget 16 bytes too small", loads.announcements, loads.budget(lambda n: n - 16)),
    Kind("budget halved", loads.announcements, loads.budget(lambda n: n // 2)),
    Kind("budget doubled", loads.announcements, loads.budget(lambda n: 2 * n)),
    Kind("budget counted per warp", loads.announcements, loads.budget(lambda n: 4 * n)),
    Kind("loads issued by all threads", loads.announcements, loads.inline_scope),
    Kind("bytes announced by all threads", loads.announcements, loads.out_of_scope),
    Kind("refill before the MMA has read", loads.refills_behind_waits, loads.wait_behind_refill),
    Kind("refill not guarded", loads.refills, loads.unguarded),
    Kind("prologue one short", loads.prologues, loads.prologue_by(-1)),
    Kind("prologue one long", loads.prologues, loads.prologue_by(1)),
    Kind("prologue not guarded", loads.prologues, loads.unguarded),
    Kind("MMA reads another stage", loads.ring_mmas, loads.read_next_stage),
    Kind("A loaded into B's tile", loads.load_pairs, loads.into_other_tile),
    Kind("slot with another swizzle", loads.operand_slots, loads.other_swizzle),
    Kind("store issued by all threads", stores.tma_stores, loads.inline_scope),
    Kind("proxy fence dropped", stores.proxy_fences, drop),
    Kind("barrier before the copy out dropped", stores.syncs_before_copy_out, drop),
    Kind("barrier after wait_group dropped", stores.syncs_after_wait_group, drop),
    Kind("barrier after a thread copy dropped", stores.syncs_after_thread_copy, drop),
    Kind("barrier before free dropped", stores.syncs_before_free, drop),
    Kind("wait_group dropped", stores.earlier_wait_groups, drop),
    Kind("last wait_group dropped", stores.last_wait_group, drop),
    Kind("wait_group leaves one more", stores.all_wait_groups, stores.leave_one_more),
    Kind("last wait_group only for reads", stores.last_wait_group, stores.only_read),
    Kind("commit_group dropped", stores.commit_groups, drop),
    Kind("accumulator freed early", stores.frees, stores.free_early),
    Kind("accumulator leaked", stores.frees, drop),
    Kind("first step accumulates", stores.mmas, stores.accumulate(True)),
    Kind("no step accumulates", stores.mmas, stores.accumulate(False)),
    Kind("commit dropped", stores.commits, drop),
    Kind("wait_ld dropped", stores.wait_lds, drop),
    Kind("fence after a barrier dropped", stores.fences_after_sync, drop),
    Kind("fence before a barrier dropped", stores.fences_before_sync, drop),
    Kind("every second turn", turns.turns, turns.stride(2)),
    Kind("the same turn for ever", turns.turns, turns.stride(0)),
    Kind("turns start at 1", turns.turns, turns.start_at_one),
    Kind("loads with another tile's offsets", turns.loads_of_turns, turns.old_coordinates),
]
