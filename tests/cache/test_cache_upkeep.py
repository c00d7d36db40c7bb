"""The cache as a whole: its size, what goes first, what it holds, and clearing it."""

from __future__ import annotations

import errno
import os
import struct
import time
from pathlib import Path

import pytest
from cache_files import HEADER, entries_in, file_of, key, leftovers_in, size_of

from tilec.cache import upkeep
from tilec.cache.folder import CacheRefused
from tilec.cache.inventory import Inventory, take_inventory
from tilec.cache.store import Store
from tilec.cache.upkeep import Cleared, Info, KindInfo

ENTRY = 1000
DATA = bytes(ENTRY - HEADER)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Each time that a writer looks through the whole folder."""
    made: list[Path] = []

    def look(folder: Path) -> Inventory:
        made.append(folder)
        return take_inventory(folder)

    monkeypatch.setattr(upkeep, "take_inventory", look)
    return made


def present(folder: Path, count: int) -> list[int]:
    return [number for number in range(count) if file_of(folder, "kernel", key(number)).exists()]


def test_the_least_recently_used_go_until_an_eighth_is_free(folder: Path) -> None:
    store = Store(folder, 16 * ENTRY)
    now = time.time()
    order = [7, 3, 11, 0, 15, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14]  # by use, the oldest first
    for number in range(16):
        store.put("kernel", key(number), DATA)
    for age, number in enumerate(reversed(order)):
        os.utime(file_of(folder, "kernel", key(number)), (now, now - 100 * (age + 1)))
    assert len(present(folder, 16)) == 16
    store.put("kernel", key(16), DATA)
    # 17 were there; 14 are seven eighths of 16.
    assert present(folder, 17) == sorted({*range(17)} - {7, 3, 11})


def test_reading_saves_an_entry(folder: Path) -> None:
    store = Store(folder, 8 * ENTRY)
    for number in range(8):
        store.put("kernel", key(number), DATA)
        old = time.time() - 10_000 + number
        os.utime(file_of(folder, "kernel", key(number)), (old, old))
    assert store.get("kernel", key(0)) == DATA
    store.put("kernel", key(8), DATA)
    assert present(folder, 9) == [0, 3, 4, 5, 6, 7, 8]


def test_what_was_just_written_stays(folder: Path) -> None:
    """Though another machine's clock makes all others newer."""
    store = Store(folder, 4 * ENTRY)
    later = time.time() + 1e6
    for number in range(4):
        store.put("kernel", key(number), DATA)
        os.utime(file_of(folder, "kernel", key(number)), (later, later))
    store.put("kernel", key(4), bytes(4 * ENTRY - HEADER))
    assert present(folder, 5) == [4]


def test_what_is_larger_than_all_is_not_kept(folder: Path) -> None:
    store = Store(folder, 4 * ENTRY)
    store.put("kernel", key(0), DATA)
    store.put("kernel", key(1), bytes(4 * ENTRY - HEADER + 1))
    assert present(folder, 2) == [0]
    Store(folder, 0).put("kernel", key(2), b"")
    assert present(folder, 3) == [0]


def test_writers_seldom_look_through_the_folder(folder: Path, looks: list[Path]) -> None:
    """The first does, the one that writes entry 101, and, since 87 stay then, each fourteenth after it."""
    store = Store(folder, 100 * ENTRY)
    for number in range(300):
        store.put("kernel", key(number), DATA)
        assert number % 10 != 0 or size_of(folder) <= 100 * ENTRY
    assert len(looks) == 1 + len(range(101, 300 + 1, 14))
    assert size_of(folder) > 85 * ENTRY


def test_nor_do_writers_of_other_processes(folder: Path, looks: list[Path]) -> None:
    """What one knows of the size is in the folder."""
    for number in range(50):
        Store(folder, 100 * ENTRY).put("kernel", key(number), DATA)
    assert len(looks) == 1
    Store(folder, 49 * ENTRY).put("kernel", key(50), DATA)
    assert len(looks) == 2 and size_of(folder) <= 49 * ENTRY


@pytest.mark.parametrize(
    "content",
    [b"", b"1234567", bytes(8), b"\xff" * 80, bytes(16), None],
    ids=["empty", "torn", "no total", "of the far future", "of 1970", "gone"],
)
def test_a_broken_count_is_made_anew(folder: Path, looks: list[Path], content: bytes | None) -> None:
    store = Store(folder, 10 * ENTRY)
    for number in range(9):
        store.put("kernel", key(number), DATA)
    if content is None:
        (folder / "growth.tilec").unlink()
    else:
        (folder / "growth.tilec").write_bytes(content)
    looks.clear()
    store.put("kernel", key(9), DATA)
    assert len(looks) == 1
    store.put("kernel", key(10), DATA)
    assert size_of(folder) <= 10 * ENTRY


def count_file(folder: Path, looked: float, sizes: list[int]) -> None:
    """The time of the last look, the total then, and what has been written since."""
    (folder / "growth.tilec").write_bytes(struct.pack(f"<{len(sizes) + 2}Q", int(looked), 0, *sizes))


@pytest.mark.parametrize(("hours", "writes", "again"), [(0, 0, 0), (23, 0, 0), (25, 0, 1), (-25, 0, 1), (0, 5000, 1)])
def test_the_count_is_made_anew_after_a_day_and_after_some_thousand_entries(
    folder: Path, looks: list[Path], hours: int, writes: int, again: int
) -> None:
    store = Store(folder, 1 << 40)
    store.put("kernel", key(0), DATA)
    looks.clear()
    count_file(folder, time.time() - 3600 * hours, [1] * writes)
    for number in range(3):
        store.put("kernel", key(number), DATA)
    assert len(looks) == again


def test_what_others_removed_meanwhile_counts_as_gone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(folder, 8 * ENTRY)
    for number in range(8):
        store.put("kernel", key(number), DATA)
        os.utime(file_of(folder, "kernel", key(number)), (number + 1, number + 1))

    def look(where: Path) -> Inventory:
        found = take_inventory(where)
        for number in range(2):
            file_of(folder, "kernel", key(number)).unlink()
        return found

    monkeypatch.setattr(upkeep, "take_inventory", look)
    store.put("kernel", key(8), DATA)
    assert present(folder, 9) == list(range(2, 9))


def test_leftovers_of_writers_that_died_go_when_they_are_old(folder: Path) -> None:
    store = Store(folder, 10 * ENTRY)
    store.put("kernel", key(0), DATA)
    old, new, top = (
        folder / key(0)[:2] / f".{'0' * 24}.tilec-tmp",
        folder / key(0)[:2] / f".{'1' * 24}.tilec-tmp",
        folder / f".{'2' * 24}.tilec-tmp",
    )
    hour_ago = time.time() - 3700
    for path in (old, new, top):
        path.write_bytes(b"half")
    for path in (old, top):
        os.utime(path, (hour_ago, hour_ago))
    assert store.info().leftovers == 3
    (folder / "growth.tilec").unlink()
    store.put("kernel", key(1), DATA)
    assert leftovers_in(folder) == {new}


# Telling and clearing


def foreign_files(folder: Path) -> set[Path]:
    """Files that are not the cache's, though some look like it."""
    fan = folder / key(0)[:2]
    fan.mkdir(parents=True, exist_ok=True)
    (folder / "0f").mkdir(exist_ok=True)
    files = {
        folder / "notes.txt",
        folder / f"{key(0)}.kernel.tilec",
        folder / "0f" / f"{key(0)}.kernel.tilec",
        fan / "gemm.tilec",
        fan / f"{key(0)}.kernel",
        fan / ".tilec-tmp",
        folder / "sub" / f"{key(0)}.kernel.tilec",
    }
    (folder / "sub").mkdir()
    for path in files:
        path.write_bytes(b"mine")
    return files


def test_info(store: Store, folder: Path) -> None:
    for number, (kind, size) in enumerate([("kernel", 100), ("kernel", 200), ("ptxas", 7)]):
        store.put(kind, key(number), bytes(size))
        os.utime(file_of(folder, kind, key(number)), (5000 + number, 5000 + number))
    assert store.info() == Info(
        kinds={"kernel": KindInfo(2, 300 + 2 * HEADER), "ptxas": KindInfo(1, 7 + HEADER)},
        oldest_use=5000,
        newest_use=5002,
        leftovers=0,
        foreign=0,
    )
    assert (store.info().entries, store.info().size) == (3, 307 + 3 * HEADER)


def test_info_of_nothing(store: Store) -> None:
    info = store.info()
    assert info == Info(kinds={}, oldest_use=None, newest_use=None, leftovers=0, foreign=0)
    assert (info.entries, info.size) == (0, 0)
    assert store.clear() == Cleared(entries=0, size=0, failed=(), foreign=0)


def test_clear_leaves_foreign_files(store: Store, folder: Path, tmp_path: Path) -> None:
    for number in range(3):
        store.put("kernel", key(number), DATA)
    foreign = foreign_files(folder)
    (tmp_path / "target").write_bytes(b"mine")
    link = file_of(folder, "kernel", key(9))
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(tmp_path / "target")
    elsewhere = tmp_path / "other" / f"{'00' * 32}.kernel.tilec"
    elsewhere.parent.mkdir()
    elsewhere.write_bytes(b"mine")
    (folder / "00").symlink_to(tmp_path / "other")
    # The folder `sub`, the linked entry and the linked folder count as one each.
    assert store.info().foreign == len(foreign) - 1 + 3
    assert store.clear() == Cleared(entries=3, size=3 * ENTRY, failed=(), foreign=len(foreign) - 1 + 3)
    assert {path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()} == foreign
    assert elsewhere.exists() and link.is_symlink() and (tmp_path / "target").exists()


def test_clear_takes_leftovers_and_the_count(store: Store, folder: Path) -> None:
    store.put("kernel", key(0), DATA)
    (folder / key(0)[:2] / f".{'0' * 24}.tilec-tmp").write_bytes(b"half")
    assert store.clear() == Cleared(entries=2, size=ENTRY + 4, failed=(), foreign=0)
    assert [path for path in folder.rglob("*") if path.is_file()] == []
    store.put("kernel", key(0), DATA)
    assert entries_in(folder) == {file_of(folder, "kernel", key(0))}


def test_what_cannot_be_removed_is_told(store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(2):
        store.put("kernel", key(number), DATA)
    kept = str(file_of(folder, "kernel", key(0)))
    real = os.unlink

    def unlink(path: str | Path) -> None:
        if str(path) == kept:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        real(path)

    monkeypatch.setattr(os, "unlink", unlink)
    assert store.clear() == Cleared(1, ENTRY, ((kept, "Operation not permitted"),), 0)
    assert entries_in(folder) == {Path(kept)}


def test_a_folder_that_cannot_be_listed(store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(os, "scandir", refuse)
    for use in (store.info, store.clear):
        with pytest.raises(CacheRefused) as caught:
            use()
        assert str(caught.value) == f"error: {folder} cannot be listed: Permission denied"
