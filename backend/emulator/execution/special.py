"""Special registers (PTX 10)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tilec.backend.emulator.execution.lanes import Lanes
from tilec.backend.emulator.memory.shared import RESERVED
from tilec.backend.emulator.numbers.types import Values

if TYPE_CHECKING:
    from tilec.backend.emulator.execution.decode import Decoder, Reader
    from tilec.backend.emulator.ptx.syntax import Special

_WARP_SLOTS = 64
"""Warps that a multiprocessor of sm_90 or sm_100 holds."""
_ALLOCATION_UNIT = 128
"""Bytes of which multiples of shared memory are given to a CTA (PTX 10.30)."""
_AXES = {"": 0, "x": 0, "y": 1, "z": 2}


def _lane(lanes: Lanes) -> Values:
    return lanes.threads & 31


def _bit(lanes: Lanes) -> Values:
    return np.int64(1) << _lane(lanes)


def _allocated(size: int) -> int:
    return -(-size // _ALLOCATION_UNIT) * _ALLOCATION_UNIT


_OF_LANES: dict[str, Callable[[Lanes], Values | int]] = {
    "%laneid": _lane,
    "%warpid": lambda lanes: lanes.threads >> 5,
    "%lanemask_eq": _bit,
    "%lanemask_lt": lambda lanes: _bit(lanes) - 1,
    "%lanemask_le": lambda lanes: (_bit(lanes) << 1) - 1,
    "%lanemask_gt": lambda lanes: 0xFFFFFFFF - ((_bit(lanes) << 1) - 1),
    "%lanemask_ge": lambda lanes: 0xFFFFFFFF - (_bit(lanes) - 1),
}

_OF_CTA: dict[str, Callable[[Lanes], int]] = {
    "%nwarpid": lambda lanes: _WARP_SLOTS,
    "%smid": lambda lanes: lanes.cta.number % lanes.machine.multiprocessors,
    "%nsmid": lambda lanes: lanes.machine.multiprocessors,
    "%gridid": lambda lanes: 1,
    "%is_explicit_cluster": lambda lanes: int(lanes.machine.explicit_cluster),
    "%cluster_ctarank": lambda lanes: lanes.cta.rank,
    "%cluster_nctarank": lambda lanes: len(lanes.cta.cluster.ctas),
    "%clock": lambda lanes: lanes.machine.clock(),
    "%clock_hi": lambda lanes: lanes.machine.clock() >> 32,
    "%clock64": lambda lanes: lanes.machine.clock(),
    "%globaltimer": lambda lanes: lanes.machine.clock(),
    "%globaltimer_lo": lambda lanes: lanes.machine.clock(),
    "%globaltimer_hi": lambda lanes: lanes.machine.clock() >> 32,
    "%total_smem_size": lambda lanes: _allocated(lanes.machine.shared_bytes),
    "%aggr_smem_size": lambda lanes: _allocated(lanes.machine.shared_bytes) + RESERVED,
    "%dynamic_smem_size": lambda lanes: lanes.machine.dynamic_smem,
    "%reserved_smem_offset_begin": lambda lanes: 0,
    "%reserved_smem_offset_end": lambda lanes: RESERVED,
    "%reserved_smem_offset_cap": lambda lanes: RESERVED,
    "%reserved_smem_offset_1": lambda lanes: lanes.cta.shared.open_scratch(),
    "%current_graph_exec": lambda lanes: 0,
    # Cooperative groups of CUDA 13 find their barrier of the grid through these two.
    "%envreg1": lambda lanes: lanes.machine.grid_workspace >> 32,
    "%envreg2": lambda lanes: lanes.machine.grid_workspace & 0xFFFFFFFF,
}

_TRIPLES: dict[str, Callable[[Lanes], tuple[int, int, int]]] = {
    "%ntid": lambda lanes: lanes.machine.block,
    "%ctaid": lambda lanes: lanes.cta.index,
    "%nctaid": lambda lanes: lanes.machine.grid,
    "%clusterid": lambda lanes: lanes.cta.cluster.index,
    "%nclusterid": lambda lanes: lanes.machine.clusters,
    "%cluster_ctaid": lambda lanes: lanes.cta.index_in_cluster,
    "%cluster_nctaid": lambda lanes: lanes.machine.cluster,
}


def reader(decoder: Decoder, operand: Special, dtype: np.dtype[Any]) -> Reader:
    """Reads a special register as `dtype`, truncated to its width."""
    mask = (1 << 8 * dtype.itemsize) - 1

    def cast(value: Values | int) -> Values:
        if isinstance(value, int):
            return np.array(value & mask, np.uint64).astype(f"u{dtype.itemsize}").view(dtype)
        return value.astype(f"u{dtype.itemsize}").view(dtype)

    name, axis = operand.name, _AXES.get(operand.component)
    if operand.component == "w":
        return lambda lanes: cast(0)
    if name == "%tid" and axis is not None:
        return lambda lanes: cast(lanes.cta.tid[axis][lanes.index])
    if name in _TRIPLES and axis is not None:
        triple = _TRIPLES[name]
        return lambda lanes: cast(triple(lanes)[axis])
    if name in _OF_LANES:
        of_lanes = _OF_LANES[name]
        return lambda lanes: cast(of_lanes(lanes))
    if name in _OF_CTA:
        of_cta = _OF_CTA[name]
        return lambda lanes: cast(of_cta(lanes))
    if name.startswith("%envreg"):
        return lambda lanes: cast(0)
    if name.startswith("%pm"):
        decoder.unsupported(f"{name} is a performance counter, whose behaviour is undefined")
    decoder.unsupported(f"the emulator does not know the special register {name}")
