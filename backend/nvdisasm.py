"""A cubin as the text of its machine instructions, by NVIDIA's disassembler."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from tilec.diagnostics import TilecError, one_line

_TIMEOUT = 60.0


def disassemble(cubin: bytes) -> str:
    """The SASS of a cubin. Raises TilecError where there is no nvdisasm, or it refuses."""
    program = shutil.which("nvdisasm")
    if program is None:
        raise TilecError(
            "there is no nvdisasm to show machine instructions with",
            hint="it comes with the CUDA toolkit: put its bin folder on PATH",
        )
    with tempfile.TemporaryDirectory(prefix="tilec-") as folder:
        path = Path(folder, "kernel.cubin")
        path.write_bytes(cubin)
        try:
            ran = subprocess.run([program, "--print-code", path], capture_output=True, text=True, timeout=_TIMEOUT)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise TilecError(f"nvdisasm at {program} cannot be used: {one_line(error)}") from error
    if ran.returncode:
        raise TilecError(f"nvdisasm at {program} failed with status {ran.returncode}: {one_line(ran.stderr)}")
    return ran.stdout
