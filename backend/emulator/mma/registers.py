"""Elements of matrices in the registers of whole warps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilec.backend.emulator.execution.decode import Reader, Writer
from tilec.backend.emulator.execution.lanes import Lanes
from tilec.backend.emulator.faults import FaultKind


def check_whole(lanes: Lanes) -> None:
    """Instructions of a warp need its 32 threads, none exited (PTX 9.7.14)."""
    if not lanes.whole_warps():
        lanes.fault(
            FaultKind.DIVERGENT, f"{lanes.instruction.opcode} needs all 32 threads of the warp, and some have exited"
        )


def read(lanes: Lanes, readers: Sequence[Reader], raw: np.dtype[Any]) -> NDArray[Any]:
    """The elements in registers, each seen as several of `raw`, lowest bits first: shape (warps, 32, elements)."""
    columns = np.stack([np.broadcast_to(r(lanes), (lanes.count,)) for r in readers], axis=1)
    return np.ascontiguousarray(columns).view(raw).reshape(lanes.count // 32, 32, -1)


def write(lanes: Lanes, writers: Sequence[Writer], elements: NDArray[Any]) -> None:
    """The inverse of `read`: elements of shape (warps, 32, elements) into registers of 32 or 64 bits."""
    rows = np.ascontiguousarray(elements).reshape(lanes.count, -1)
    width = rows.nbytes // lanes.count // len(writers)
    columns = rows.view(f"u{width}")
    for at, writer in enumerate(writers):
        writer(lanes, np.ascontiguousarray(columns[:, at]))
