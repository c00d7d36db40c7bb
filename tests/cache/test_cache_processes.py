"""Many processes on one cache."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import cache_worker
from cache_files import HEADER, entries_in, file_of, key, leftovers_in, size_of

from tilec.cache.store import Store

_LARGEST = HEADER + 8000
_PROCESSES = 8
_ROUNDS = 60


def _run(folder: Path, limit: int, *, clearing: bool) -> list[int]:
    """Start the workers at the same moment on a folder that is not there; gives how many values each has found."""
    start = folder.parent / "start"
    names = [str(number) for number in range(_PROCESSES)] + (["clear"] if clearing else [])
    command = [sys.executable, cache_worker.__file__, str(folder), str(limit), str(start)]
    workers = [
        subprocess.Popen([*command, name, str(_ROUNDS)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for name in names
    ]
    start.touch()
    said = [worker.communicate(timeout=60)[0] for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * len(names), said
    return [int(text) for text in said]  # a warning would be no number


def test_one_cold_cache(folder: Path) -> None:
    """All that was put is there at the end, under its key."""
    found = _run(folder, 1 << 30, clearing=False)
    keys = {cache_worker.key_of(f"shared {number}") for number in range(cache_worker.SHARED)}
    keys |= {cache_worker.key_of(f"{number} {one}") for number in range(_PROCESSES) for one in range(0, _ROUNDS, 2)}
    assert entries_in(folder) == {file_of(folder, "kernel", one) for one in keys}
    store = Store(folder, 1 << 30)
    for one in keys:
        assert store.get("kernel", one) in [
            cache_worker.value_of(one, writer) for writer in range(cache_worker.WRITERS)
        ]
    assert leftovers_in(folder) == set()
    # Half of the rounds are on the shared keys, of which each process writes every one but the first time.
    assert all(count >= _ROUNDS // 2 - cache_worker.SHARED for count in found)


def test_while_one_clears_and_all_evict(folder: Path) -> None:
    limit = 100_000
    found = _run(folder, limit, clearing=True)
    assert sum(found) > 0
    # Each of those that wrote last may have done so while another was counting.
    assert size_of(folder) <= limit + _PROCESSES * _LARGEST
    assert leftovers_in(folder) == set()


def test_a_writer_that_is_killed_leaves_a_whole_cache(folder: Path) -> None:
    """It is killed in the middle of its write, again and again; what others read is whole, and the rest goes in time."""
    program = f"""
import os, time
from pathlib import Path
from tilec.cache.store import Store
real = os.replace
def slow(old, new):
    print("written", flush=True)
    time.sleep(60)
os.replace = slow
Store(Path({str(folder)!r}), 1 << 30).put("kernel", {key(1)!r}, b"new")
"""
    store = Store(folder, 1 << 30)
    store.put("kernel", key(1), b"old")
    for _ in range(2):
        writer = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
        assert writer.stdout is not None and writer.stdout.readline() == b"written\n"
        writer.send_signal(signal.SIGKILL)
        writer.communicate()
    assert store.get("kernel", key(1)) == b"old"
    assert len(leftovers_in(folder)) == 2
    for path in leftovers_in(folder):
        os.utime(path, (time.time() - 4000, time.time() - 4000))
    (folder / "growth.tilec").unlink()
    store.put("kernel", key(1), b"new")
    assert leftovers_in(folder) == set()
    assert store.get("kernel", key(1)) == b"new"


def test_a_child_that_was_forked_has_the_same_cache(folder: Path) -> None:
    program = f"""
import os
from tilec.cache import open_store
store = open_store()
store.put("kernel", {key(1)!r}, b"parent")
child = os.fork()
if child == 0:
    found = store.get("kernel", {key(1)!r}) == b"parent"
    open_store().put("kernel", {key(2)!r}, b"child")
    os._exit(0 if found else 1)
print(os.waitpid(child, 0)[1], store.get("kernel", {key(2)!r}))
"""
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (finished.stdout, finished.stderr) == ("0 b'child'\n", "")
    assert len(entries_in(folder)) == 2
