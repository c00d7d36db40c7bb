"""Threads that share a launcher, and memory that is given up while a launch is under way."""

from __future__ import annotations

import ctypes
import gc
import sys
import threading
import weakref
from dataclasses import replace
from typing import Any

import pytest
from recording_host import FakeTensor, Misses, RecordingDriver, entry

from tilec.backend.runtime.host import HostLauncher, LaunchEntry
from tilec.backend.runtime.host.driver import address_of
from tilec.backend.runtime.host.layout import Config


class Owner:
    """What an entry keeps alive."""


class Recipe:
    """Makes the same output again and again."""

    def __init__(self, output: FakeTensor) -> None:
        self._output = output

    def __call__(self) -> FakeTensor:
        return self._output


def test_an_entry_lives_until_its_launch_is_done() -> None:
    driver = RecordingDriver()
    launcher = driver.launcher(1, 0, Misses())
    owner = Owner()
    alive = weakref.ref(owner)
    launcher.remember([FakeTensor()], entry(owner=owner))
    del owner
    seen: list[bool] = []

    def forget() -> None:
        launcher.clear()
        gc.collect()
        seen.append(alive() is not None)

    driver.during_launch = forget
    assert launcher.call(FakeTensor()) is None
    assert seen == [True]
    assert alive() is None
    assert launcher.call(FakeTensor()) == "miss"


def test_an_entry_that_is_replaced_is_freed() -> None:
    driver = RecordingDriver()
    launcher = driver.launcher(1, 0, Misses())
    owner = Owner()
    alive = weakref.ref(owner)
    launcher.remember([FakeTensor()], entry(owner=owner))
    del owner
    launcher.remember([FakeTensor()], entry(2))
    gc.collect()
    assert alive() is None
    launcher.call(FakeTensor())
    assert driver.launches[0].function == 2


def fail(status: int, launch: LaunchEntry) -> None:
    raise LookupError(status)


@pytest.mark.parametrize("new_outputs", [False, True])
@pytest.mark.parametrize("outcome", ["launched", "nothing to launch", "stale", "no stream", "refused", "miss"])
def test_calls_keep_nothing(outcome: str, new_outputs: bool) -> None:
    driver = RecordingDriver()
    launcher = driver.launcher(1, 1, Misses(), fail)
    namespace: dict[str, object] = {"BM": 64}
    guards = [(namespace, "BM", namespace["BM"])]
    a, d = FakeTensor(1), FakeTensor(2)
    owner, recipe = Owner(), Recipe(d)
    if outcome != "miss":
        launcher.remember([a, d], entry(owner=owner, ctas=0 if outcome == "nothing to launch" else 1), guards)
    launcher.remember_outputs([a], recipe, guards)
    if outcome == "stale":
        namespace["BM"] = 32
    if outcome == "no stream":
        driver.current_streams.clear()
    watched = [a, d, owner, recipe, fail, namespace, launcher]
    result = None
    before = [sys.getrefcount(one) for one in watched]
    for number in range(600):
        if number == 100:
            blocks = sys.getallocatedblocks()
        driver.launches.clear()
        driver.calls.clear()
        launcher._miss.calls.clear()  # type: ignore[attr-defined]
        if outcome == "refused":
            driver.statuses["launch"] = 700
        try:
            result = launcher.call(a) if new_outputs else launcher.call(a, out=d)
            assert result is d if outcome in ("launched", "nothing to launch") else result == "miss"
        except LookupError as error:
            assert error.args == (700,) and outcome == "refused"
    assert sys.getallocatedblocks() - blocks < 250
    result = None
    launcher._miss.calls.clear()  # type: ignore[attr-defined]
    assert [sys.getrefcount(one) for one in watched] == before
    alive = [weakref.ref(owner), weakref.ref(recipe)]
    launcher.clear()
    del owner, recipe, watched
    gc.collect()
    assert [one() for one in alive] == [None, None]


def test_the_lock_is_released_during_a_launch() -> None:
    driver = RecordingDriver()
    launcher = driver.launcher(1, 0, Misses())
    launcher.remember([FakeTensor()], entry())
    inside, outside = threading.Event(), threading.Event()

    def wait() -> None:
        inside.set()
        assert outside.wait(10)

    driver.during_launch = wait
    thread = threading.Thread(target=launcher.call, args=(FakeTensor(),))
    thread.start()
    assert inside.wait(10)
    outside.set()
    thread.join(10)
    assert not thread.is_alive()
    assert len(driver.launches) == 1


def test_a_launcher_and_its_function_live_as_long_as_one_of_them() -> None:
    class Kernel:
        def __init__(self, driver: RecordingDriver) -> None:
            self.launcher = driver.launcher(1, 0, self.miss)

        def miss(self, tensor: FakeTensor) -> str:
            return "missed"

    driver = RecordingDriver()
    kernel = Kernel(driver)
    alive = weakref.ref(kernel)
    call = kernel.launcher.call
    kernel.launcher.remember([FakeTensor()], entry())
    del kernel
    gc.collect()
    assert alive() is not None
    assert call(FakeTensor()) is None
    assert call(FakeTensor(1)) == "missed"
    del call
    gc.collect()
    assert alive() is None


def test_many_threads_and_a_small_table() -> None:
    """Each launch is the one of its tensor, whatever other threads remember and forget meanwhile."""
    driver = RecordingDriver(context=0xAA)  # contexts are pushed: more time without the lock
    failures: list[Any] = []
    launched = threading.local()
    launchers: list[HostLauncher] = []

    def miss(tensor: FakeTensor) -> str:
        launchers[0].remember([tensor], LaunchEntry(tensor.address, 0xC0, 1, 32, 0, 0x9000, Owner()))
        return "miss"

    def launch(config: Any, function: int | None, parameters: int, extra: int | None) -> int:
        launched.function = function or 0
        return 0

    pointer = ctypes.c_void_p
    native = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Config), pointer, pointer, pointer)(launch)
    nothing = ctypes.CFUNCTYPE(ctypes.c_int, pointer)(lambda _: 0)
    driver.host = replace(
        driver.host,
        driver=replace(
            driver.host.driver,
            launch_kernel=address_of(native),
            push_context=address_of(nothing),
            pop_context=address_of(nothing),
        ),
    )
    launchers.append(driver.launcher(1, 0, miss, capacity=5))

    def work(seed: int) -> None:
        try:
            hits = 0
            for i in range(3000):
                tensor = FakeTensor(0x1000 * (1 + (i * (seed + 1)) % 9), (4,), (1,))
                launched.function = None
                if launchers[0].call(tensor) is None:
                    hits += 1
                    assert launched.function == tensor.address
                else:
                    assert launched.function is None
                if i % 100 == seed:
                    launchers[0].clear()
            assert hits > 0
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert failures == []
