"""Compile the kernels of `stale_kernels` in a process of its own; prints their code by name, and what was imported, as JSON.

python stale_in_a_process.py before|after
"""

from __future__ import annotations

import hashlib
import json
import sys

import stale_kernels

import tilec


def main() -> None:
    after = sys.argv[1] == "after"
    stale_kernels.change(stale_kernels.AFTER if after else stale_kernels.BEFORE)
    made = [make(value if not after else other) for make, value, other in stale_kernels.MADE]
    codes = {kernel.function.name: _code(kernel) for kernel in (*stale_kernels.KERNELS, *made)}
    heavy = [name for name in ("xdsl", "llvmlite") if name in sys.modules]
    print(json.dumps({"codes": codes, "heavy": heavy}))


def _code(kernel: tilec.JitFunction) -> str:
    return hashlib.sha256(kernel.variant("f16", target="sm_90a").artifact.ptx.encode()).hexdigest()


if __name__ == "__main__":
    main()
