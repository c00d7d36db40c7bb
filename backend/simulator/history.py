"""What has happened on a barrier or on storage lately, for the trace of a fault."""

from __future__ import annotations

from collections import deque

from xdsl.ir import Operation

STEPS = 12
"""Steps that a trace shows, at most."""

Entry = tuple[int, Operation, str]
"""When, where, and what happened."""
History = deque[Entry]


def new_history() -> History:
    return deque(maxlen=STEPS)
