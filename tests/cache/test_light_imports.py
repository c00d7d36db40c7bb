"""What a process needs that finds its kernel on disk imports no compiler, and no library of arrays."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from pkgutil import walk_packages

import tilec.backend.runtime
import tilec.cache

_HEAVY = ("xdsl", "llvmlite", "numpy", "torch", "numba")
_MODULES = sorted(
    [
        "tilec.backend.abi",
        "tilec.backend.ptxas",
        "tilec.backend.target",
        "tilec.diagnostics",
        *(one.name for one in walk_packages(tilec.backend.runtime.__path__, "tilec.backend.runtime.")),
        *(one.name for one in walk_packages(tilec.cache.__path__, "tilec.cache.")),
    ]
)


def test_nothing_heavy_is_imported() -> None:
    program = (
        "import importlib, sys\n"
        f"for name in {_MODULES!r}:\n"
        "    importlib.import_module(name)\n"
        f"    heavy = [one for one in {_HEAVY!r} if one in sys.modules]\n"
        "    assert not heavy, f'{name} imports {heavy}'\n"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (finished.returncode, finished.stderr) == (0, "")


def test_using_the_cache_imports_nothing_heavy_either(folder: Path) -> None:
    program = (
        "import sys\n"
        "from tilec.cache import open_store, ptxas_identity, toolchain\n"
        "store = open_store()\n"
        "toolchain(), ptxas_identity(), store.put('kernel', 'abcdef00', b''), store.get('kernel', 'abcdef00')\n"
        f"print([one for one in (*{_HEAVY!r}, 'importlib.metadata') if one in sys.modules])\n"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (finished.stdout, finished.stderr) == ("[]\n", "")
    assert folder.exists()
