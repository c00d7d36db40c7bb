"""Roles: groups of a CTA's threads, each of which takes a path of its own."""

from __future__ import annotations

import re
from collections.abc import Sequence

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Block, Operation, Region
from xdsl.irdl import IRDLOperation, irdl_op_definition, prop_def, region_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import HasParent, NoTerminator
from xdsl.utils.exceptions import VerifyException

from tilec.dialects.tile.assembly import EFFECTS, TileOp
from tilec.dialects.tile.structure import GridOp, KernelOp

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def role_of(op: Operation) -> RoleOp | None:
    """The role that executes an operation, or None for all threads of the CTA."""
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, RoleOp):
        parent = parent.parent_op()
    return parent


def verify_outside_roles(op: Operation, reason: str) -> None:
    if (role := role_of(op)) is not None:
        raise VerifyException(f'{op.name} in role "{role.role}": {reason}')


@irdl_op_definition
class RolesOp(TileOp):
    """`tile.roles { tile.role "load" { } tile.role "mma" { } }`: the CTA's threads part, and each takes one path.

    The roles run concurrently, and the operation is over when all of them are. Neither end synchronises: what a role
    knows at its start is what every thread of the CTA knows there, and a `tile.cta_sync` behind it brings all of them
    together. Roles hand tiles to each other through mbarriers. A kernel has one such operation, directly in its body or
    in its grid's; storage and barriers are set up in front of it and accumulators given back behind it. (Lesson 10: warp
    specialisation.)
    """

    name = "tile.roles"

    body = region_def("single_block")

    traits = traits_def(NoTerminator(), *EFFECTS)

    def __init__(self, body: Region | Sequence[RoleOp]):
        region = body if isinstance(body, Region) else Region(Block(list(body)))
        super().__init__(regions=[region])

    @property
    def roles(self) -> tuple[RoleOp, ...]:
        found: list[RoleOp] = []
        for op in self.body.block.ops:
            assert isinstance(op, RoleOp)
            found.append(op)
        return tuple(found)

    def verify_(self) -> None:
        if not isinstance(self.parent_op(), KernelOp | GridOp):
            raise VerifyException("tile.roles stands directly in a kernel or in its grid: its roles hold the loops")
        if self.body.block.args:
            raise VerifyException("the body of tile.roles has no arguments")
        for op in self.body.block.ops:
            if not isinstance(op, RoleOp):
                raise VerifyException(f"tile.roles holds nothing but tile.role, and {op.name} is none")
        if self.body.block.first_op is None:
            raise VerifyException("tile.roles without a role: write at least one tile.role")
        self._verify_only()

    def _verify_only(self) -> None:
        kernel = self.parent_op()
        if isinstance(kernel, GridOp):
            kernel = kernel.parent_op()
        assert kernel is not None
        for op in kernel.walk():
            if op is self:
                return
            if isinstance(op, RolesOp):
                raise VerifyException("a second tile.roles, but the threads of a CTA part once: join the two")

    @classmethod
    def parse_syntax(cls, parser: Parser) -> RolesOp:
        return RolesOp(parser.parse_region([]))

    def print_syntax(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_region(self.body, print_empty_block=False)


@irdl_op_definition
class RoleOp(TileOp):
    """`tile.role "load" { }`: the path of one group of threads.

    `tile.single_thread` in it is one thread of the role; commits, arrivals, waits, fences and bulk groups are those of
    its threads.
    """

    name = "tile.role"

    role_attr = prop_def(StringAttr, prop_name="role")
    body = region_def("single_block")

    traits = traits_def(NoTerminator(), HasParent(RolesOp), *EFFECTS)

    def __init__(self, role: str, body: Region | Sequence[Operation]):
        region = body if isinstance(body, Region) else Region(Block(list(body)))
        super().__init__(properties={"role": StringAttr(role)}, regions=[region])

    @property
    def role(self) -> str:
        return self.role_attr.data

    def verify_(self) -> None:
        if self.body.block.args:
            raise VerifyException("the body of tile.role has no arguments")
        if not _NAME.fullmatch(self.role):
            raise VerifyException("a role's name is a word: letters, digits and _, a letter or _ first")
        before = self.prev_op
        while before is not None:
            if isinstance(before, RoleOp) and before.role == self.role:
                raise VerifyException(f'a second role "{self.role}": give each a name of its own')
            before = before.prev_op

    @classmethod
    def parse_syntax(cls, parser: Parser) -> RoleOp:
        return RoleOp(parser.parse_str_literal(), parser.parse_region([]))

    def print_syntax(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.role)
        printer.print_string(" ")
        printer.print_region(self.body, print_empty_block=False)


@irdl_op_definition
class RoleSyncOp(IRDLOperation):
    """`tile.role_sync`: the threads of the executing role meet and see each other's writes (a named bar.sync)."""

    name = "tile.role_sync"

    traits = traits_def(*EFFECTS)
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__()

    def verify_(self) -> None:
        if role_of(self) is None:
            raise VerifyException("tile.role_sync outside of a role: all threads meet at tile.cta_sync")
