"""Which calls are launched, what the driver is told, and what becomes of the others."""

from __future__ import annotations

import itertools
import sys
from dataclasses import replace
from types import CellType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recording_host import (
    COMPLEX64,
    CPU,
    CUDA,
    F32,
    FakeParameter,
    FakeSubclass,
    FakeTensor,
    Launched,
    Misses,
    RecordingDriver,
    entry,
)

from tilec.backend.runtime.host import ABSENT, HostLauncher, LaunchEntry


def known(
    driver: RecordingDriver, tensors: list[FakeTensor], outputs: int = 0, launch: LaunchEntry | None = None
) -> tuple[HostLauncher, Misses]:
    """A launcher that remembers the call with these tensors, the last ones as outputs."""
    misses = Misses()
    launcher = driver.launcher(len(tensors) - outputs, outputs, misses)
    assert launcher.remember(tensors, launch or entry())
    return launcher, misses


def tensors() -> list[FakeTensor]:
    return [FakeTensor(0x1000), FakeTensor(0x2000, (64,), (1,)), FakeTensor(0x3000, (32, 64), (64, 1), F32)]


def test_a_remembered_call_is_launched() -> None:
    driver = RecordingDriver()
    launcher, misses = known(driver, tensors())
    assert launcher.call(*tensors()) is None
    assert driver.launches == [
        Launched(
            function=0xF0,
            parameters=0x9000,
            ctas=(12, 1, 1),
            threads=(128, 1, 1),
            smem_bytes=4096,
            stream=0x70,
            cluster=None,
            context=0xC0,
        )
    ]
    assert driver.calls == ["launch"]
    assert misses.calls == []


def test_a_new_call_goes_to_miss_with_the_same_objects() -> None:
    misses = Misses(result=object())
    launcher = RecordingDriver().launcher(3, 0, misses)
    given = tensors()
    assert launcher.call(*given) is misses.result
    ((arguments, keywords),) = misses.calls
    assert all(a is b for a, b in zip(arguments, given, strict=True))
    assert keywords == {}


def test_what_miss_raises_is_raised() -> None:
    launcher = RecordingDriver().launcher(3, 0, Misses(result=ValueError("no such kernel")))
    with pytest.raises(ValueError, match="no such kernel"):
        launcher.call(*tensors())


DIFFERENT: dict[str, dict[str, Any]] = {
    "address": {"address": 0x1010},
    "byte offset": {"offset": 16},
    "shape": {"shape": (64, 31)},
    "strides": {"strides": (33, 1)},
    "order": {"strides": (1, 64)},
    "rank": {"shape": (64, 32, 1), "strides": (32, 1, 1)},
    "rank 0": {"shape": (), "strides": ()},
    "dtype": {"dtype": F32},
    "lanes": {"dtype": 0x02_10_02},
    "device type": {"device": (CPU, 0)},
    "device": {"device": (CUDA, 1)},
}


@pytest.mark.parametrize("position", range(3))
@pytest.mark.parametrize("change", DIFFERENT.values(), ids=DIFFERENT.keys())
def test_each_field_of_each_tensor_matters(change: dict[str, Any], position: int) -> None:
    driver = RecordingDriver()
    launcher, misses = known(driver, [FakeTensor(), FakeTensor(), FakeTensor()])
    other = [FakeTensor(), FakeTensor(), FakeTensor()]
    other[position] = FakeTensor(**change)
    assert launcher.call(*other) == "miss"
    assert driver.launches == []
    assert len(misses.calls) == 1


def test_an_address_is_the_same_with_or_without_an_offset() -> None:
    driver = RecordingDriver()
    launcher, misses = known(driver, [FakeTensor(0x1000, offset=0x20)])
    launcher.call(FakeTensor(0x1020))
    assert len(driver.launches) == 1
    assert misses.calls == []


@given(st.lists(st.integers(0, 7), max_size=5))
def test_no_strides_are_those_of_a_contiguous_tensor(shape: list[int]) -> None:
    strides = [1]
    for extent in reversed(shape[1:]):
        strides.insert(0, strides[0] * extent)
    driver = RecordingDriver()
    launcher, _ = known(driver, [FakeTensor(shape=tuple(shape), strides=None)])
    launcher.call(FakeTensor(shape=tuple(shape), strides=tuple(strides[: len(shape)])))
    assert len(driver.launches) == 1


SHAPES = st.lists(st.integers(0, 3), max_size=3).map(tuple)
SOME_TENSORS = st.builds(
    lambda address, shape, factor, dtype: FakeTensor(address, shape, tuple(factor * e for e in shape), dtype),
    st.sampled_from([0, 0x1000, 0x2000]),
    SHAPES,
    st.integers(0, 2),
    st.sampled_from([F32, 0x01_10_02]),
)


def facts(these: list[FakeTensor]) -> list[object]:
    return [(t.address, t.shape, t.strides, t.dtype, t.device) for t in these]


@given(st.lists(st.lists(SOME_TENSORS, min_size=2, max_size=2), min_size=2, max_size=12))
def test_a_launch_is_that_of_the_last_call_with_equal_tensors(calls: list[list[FakeTensor]]) -> None:
    driver = RecordingDriver()
    launcher = driver.launcher(2, 0, Misses())
    expected: list[tuple[list[object], int]] = []
    for number, these in enumerate(calls):
        assert launcher.remember(these, entry(function=number))
        expected = [e for e in expected if e[0] != facts(these)] + [(facts(these), number)]
    for these in calls:
        launcher.call(*these)
        (number,) = [n for key, n in expected if key == facts(these)]
        assert driver.launches[-1].function == number
    assert len(driver.launches) == len(calls)
    assert len(launcher) == len(expected)


@pytest.mark.parametrize(
    "odd",
    [
        FakeSubclass(),
        FakeTensor(requires_grad=True),
        FakeTensor(requires_grad=None),
        FakeTensor(negative=True),
        FakeTensor(dtype=COMPLEX64),
        FakeTensor(described=False),
        FakeTensor(shape=(1,) * 127, strides=(1,) * 127),
        None,
        5,
        "A",
    ],
)
def test_other_arguments_go_to_miss_and_cannot_be_remembered(odd: Any) -> None:
    driver = RecordingDriver()
    launcher, misses = known(driver, [FakeTensor(), FakeTensor()])
    assert launcher.call(FakeTensor(), odd) == "miss"
    assert misses.calls[0][0][1] is odd
    assert not launcher.remember([FakeTensor(), odd], entry())
    assert launcher.call(FakeTensor(), odd) == "miss"
    assert driver.launches == []


def test_a_parameter_that_needs_no_gradient_is_a_tensor() -> None:
    driver = RecordingDriver()
    launcher, _ = known(driver, [FakeTensor()])
    launcher.call(FakeParameter())
    assert len(driver.launches) == 1
    assert launcher.call(FakeParameter(requires_grad=True)) == "miss"


@pytest.mark.parametrize("count", [0, 1, 2, 4, 5])
def test_another_number_of_tensors_goes_to_miss(count: int) -> None:
    driver = RecordingDriver()
    launcher, misses = known(driver, [FakeTensor()] * 3)
    assert launcher.call(*[FakeTensor()] * count) == "miss"
    assert len(misses.calls[0][0]) == count
    assert driver.launches == []


def test_many_tensors() -> None:
    given = [FakeTensor(0x1000 * i, (8,), (1,)) for i in range(51)]
    driver = RecordingDriver()
    launcher, _ = known(driver, given)
    launcher.call(*given)
    assert len(driver.launches) == 1
    launcher, _ = known(driver, given, outputs=1)
    assert launcher.call(*given[:-1], out=given[-1]) is given[-1]
    too_many = [FakeTensor(0x1000 * i, (8,), (1,)) for i in range(52)]
    launcher = driver.launcher(52, 0, Misses())
    assert not launcher.remember(too_many, entry())
    assert launcher.call(*too_many) == "miss"
    scalars = [FakeTensor(0x1000 * i, (), ()) for i in range(66)]
    launcher = driver.launcher(65, 1, Misses())
    assert launcher.call(*scalars[:-1], out=scalars[-1]) == "miss"
    assert launcher.call(*scalars[:-1]) == "miss"


# ---- keywords


def test_out_is_the_last_tensor_and_the_result() -> None:
    driver = RecordingDriver()
    launcher, misses = known(driver, tensors(), outputs=1)
    a, b, d = tensors()
    assert launcher.call(a, b, out=d) is d
    assert launcher.call(a, b, out=d, stream=7) is d
    assert launcher.call(a, b, stream=8, out=d) is d
    assert launcher.call(a, b, stream=None, out=d) is d
    assert [launch.stream for launch in driver.launches] == [0x70, 7, 8, 0x70]
    assert misses.calls == []


def test_several_outputs_are_a_tuple() -> None:
    driver = RecordingDriver()
    launcher, misses = known(driver, tensors(), outputs=2)
    a, b, d = tensors()
    out = (b, d)
    assert launcher.call(a, out=out) is out
    for number, other in enumerate([(d, b), (b,), (b, d, d), (), [b, d], b, None]):
        # Right before: nothing of this call may be left in the next one.
        assert launcher.call(a, out=out) is out
        assert launcher.call(a, out=other) == "miss"
        assert misses.calls[-1] == ((a,), {"out": other})
        assert len(driver.launches) == 2 + number


def test_calls_in_another_form_are_not_launched() -> None:
    driver = RecordingDriver()
    a, b, d = tensors()
    launcher, misses = known(driver, [a, b, d], outputs=1)
    wrong: list[tuple[list[Any], dict[str, Any]]] = [
        ([a, b, d], {}),
        ([a, b], {}),
        ([a, b, d], {"out": d}),
        ([a], {"out": d}),
        ([a], {"out": (b, d)}),
        ([a, b], {"out": (d,)}),
        ([a, b], {"out": [d]}),
        ([a, b], {"out": None}),
        ([a, b], {"stream": 7}),
        ([a, b], {"out": d, "max_ctas": 3}),
        ([a, b], {"D": d}),
        ([], {"A": a, "B": b, "out": d}),
    ]
    for arguments, keywords in wrong:
        assert launcher.call(*arguments, **keywords) == "miss"
        assert misses.calls[-1] == (tuple(arguments), keywords)
    assert driver.launches == []


def test_without_outputs_there_is_no_out() -> None:
    driver = RecordingDriver()
    launcher, misses = known(driver, tensors())
    a, b, d = tensors()
    assert launcher.call(a, b, out=d) == "miss"
    assert launcher.call(a, b, d, out=()) == "miss"
    assert launcher.call(a, b, d, out=None) == "miss"
    assert driver.launches == []
    assert len(misses.calls) == 3


# ---- streams


@pytest.mark.parametrize("stream", [0, 1, 2, 0x7FFF_1234_5678])
def test_a_stream_is_a_handle(stream: int) -> None:
    driver = RecordingDriver()
    launcher, _ = known(driver, tensors())
    assert launcher.call(*tensors(), stream=stream) is None
    assert driver.launches[0].stream == stream


@pytest.mark.parametrize("stream", [1.0, True, "s", 1 << 64, -(1 << 64), object()])
def test_what_is_no_handle_goes_to_miss(stream: object) -> None:
    driver = RecordingDriver()
    launcher, misses = known(driver, tensors())
    assert launcher.call(*tensors(), stream=stream) == "miss"
    assert misses.calls[0][1] == {"stream": stream}
    assert driver.launches == []


def test_the_current_stream_is_that_of_the_device_now() -> None:
    driver = RecordingDriver(current_streams={0: 0x70, 3: 0x73})
    on_3 = [replace(t, device=(CUDA, 3)) for t in tensors()]
    launcher, misses = known(driver, on_3)
    launcher.call(*on_3)
    driver.current_streams[3] = 0x99
    launcher.call(*on_3)
    assert [launch.stream for launch in driver.launches] == [0x73, 0x99]
    del driver.current_streams[3]
    assert launcher.call(*on_3) == "miss"
    assert len(misses.calls) == 1


def test_other_devices_have_no_stream() -> None:
    driver = RecordingDriver()
    on_cpu = [replace(t, device=(CPU, 0)) for t in tensors()]
    launcher, _ = known(driver, on_cpu)
    launcher.call(*on_cpu)
    assert driver.launches[0].stream == 0


# ---- guards


def test_a_global_that_changed_goes_to_miss() -> None:
    driver = RecordingDriver()
    misses = Misses()
    launcher = driver.launcher(3, 0, misses)
    one, two = object(), object()
    first: dict[str, Any] = {"BM": one, "other": 1}
    second: dict[str, Any] = {"f": two}
    assert launcher.remember(tensors(), entry(1), [(first, "BM", one), (second, "f", two)])
    assert launcher.call(*tensors()) is None
    first["other"] = 2
    assert launcher.call(*tensors()) is None
    for namespace, name in ((first, "BM"), (second, "f")):
        kept = namespace[name]
        namespace[name] = object()
        assert launcher.call(*tensors()) == "miss"
        del namespace[name]
        assert launcher.call(*tensors()) == "miss"
        namespace[name] = kept
        assert launcher.call(*tensors()) is None
    first["BM"] = two
    assert launcher.remember(tensors(), entry(2), [(first, "BM", two)])
    assert launcher.call(*tensors()) is None
    assert [launch.function for launch in driver.launches] == [1, 1, 1, 1, 2]
    assert len(launcher) == 1


def test_a_name_that_must_not_be_there() -> None:
    driver = RecordingDriver()
    launcher = driver.launcher(3, 0, Misses())
    namespace: dict[str, Any] = {}
    assert launcher.remember(tensors(), entry(), [(namespace, "range", ABSENT)])
    assert launcher.call(*tensors()) is None
    namespace["range"] = None
    assert launcher.call(*tensors()) == "miss"
    del namespace["range"]
    assert launcher.call(*tensors()) is None


def test_a_variable_of_a_closure() -> None:
    driver = RecordingDriver()
    launcher = driver.launcher(3, 0, Misses())
    value = object()
    cell = CellType(value)
    assert launcher.remember(tensors(), entry(), [(cell, None, value)])
    before = sys.getrefcount(value)
    for _ in range(100):
        assert launcher.call(*tensors()) is None
    cell.cell_contents = object()
    assert launcher.call(*tensors()) == "miss"
    del cell.cell_contents
    assert launcher.call(*tensors()) == "miss"
    cell.cell_contents = value
    assert launcher.call(*tensors()) is None
    assert sys.getrefcount(value) == before


def test_the_code_of_a_function() -> None:
    def old() -> int:
        return 1

    def new() -> int:
        return 2

    driver = RecordingDriver()
    launcher = driver.launcher(3, 0, Misses())
    code = old.__code__
    assert launcher.remember(tensors(), entry(), [(old, "__code__", code), (old, "__defaults__", None)])
    before = sys.getrefcount(code)
    for _ in range(100):
        assert launcher.call(*tensors()) is None
    assert sys.getrefcount(code) == before
    old.__code__ = new.__code__
    assert launcher.call(*tensors()) == "miss"
    old.__code__ = code
    assert launcher.call(*tensors()) is None
    old.__defaults__ = (1,)
    assert launcher.call(*tensors()) == "miss"


def test_an_error_in_looking_for_a_name_that_must_not_be_there() -> None:
    class Spoilt(str):
        def __eq__(self, other: object) -> bool:
            raise RuntimeError("spoilt")

        __hash__ = str.__hash__

    launcher = RecordingDriver().launcher(3, 0, Misses())
    assert launcher.remember(tensors(), entry(), [({Spoilt("BM"): 1}, "BM", ABSENT)])
    assert launcher.call(*tensors()) == "miss"


def test_an_error_in_comparing_names_goes_to_miss() -> None:
    class Spoilt(str):
        def __eq__(self, other: object) -> bool:
            raise RuntimeError("spoilt")

        __hash__ = str.__hash__

    driver = RecordingDriver()
    launcher = driver.launcher(3, 0, Misses())
    value = object()
    assert launcher.remember(tensors(), entry(), [({Spoilt("BM"): value}, "BM", value)])
    assert launcher.call(*tensors()) == "miss"


# ---- the driver


def test_a_cluster_is_an_attribute() -> None:
    driver = RecordingDriver()
    launcher, _ = known(driver, tensors(), launch=entry(cluster=2))
    launcher.call(*tensors())
    assert driver.launches[0].cluster == (2, 1, 1)


def test_without_ctas_nothing_is_launched() -> None:
    driver = RecordingDriver()
    launcher, misses = known(driver, tensors(), launch=entry(ctas=0))
    assert launcher.call(*tensors()) is None
    assert driver.calls == []
    assert misses.calls == []


def test_another_context_is_current_for_the_launch_only() -> None:
    driver = RecordingDriver(context=0xAA)
    launcher, _ = known(driver, tensors())
    launcher.call(*tensors())
    assert driver.calls == ["push", "launch", "pop"]
    assert driver.launches[0].context == 0xC0
    assert driver.context == 0xAA


@pytest.mark.parametrize(
    ("context", "failing", "calls"),
    [
        (0xC0, "launch", ["launch"]),
        (0xC0, "get", []),
        (0xAA, "get", []),
        (0xAA, "push", ["push"]),
        (0xAA, "launch", ["push", "launch", "pop"]),
        (0xAA, "pop", ["push", "launch", "pop"]),
    ],
)
def test_a_status_of_the_driver_is_told(context: int, failing: str, calls: list[str]) -> None:
    driver = RecordingDriver(context=context, statuses={failing: 719})
    told: list[tuple[int, LaunchEntry]] = []

    def error(status: int, launch: LaunchEntry) -> None:
        told.append((status, launch))
        raise LookupError("launch failed")

    misses = Misses()
    launcher = driver.launcher(3, 0, misses, error)
    launch = entry()
    launcher.remember(tensors(), launch)
    with pytest.raises(LookupError, match="launch failed"):
        launcher.call(*tensors())
    assert told == [(719, launch)]
    assert driver.calls == calls
    assert driver.context == context
    assert misses.calls == []
    assert launcher.call(*tensors()) is None


def test_the_first_of_two_statuses_is_told() -> None:
    driver = RecordingDriver(context=0xAA, statuses={"launch": 1, "pop": 2})
    told: list[int] = []

    def error(status: int, launch: LaunchEntry) -> None:
        told.append(status)
        raise LookupError

    launcher = driver.launcher(3, 0, Misses(), error)
    launcher.remember(tensors(), entry())
    with pytest.raises(LookupError):
        launcher.call(*tensors())
    assert told == [1]


def test_an_error_that_does_not_raise_is_still_an_error() -> None:
    driver = RecordingDriver(statuses={"launch": 1})
    launcher = driver.launcher(3, 0, Misses(), lambda status, launch: None)
    launcher.remember(tensors(), entry())
    with pytest.raises(SystemError):
        launcher.call(*tensors())


# ---- outputs that are made


def test_outputs_are_made_as_remembered() -> None:
    driver = RecordingDriver()
    a, b, d = tensors()
    launcher, misses = known(driver, [a, b, d], outputs=1)
    assert launcher.call(a, b) == "miss"
    assert launcher.remember_outputs([a, b], lambda: d)
    assert launcher.call(a, b) is d
    assert driver.launches[0].function == 0xF0
    assert driver.launches[0].stream == 0x70
    assert misses.calls == [((a, b), {})]


def test_made_outputs_that_are_new_are_the_out_of_miss() -> None:
    driver = RecordingDriver()
    a, b, d = tensors()
    launcher, misses = known(driver, [a, b, d], outputs=1)
    other = FakeTensor(0x7000)
    launcher.remember_outputs([a, b], lambda: other)
    assert launcher.call(a, b) == "miss"
    assert misses.calls == [((a, b), {"out": other})]
    assert driver.launches == []


def test_several_outputs_are_made_as_a_tuple() -> None:
    driver = RecordingDriver()
    a, b, d = tensors()
    launcher, misses = known(driver, [a, b, d], outputs=2)
    out = (b, d)
    launcher.remember_outputs([a], lambda: out)
    assert launcher.call(a) is out
    assert len(driver.launches) == 1
    launcher.remember_outputs([a], lambda: [b, d])
    assert launcher.call(a) == "miss"
    assert misses.calls == [((a,), {"out": [b, d]})]


def test_outputs_are_not_made_for_other_calls() -> None:
    driver = RecordingDriver()
    a, b, d = tensors()
    launcher, misses = known(driver, [a, b, d], outputs=1)
    namespace: dict[str, Any] = {"BM": 64}
    launcher.remember_outputs([a, b], lambda: pytest.fail("made"), [(namespace, "BM", 64)])
    assert launcher.call(a, b, stream=5) == "miss"
    assert launcher.call(a, b, stream=None) == "miss"
    assert launcher.call(b, a) == "miss"
    namespace["BM"] = 32
    assert launcher.call(a, b) == "miss"
    assert [keywords for _, keywords in misses.calls] == [{"stream": 5}, {"stream": None}, {}, {}]


def test_what_making_outputs_raises_is_raised() -> None:
    def allocate() -> object:
        raise MemoryError("out of memory")

    a, b, d = tensors()
    launcher, misses = known(RecordingDriver(), [a, b, d], outputs=1)
    launcher.remember_outputs([a, b], allocate)
    with pytest.raises(MemoryError, match="out of memory"):
        launcher.call(a, b)
    assert misses.calls == []


def test_an_error_of_the_driver_with_made_outputs() -> None:
    driver = RecordingDriver(statuses={"launch": 700})

    def error(status: int, launch: LaunchEntry) -> None:
        raise LookupError(status)

    a, b, d = tensors()
    launcher = driver.launcher(2, 1, Misses(), error)
    launcher.remember([a, b, d], entry())
    launcher.remember_outputs([a, b], lambda: d)
    with pytest.raises(LookupError, match="700"):
        launcher.call(a, b)


# ---- the table


def test_a_full_table_is_forgotten() -> None:
    driver = RecordingDriver()
    launcher = driver.launcher(1, 0, Misses(), capacity=3)
    sizes: list[int] = []
    for i in range(8):
        launcher.remember([FakeTensor(0x1000 * i)], entry(i))
        launcher.remember([FakeTensor(0x1000 * i)], entry(i))
        sizes.append(len(launcher))
        launcher.call(FakeTensor(0x1000 * i))
    assert sizes == [1, 2, 3, 1, 2, 3, 1, 2]
    assert [launch.function for launch in driver.launches] == list(range(8))
    found = [launcher.call(FakeTensor(0x1000 * i)) is None for i in range(8)]
    assert found == [False] * 6 + [True, True]


def test_clear_forgets_all() -> None:
    driver = RecordingDriver()
    launcher, _ = known(driver, tensors())
    launcher.clear()
    assert len(launcher) == 0
    assert launcher.call(*tensors()) == "miss"
    launcher.remember(tensors(), entry())
    assert launcher.call(*tensors()) is None


def test_keys_that_collide_are_told_apart() -> None:
    """With two slots for a launch, many of a hundred launches begin their search in one slot."""
    driver = RecordingDriver()
    launcher = driver.launcher(1, 0, Misses(), capacity=100)
    shapes = list(itertools.product(range(5), range(5), range(4)))
    for number, shape in enumerate(shapes):
        launcher.remember([FakeTensor(shape=shape, strides=(1, 1, 1))], entry(number))
    for shape in shapes:
        launcher.call(FakeTensor(shape=shape, strides=(1, 1, 1)))
    assert [launch.function for launch in driver.launches] == list(range(100))
