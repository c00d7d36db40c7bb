"""Names of kernels: what PTX reads as an identifier, and nothing that it or the compiler has taken."""

from __future__ import annotations

import re

_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_$]{0,254}|_[A-Za-z0-9_$]{1,254}")

RULE = "letters, digits, _ and $, a letter or _ first, 255 at most"


def is_identifier(name: str) -> bool:
    """Whether PTX reads a name as an identifier of the program.

    Stricter than PTX (ISA 4.4): with $ and % begin the labels and registers of the code generator.
    """
    return _IDENTIFIER.fullmatch(name) is not None and name != "WARP_SZ"


def is_kernel_name(name: str) -> bool:
    """Whether a kernel may have this name: one that is not that of its shared memory."""
    return is_identifier(name) and name != "tilec_smem"
