"""FileCheck tests, one folder a pass: ``lit -v lit`` or ``pytest tests/test_lit.py``."""

import os
import sys
from pathlib import Path

import lit.formats
from lit.TestingConfig import TestingConfig

config: TestingConfig = globals()["config"]  # put there by lit
_here = Path(__file__).resolve().parent

config.name = "tilec"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".tile", ".mlir", ".test"]
config.excludes = ["Inputs"]
config.test_source_root = str(_here)
config.test_exec_root = str(_here.parent / "build" / "lit")
config.substitutions.append(("%examples", str(_here.parent / "examples")))
# The tilec and filecheck of the Python that runs lit.
config.environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
