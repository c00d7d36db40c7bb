"""The special registers by name (PTX 10)."""

from __future__ import annotations

from tilec.backend.emulator.ptx.syntax import Operand, Special, Vector
from tilec.backend.emulator.ptx.types import ELEMENTS

_VECTORS = ("%tid", "%ntid", "%ctaid", "%nctaid", "%clusterid", "%nclusterid", "%cluster_ctaid", "%cluster_nctaid")
_SCALARS = (
    "%laneid",
    "%warpid",
    "%nwarpid",
    "%smid",
    "%nsmid",
    "%gridid",
    "%is_explicit_cluster",
    "%cluster_ctarank",
    "%cluster_nctarank",
    *(f"%lanemask_{which}" for which in ("eq", "le", "lt", "ge", "gt")),
    "%clock",
    "%clock_hi",
    "%clock64",
    *(f"%pm{i}" for i in range(8)),
    *(f"%pm{i}_64" for i in range(8)),
    *(f"%envreg{i}" for i in range(32)),
    "%globaltimer",
    "%globaltimer_lo",
    "%globaltimer_hi",
    *(f"%reserved_smem_offset_{which}" for which in ("begin", "end", "cap", "0", "1")),
    "%total_smem_size",
    "%aggr_smem_size",
    "%dynamic_smem_size",
    "%current_graph_exec",
)
_COMPONENTS = tuple(letters[0] for letters in ELEMENTS)

SPECIAL: dict[str, Operand] = {
    **{name: Special(name) for name in _SCALARS},
    **{f"{name}.{c}": Special(name, letters[0]) for name in _VECTORS for letters in ELEMENTS for c in letters},
    **{name: Vector(tuple(Special(name, c) for c in _COMPONENTS)) for name in _VECTORS},
}
"""Every spelling of a special register as an operand. One of four components, named without any, is a vector."""
