"""Programs that kernels are made of: what identifies one, and how it becomes code, once, for each class of tensors.

A `SourceProgram` compiles, and keeps what came out on disk (`tilec.cache`): under the digest of its IR, the options, and all
that takes part in a compilation. Who finds everything there needs neither xDSL nor LLVM, and does not import them.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, Protocol

from tilec.artifact import Artifact, MachineCode
from tilec.backend.records import decode, encode, parse
from tilec.backend.runtime.arguments import Facts
from tilec.backend.target import TARGETS
from tilec.cache import is_unchanged, open_store, ptxas_identity, toolchain
from tilec.collector import seldom_collecting
from tilec.diagnostics import Diagnostic, collect, report
from tilec.signature import Signature

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from tilec.driver import Compiled

DUMP_VARIABLE = "TILEC_DUMP_DIR"
_compile_lock = threading.RLock()


def compiling() -> threading.RLock:  # pyright: ignore[reportGeneralTypeIssues]
    """Held by whoever lowers or compiles: code generation is one at a time in a process, where all share LLVM's global context.

    One thread may take it again: a signal handler or a finalizer that runs in between may call a kernel.
    """
    return _compile_lock


def _renew_lock() -> None:
    """In a forked process nobody is left who would give the lock back."""
    global _compile_lock
    _compile_lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


class Program(Protocol):
    """What a kernel asks of its program."""

    @property
    def signature(self) -> Signature: ...

    def program_for(self, facts: tuple[Facts, ...]) -> ModuleOp:
        """The tile code, before any pass, for one class of tensors. Raises TilecError where it is not at hand."""
        ...

    def artifact(self, target: str, facts: tuple[Facts, ...]) -> Artifact:
        """The code for one target and one class of tensors. Raises TilecError where there can be none."""
        ...

    def passed(self, target: str, facts: tuple[Facts, ...]) -> Compiled:
        """The program after its passes; what comes behind them is made when it is read.

        Raises TilecError where the program itself is not at hand.
        """
        ...

    def compiled(self, target: str, facts: tuple[Facts, ...]) -> Compiled:
        """Every stage of the compilation. Raises TilecError also for what the proof or the lowering refuses."""
        ...


class Known(NamedTuple):
    """A program without its IR: what callers see of it, and the digest of the IR with its locations."""

    signature: Signature
    ir: str

    @staticmethod
    def of(module: ModuleOp) -> Known:
        from io import StringIO

        from xdsl.printer import Printer

        from tilec.variants import signature_of

        text = StringIO()
        Printer(text, print_debuginfo=True).print_op(module)
        return Known(signature_of(module), digest(text.getvalue()))


def digest(*parts: object) -> str:
    """A name for what `parts`, JSON values, say."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def of_text(text: str, file: str, pipeline: str, check: bool) -> SourceProgram:
    """The program of a file's text. Raises TilecError for what is wrong in it or in `pipeline`."""

    def make() -> ModuleOp:
        from tilec.source import parse_text

        return parse_text(text, file)

    if not isinstance(pipeline, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        check_pipeline(pipeline)
    key = digest("text", file, text, pipeline)
    known = _recalled(key)
    if known is None:
        module = make()
        check_pipeline(pipeline)
        known = Known.of(module)
        remember("program", key, json.dumps(encode(known)).encode())
        return SourceProgram(known, lambda: module, pipeline, check)
    return SourceProgram(known, make, pipeline, check)


def of_module(module: ModuleOp, pipeline: str, check: bool) -> SourceProgram:
    """The program that is this module, as it is now."""
    check_pipeline(pipeline)
    module = module.clone()
    return SourceProgram(Known.of(module), lambda: module, pipeline, check)


def recall(kind: str, key: str) -> bytes | None:
    """What this toolchain has put on disk, in this process or in an earlier one."""
    store = open_store()
    return None if store is None else store.get(kind, digest(toolchain(), key))


def remember(kind: str, key: str, data: bytes) -> None:
    """Put it on disk, where there is a cache; but not what a tilec made that was edited while it ran."""
    store = open_store()
    if store is not None and is_unchanged():
        store.put(kind, digest(toolchain(), key), data)


def _recalled(key: str) -> Known | None:
    data = recall("program", key)
    try:
        return None if data is None else decode(Known, parse(data))
    except ValueError:  # of an earlier form; it is written anew
        return None


def check_pipeline(pipeline: str) -> None:
    """Raise TilecError for what is wrong in a pipeline's text."""
    from tilec.spec import parse_pipeline

    parse_pipeline(pipeline)


class SourceProgram:
    """A program in tile code. Threads may share it; whoever asks first compiles, the others wait for it."""

    def __init__(self, known: Known, make: Callable[[], ModuleOp], pipeline: str, check: bool) -> None:
        self._known = known
        self._make = make
        self._pipeline = pipeline
        self._check = check
        self._module: ModuleOp | None = None
        self._variants: dict[tuple[str, tuple[Facts, ...]], _Variant] = {}
        self._told: set[tuple[str, tuple[Facts, ...]]] = set()
        """Compilations whose remarks came from the disk with their code."""

    @property
    def signature(self) -> Signature:
        return self._known.signature

    @property
    def pipeline(self) -> str:
        """The passes, as text."""
        return self._pipeline

    @property
    def module(self) -> ModuleOp:
        """The program as given."""
        if self._module is None:
            with compiling():
                self._module = self._module or self._make()
        return self._module

    def program_for(self, facts: tuple[Facts, ...]) -> ModuleOp:
        from tilec.variants import specialised

        return self.module if self.signature.by_hand else specialised(self.module, facts)

    def artifact(self, target: str, facts: tuple[Facts, ...]) -> Artifact:
        folder = os.environ.get(DUMP_VARIABLE)
        key = self._key(target, facts)
        found = None if folder else _stored(key)
        if found is not None:
            if (target, facts) not in self._variants:
                self._told.add((target, facts))
                for one in found.remarks:
                    report(one)
            return found
        with compiling(), seldom_collecting():
            variant = self._variant(target, facts)
            found = variant.artifact(target)
        remember("kernel", key, found.to_bytes())
        if folder:
            from tilec.dump import dump

            dump(folder, variant.compiled, found)
        return found

    def passed(self, target: str, facts: tuple[Facts, ...]) -> Compiled:
        with compiling():
            return self._variant(target, facts).compiled

    def compiled(self, target: str, facts: tuple[Facts, ...]) -> Compiled:
        with compiling():
            compiled = self._variant(target, facts).compiled
            compiled.get("ptx")
            return compiled

    def _variant(self, target: str, facts: tuple[Facts, ...]) -> _Variant:
        from tilec.driver import compile_module

        found = self._variants.get((target, facts))
        if found is None:
            with collect() if (target, facts) in self._told else _passed_on() as said:
                module = self.program_for(facts)
                compiled = compile_module(
                    module, pipeline=self._pipeline, target=target, emit="tile", check=self._check
                )
            found = self._variants[target, facts] = _Variant(compiled, said)
        return found

    def _key(self, target: str, facts: tuple[Facts, ...]) -> str:
        options = (self._pipeline, target, self._check, encode(facts))
        return digest(ptxas_identity(), self._known.ir, options)


class _Variant(NamedTuple):
    """A compilation, and what it had to say so far."""

    compiled: Compiled
    said: list[Diagnostic]

    def artifact(self, target: str) -> Artifact:
        """Go on to the code."""
        with _passed_on() as said:
            made = artifact_of(self.compiled, target)
        self.said.extend(said)
        return made._replace(remarks=tuple(self.said))


def artifact_of(compiled: Compiled, target: str) -> Artifact:
    """The code of a compilation for `target`, assembled where there is a ptxas that knows it."""
    from tilec.backend.ptxas import find_ptxas, probe_ptxas

    ptxas = find_ptxas()
    machine = None
    # What `get` is asked for first decides what is made at the same time.
    if ptxas is not None and probe_ptxas().ptx_version >= TARGETS[target].ptx_version:
        compiled.get("cubin")
        made = compiled.resources
        machine = MachineCode(made.cubin, made.registers, made.spill_stores, made.spill_loads, made.stack)
    else:
        compiled.get("ptx")
    return Artifact(compiled.abi, compiled.ptx, machine)


@contextmanager
def _passed_on() -> Generator[list[Diagnostic]]:
    """Collect what the enclosed code reports, and report it all the same."""
    said: list[Diagnostic] = []
    try:
        with collect() as said:
            yield said
    finally:
        for one in said:
            report(one)


def _stored(key: str) -> Artifact | None:
    data = recall("kernel", key)
    try:
        return None if data is None else Artifact.from_bytes(data)
    except ValueError:
        return None
