"""Instances that are called without Python."""

from __future__ import annotations

import copy
import gc
import sys
import weakref
from typing import Any

import pytest
from recording_host import FakeTensor, Misses, RecordingDriver, entry

from tilec.backend.runtime.host import HostUnavailable
from tilec.backend.runtime.host.callable_type import callable_type


class Kernel:
    """A kernel."""

    def __init__(self, name: str = "gemm") -> None:
        self.name = name
        self.called: list[Any] = []

    def __call__(self, *arguments: object, **keywords: object) -> str:
        self.called.append((arguments, keywords))
        return "python"

    def described(self) -> str:
        return f"kernel {self.name}"


class SlottedKernel:
    __slots__ = ("__weakref__", "_launcher", "name")

    def __init__(self, name: str = "gemm") -> None:
        self.name = name

    def __call__(self, *arguments: object, **keywords: object) -> str:
        return "python"


@pytest.fixture(params=[Kernel, SlottedKernel])
def kernel(request: pytest.FixtureRequest) -> Any:
    return callable_type(request.param)("bias")


def test_it_is_a_subclass_of_the_same_name() -> None:
    made = callable_type(Kernel)
    assert issubclass(made, Kernel)
    assert (made.__name__, made.__module__) == ("Kernel", __name__)
    kernel = made("bias")
    assert kernel.described() == "kernel bias"
    assert vars(kernel)["name"] == "bias"


def test_calls_go_to_python_first(kernel: Any) -> None:
    assert kernel(1, 2, out=3) == "python"
    assert kernel(*[1], **{"out": 2}) == "python"
    assert callable(kernel)


def test_calls_go_to_the_launcher_then(kernel: Any) -> None:
    driver = RecordingDriver()
    misses = Misses()
    launcher = driver.launcher(1, 1, misses)
    a, d = FakeTensor(1), FakeTensor(2)
    launcher.remember([a, d], entry())
    launcher.attach(kernel)
    assert kernel(a, out=d) is d
    assert kernel(a, out=d, stream=5) is d
    assert kernel(*[a], **{"out": d}) is d
    assert len(driver.launches) == 3
    assert kernel(1, 2, x=3) == "miss"
    assert misses.calls == [((1, 2), {"x": 3})]
    assert list(map(kernel, [1])) == ["miss"]
    assert kernel.name == "bias"


def test_the_last_launcher_counts_and_the_first_lives_on(kernel: Any) -> None:
    """A call of the first one may be under way."""
    driver = RecordingDriver()
    first = driver.launcher(1, 0, Misses(result="first"))
    first.attach(kernel)
    alive = weakref.ref(first)
    assert kernel(1) == "first"
    del first
    driver.launcher(1, 0, Misses(result="second")).attach(kernel)
    gc.collect()
    assert kernel(1) == "second"
    assert alive() is not None


def test_an_instance_keeps_its_launcher_and_is_freed_with_it(kernel: Any) -> None:
    driver = RecordingDriver()
    made = type(kernel)()
    launcher = driver.launcher(1, 0, made.__init__)
    launcher.attach(made)
    launcher.remember([FakeTensor()], entry())
    alive = weakref.ref(made)
    del launcher
    gc.collect()
    assert made(FakeTensor()) is None
    del made
    gc.collect()
    assert alive() is None


def test_it_has_no_subclasses() -> None:
    """They would be called through Python in some versions."""
    made: Any = callable_type(Kernel)
    with pytest.raises(TypeError, match="not an acceptable base type"):
        type("Special", (made,), {})


def test_a_copy_never_shares_the_launcher() -> None:
    """Copying takes attributes only, and would leave out where calls go to."""
    kernel = callable_type(Kernel)("bias")
    RecordingDriver().launcher(1, 0, Misses()).attach(kernel)
    with pytest.raises(TypeError, match="cannot pickle"):
        copy.copy(kernel)


def test_debug_builds_of_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "gettotalrefcount", lambda: 0, raising=False)
    with pytest.raises(HostUnavailable, match="debug builds of Python"):
        callable_type(Kernel)
