"""A process of its own that launches `gemm.tile` with a driver that only writes down; prints what it imported and loaded, as JSON.

python launch_in_a_process.py PIPELINE [M N K]
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

from fake_driver import FakeArray, FakeDriver

import tilec

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "gemm.tile"


def main() -> None:
    pipeline, *shape = sys.argv[1:]
    m, n, k = map(int, shape or (256, 256, 128))
    driver = FakeDriver(sizes=(), cuda=(13, 3))
    kernel = tilec.compile(EXAMPLE, pipeline=pipeline, driver=driver)
    kernel(
        FakeArray((m, k), address=0x10000),
        FakeArray((n, k), address=0x4000000),
        FakeArray((m, n), address=0x8000000),
    )
    heavy = [name for name in ("xdsl", "llvmlite", "torch", "numba") if name in sys.modules]
    (launched,) = driver.launched
    loaded = [hashlib.sha256(image).hexdigest() for _, image in driver.loaded]
    print(json.dumps({"heavy": heavy, "ctas": launched.shape.ctas, "loaded": loaded}))


if __name__ == "__main__":
    main()
