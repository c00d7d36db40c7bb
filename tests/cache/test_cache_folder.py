"""Where the cache is, and which folders are not used, with all that is said of them."""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path

import pytest
from cache_files import file_of, key

from tilec.cache import Store, open_store
from tilec.cache.folder import CacheRefused, cache_folder
from tilec.cache.store import find_store
from tilec.diagnostics import Diagnostic

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
ELSEWHERE = "set TILEC_CACHE_DIR to a folder of your own, or to 'off'"
OTHER = 54321
ME = pwd.getpwuid(os.geteuid()).pw_name


def refusal() -> str:
    with pytest.raises(CacheRefused) as caught:
        find_store()
    return str(caught.value)


def opened() -> Store:
    store = open_store()
    assert store is not None
    return store


# Where


@pytest.mark.parametrize("off", ["", "0", "off", "OFF", "none", "None", " off "])
def test_switched_off(monkeypatch: pytest.MonkeyPatch, off: str) -> None:
    monkeypatch.setenv("TILEC_CACHE_DIR", off)
    assert cache_folder() is None and find_store() is None and open_store() is None


def test_a_relative_folder_is_of_now(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TILEC_CACHE_DIR", "x/../here")
    assert cache_folder() == tmp_path / "here"


def test_a_folder_in_the_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TILEC_CACHE_DIR", "~/kernels")
    assert cache_folder() == tmp_path / "kernels"


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="for Linux, whose users have their caches there")
def test_the_users_own_without_a_word(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TILEC_CACHE_DIR")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_folder() == tmp_path / ".cache" / "tilec"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    assert cache_folder() == tmp_path / "caches" / "tilec"


def test_a_user_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(uid: int) -> pwd.struct_passwd:
        raise KeyError(uid)

    monkeypatch.delenv("TILEC_CACHE_DIR")
    monkeypatch.delenv("HOME")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert refusal() == f"error: this user has no home folder to keep it in\nhint: {ELSEWHERE}"


def test_the_environment_is_asked_each_time(monkeypatch: pytest.MonkeyPatch, folder: Path, tmp_path: Path) -> None:
    first = opened()
    assert opened() is first and (first.folder, first.limit) == (folder, 1 << 30)
    monkeypatch.setenv("TILEC_CACHE_DIR", str(tmp_path / "other"))
    monkeypatch.setenv("TILEC_CACHE_SIZE", "1K")
    second = opened()
    assert (second.folder, second.limit) == (tmp_path / "other", 1024)


def test_reading_makes_no_folder_and_writing_one_for_this_user_alone(folder: Path) -> None:
    before = os.umask(0)
    try:
        store = opened()
        assert store.get("kernel", key(1)) is None and store.info().entries == 0
        assert not folder.exists()
        store.put("kernel", key(1), b"data")
    finally:
        os.umask(before)
    path = file_of(folder, "kernel", key(1))
    modes = [stat.S_IMODE(one.stat().st_mode) for one in (folder, path.parent, path)]
    assert modes == [0o700, 0o700, 0o600]


# Whose


@pytest.mark.parametrize("mode", [0o770, 0o702, 0o777])
def test_others_may_write(folder: Path, mode: int, warned: list[Diagnostic]) -> None:
    folder.mkdir()
    folder.chmod(mode)
    message = f"{folder} may be written by others (mode 0{mode:o})"
    hint = f"chmod go-w {folder}, or {ELSEWHERE}"
    assert refusal() == f"error: {message}\nhint: {hint}"
    assert open_store() is None and open_store() is None
    assert warned == [Diagnostic("warning", f"the disk cache is not used: {message}", hint=hint)]


def test_one_that_is_meant_for_all_is_not_to_be_closed(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o1777)
    assert refusal() == f"error: {folder} may be written by others (mode 1777)\nhint: {ELSEWHERE}"


def test_its_parent_may_be_for_all(folder: Path, tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    store = opened()
    store.put("kernel", key(1), b"data")
    assert store.get("kernel", key(1)) == b"data"


def test_others_may_read(folder: Path) -> None:
    folder.mkdir(mode=0o755)
    opened().put("kernel", key(1), b"data")
    assert opened().get("kernel", key(1)) == b"data"


@needs_root
def test_of_another_user(folder: Path, warned: list[Diagnostic]) -> None:
    folder.mkdir()
    os.chown(folder, OTHER, -1)
    message = f"{folder} belongs to user {OTHER}, not to user {ME}"
    hint = f"make it yours with chown, or {ELSEWHERE}"
    assert refusal() == f"error: {message}\nhint: {hint}"
    assert open_store() is None
    assert warned == [Diagnostic("warning", f"the disk cache is not used: {message}", hint=hint)]


def test_of_another_user_than_the_one_that_asks(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: OTHER)
    assert refusal().splitlines()[0] == f"error: {folder} belongs to user {ME}, not to user {OTHER}"


@needs_root
def test_a_link_to_a_folder_of_another(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    os.chown(tmp_path / "theirs", OTHER, -1)
    folder.symlink_to("theirs")
    assert refusal().splitlines()[0] == f"error: {folder} belongs to user {OTHER}, not to user {ME}"


@needs_root
def test_a_link_of_another_to_a_folder_of_mine(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    folder.symlink_to("mine")
    os.chown(folder, OTHER, -1, follow_symlinks=False)
    assert refusal() == f"error: {folder} is a link that belongs to user {OTHER}\nhint: {ELSEWHERE}"


def test_a_link_to_a_folder_that_others_may_write(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    folder.symlink_to("open")
    assert refusal().splitlines()[0] == f"error: {folder} may be written by others (mode 0777)"


def test_a_link_of_mine(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    folder.symlink_to("real")
    opened().put("kernel", key(1), b"data")
    assert file_of(tmp_path / "real", "kernel", key(1)).exists()


def test_where_files_have_no_owners(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows, where modes mean nothing either."""
    folder.mkdir()
    folder.chmod(0o777)
    monkeypatch.delattr(os, "geteuid")
    store = opened()
    store.put("kernel", key(1), b"data")
    assert store.get("kernel", key(1)) == b"data"


# What is no folder


def test_a_link_to_nothing(folder: Path) -> None:
    folder.symlink_to("gone")
    assert refusal() == f"error: {folder} is a link to nothing\nhint: {ELSEWHERE}"


def test_a_file(folder: Path) -> None:
    folder.write_text("")
    assert refusal() == f"error: {folder} is not a folder\nhint: {ELSEWHERE}"


def test_under_a_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.write_text("")
    monkeypatch.setenv("TILEC_CACHE_DIR", f"{folder}/x")
    assert refusal() == f"error: {folder}/x cannot be used: Not a directory\nhint: {ELSEWHERE}"


def test_a_name_that_no_folder_can_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEC_CACHE_DIR", "/" + "x" * 300)
    assert refusal() == f"error: /{'x' * 300} cannot be used: File name too long\nhint: {ELSEWHERE}"


def test_a_current_folder_that_is_gone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    monkeypatch.setenv("TILEC_CACHE_DIR", "here")
    assert refusal() == f"error: 'here' is nowhere: there is no current folder\nhint: {ELSEWHERE}"


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs /proc, where nobody can make a folder")
def test_a_folder_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch, warned: list[Diagnostic]) -> None:
    monkeypatch.setenv("TILEC_CACHE_DIR", "/proc/tilec")
    store = opened()
    for number in range(3):
        store.put("kernel", key(number), b"data")
        assert store.get("kernel", key(number)) is None
    (warning,) = warned
    assert warning.render() == (
        f"warning: the disk cache is not used: /proc/tilec cannot be made: No such file or directory\nhint: {ELSEWHERE}"
    )


def test_one_that_appears_with_another_owner_after_it_was_looked_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch, warned: list[Diagnostic]
) -> None:
    store = opened()
    folder.mkdir()
    folder.chmod(0o777)
    store.put("kernel", key(1), b"data")
    assert [one.message for one in warned] == [
        f"the disk cache is not used: {folder} may be written by others (mode 0777)"
    ]
    assert list(folder.iterdir()) == []
