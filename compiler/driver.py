"""The one path from a tile program to what is asked for: passes, lowering, LLVM IR, PTX, machine code.

The command line and the Python API both come through `compile_module`. Each stage after the passes runs when its result is
first read, so that a PTX is never assembled by someone who only wants to read it. Who asks for code with `Compiled.get` gets it
sooner: LLVM and ptxas work beside the proof, which is Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING, Literal, TypeVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import DiagnosticException

from tilec.backend.abi import KernelABI
from tilec.backend.target import DEFAULT_TARGET, TARGETS, Target, find_target, target_hint
from tilec.beside import beside
from tilec.collector import seldom_collecting
from tilec.context import make_context
from tilec.diagnostics import (
    InternalError,
    SourceLocation,
    TilecError,
    collect,
    fail,
    location_of,
    one_line,
)
from tilec.dialects.tile import KernelOp
from tilec.pass_error import PassError
from tilec.passes import PASSES
from tilec.passes.synchronous import is_synchronous
from tilec.source import inherit_locations
from tilec.spec import parse_pipeline, print_pass
from tilec.verify import verify

if TYPE_CHECKING:
    from tilec.backend.ptxas import Assembled

Emit = Literal["tile", "nvvm", "llvm", "ptx", "cubin"]
_Result = TypeVar("_Result")
_PLAIN, _CHECK, _LOWER = "threads", "check-protocol", "lower"
"""Passes that run by themselves."""


class Observer:
    """Is told of each step of a compilation. Override what you care for."""

    def pass_done(self, one: ModulePass, module: ModuleOp, seconds: float) -> None:
        """A pass has run, and left `module`."""

    def stage_done(self, stage: str, seconds: float) -> None:
        """A step after the passes has run."""


def find_kernel(module: ModuleOp) -> KernelOp:
    """The one kernel of a module."""
    kernels = [op for op in module.walk() if isinstance(op, KernelOp)]
    if not kernels:
        raise no_kernel(module)
    if len(kernels) > 1:
        raise _second_kernel(kernels[1])
    return kernels[0]


def compile_module(
    module: ModuleOp,
    *,
    pipeline: str | Sequence[ModulePass] = "",
    target: str | None = None,
    emit: Emit = "ptx",
    observer: Observer | None = None,
    check: bool = False,
) -> Compiled:
    """Run `pipeline` on a copy of `module` and go as far as `emit`.

    `target` goes before what the kernels' own ``target`` attribute says; where neither is there it is the default. With
    `check` the protocol of what is about to be lowered is proved first (`tilec.passes.check_protocol`): a kernel whose
    protocol is refuted becomes no code.
    """
    with seldom_collecting():
        passes = parse_pipeline(pipeline) if isinstance(pipeline, str) else tuple(pipeline)
        context = make_context()
        module = module.clone()
        _set_target(module, target)
        module_after = _AfterPasses(module.clone(), passes, context)
        proved = False
        for one in passes:
            if one.name == _LOWER and check and not proved:
                _check_protocol(module, context, observer)
            run_pass(one, module, context, observer)
            proved = one.name == _CHECK
        compiled = Compiled(module, module_after, context, observer, check=check and not proved)
        compiled.get(emit)
        return compiled


def run_pass(
    one: ModulePass, module: ModuleOp, context: Context, observer: Observer | None = None, *, check: bool = True
) -> None:
    """Run one pass, and check what it leaves."""
    start = perf_counter()
    place = _place(module)
    if _is_of_tiles(one) and not any(isinstance(op, KernelOp) for op in module.walk()):
        lowered = bool(_entries(module))
        raise PassError(
            f"pass {print_pass(one)} works on tile kernels, and there is none {'left' if lowered else 'in this module'}",
            place,
            "lower leaves none: it comes last" if lowered else "write a tile.kernel",
        )
    try:
        one.apply(context, module)
    except TilecError:
        raise
    except DiagnosticException as error:  # xDSL's, which know no locations
        raise PassError(f"pass {print_pass(one)}: {one_line(error)}", place) from error
    seconds = perf_counter() - start
    inherit_locations(module)  # xDSL's passes make operations without one
    if check:
        try:
            verify(module)
        except TilecError as error:
            fault = error.diagnostic
            message = f"pass {print_pass(one)} left a module that does not verify: {fault.message}"
            raise InternalError(message, fault.location) from error
    if observer is not None:
        observer.pass_done(one, module, seconds)


def _check_protocol(module: ModuleOp, context: Context, observer: Observer | None) -> None:
    """The pass, as a stage: it changes nothing that an observer could look at."""
    if any(is_synchronous(op) for op in module.walk() if isinstance(op, KernelOp)):
        return  # the lowering says what it thinks of that
    start = perf_counter()
    PASSES[_CHECK]()().apply(context, module)
    if observer is not None:
        observer.stage_done(_CHECK, perf_counter() - start)


def _entries(module: ModuleOp) -> list[Operation]:
    """The functions of a lowered module that are launched."""
    return [op for op in module.walk() if "tile.abi" in op.attributes]


def _place(module: ModuleOp) -> SourceLocation | None:
    """Where the kernel of a module stands, in whatever form; else the module."""
    kernels = (op for op in module.walk() if isinstance(op, KernelOp) or "tile.abi" in op.attributes)
    return location_of(next(kernels, module))


def _is_of_tiles(one: ModulePass) -> bool:
    """Whether a pass is one of tilec's own, which work on tile kernels only."""
    return type(one).__module__.startswith("tilec.passes.")


class _AfterPasses(Mapping[str, ModuleOp]):
    """The module after each pass, by the name of the pass. Few look at one: the passes make it again when it is read."""

    def __init__(self, given: ModuleOp, passes: Sequence[ModulePass], context: Context) -> None:
        self._given = given
        self._passes = passes
        self._context = context
        self._last = {one.name: place for place, one in enumerate(passes)}
        self._made: dict[str, ModuleOp] = {}

    def __getitem__(self, name: str) -> ModuleOp:
        if name not in self._made:
            module = self._given.clone()
            with collect():  # what they have to say has been said
                for one in self._passes[: self._last[name] + 1]:
                    run_pass(one, module, self._context, check=False)
            self._made[name] = module
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._last)

    def __len__(self) -> int:
        return len(self._last)


class _Lowered:
    """A lowered module and what follows from it, whether or not its protocol is right."""

    def __init__(self, module: ModuleOp, tile: ModuleOp, observer: Observer | None) -> None:
        self.module = module
        self._tile = tile
        self._observer = observer

    @cached_property
    def entry(self) -> Operation:
        """The one function that is launched."""
        entries = _entries(self.module)
        if not entries:
            raise no_kernel(self._tile)
        if len(entries) > 1:
            raise _second_kernel(entries[1])
        return entries[0]

    @cached_property
    def abi(self) -> KernelABI:
        attribute = self.entry.attributes["tile.abi"]
        hint = "it is what lower writes: lower the kernel again"
        if not isinstance(attribute, StringAttr):
            fail(self.entry, f"tile.abi is a string, not {attribute}", hint)
        try:
            abi = KernelABI.from_json(attribute.data)
        except ValueError as error:
            fail(self.entry, f"tile.abi is not what a launch needs to know: {one_line(error)}", hint)
        if abi.target not in TARGETS:
            fail(self.entry, f"unknown target '{abi.target}' in tile.abi", target_hint(abi.target))
        return abi

    @property
    def target(self) -> Target:
        return TARGETS[self.abi.target]

    @cached_property
    def llvm(self) -> str:
        from tilec.backend.llvm_ir import to_llvm

        target = self.target
        return _timed("llvm", lambda: to_llvm(self.module, target), self._observer)

    def ptx(self) -> str:
        from tilec.backend.ptx import emit_ptx

        text = self.llvm
        return _timed("ptx", lambda: emit_ptx(text, self.target, abi=self.abi), self._observer)

    def assembled(self, ptx: str) -> Assembled:
        from tilec.backend.ptxas import assemble

        place = location_of(self.entry)
        return _timed("ptxas", lambda: assemble(ptx, self.target, kernel_location=place), self._observer)


class Compiled:
    """What came out of the passes, and each later stage, computed once when it is first read.

    With `check`, no stage from the lowering on gives anything before the protocol has been proved.
    """

    def __init__(
        self,
        tile: ModuleOp,
        module_after: Mapping[str, ModuleOp],
        context: Context,
        observer: Observer | None,
        *,
        check: bool,
    ) -> None:
        self.tile = tile
        """The module after all passes."""
        self.module_after = module_after
        """The module after each pass, by the name of the pass (the last one, where it ran twice)."""
        self._context = context
        self._observer = observer
        self._check = check

    @cached_property
    def asynchronous(self) -> ModuleOp:
        """The module that is lowered: kernels that are synchronous still have got the plain schedule, copies by threads."""
        if not any(is_synchronous(op) for op in self.tile.walk() if isinstance(op, KernelOp)):
            return self.tile
        module = self.tile.clone()
        run_pass(PASSES[_PLAIN]()(), module, self._context, self._observer)
        return module

    @cached_property
    def _proof(self) -> None:
        """The proof of the protocol, if it is asked for and due; what it refutes is raised."""
        if self._check and any(isinstance(op, KernelOp) for op in self.asynchronous.walk()):
            _check_protocol(self.asynchronous, self._context, self._observer)

    @cached_property
    def _unproved(self) -> _Lowered:
        module = self.asynchronous.clone()
        if any(isinstance(op, KernelOp) for op in module.walk()):
            # L2 is the largest form of a program, and checked again anyway: each operation against the table of what selects,
            # all of it by LLVM.
            run_pass(PASSES[_LOWER]()(), module, self._context, self._observer, check=False)
        return _Lowered(module, self.tile, self._observer)

    @property
    def _lowered(self) -> _Lowered:
        _ = self._proof
        return self._unproved

    @property
    def nvvm(self) -> ModuleOp:
        """The lowered module."""
        return self._lowered.module

    @property
    def abi(self) -> KernelABI:
        """What a launch of the kernel needs to know; a module that becomes PTX has exactly one kernel."""
        return self._lowered.abi

    @property
    def target(self) -> Target:
        return self._lowered.target

    @property
    def llvm(self) -> str:
        """The LLVM IR."""
        return self._lowered.llvm

    @cached_property
    def ptx(self) -> str:
        return self._lowered.ptx()

    @cached_property
    def resources(self) -> Assembled:
        """What ptxas made of the PTX: registers, spills, memory and the machine code."""
        return self._lowered.assembled(self.ptx)

    @property
    def cubin(self) -> bytes:
        return self.resources.cubin

    def _make_code_beside_the_proof(self, emit: Emit) -> None:
        """LLVM and ptxas need nothing of Python, and the proof nothing else. What it refuses is raised, whatever they made."""
        from tilec.backend.ptx import prepare

        with ExitStack() as opened:
            try:
                lowered = self._unproved
                generate = opened.enter_context(prepare(lowered.llvm, lowered.target, abi=lowered.abi))
            except Exception:
                _ = self._proof  # goes before: who breaks the protocol is told of that first
                raise

            def make() -> tuple[str, Assembled | None]:
                ptx = generate()
                return ptx, lowered.assembled(ptx) if emit == "cubin" else None

            ptx, assembled = beside(make, lambda: self._proof)
        vars(self)["ptx"] = ptx
        if assembled is not None:
            vars(self)["resources"] = assembled

    def get(self, emit: Emit) -> ModuleOp | str | bytes:
        """The result of one stage."""
        with seldom_collecting():
            # Who is told of each step is told how long it took by itself.
            if emit in ("ptx", "cubin") and self._check and self._observer is None and "_proof" not in vars(self):
                self._make_code_beside_the_proof(emit)
            match emit:
                case "tile":
                    return self.tile
                case "nvvm":
                    return self.nvvm
                case "llvm":
                    return self.llvm
                case "ptx":
                    return self.ptx
                case "cubin":
                    return self.cubin


def _timed(stage: str, work: Callable[[], _Result], observer: Observer | None) -> _Result:
    start = perf_counter()
    result = work()
    if observer is not None:
        observer.stage_done(stage, perf_counter() - start)
    return result


def no_kernel(module: ModuleOp) -> TilecError:
    """The error that says so, with what is there in place of one."""
    entries = _entries(module)
    if entries:
        message = "there is no tile kernel in this module: it is lowered already"
        return TilecError(message, location_of(entries[0]), hint="give the program as it was before lower")
    return TilecError("there is no kernel in this module", location_of(module), hint="write a tile.kernel")


def _second_kernel(kernel: Operation) -> TilecError:
    hint = "give each kernel a file of its own"
    return TilecError("a second kernel in one module", location_of(kernel), hint)


def _set_target(module: ModuleOp, target: str | None) -> None:
    if target is not None:
        find_target(target)
    for kernel in module.walk():
        if not isinstance(kernel, KernelOp):
            continue
        written = kernel.attributes.get("target")
        if target is not None or written is None:
            kernel.attributes["target"] = StringAttr(target or DEFAULT_TARGET)
        elif not isinstance(written, StringAttr) or written.data not in TARGETS:
            name = written.data if isinstance(written, StringAttr) else str(written)
            fail(kernel, f"unknown target '{name}'", target_hint(name))
