"""Where the disk cache is, and whether it can be trusted: what is in it is loaded as code.

A folder is used only if it belongs to this user and nobody else may write to it. Its parents are not looked at: who can
rename the folder can put another one there, but every entry is checked as well when it is read (`distrust` of the open file).
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from tilec.diagnostics import Diagnostic, TilecError, report

DIR_VARIABLE = "TILEC_CACHE_DIR"
_OFF = ("", "0", "off", "none")
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_ELSEWHERE = f"set {DIR_VARIABLE} to a folder of your own, or to 'off'"


class CacheRefused(TilecError):
    """The folder of the cache cannot be used, or not trusted."""


def cache_folder() -> Path | None:
    """The folder that ``$TILEC_CACHE_DIR`` names, else the user's own of this platform; None where the variable says off.

    Raises CacheRefused for a user who has no home, and for a relative path from a folder that is gone.
    """
    named = os.environ.get(DIR_VARIABLE)
    if named is None:
        from platformdirs import user_cache_path  # takes 10 ms

        # Without a home, some of its releases raise RuntimeError, and others give a folder named ~ here.
        with suppress(RuntimeError):
            if (folder := user_cache_path("tilec")).is_absolute():
                return folder
        raise CacheRefused("this user has no home folder to keep it in", hint=_ELSEWHERE)
    if named.strip().lower() in _OFF:
        return None
    try:
        return Path(os.path.abspath(os.path.expanduser(named)))
    except OSError as error:
        raise CacheRefused(f"'{named}' is nowhere: there is no current folder", hint=_ELSEWHERE) from error


def check_folder(folder: Path) -> None:
    """Raise `CacheRefused` for a folder that must not be used. One that is not there yet is fine."""
    try:
        link, found = os.lstat(folder), os.stat(folder)
    except FileNotFoundError:
        if not os.path.lexists(folder):
            return
        raise CacheRefused(f"{folder} is a link to nothing", hint=_ELSEWHERE) from None
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        raise CacheRefused(f"{folder} cannot be used: {_reason(error)}", hint=_ELSEWHERE) from error
    if not stat.S_ISDIR(found.st_mode):
        raise CacheRefused(f"{folder} is not a folder", hint=_ELSEWHERE)
    if stat.S_ISLNK(link.st_mode) and link.st_uid != 0 and _is_of_another(link):
        raise CacheRefused(f"{folder} is a link that belongs to user {_login(link.st_uid)}", hint=_ELSEWHERE)
    if (why := distrust(found)) is not None:
        raise CacheRefused(f"{folder} {why}", hint=f"{_mending(folder, found)}{_ELSEWHERE}")


def make_folder(folder: Path) -> None:
    """Make the folder, for this user alone, unless it is there; raises `CacheRefused` where it cannot be used."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        check_folder(folder)  # which may know better what is wrong
        raise CacheRefused(f"{folder} cannot be made: {_reason(error)}", hint=_ELSEWHERE) from error
    check_folder(folder)


def distrust(found: os.stat_result) -> str | None:
    """Why a file or folder must not be trusted, as the rest of a sentence about it; None if it can be.

    Where files have no owner's number, as on Windows, the user's own folders are others' to protect.
    """
    if not hasattr(os, "geteuid"):
        return None
    if _is_of_another(found):
        return f"belongs to user {_login(found.st_uid)}, not to user {_login(os.geteuid())}"
    if found.st_mode & _OTHERS_WRITE:
        return f"may be written by others (mode {stat.S_IMODE(found.st_mode):04o})"
    return None


def tell_unused(refused: CacheRefused) -> None:
    """Warn that kernels are compiled without the cache, and why."""
    told = refused.diagnostic
    _tell_once(told.message, f"the disk cache is not used: {told.message}", told.hint)


def tell_unwritable(folder: Path, error: OSError) -> None:
    """Warn that what is compiled now is not kept; what the folder holds is still read."""
    _tell_once(
        f"writing {folder}",
        f"compiled kernels are not kept on disk: {folder} cannot be written: {_reason(error)}",
        f"make room or allow it, or {_ELSEWHERE}",
    )


def tell_unreadable(folder: Path, error: OSError) -> None:
    """Warn that there are entries which cannot be read."""
    _tell_once(
        f"reading {folder}",
        f"the disk cache in {folder} cannot be read: {_reason(error)}",
        f"allow it, or {_ELSEWHERE}",
    )


def tell_distrusted(path: str, why: str) -> None:
    """Warn of an entry that others could have made; one stands for all."""
    _tell_once("entry", f"an entry of the disk cache is not used: {path} {why}", "remove it; it is compiled anew")


_told: dict[str, object] = {}


def _tell_once(matter: str, message: str, hint: str | None) -> None:
    """Warn, unless this process has warned of this matter before."""
    mine = object()
    if _told.setdefault(matter, mine) is mine:  # one thread's, if several come here together
        report(Diagnostic("warning", message, hint=hint))


def _mending(folder: Path, found: os.stat_result) -> str:
    """What would make this very folder one to use; nothing for one like /tmp, which is meant for all."""
    if _is_of_another(found):
        return "make it yours with chown, or "
    return "" if found.st_mode & stat.S_ISVTX else f"chmod go-w {folder}, or "


def _is_of_another(found: os.stat_result) -> bool:
    return hasattr(os, "geteuid") and found.st_uid != os.geteuid()


def _login(uid: int) -> str:
    """The name of a user, or the number where the machine knows no name."""
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
