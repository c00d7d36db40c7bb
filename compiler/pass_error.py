"""`PassError`, apart from the other errors: it is the only one that is also an error of xDSL, which takes long to import."""

from __future__ import annotations

from xdsl.utils.exceptions import PassFailedException

from tilec.diagnostics import TilecError


class PassError(TilecError, PassFailedException):
    """A pass (or a lowering) cannot do its work on this program."""
