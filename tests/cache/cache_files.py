"""Keys and files of a cache, for tests that look at the folder itself."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

HEADER = 48


def key(number: int) -> str:
    return sha256(str(number).encode()).hexdigest()


def file_of(folder: Path, kind: str, key: str) -> Path:
    return folder / key[:2] / f"{key}.{kind}.tilec"


def entries_in(folder: Path) -> set[Path]:
    return set(folder.glob("??/*.*.tilec"))


def leftovers_in(folder: Path) -> set[Path]:
    return set(folder.rglob("*.tilec-tmp"))


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in entries_in(folder))
