"""Entries: what was put is found, what is broken is not, and nothing that happens to the folder stops the work."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from cache_files import HEADER, entries_in, file_of, key, leftovers_in
from hypothesis import given
from hypothesis import strategies as st

from tilec.cache.store import Store
from tilec.diagnostics import Diagnostic

KINDS = st.from_regex(r"[a-z][a-z0-9_-]{0,20}", fullmatch=True)
KEYS = st.text("0123456789abcdef", min_size=8, max_size=128)
DATA = st.binary(max_size=300) | st.binary(min_size=1, max_size=9).map(lambda part: part * 20_000)


@given(entries=st.dictionaries(st.tuples(KINDS, KEYS), DATA, max_size=4), other=DATA)
def test_what_was_put_last_is_found(store: Store, entries: dict[tuple[str, str], bytes], other: bytes) -> None:
    store.clear()
    for (kind, name), data in entries.items():
        assert store.get(kind, name) is None
        store.put(kind, name, other)
        store.put(kind, name, data)
    assert {place: store.get(*place) for place in entries} == entries
    info = store.info()
    assert (info.entries, info.size) == (len(entries), sum(HEADER + len(data) for data in entries.values()))


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("kernel", "ABCDEF00"),
        ("kernel", "abc"),
        ("kernel", "../../../etc/passwd"),
        ("kernel", "abcdef00\n"),
        ("kernel", ""),
        ("a/b", "abcdef00"),
        ("", "abcdef00"),
        ("Kernel", "abcdef00"),
    ],
)
def test_what_is_no_kind_or_key(store: Store, kind: str, name: str) -> None:
    for use in (lambda: store.get(kind, name), lambda: store.put(kind, name, b"")):
        with pytest.raises(ValueError) as caught:
            use()
        assert str(caught.value) == f"not a kind and a key of the cache: {kind!r}, {name!r}"


def test_the_file_is_as_documented(store: Store, folder: Path) -> None:
    store.put("kernel", key(1), b"payload")
    digest = hashlib.sha256(f"{key(1)}.kernel.tilec\0payload".encode()).digest()
    made = file_of(folder, "kernel", key(1)).read_bytes()
    assert made == b"TILEC\0" + struct.pack("<HQ", 1, 7) + digest + b"payload"


# Broken


def _flip(at: int) -> Callable[[bytes], bytes]:
    return lambda data: data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda data: b"", id="empty"),
        pytest.param(lambda data: data[:20], id="half a header"),
        pytest.param(lambda data: data[:HEADER], id="no payload"),
        pytest.param(lambda data: data[:-1], id="truncated"),
        pytest.param(lambda data: data + b"x", id="longer"),
        pytest.param(lambda data: bytes(len(data)), id="zeros, as after a power failure"),
        pytest.param(_flip(0), id="magic"),
        pytest.param(_flip(6), id="version"),
        pytest.param(_flip(8), id="length"),
        pytest.param(_flip(15), id="huge length"),
        pytest.param(_flip(20), id="sum"),
        pytest.param(_flip(HEADER), id="first byte"),
        pytest.param(_flip(-1 + HEADER + 100), id="last byte"),
    ],
)
def test_a_broken_entry_is_a_miss_until_it_is_put_again(
    store: Store, folder: Path, spoil: Callable[[bytes], bytes], warned: list[Diagnostic]
) -> None:
    data = os.urandom(100)
    store.put("kernel", key(1), data)
    path = file_of(folder, "kernel", key(1))
    path.write_bytes(spoil(path.read_bytes()))
    assert store.get("kernel", key(1)) is None
    store.put("kernel", key(1), data)
    assert store.get("kernel", key(1)) == data
    assert warned == []


def test_an_entry_under_the_name_of_another_is_none(store: Store, folder: Path) -> None:
    store.put("kernel", key(1), b"one")
    for kind, name in (("kernel", key(2)), ("program", key(1))):
        other = file_of(folder, kind, name)
        other.parent.mkdir(exist_ok=True)
        other.write_bytes(file_of(folder, "kernel", key(1)).read_bytes())
        assert store.get(kind, name) is None


def test_an_entry_that_is_no_file(store: Store, folder: Path) -> None:
    store.put("kernel", key(1), b"data")
    path = file_of(folder, "kernel", key(1))
    path.unlink()
    os.mkfifo(path)
    assert store.get("kernel", key(1)) is None  # and does not wait for a writer
    store.put("kernel", key(1), b"data")
    assert store.get("kernel", key(1)) == b"data"
    path.unlink()
    path.mkdir()
    assert store.get("kernel", key(1)) is None


def test_a_link_is_no_entry(store: Store, folder: Path, tmp_path: Path) -> None:
    store.put("kernel", key(1), b"data")
    path = file_of(folder, "kernel", key(1))
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert store.get("kernel", key(1)) is None


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_an_entry_that_others_may_write(store: Store, folder: Path, mode: int, warned: list[Diagnostic]) -> None:
    for number in (1, 2, 3):
        store.put("kernel", key(number), b"data")
    path = file_of(folder, "kernel", key(1))
    for number in (1, 3):
        file_of(folder, "kernel", key(number)).chmod(mode)
        assert store.get("kernel", key(number)) is None
    assert store.get("kernel", key(2)) == b"data"
    assert [one.render() for one in warned] == [
        f"warning: an entry of the disk cache is not used: {path} may be written by others (mode 0{mode:o})\n"
        "hint: remove it; it is compiled anew"
    ]
    store.put("kernel", key(1), b"anew")
    assert store.get("kernel", key(1)) == b"anew"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_an_entry_of_another_user(store: Store, folder: Path, warned: list[Diagnostic]) -> None:
    store.put("kernel", key(1), b"data")
    path = file_of(folder, "kernel", key(1))
    os.chown(path, 54321, -1)
    assert store.get("kernel", key(1)) is None
    assert [one.message for one in warned] == [
        f"an entry of the disk cache is not used: {path} belongs to user 54321, not to user root"
    ]


# What cannot be read or written


def refusing(monkeypatch: pytest.MonkeyPatch, name: str, code: int, *, writing: bool = True) -> None:
    """Make a function of `os` fail, where it would write, as a file system in that state makes it fail."""
    real = getattr(os, name)

    def refuse(path: str, *arguments: object, **keywords: object) -> object:
        if (
            name == "open"
            and writing
            and not (isinstance(arguments[0], int) and arguments[0] & (os.O_WRONLY | os.O_RDWR))
        ):
            return real(path, *arguments, **keywords)
        raise OSError(code, os.strerror(code), path)

    monkeypatch.setattr(os, name, refuse)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("open", errno.EROFS),
        ("open", errno.EACCES),
        ("open", errno.ENOSPC),
        ("replace", errno.ENOSPC),
        ("replace", errno.EPERM),
    ],
)
def test_a_folder_that_cannot_be_written_is_still_read(
    store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch, warned: list[Diagnostic], name: str, code: int
) -> None:
    store.put("kernel", key(1), b"data")
    refusing(monkeypatch, name, code)
    for number in (2, 3):
        store.put("kernel", key(number), b"data")
        assert store.get("kernel", key(number)) is None
    assert store.get("kernel", key(1)) == b"data"
    assert leftovers_in(folder) == set()
    (warning,) = warned
    assert warning.render() == (
        f"warning: compiled kernels are not kept on disk: {folder} cannot be written: {os.strerror(code)}\n"
        "hint: make room or allow it, or set TILEC_CACHE_DIR to a folder of your own, or to 'off'"
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="modes do not hold root back")
def test_a_read_only_folder(store: Store, folder: Path, warned: list[Diagnostic]) -> None:
    store.put("kernel", key(1), b"data")
    folder.chmod(0o500)
    file_of(folder, "kernel", key(1)).parent.chmod(0o500)
    try:
        store.put("kernel", key(1), b"other")
        store.put("kernel", key(2), b"other")
        assert store.get("kernel", key(1)) == b"data"
    finally:
        folder.chmod(0o700)
        file_of(folder, "kernel", key(1)).parent.chmod(0o700)
    assert [one.message for one in warned] == [
        f"compiled kernels are not kept on disk: {folder} cannot be written: Permission denied"
    ]


def test_a_write_that_ends_in_the_middle(folder: Path) -> None:
    """The system lets the process write 5000 bytes of a file and no more."""
    program = f"""
import resource
from pathlib import Path
from tilec.cache.store import Store
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
store = Store(Path({str(folder)!r}), 1 << 30)
for number in "12":
    store.put("kernel", 32 * number, bytes(10_000))
store.put("kernel", 32 * "3", b"small")
print([store.get("kernel", 32 * number) for number in "123"])
"""
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert finished.stdout == "[None, None, b'small']\n"
    assert finished.stderr == (
        f"warning: compiled kernels are not kept on disk: {folder} cannot be written: File too large\n"
        "hint: make room or allow it, or set TILEC_CACHE_DIR to a folder of your own, or to 'off'\n"
    )
    assert leftovers_in(folder) == set()


@pytest.mark.parametrize("code", [errno.ENOENT, errno.ESTALE])
def test_an_entry_that_goes_while_it_is_read(
    store: Store, monkeypatch: pytest.MonkeyPatch, warned: list[Diagnostic], code: int
) -> None:
    store.put("kernel", key(1), b"data")
    for name in ("open", "fstat", "read"):
        with monkeypatch.context() as patch:
            refusing(patch, name, code, writing=False)
            assert store.get("kernel", key(1)) is None
    assert store.get("kernel", key(1)) == b"data"
    assert warned == []


def test_an_entry_that_may_not_be_read(
    store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch, warned: list[Diagnostic]
) -> None:
    store.put("kernel", key(1), b"data")
    refusing(monkeypatch, "open", errno.EACCES, writing=False)
    assert store.get("kernel", key(1)) is None and store.get("kernel", key(2)) is None
    assert [one.render() for one in warned] == [
        f"warning: the disk cache in {folder} cannot be read: Permission denied\n"
        "hint: allow it, or set TILEC_CACHE_DIR to a folder of your own, or to 'off'"
    ]


def test_a_folder_that_is_removed_meanwhile(store: Store, folder: Path, warned: list[Diagnostic]) -> None:
    store.put("kernel", key(1), b"data")
    shutil.rmtree(folder)
    assert store.get("kernel", key(1)) is None
    store.put("kernel", key(1), b"data")
    assert store.get("kernel", key(1)) == b"data"
    assert warned == []


def test_an_interrupted_writer_leaves_nothing(store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        store.put("kernel", key(1), b"data")
    assert leftovers_in(folder) == entries_in(folder) == set()


# When it was used


def test_a_use_is_noted_at_most_once_an_hour(store: Store, folder: Path) -> None:
    store.put("kernel", key(1), b"data")
    path = file_of(folder, "kernel", key(1))
    now = time.time()
    for age, noted in ((3500, False), (3700, True), (1_000_000, True), (-5000, False)):
        os.utime(path, (now - age, now - age))
        assert store.get("kernel", key(1)) == b"data"
        used = path.stat().st_mtime
        assert used == pytest.approx(now if noted else now - age, abs=60)


def test_a_miss_is_not_noted(store: Store, folder: Path) -> None:
    store.put("kernel", key(1), b"data")
    path = file_of(folder, "kernel", key(1))
    path.write_bytes(b"broken")
    os.utime(path, (1, 1))
    store.get("kernel", key(1))
    assert path.stat().st_mtime == 1


def test_many_threads_that_put_and_get_the_same(store: Store, warned: list[Diagnostic]) -> None:
    values = [bytes([number]) * 5000 for number in range(8)]
    wrong: list[object] = []

    def work(number: int) -> None:
        try:
            for _ in range(50):
                store.put("kernel", key(0), values[number])
                if store.get("kernel", key(0)) not in values:
                    wrong.append(number)
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == [] and warned == []
