"""Where threads meet, fences, bulk groups of TMA stores, and the wait for accumulator loads."""

from __future__ import annotations

from tilec.dialects.tile import CommitGroupOp, CtaSyncOp, FenceOp, RoleSyncOp, WaitGroupOp, WaitLdOp
from tilec.dialects.tile.sync import FENCES
from tilec.frontend.lowering.arguments import Argument
from tilec.frontend.lowering.frame import Site
from tilec.frontend.lowering.vocabulary import word


@word("cta_sync")
def cta_sync(site: Site) -> None:
    site.emit(CtaSyncOp)


@word("role_sync")
def role_sync(site: Site) -> None:
    site.add(RoleSyncOp())  # which asks for the role that it stands in


@word("fence")
def fence(site: Site, *, kind: Argument) -> None:
    chosen = kind.choice(*FENCES)
    site.emit(lambda: FenceOp(chosen))


@word("bulk.commit_group")
def commit_group(site: Site) -> None:
    site.emit(CommitGroupOp)


@word("bulk.wait_group")
def wait_group(site: Site, *, pending: Argument, read: Argument) -> None:
    groups, only_read = pending.integer(), read.flag()
    site.emit(lambda: WaitGroupOp(groups, read=only_read))


@word("tmem.wait_ld")
def wait_ld(site: Site) -> None:
    site.emit(WaitLdOp)
