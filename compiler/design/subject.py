"""One kernel to design for: the program as given, what the passes made of it, and what follows from both, each made once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Literal

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument, SSAValue

from tilec.backend.abi import KernelABI
from tilec.backend.protocol import Verdict, check
from tilec.backend.protocol.contract import Contract, contract
from tilec.backend.protocol.contract_walk import Walk, root_of
from tilec.backend.protocol.extents import dims_of, extent_names
from tilec.backend.protocol.sizes import loop_steps
from tilec.backend.target import Target
from tilec.diagnostics import Diagnostic, TilecError, collect, fail, location_of
from tilec.dialects.tile import AssumeOp, CopyAsyncOp, KernelOp, MmaOp, RingType, RolesOp, ScheduleOp, SlotOp
from tilec.driver import Compiled, compile_module, find_kernel
from tilec.pass_error import PassError
from tilec.passes.storage import StoragePlan, plan, target_of
from tilec.passes.synchronous import is_synchronous
from tilec.passes.tma import Tma
from tilec.spec import parse_pipeline
from tilec.variants import for_shape


class Subject:
    """`program` under `pipeline`. With a `shape` it is the variant that a launch of dense tensors takes, or the program as `given`."""

    def __init__(
        self,
        program: ModuleOp,
        *,
        pipeline: str = "",
        target: str | None = None,
        shape: Mapping[str, int] | None = None,
        like: ModuleOp | None = None,
        code: str | None = None,
        variant: Literal["dense", "given"] = "dense",
    ) -> None:
        self.pipeline = pipeline
        self.passes = parse_pipeline(pipeline)
        self.shape = None if shape is None else dict(shape)
        self.like = like
        """The whole-tile program that a kernel which was written with a schedule is compared with."""
        self.code = code
        """A Python expression for the text of the program, where no file has it."""
        self.by_depth: dict[int, Compiled | TilecError] = {}
        """The kernel under other depths, or what refuses it, as far as it has been made."""
        self._target = target
        with collect() as said:
            self.program = program if self.shape is None or variant == "given" else for_shape(program, self.shape)
            self.compiled: Compiled = compile_module(
                self.program, pipeline=self.passes, target=target, emit="tile", observer=None
            )
            self.module = self.compiled.asynchronous
        self.remarks: tuple[Diagnostic, ...] = tuple(said)
        """What the passes had to say."""
        self.kernel = _tile_kernel(self.program, self.module)
        self.target: Target = target_of(self.kernel)

    @property
    def name(self) -> str:
        return self.kernel.sym_name.data

    @property
    def file(self) -> str | None:
        """The file that the kernel was read from."""
        place = location_of(find_kernel(self.program))
        return None if place is None else place.file

    @property
    def asked_target(self) -> str | None:
        """The target that the caller named."""
        return self._target

    @property
    def by_hand(self) -> bool:
        """Whether the program came with a schedule, so that no pass decides one."""
        return not is_synchronous(find_kernel(self.program))

    @cached_property
    def walk(self) -> Walk:
        return Walk(self.kernel)

    @cached_property
    def storage(self) -> StoragePlan | None:
        """Where all of it lies; None where it fits nowhere (`storage_problem`)."""
        return self._planned[0]

    @property
    def storage_problem(self) -> Diagnostic | None:
        return self._planned[1]

    @cached_property
    def _planned(self) -> tuple[StoragePlan | None, Diagnostic | None]:
        try:
            return plan(self.kernel), None
        except PassError as error:
            return None, error.diagnostic

    @cached_property
    def contract(self) -> Contract:
        blocks = () if self.storage is None else (*self.storage.tiles, *self.storage.barriers)
        return contract(self.kernel, {block.value: block.offset for block in blocks})

    @cached_property
    def verdict(self) -> Verdict:
        """What the proof says of the protocol."""
        return check(self.module)

    @cached_property
    def _lowered(self) -> tuple[KernelABI | None, str | None]:
        try:
            with collect():
                return self.compiled.abi, None
        except TilecError as error:
            return None, error.diagnostic.message

    @property
    def abi(self) -> KernelABI | None:
        """What a launch needs to know; None where the kernel cannot be lowered (`not_lowered`)."""
        return self._lowered[0]

    @property
    def not_lowered(self) -> str | None:
        return self._lowered[1]

    @cached_property
    def loads(self) -> tuple[CopyAsyncOp, ...]:
        """Copies from a view to a shared tile, in the order of the text."""
        return tuple(op for op in self.walk.ops if isinstance(op, CopyAsyncOp) and op.is_load)

    @cached_property
    def stores(self) -> tuple[CopyAsyncOp, ...]:
        """Copies from a shared tile to a view, in the order of the text."""
        copies = (op for op in self.walk.ops if isinstance(op, CopyAsyncOp))
        return tuple(op for op in copies if op.dispatch != "tmem" and not op.is_load)

    @property
    def depth(self) -> int:
        """Stages of the deepest ring that loads fill; 1 without one."""
        return max((depth_of(root_of(op.dest)) for op in self.loads if op.dest is not None), default=1)

    @property
    def multiplies(self) -> bool:
        return any(isinstance(op, MmaOp) for op in self.walk.ops)

    @property
    def roles(self) -> tuple[str, ...]:
        """Names of the roles that the threads are parted into."""
        return tuple(role.role for op in self.walk.ops if isinstance(op, RolesOp) for role in op.roles)

    @property
    def is_persistent(self) -> bool:
        """Whether a CTA goes from tile to tile."""
        return any(isinstance(op, ScheduleOp) for op in self.walk.ops)

    @property
    def least_tma_bytes(self) -> int:
        """What TMA copies at least: the target's number, or what the pass list says."""
        given = next((one.min_bytes for one in self.passes if isinstance(one, Tma)), None)
        return self.target.tma_min_bytes if given is None else given

    @property
    def extents(self) -> list[str]:
        """Names of the extents that a launch chooses."""
        return extent_names(self.kernel)

    @cached_property
    def loop_steps(self) -> dict[str, int]:
        """By extent, the step of the loops over it: one step is a K tile."""
        return loop_steps(self.kernel)

    def assumed(self, shape: Mapping[str, int]) -> dict[str, int]:
        """The shape, with as many tiles more as make it one that the kernel assumes."""
        made = dict(shape)
        for op in self.kernel.walk():
            if isinstance(op, AssumeOp) and isinstance(op.view, BlockArgument):
                name = dims_of(op.view)[op.dimension]
                if isinstance(name, str):
                    tiles = -(-made[name] // op.step)
                    made[name] += -tiles % op.multiple * op.step
        return made

    def k_tiles(self, shape: Mapping[str, int]) -> int | None:
        """Iterations of the longest loop over an extent; None where there is no such loop."""
        counts = [-(-shape[name] // step) for name, step in self.loop_steps.items()]
        return max(counts, default=None)


def depth_of(value: SSAValue) -> int:
    """Stages of a ring; 1 for a single tile."""
    return value.type.depth if isinstance(value.type, RingType) else 1


def stage_of(value: SSAValue) -> SSAValue | None:
    """The stage of a ring that a value is, where it is one."""
    return value.owner.stage if isinstance(value.owner, SlotOp) else None


def _tile_kernel(program: ModuleOp, module: ModuleOp) -> KernelOp:
    found = next((op for op in module.walk() if isinstance(op, KernelOp)), None)
    if found is None:
        fail(
            find_kernel(program),
            "the pipeline leaves no tile code: lower is in it",
            "leave lower out of --pipeline",
        )
    return found
