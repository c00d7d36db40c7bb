"""What the asynchronous operations do to a state, and what must be ordered before them.

Each rule takes the kernel's context, an operation, and whether only the issuing thread executes it, and returns its
instruction. A new operation gets a rule in one of these modules, and a line in the module's `rules`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.ir import Operation

from tilec.backend.protocol.rules import barriers, copies, storage, tensor_core, threads, views
from tilec.backend.protocol.rules.context import Context, Run

RULES: dict[type[Operation], Callable[[Context, Any, bool], Run]] = {
    **storage.rules,
    **copies.rules,
    **tensor_core.rules,
    **barriers.rules,
    **threads.rules,
    **views.rules,
}
