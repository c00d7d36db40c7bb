"""Who executes what: one thread, or roles, which are groups of threads with a path of their own."""

from __future__ import annotations

from contextvars import ContextVar

from xdsl.ir import Block, Region

from tilec.diagnostics import fail
from tilec.dialects.tile import RoleOp, RolesOp, SingleThreadOp
from tilec.frontend.lowering.arguments import Argument
from tilec.frontend.lowering.blocks import With
from tilec.frontend.lowering.frame import Site
from tilec.frontend.lowering.vocabulary import scope

_open: ContextVar[tuple[str, ...]] = ContextVar("_open", default=())
"""The words of the `with` statements around what is lowered, outermost first."""


def _body(site: With, word: str) -> Block:
    token = _open.set((*_open.get(), word))
    try:
        return site.body()
    finally:
        _open.reset(token)


def refuse_in_role(site: Site, message: str) -> None:
    """For what belongs to all threads of the CTA."""
    if "role" in _open.get():
        site.fail(message, "write it in front of `with tile.roles():`")


@scope("single_thread")
def single_thread(site: With) -> None:
    body = _body(site, "single_thread")
    site.emit(lambda: SingleThreadOp(Region(body)))


@scope("roles")
def roles(site: With) -> None:
    body = _body(site, "roles")
    for op in body.ops:
        if not isinstance(op, RoleOp):
            message = "tile.roles holds nothing but roles: each thread of the CTA takes one of them"
            fail(op, message, "write it in front of tile.roles, or in a role")
    site.add(RolesOp(Region(body)))


@scope("role")
def role(site: With, *, name: Argument) -> None:
    if _open.get()[-1:] != ("roles",):
        site.fail("a role stands directly in tile.roles", "write `with tile.roles():` around all roles")
    called = name.string()
    body = _body(site, "role")
    site.emit(lambda: RoleOp(called, Region(body)))
