"""``TILEC_DUMP_DIR``: every stage of each compilation in a folder, in the order in which they were made."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tilec.artifact import Artifact
from tilec.backend.nvdisasm import disassemble
from tilec.diagnostics import TilecError

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from tilec.driver import Compiled


def dump(folder: str, compiled: Compiled, artifact: Artifact) -> None:
    """Write the stages to a new folder in `folder`: ``gemm-0/00-tma.tile``, ..., ``gemm-0/05-ptx.ptx``.

    Raises TilecError where that cannot be written.
    """
    stages: list[tuple[str, str | bytes]] = [
        *((f"{name}.tile", _text(module)) for name, module in compiled.module_after.items()),
        ("asynchronous.tile", _text(compiled.asynchronous)),
        ("nvvm.mlir", _text(compiled.nvvm)),
        ("llvm.ll", compiled.llvm),
        ("ptx.ptx", artifact.ptx),
        ("abi.json", artifact.abi.to_json()),
    ]
    if artifact.machine is not None:
        stages.append(("cubin.cubin", artifact.machine.cubin))
        with suppress(TilecError):  # without nvdisasm there is one stage less to look at
            stages.append(("sass.sass", disassemble(artifact.machine.cubin)))
    try:
        place = _new_folder(Path(folder), artifact.abi.name)
        for number, (name, content) in enumerate(stages):
            path = place / f"{number:02}-{name}"
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
    except OSError as error:
        raise TilecError(
            f"cannot write the stages of {artifact.abi.name} to {folder}: {error.strerror}",
            hint="TILEC_DUMP_DIR names a folder that can be written",
        ) from error


def _text(module: ModuleOp) -> str:
    return str(module) + "\n"


def _new_folder(parent: Path, name: str) -> Path:
    parent.mkdir(parents=True, exist_ok=True)
    number = 0
    while True:  # another process may take the number first
        place = parent / f"{name}-{number}"
        try:
            place.mkdir()
        except FileExistsError:
            number += 1
        else:
            return place
