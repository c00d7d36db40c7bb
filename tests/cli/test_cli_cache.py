"""``tilec cache``: what it prints, and what it removes."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tilec.cache.store import Store

Cli = Callable[..., Any]
KEYS = ["aa" * 32, "bb" * 32, "cc" * 32]
ELSEWHERE = "set TILEC_CACHE_DIR to a folder of your own, or to 'off'"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("TILEC_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TILEC_CACHE_SIZE", "2G")
    with monkeypatch.context() as zone:
        zone.setenv("TZ", "UTC")
        time.tzset()
        yield tmp_path / "cache"
    time.tzset()


@pytest.fixture
def filled(folder: Path) -> Path:
    """Two kernels of 952 bytes and one assembler of 7, with headers of 48, used in the minutes 0, 1 and 2 of the year 2000."""
    store = Store(folder, 1 << 31)
    for minute, (kind, key, size) in enumerate(
        [("kernel", KEYS[0], 952), ("kernel", KEYS[1], 952), ("ptxas", KEYS[2], 7)]
    ):
        store.put(kind, key, bytes(size))
        used = 946684800 + 60 * minute
        os.utime(folder / key[:2] / f"{key}.{kind}.tilec", (used, used))
    return folder


def lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def test_info(filled: Path, cli: Cli) -> None:
    finished = cli("cache", "info")
    assert lines(finished.out) == [
        f"folder {filled}",
        "limit 2.0 GiB",
        "oldest use 2000-01-01 00:00+00:00",
        "newest use 2000-01-01 00:02+00:00",
        "",
        "kind entries size",
        "kernel 2 2.0 KiB",
        "ptxas 1 55 bytes",
        "all 3 2.0 KiB",
    ]
    assert (finished.code, finished.err) == (0, "")


def test_info_of_what_else_is_there(filled: Path, cli: Cli) -> None:
    (filled / "notes.txt").write_text("mine")
    for number in "12":
        (filled / "aa" / f".{number * 24}.tilec-tmp").write_text("half")
    told = lines(cli("cache", "info").out)
    assert told[4:6] == ["left by writers that died 2 files", "not tilec's 1 file"]


def test_info_of_no_folder(folder: Path, cli: Cli) -> None:
    finished = cli("cache", "info")
    assert lines(finished.out) == [f"folder {folder}", "limit 2.0 GiB", "", "kind entries size", "all 0 0 bytes"]
    assert finished.code == 0 and not folder.exists()


def test_info_as_json(filled: Path, cli: Cli) -> None:
    finished = cli("cache", "info", "--json")
    assert json.loads(finished.out) == {
        "folder": str(filled),
        "limit": 2147483648,
        "entries": 3,
        "size": 2055,
        "kinds": {"kernel": {"entries": 2, "size": 2000}, "ptxas": {"entries": 1, "size": 55}},
        "oldest_use": 946684800,
        "newest_use": 946684920,
        "leftovers": 0,
        "foreign": 0,
    }
    assert finished.code == 0


def test_switched_off(monkeypatch: pytest.MonkeyPatch, cli: Cli) -> None:
    monkeypatch.setenv("TILEC_CACHE_DIR", "off")
    for action in ("info", "clear"):
        finished = cli("cache", action)
        assert (finished.code, finished.out) == (0, "the disk cache is switched off by TILEC_CACHE_DIR\n")
    assert json.loads(cli("cache", "info", "--json").out) == {"folder": None}


def test_clear(filled: Path, cli: Cli) -> None:
    (filled / "notes.txt").write_text("mine")
    finished = cli("cache", "clear")
    assert finished.out == (f"removed 3 files, 2.0 KiB, from {filled}\n1 file in it that tilec did not make stays\n")
    assert (finished.code, finished.err) == (0, "")
    assert [path.name for path in filled.rglob("*") if path.is_file()] == ["notes.txt"]
    assert cli("cache", "clear").out.splitlines()[0] == f"removed 0 files, 0 bytes, from {filled}"


def test_clear_tells_what_it_cannot_remove(filled: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str | Path) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    kept = sorted(str(path) for path in filled.glob("??/*"))
    monkeypatch.setattr(os, "unlink", refuse)
    finished = cli("cache", "clear")
    monkeypatch.undo()
    assert finished.code == 1
    assert finished.out == f"removed 0 files, 0 bytes, from {filled}\n"
    assert sorted(finished.err.splitlines()) == [
        f"error: cannot remove {path}: Operation not permitted" for path in kept
    ]


def test_clear_tells_of_many_in_a_line(folder: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str | Path) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    store = Store(folder, 1 << 30)
    for number in range(7):
        store.put("kernel", f"{number:08x}", b"")
    monkeypatch.setattr(os, "unlink", refuse)
    finished = cli("cache", "clear")
    monkeypatch.undo()
    told = finished.err.splitlines()
    assert len(told) == 6 and told[-1] == "error: cannot remove 2 more files there"


@pytest.mark.parametrize("arguments", [["info"], ["info", "--json"], ["clear"]])
def test_a_folder_that_is_refused_is_not_touched(filled: Path, cli: Cli, arguments: list[str]) -> None:
    filled.chmod(0o777)
    finished = cli("cache", *arguments)
    assert (finished.code, finished.out) == (1, "")
    assert finished.err == (
        f"error: {filled} may be written by others (mode 0777)\nhint: chmod go-w {filled}, or {ELSEWHERE}\n"
    )
    assert len(list(filled.glob("??/*"))) == 3


def test_a_size_that_is_none(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEC_CACHE_SIZE", "lots")
    finished = cli("cache", "info")
    assert finished.code == 1
    assert finished.err == (
        "error: TILEC_CACHE_SIZE is 'lots', which is not a size\n"
        "hint: write a number of bytes, or one with K, M, G or T, such as 512M\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["cache"], "tilec cache: error: the following arguments are required: ACTION"),
        (["cache", "purge"], "tilec cache: error: argument ACTION: invalid choice: 'purge'"),
    ],
)
def test_wrong_usage(cli: Cli, arguments: list[str], message: str) -> None:
    finished = cli(*arguments)
    assert finished.code == 1 and message in finished.err


def test_it_imports_no_compiler(filled: Path) -> None:
    program = (
        "import sys\n"
        "from tilec.cli import main\n"
        "main(['cache', 'info']), main(['cache', 'clear'])\n"
        "print([name for name in ('torch', 'numba', 'llvmlite', 'xdsl', 'numpy') if name in sys.modules], file=sys.stderr)"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert finished.stderr == "[]\n" and f"removed 3 files, 2.0 KiB, from {filled}" in finished.stdout
