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
from tilec.signature import Signature

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from tilec.backend.runtime.driver import Driver
    from tilec.driver import Compiled

FORMAT = 1
ENDING = ".json"


class Sidecar(NamedTuple):
    """The text beside a cubin. `format` is that of this text; `sha256` that of the file `cubin`; spills and stack are per thread."""

    format: int
    tilec: str
    cubin: str
    sha256: str
    signature: Signature
    abi: KernelABI
    registers: int
    spill_store_bytes: int
    spill_load_bytes: int
    stack_bytes: int


def save(artifact: Artifact, signature: Signature, path: Path) -> None:
    """Write a kernel for `load`: `path` is that of the cubin. `signature` is that of the program.

    Raises TilecError where no ptxas has assembled the kernel, or the files cannot be written.
    """
    if artifact.machine is None:
        raise TilecError(
            f"kernel {signature.name} has no machine code to save: no ptxas has assembled it",
            hint="pip install 'tilec[ptxas]'",
        )
    try:
        path.write_bytes(artifact.machine.cubin)
    except OSError as error:
        raise TilecError(f"cannot write {path}: {error.strerror}") from error
    write_sidecar(artifact, signature, path)


def write_sidecar(artifact: Artifact, signature: Signature, path: Path) -> None:
    """Write the text beside the cubin at `path`, for a kernel that has machine code."""
    from importlib.metadata import version

    machine = artifact.machine
    assert machine is not None
    facts = [Facts(view.order, view.align, "grid" if view.grid_tail else "free") for view in artifact.abi.views]
    sidecar = Sidecar(
        format=FORMAT,
        tilec=version("tilec"),
        cubin=path.name,
        sha256=hashlib.sha256(machine.cubin).hexdigest(),
        signature=signature.fixed_to(artifact.abi.target, facts),
        abi=artifact.abi,
        registers=machine.registers,
        spill_store_bytes=machine.spill_stores,
        spill_load_bytes=machine.spill_loads,
        stack_bytes=machine.stack,
    )
    beside = path.with_suffix(ENDING)
    try:
        beside.write_text(json.dumps(encode(sidecar), indent=2) + "\n")
    except OSError as error:
        raise TilecError(f"cannot write {beside}: {error.strerror}") from error


def load(path: str | Path, *, driver: Driver | None = None) -> Kernel:
    """The kernel of ``gemm.cubin``, which `tilec compile --emit=cubin` wrote together with ``gemm.json``.

    `path` names either of the two; nothing is compiled. The kernel takes tensors of the class that it was compiled for, or
    better, on GPUs of its target. `driver` takes the place of the CUDA driver, for tests. Raises TilecError for files that
    are missing, damaged, or do not belong together.
    """
    sidecar_path = Path(path).with_suffix(ENDING)
    sidecar = _parse(sidecar_path, _read(sidecar_path))
    cubin_path = sidecar_path.with_name(Path(sidecar.cubin).name)
    cubin = _read(cubin_path)
    if hashlib.sha256(cubin).hexdigest() != sidecar.sha256:
        raise TilecError(
            f"{cubin_path} is not the cubin that {sidecar_path.name} describes: its checksum differs",
            hint="copy both files together, or compile again with tilec compile --emit=cubin",
        )
    machine = MachineCode(
        cubin, sidecar.registers, sidecar.spill_store_bytes, sidecar.spill_load_bytes, sidecar.stack_bytes
    )
    return make_kernel(Prebuilt(sidecar.signature, Artifact(sidecar.abi, "", machine)), driver=driver)


def _parse(path: Path, text: bytes) -> Sidecar:
    try:
        raw = parse(text)
        found = cast("dict[str, object]", raw).get("format") if isinstance(raw, dict) else None
        if found != FORMAT:
            raise ValueError(f"its format is {found}, and this version of tilec reads {FORMAT}")
        sidecar = decode(Sidecar, raw)
        KernelABI.from_json(sidecar.abi.to_json())
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
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise TilecError(
            f"cannot read {path}: {reason}",
            hint="a kernel is two files, gemm.cubin and gemm.json, as tilec compile --emit=cubin writes them",
        ) from error


class Prebuilt:
    """A program of which only the code is at hand."""

    def __init__(self, signature: Signature, artifact: Artifact) -> None:
        self.signature = signature
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
