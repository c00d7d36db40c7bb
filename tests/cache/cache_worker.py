"""A process that uses a cache together with others: ``cache_worker.py FOLDER LIMIT START NUMBER ROUNDS`` or ``... clear``.

The value of a key is a function of it and of one of three writers, so that whatever is found can be judged. Prints how many
values it found.
"""

from __future__ import annotations

import random
import sys
import time
from hashlib import sha256
from pathlib import Path

from tilec.cache.store import Store

SHARED, WRITERS = 12, 3


def key_of(name: str) -> str:
    return sha256(name.encode()).hexdigest()


def value_of(key: str, writer: int) -> bytes:
    length = 500 * (1 + int(key[:2], 16) % 16)
    return (sha256(f"{key} {writer}".encode()).digest() * (length // 32 + 1))[:length]


def main(folder: str, limit: str, start: str, number: str, rounds: str) -> None:
    store = Store(Path(folder), int(limit))
    while not Path(start).exists():
        time.sleep(0.001)
    found = 0
    choice = random.Random(number)
    for one in range(int(rounds)):
        if number == "clear":
            store.clear()
            time.sleep(0.02)
            continue
        key = key_of(f"shared {choice.randrange(SHARED)}") if one % 2 else key_of(f"{number} {one}")
        data = store.get("kernel", key)
        values = [value_of(key, writer) for writer in range(WRITERS)]
        assert data is None or data in values, f"not what was put under {key}"
        found += data is not None
        store.put("kernel", key, values[choice.randrange(WRITERS)])
    print(found)


if __name__ == "__main__":
    main(*sys.argv[1:])
