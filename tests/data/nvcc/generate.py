"""Compiles the CUDA C++ kernels of this folder to the PTX that is committed beside them.

Needs `nvcc`, whose version is written to VERSIONS; the PTX's own header names it too. Run with file stems to compile only those.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
BOTH = ("sm_90a", "sm_100a")
ONE_TARGET = {
    "wgmma": ("sm_90a",),
    "tcgen05": ("sm_100a",),
    "narrow": ("sm_100a",),
}
"""Files that use instructions of one chip; all others are compiled for both."""
DEBUG = {"normalise": "sm_90a"}
"""Files that are also compiled with -G, and for what."""
FAST_MATH = {"math": "sm_90a"}
"""Files that are also compiled with --use_fast_math, and for what."""


def compile_one(source: Path, target: str, suffix: str, *flags: str) -> None:
    """Writes `source` as STEM.TARGET[.SUFFIX].ptx, without the paths of the machine that ran this."""
    out = HERE / ".".join(part for part in (source.stem, target, suffix, "ptx") if part)
    command = ["nvcc", "-std=c++17", f"-arch={target}", *flags, "-ptx", source.name, "-o", out.name]
    subprocess.run(command, cwd=HERE, check=True)
    text = out.read_text(errors="surrogateescape")
    text = re.sub(r'(\.file\s+\d+\s+")[^"]*/([^"/]+")', r"\1\2", text)
    out.write_text(text, errors="surrogateescape")


def main() -> None:
    """Compiles the named files, or all."""
    wanted = set(sys.argv[1:])
    for source in sorted(HERE.glob("*.cu")):
        if wanted and source.stem not in wanted:
            continue
        for target in ONE_TARGET.get(source.stem, BOTH):
            compile_one(source, target, "")
        if source.stem in DEBUG:
            compile_one(source, DEBUG[source.stem], "debug", "-G")
        if source.stem in FAST_MATH:
            compile_one(source, FAST_MATH[source.stem], "fast", "--use_fast_math")
    version = subprocess.run(["nvcc", "--version"], check=True, capture_output=True, text=True).stdout
    (HERE / "VERSIONS").write_text(version)


if __name__ == "__main__":
    main()
