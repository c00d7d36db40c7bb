"""Groups of TMA stores: how a thread waits for those that it issued."""

from __future__ import annotations

from tilec.frontend.tile.outside import only_in_kernels

__all__ = ["commit_group", "wait_group"]


def commit_group() -> None:
    """This thread's TMA stores since the last one form a group (cp.async.bulk.commit_group)."""
    only_in_kernels("bulk.commit_group")


def wait_group(pending: int, *, read: bool = False) -> None:
    """At most `pending` of this thread's groups are pending afterwards, 0 to 63.

    With ``read=True`` the others' shared tiles have been read and may be rewritten; without it their writes are done too.
    """
    only_in_kernels("bulk.wait_group")
