"""Where launches go through Python after all."""

from __future__ import annotations


class HostUnavailable(Exception):
    """The native launcher cannot be used here; the text says why. Launching from Python still works."""
