"""Bulk groups: `cp.async.bulk.commit_group` and `cp.async.bulk.wait_group` (PTX 9.7.9.27.2).

Each thread has groups of its own: those of others cannot be waited for. Groups complete in the order in which they were
committed, the operations of one group in any.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilec.backend.emulator.execution.cta import Cta
from tilec.backend.emulator.execution.decode import Decoder, instruction
from tilec.backend.emulator.execution.lanes import Answer, Execute, Lanes, Part, Wait
from tilec.backend.emulator.ptx.syntax import Integer
from tilec.backend.emulator.tma.transfer import Operation

Group = list[Operation]


class BulkGroups:
    """The bulk groups of the threads of a CTA: operations that are in no group yet, and committed groups, oldest first, without
    those at the front that have completed."""

    def __init__(self, cta: Cta) -> None:
        self._open: dict[int, Group] = {}
        self._committed: dict[int, list[Group]] = {}

    def add(self, thread: int, operation: Operation) -> None:
        self._open.setdefault(thread, []).append(operation)

    def commit(self, thread: int) -> None:
        """Make a group of what the thread has issued. An empty one is complete, but counts among the most recent ones."""
        group = self._open.pop(thread, [])
        if group or self._committed.get(thread):
            self._committed.setdefault(thread, []).append(group)

    def active(self, threads: Sequence[int]) -> list[int]:
        """Positions of the threads that have operations in some group, or in none yet."""
        if not self._open and not self._committed:
            return []
        return [at for at, thread in enumerate(threads) if thread in self._open or thread in self._committed]

    def unfinished(self, thread: int, allowed: int, *, read: bool) -> list[Operation]:
        """What is to be waited for so that at most the `allowed` most recent groups are pending; `read`: pending reads alone."""
        groups = self._committed.get(thread, [])
        while groups and all(o.done for o in groups[0]):
            groups.pop(0)
        if not groups:
            self._committed.pop(thread, None)
            return []
        waited = groups[: max(0, len(groups) - allowed)]
        return [o for group in waited for o in group if not (o.read if read else o.done)]

    def at_exit(self) -> None:
        """Writes to global memory end after the CTA; reads that have not ended show in its shared memory."""


@instruction("cp.async.bulk.commit_group")
def commit_group(d: Decoder) -> Execute:
    d.count(0)
    d.finish()

    def execute(lanes: Lanes) -> None:
        groups = lanes.cta.part(BulkGroups)
        threads = lanes.threads.tolist()
        for at in groups.active(threads):
            groups.commit(threads[at])

    return execute


@instruction("cp.async.bulk.wait_group")
def wait_group(d: Decoder) -> Execute:
    read = d.take("read") is not None
    d.count(1)
    d.finish()
    number = d.operands[0]
    if not isinstance(number, Integer) or number.value < 0:
        d.unsupported("the number of groups is a constant, 0 or more")
    allowed = number.value

    def execute(lanes: Lanes) -> Answer:
        groups = lanes.cta.part(BulkGroups)
        threads = lanes.threads.tolist()
        waits = [
            Part(np.array([at], np.intp), _wait_for(left, read=read))
            for at in groups.active(threads)
            if (left := groups.unfinished(threads[at], allowed, read=read))
        ]
        if not waits:
            return None
        free = np.setdiff1d(np.arange(lanes.count), np.concatenate([p.lanes for p in waits]))
        return [*waits, Part(free, None)] if len(free) else waits

    return execute


def _wait_for(operations: list[Operation], *, read: bool) -> Wait:
    def ready() -> bool:
        return all(o.read for o in operations) if read else all(o.done for o in operations)

    def describe() -> str:
        pending = [o for o in operations if not (o.read if read else o.done)]
        return f"for {len(pending)} bulk {'operation' if len(pending) == 1 else 'operations'} to {'read' if read else 'complete'}"

    return Wait(ready, describe)
