"""The ladder on the emulator: PTX of every example and pipeline computes what the program says, to the last bit.

A set of rungs that covers every two choices runs here; `climb.py` runs the same, and all depths in all orders, with a record.
"""

from __future__ import annotations

import pytest
from rungs import AXES, Rung, climb, covering, every_depth_and_order

RUNGS = covering(seed=1)


@pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)
def test_rung(rung: Rung) -> None:
    climb(rung)


def test_every_two_choices_are_covered() -> None:
    """But for pairs that no legal rung has: programs by hand have one schedule."""
    assert len(RUNGS) <= 200
    for axis, choices in AXES.items():
        for other, others in AXES.items():
            if axis == other or "program" in (axis, other):
                continue
            found = {(getattr(rung, axis), getattr(rung, other)) for rung in RUNGS}
            assert found == {(one, two) for one in choices for two in others}, f"{axis} and {other}"


def test_all_depths_and_orders_are_listed() -> None:
    names = {rung.name for rung in every_depth_and_order()}
    assert len(names) == 2 * 3 * 8 * 2 * 5
