"""What compiled kernels leave on disk for the next process: entries of bytes under a kind and a key.

`open_store` gives the store, `toolchain` and `ptxas_identity` name what an entry depends on beside its own inputs. Nothing here
imports xDSL or llvmlite: who finds a kernel here does not need them.
"""

from __future__ import annotations

from tilec.cache.store import Store, open_store
from tilec.cache.toolchain import is_unchanged, ptxas_identity, toolchain

__all__ = ["Store", "is_unchanged", "open_store", "ptxas_identity", "toolchain"]
