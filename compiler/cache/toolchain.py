"""What compiles: all that a compiled kernel depends on beside its own program. Asked by every process before its first kernel.

Both answers are quick in a process that finds them on disk: no file of tilec is read and no program is run.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from typing import NamedTuple

from tilec.cache.store import Store, open_store

_PARTS = ("dialects", "passes", "backend")
"""Packages whose folder an editable installation has beside that of `tilec`, not in it."""
_STARTED = time.time()
_SETTLED = 2
"""Seconds after which a file that is changed once more gets another time of change, on any file system."""


@cache
def toolchain() -> str:
    """tilec by the content of its source files, llvmlite and xDSL by version, Python by release.

    A version of llvmlite holds one LLVM, whose version need not be asked for then (that would import llvmlite).
    """
    python = f"{sys.implementation.name} {sys.version_info.major}.{sys.version_info.minor}"
    return f"tilec {_sources_digest()[:32]}, llvmlite {_version('llvmlite')}, xdsl {_version('xdsl')}, {python}"


def is_unchanged() -> bool:
    """Whether tilec's sources still are those that `toolchain` names, and none is newer than this process.

    Modules are imported when they are used: of sources that were edited meanwhile a process may have some old and some new.
    """
    now = _listing()
    return now == _seen and all(max(one.modified, one.changed) / 1e9 < _STARTED for one in now)


def ptxas_identity() -> str:
    """The build of the ptxas that `find_ptxas` gives, such as 13.0.88; ``none`` without one.

    Raises PtxasError for one that does not tell.
    """
    from tilec.backend.ptxas import find_ptxas, probe_ptxas

    path = find_ptxas()
    if path is None:
        return "none"
    store = open_store()
    key = None if store is None else _file_key(path)
    if store is None or key is None:
        return probe_ptxas().build
    known = store.get("ptxas", key)
    if known is not None:
        return known.decode()
    build = probe_ptxas().build
    store.put("ptxas", key, build.encode())
    return build


def _file_key(path: str) -> str | None:
    """A key for this very file; None for a script, which may run another program tomorrow, and for what cannot be read."""
    try:
        with open(path, "rb") as file:
            if file.read(2) == b"#!":
                return None
            found = os.fstat(file.fileno())
    except OSError:
        return None
    return sha256(f"{os.path.realpath(path)}\0{found.st_size}\0{found.st_mtime_ns}".encode()).hexdigest()


class _Source(NamedTuple):
    """A file by its name in the package, which is the same in all installations, and what tells that it has changed."""

    name: str
    path: str
    size: int
    modified: int
    changed: int


_seen: list[_Source] | None = None
"""The sources that `toolchain` has looked at."""


def _sources_digest() -> str:
    """SHA-256 over names and contents of tilec's source files, remembered by their sizes and times.

    Not over the times themselves: two containers of one image have other times, but can share a cache.
    """
    global _seen
    sources = _seen = _listing()
    store = open_store()
    if store is None:
        return _digest_of(sources)
    listing = "\0".join(f"{one.path}\0{one.size}\0{one.modified}\0{one.changed}" for one in sources)
    key = sha256(listing.encode(errors="surrogateescape")).hexdigest()
    known = store.get("sources", key)
    if known is not None:
        return known.decode()
    digest = _digest_of(sources)
    _remember(store, key, digest, sources)
    return digest


def _listing() -> list[_Source]:
    return sorted(_sources(), key=lambda source: source.name)


def _remember(store: Store, key: str, digest: str, sources: list[_Source]) -> None:
    latest = max((max(one.modified, one.changed) for one in sources), default=0)
    if time.time() - latest / 1e9 > _SETTLED:
        store.put("sources", key, digest.encode())


def _digest_of(sources: list[_Source]) -> str:
    hashed = sha256()
    for one in sources:
        content = b""
        with suppress(OSError), open(one.path, "rb") as file:  # gone, as what an editor writes beside a file
            content = file.read()
        hashed.update(f"{one.name}\0{len(content)}\0".encode(errors="surrogateescape"))
        hashed.update(content)
    return hashed.hexdigest()


def _sources() -> Iterator[_Source]:
    import tilec

    for folder in tilec.__path__:
        yield from _sources_in(folder, "tilec")
        for part in _PARTS:
            spec = find_spec(f"tilec.{part}")
            for other in (spec.submodule_search_locations or ()) if spec is not None else ():
                if os.path.dirname(other) != folder:
                    yield from _sources_in(other, f"tilec/{part}")


def _sources_in(folder: str, name: str) -> Iterator[_Source]:
    """All files but bytecode and hidden ones: not every source is Python."""
    with os.scandir(folder) as files:
        for file in files:
            inside = f"{name}/{file.name}"
            if file.name.startswith(".") or file.name == "__pycache__":
                continue
            if file.is_dir():
                yield from _sources_in(file.path, inside)
                continue
            with suppress(OSError):
                found = file.stat()
                yield _Source(inside, file.path, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _version(package: str) -> str:
    """Of an installed package, by the name of its folder of metadata: `importlib.metadata` takes 20 ms to import."""
    spec = find_spec(package)
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        start, end = f"{package}-", ".dist-info"
        named = [one for one in os.listdir(os.path.dirname(folder)) if one.startswith(start) and one.endswith(end)]
        if len(named) == 1:
            return named[0][len(start) : -len(end)]
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "none"
