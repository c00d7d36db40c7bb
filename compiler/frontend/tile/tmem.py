"""Tensor memory."""

from __future__ import annotations

from tilec.frontend.tile.outside import only_in_kernels

__all__ = ["wait_ld"]


def wait_ld() -> None:
    """This thread's accumulator loads, ``tile.copy_async(acc, dispatch="tmem")``, are complete (tcgen05.wait::ld)."""
    only_in_kernels("tmem.wait_ld")
