"""What CUDA releases know of PTX."""

from __future__ import annotations

PTX_OF_RELEASE: dict[tuple[int, int], int] = {
    (12, 0): 80,
    (12, 1): 81,
    (12, 2): 82,
    (12, 3): 83,
    (12, 4): 84,
    (12, 5): 85,
    (12, 6): 85,
    (12, 7): 86,
    (12, 8): 87,
    (12, 9): 88,
    (13, 0): 90,
    (13, 1): 91,
}
"""Highest ``.version`` (times ten) that the assembler of a CUDA release reads (PTX ISA, release notes)."""
