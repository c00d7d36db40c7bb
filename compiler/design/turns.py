"""What the phases of an output tile are told in."""

from __future__ import annotations

from dataclasses import dataclass

MOST_K_TILES = 512
"""Of a tile whose turns are recorded; more do the same."""
MMA = "MMA"
"""What a turn computes, where it multiplies."""


@dataclass(frozen=True)
class Fill:
    """The loads of one K tile into one stage."""

    k: int
    stage: int | None
    """None of a thread copy: the threads know."""


@dataclass(frozen=True)
class Turns:
    """Consecutive turns that do the same, relative to their own number k."""

    first: int
    last: int
    stages: tuple[int, ...]
    """Of each turn; empty where nothing is staged."""
    parities: tuple[int, ...]
    """Of the round that each waits for."""
    computes: str
    loads_in_flight: tuple[int, ...]
    """From the issue of k's MMA until somebody waits for it, relative to k: 1 is the load of the next K tile."""
    loads_at_once: int
    """Of those, how many at one moment, at most."""
    mmas_in_flight: tuple[int, ...]
    """When the MMA of k is issued, relative to k: -1 is the MMA of the turn before."""
    waits_for_mma: tuple[int, ...]
    """Behind that, relative to k."""
    loads: tuple[int, ...]
    """K tiles whose loads the turn issues, relative to k."""


@dataclass(frozen=True)
class Phases:
    """One output tile of `k_tiles` turns."""

    k_tiles: int | None
    """None where there is no loop over an extent."""
    shape: dict[str, int]
    before: tuple[str, ...]
    """What the threads do before the first turn."""
    prologue: tuple[Fill, ...]
    steady: tuple[Turns, ...]
    """Turns up to the last that issues a load of this tile."""
    drain: tuple[Turns, ...]
    """Turns behind that."""
    end: tuple[str, ...]
    """What follows the last turn, in order."""
    stuck: str | None
    """Where it hangs, if it does."""
