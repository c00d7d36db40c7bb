"""The contract of a kernel whose threads part into roles: what one hands to another goes through an mbarrier."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilec.backend.protocol.contract import Contract, Handoff, contract
from tilec.driver import find_kernel
from tilec.source import parse_file

_ROLES = Path(__file__).resolve().parents[1] / "protocol" / "step7_roles.tile"
_TILES = ("Asmem", "Bsmem")
_STAGING = ("dleft", "dright")
_RING, _TURN = "flips when stage wraps; carried from tile to tile; from", "flips every turn; from"


@pytest.fixture(scope="module")
def made() -> Contract:
    return contract(find_kernel(parse_file(_ROLES)))


def test_handoffs(made: Contract) -> None:
    after = "fence after_thread_sync"
    assert made.handoffs == (
        Handoff(_TILES, "ready", "TMA engine", "tensor core", "full[2]", 1, (32768,), (f"{_RING} 0",), (after,)),
        Handoff(("acc",), "ready", "tensor core", 'role "store"', "acc_ready[1]", 1, (), (f"{_TURN} 0",), (after,)),
        Handoff(_TILES, "free", "tensor core", "TMA engine", "empty[2]", 1, (), (f"{_RING} 1",), ()),
        Handoff(
            ("acc",),
            "free",
            'role "store"',
            "tensor core",
            "acc_free[1]",
            1,
            (),
            (f"{_TURN} 1",),
            ("fence before_thread_sync", after),
        ),
        Handoff(_STAGING, "ready", 'role "store"', "TMA engine", "role_sync", None, (), (), ("fence proxy_async",)),
        Handoff(
            _STAGING,
            "free",
            "TMA engine",
            'role "store"',
            "bulk group",
            None,
            (),
            (),
            ("wait_group 0 read", "role_sync"),
        ),
        Handoff(("D",), "stored", "TMA engine", "after the kernel", "bulk group", None, (), (), ("wait_group 0",)),
    )


def test_who_acts(made: Contract) -> None:
    does = {role.name: {action.what for action in role.does} for role in made.roles}
    assert list(does) == [
        "issuing thread",
        "all threads",
        'issuing thread of role "load"',
        'role "mma"',
        'issuing thread of role "store"',
        'role "store"',
        "TMA engine",
        "tensor core",
    ]
    assert does['issuing thread of role "load"'] == {
        "wait for empty",
        "announce bytes and arrive on full",
        "issue TMA loads of Asmem, Bsmem",
    }
    assert "commit MMAs to empty, acc_ready" in does['role "mma"']
    assert "meet at role_sync" in does['role "store"']
