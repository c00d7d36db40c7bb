"""Kernels compiled ahead of time: a cubin, and beside it a JSON file with all that a launch needs to know.

`load` needs neither LLVM nor ptxas, nor xDSL: it reads two files and asks the driver.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn, cast

from tilec.artifact import Artifact, MachineCode
from tilec.backend.abi import KernelABI
from tilec.backend.records import decode, encode, parse
from tilec.backend.runtime.arguments import Facts
from tilec.backend.target import find_target
from tilec.diagnostics import TilecError, one_line
from tilec.kernel import Kernel, make_kernel
from tilec.signature import Signature, ViewSpec

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from tilec.backend.runtime.driver import Driver
    from tilec.driver import Compiled

FORMAT = 1
_CUBIN, _SIDECAR = ".cubin", ".json"
_HINT = "a kernel is two files, gemm.cubin and gemm.json, as tilec compile --emit=cubin writes them"


class Sidecar(NamedTuple):
    """The text beside a cubin. `format` is that of this text; `sha256` that of the cubin; spills and stack are per thread."""

    format: int
    tilec: str
    sha256: str
    abi: KernelABI
    registers: int
    spill_store_bytes: int
    spill_load_bytes: int
    stack_bytes: int


def beside(cubin: Path) -> Path:
    """Where the text beside a cubin is: gemm.json for gemm.cubin, a.1.json for a.1"""
    return cubin.with_suffix(_SIDECAR) if cubin.suffix == _CUBIN else cubin.with_name(f"{cubin.name}{_SIDECAR}")


def save(artifact: Artifact, path: Path) -> None:
    """Write a kernel for `load`: `path` is that of the cubin.

    Raises TilecError where no ptxas has assembled the kernel, or the files cannot be written.
    """
    if artifact.machine is None:
        raise TilecError(
            f"kernel {artifact.abi.name} has no machine code to save: no ptxas has assembled it",
            hint="pip install 'tilec[ptxas]'",
        )
    try:
        path.write_bytes(artifact.machine.cubin)
    except (OSError, ValueError) as error:
        raise TilecError(f"cannot write {path}: {_reason(error)}") from error
    write_sidecar(artifact, path)


def write_sidecar(artifact: Artifact, path: Path) -> None:
    """Write the text beside the cubin at `path`, for a kernel that has machine code."""
    from importlib.metadata import version

    machine = artifact.machine
    assert machine is not None
    sidecar = Sidecar(
        format=FORMAT,
        tilec=version("tilec"),
        sha256=hashlib.sha256(machine.cubin).hexdigest(),
        abi=artifact.abi,
        registers=machine.registers,
        spill_store_bytes=machine.spill_stores,
        spill_load_bytes=machine.spill_loads,
        stack_bytes=machine.stack,
    )
    try:
        beside(path).write_text(json.dumps(encode(sidecar), indent=2) + "\n")
    except OSError as error:
        raise TilecError(f"cannot write {beside(path)}: {_reason(error)}") from error


def load(path: str | Path, *, driver: Driver | None = None) -> Kernel:
    """The kernel of ``gemm.cubin``, which `tilec compile --emit=cubin` wrote together with ``gemm.json``.

    `path` is that of the cubin (its ending may be left out), or of the text beside ``gemm.cubin``; nothing is compiled. The kernel
    takes tensors of the class that it was compiled for, or better, on GPUs of its target. `driver` takes the place of the CUDA
    driver, for tests. Raises TilecError for files that are missing, damaged, or do not belong together.
    """
    if not isinstance(path, str | Path) or not Path(path).name:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TilecError(f"a kernel is loaded from a path, not from {path!r}", hint=_HINT)
    cubin_path = Path(path)
    if cubin_path.suffix == _SIDECAR:
        cubin_path = cubin_path.with_suffix(_CUBIN)
    elif not cubin_path.suffix:
        cubin_path = cubin_path.with_name(f"{cubin_path.name}{_CUBIN}")
    sidecar_path = beside(cubin_path)
    sidecar = _parse(sidecar_path, _read(sidecar_path))
    cubin = _read(cubin_path)
    if hashlib.sha256(cubin).hexdigest() != sidecar.sha256:
        raise TilecError(
            f"{cubin_path} is not the cubin that {sidecar_path.name} describes: its checksum differs",
            hint="copy both files together, or compile again with tilec compile --emit=cubin",
        )
    machine = MachineCode(
        cubin, sidecar.registers, sidecar.spill_store_bytes, sidecar.spill_load_bytes, sidecar.stack_bytes
    )
    return make_kernel(Prebuilt(Artifact(sidecar.abi, "", machine)), driver=driver)


def _parse(path: Path, text: bytes) -> Sidecar:
    try:
        raw = parse(text)
        found = cast("dict[str, object]", raw).get("format") if isinstance(raw, dict) else None
        if found != FORMAT:
            raise ValueError(f"its format is {found}, and this version of tilec reads {FORMAT}")
        sidecar = decode(Sidecar, raw)
        sidecar.abi.check()
    except ValueError as error:
        raise TilecError(
            f"{path} does not describe a kernel: {one_line(error)}",
            hint="compile it again with tilec compile --emit=cubin",
        ) from error
    find_target(sidecar.abi.target)
    return sidecar


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL in it
        raise TilecError(f"cannot read {path}: {_reason(error)}", hint=_HINT) from error


def _reason(error: OSError | ValueError) -> str:
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)


def _signature_of(abi: KernelABI) -> Signature:
    """Of code that is there already: it takes tensors of its own class, or better."""
    views = tuple(
        ViewSpec(
            view.name,
            view.dims,
            view.dtype,
            Facts(view.order, view.align, "grid" if view.grid_tail else "free"),
            i in abi.outputs,
        )
        for i, view in enumerate(abi.views)
    )
    return Signature(abi.name, abi.target, True, views)


class Prebuilt:
    """A program of which only the code is at hand."""

    def __init__(self, artifact: Artifact) -> None:
        self.signature = _signature_of(artifact.abi)
        self._artifact = artifact

    def artifact(self, target: str, facts: tuple[Facts, ...]) -> Artifact:
        compiled_for = self._artifact.abi.target
        if target != compiled_for:
            raise TilecError(
                f"kernel {self.signature.name} was compiled ahead of time for {compiled_for}, not for {target}"
            )
        return self._artifact

    def program_for(self, facts: tuple[Facts, ...]) -> ModuleOp:
        self._no_program()

    def passed(self, target: str, facts: tuple[Facts, ...]) -> Compiled:
        self._no_program()

    def compiled(self, target: str, facts: tuple[Facts, ...]) -> Compiled:
        self._no_program()

    def _no_program(self) -> NoReturn:
        raise TilecError(
            f"kernel {self.signature.name} was compiled ahead of time: its program is not at hand",
            hint="compile the program with tilec.compile to look at it, or to run it without a GPU",
        )
