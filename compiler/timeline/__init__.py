"""The timeline of a kernel, for people: a page, a picture, a trace for Perfetto, a drawing in the terminal."""

from __future__ import annotations

from tilec.timeline.subject import Request, Subject, make

__all__ = ["Request", "Subject", "make"]
