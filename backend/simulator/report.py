"""What a simulated launch has done."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Counters:
    """A `Report` in the making."""

    tiles: int = 0
    bytes_loaded: int = 0
    bytes_stored: int = 0
    mmas: int = 0
    waits: int = 0
    stalls: int = 0


@dataclass(frozen=True)
class Report:
    """Figures of one launch."""

    ctas: int
    tiles: int
    """Output tiles that CTAs visited: tiles of the grid, or turns of a persistent kernel."""
    bytes_loaded: int
    bytes_stored: int
    """Bytes of global memory that copies moved: what lies inside the tensors."""
    mmas: int
    waits: int
    """Waits for an mbarrier; all threads of a CTA together count as one."""
    stalls: int
    """Those that had to block until a round completed."""
