"""Where a launch goes: the stream, the device and its context, in whichever thread or process, and what is left as it was."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from fake_compiler import FakeCompiler
from fake_driver import DEVICE_MEMORY, FakeArray, FakeDriver, FakeTensor, FakeTorch
from gemm_text import gemm

import tilec
from tilec.backend.runtime.driver import DriverError, LaunchShape
from tilec.backend.runtime.tensor_map import MapFields
from tilec.diagnostics import TilecError
from tilec.kernel import Kernel

NOTHING = "tile.kernel @nothing() {\n}"
SHAPES = ((256, 128), (384, 128), (256, 384))


@dataclass
class Recorder(FakeDriver):
    """A driver in whose context device 0 is current; it writes down all that it is asked for, and where."""

    log: list[tuple[str, int, int]] = field(default_factory=lambda: list[tuple[str, int, int]]())
    """(call, device, stream or 0)"""

    def __post_init__(self) -> None:
        self.stack.append(0)

    def load(self, image: bytes, entry: str) -> object:
        self.log.append(("load", self.stack[-1], 0))
        return super().load(image, entry)

    def encode(self, fields: MapFields) -> bytes:
        self.log.append(("encode", self.stack[-1], 0))
        return super().encode(fields)

    def launch(self, function: object, shape: LaunchShape, stream: int, parameters: int) -> None:
        super().launch(function, shape, stream, parameters)
        self.log.append(("launch", self.stack[-1], stream))

    def order(self, after: int, before: int) -> None:
        super().order(after, before)
        self.log.append(("order", self.stack[-1], after))


@pytest.fixture
def driver() -> Recorder:
    return Recorder()


@pytest.fixture
def kernel(driver: Recorder, compiler: FakeCompiler, torch: FakeTorch) -> Kernel:
    return tilec.compile(gemm(), driver=driver)


def tensors(device: int = 0) -> list[FakeTensor]:
    base = device * DEVICE_MEMORY
    return [FakeTensor(s, address=base + 0x400000 * (i + 1), device=device) for i, s in enumerate(SHAPES)]


def arrays(device: int = 0, stream: int | None = None) -> list[FakeArray]:
    base = device * DEVICE_MEMORY
    return [FakeArray(s, address=base + 0x400000 * (i + 1), stream=stream) for i, s in enumerate(SHAPES)]


# Streams


def test_a_call_in_a_side_stream_is_one_launch_there(kernel: Kernel, driver: Recorder, torch: FakeTorch) -> None:
    """And nothing else: what a capture records is one kernel node. No event, no wait, no stream but that."""
    kernel(*tensors())
    driver.log.clear()
    for stream in (7, 9, 7, 0):
        torch.streams[0] = stream
        kernel(*tensors())
    assert driver.log == [("launch", 0, stream) for stream in (7, 9, 7, 0)]


def test_a_first_call_in_a_side_stream_only_loads_and_encodes_beside_it(
    kernel: Kernel, driver: Recorder, torch: FakeTorch
) -> None:
    torch.streams[0] = 7
    kernel(*tensors())
    assert driver.log == [("load", 0, 0), *[("encode", 0, 0)] * 3, ("launch", 0, 7)]


def test_the_current_stream_is_that_of_the_tensors_device(kernel: Kernel, driver: Recorder, torch: FakeTorch) -> None:
    torch.streams = {0: 70, 1: 71}
    for device in (1, 0, 1):
        kernel(*tensors(device))
    assert [entry for entry in driver.log if entry[0] == "launch"] == [("launch", d, 70 + d) for d in (1, 0, 1)]
    torch.streams[1] = 81
    kernel(*tensors(1))
    kernel(*tensors(1), stream=5)
    kernel(*tensors(1))
    assert [one.stream for one in driver.launched[3:]] == [81, 5, 81]


def test_a_kernel_without_elements_waits_for_nothing(kernel: Kernel, driver: Recorder) -> None:
    a, b, d = FakeArray((0, 128), stream=3), FakeArray((384, 128), stream=4), FakeArray((0, 384), stream=3)
    kernel(a, b, d, stream=9)
    assert [entry for entry in driver.log if entry[0] != "load"] == []


@pytest.mark.parametrize("stream", [0, 5])
def test_arrays_of_another_stream_are_waited_for_on_their_device(kernel: Kernel, driver: Recorder, stream: int) -> None:
    for _ in range(2):
        driver.log.clear()
        kernel(*arrays(1, stream=33), stream=stream)
        assert driver.log[-2:] == [("order", 1, stream), ("launch", 1, stream)]
        assert driver.ordered[-1] == (stream, 33)


def test_each_thread_has_a_current_stream_of_its_own(
    driver: Recorder, compiler: FakeCompiler, torch: FakeTorch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asked first does not decide for the others."""
    mine = threading.local()
    monkeypatch.setattr(torch, "_cuda_getCurrentRawStream", lambda _device: mine.stream)
    kernel = tilec.compile(gemm(), driver=driver)
    start = threading.Barrier(8)

    def work(stream: int) -> None:
        mine.stream = stream
        start.wait()
        for _ in range(50):
            kernel(*tensors())

    # A context is of its thread: the fake stack is not, and stays as it is while all are on device 0.
    run_threads([lambda s=s: work(s) for s in range(1, 9)])
    assert sorted(one.stream for one in driver.launched) == [s for s in range(1, 9) for _ in range(50)]


# Devices


def test_devices_in_turn(kernel: Kernel, driver: Recorder, compiler: FakeCompiler) -> None:
    """Loaded, encoded and launched on the device of the tensors, once each; device 0 is current again afterwards."""
    for device in (1, 0, 1, 0, 1, 1):
        kernel(*tensors(device))
        assert driver.stack == [0]
    first = [[("load", d, 0), *[("encode", d, 0)] * 3, ("launch", d, 0)] for d in (1, 0)]
    assert driver.log == [*first[0], *first[1], *(("launch", d, 0) for d in (1, 0, 1, 1))]
    assert len(compiler.compiled) == 1
    assert len({function for _, function in {(one.device, one.function) for one in driver.launched}}) == 2


@pytest.mark.parametrize("make", [tensors, arrays])
def test_one_argument_on_another_device(kernel: Kernel, driver: Recorder, make: Callable[[int], list[object]]) -> None:
    """Wherever it stands, both are named, and so are both devices."""
    names = "ABD"
    for here, there in ((0, 1), (1, 0)):
        for place in range(3):
            mixed = make(here)
            mixed[place] = make(there)[place]
            with pytest.raises(TilecError) as caught:
                kernel(*mixed)
            # The first argument is compared with the first that is elsewhere.
            other = place or 1
            first, second = (there, here) if place == 0 else (here, there)
            assert str(caught.value) == (
                f"error: arguments A and {names[other]} are on different devices: {first} and {second}\n"
                "hint: move them to one device"
            )
    assert (driver.log, driver.stack) == ([], [0])


def test_one_argument_in_host_memory_is_another_error(kernel: Kernel, driver: Recorder) -> None:
    for host in (FakeTensor(SHAPES[1], device=None), np.zeros(SHAPES[1], np.float16)):
        a, _, d = tensors(1)
        with pytest.raises(TilecError) as caught:
            kernel(a, host, d)
        assert str(caught.value) == (
            "error: arguments A and B are in different places: A on GPU 1, B in host memory\n"
            "hint: move B to the GPU, or the others to the host: a call copies nothing"
        )
    assert (driver.log, driver.stack) == ([], [0])


def test_a_failed_call_leaves_the_device_as_it_was(
    kernel: Kernel, driver: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> bytes:
        raise DriverError("CUDA_ERROR_OUT_OF_MEMORY", "the CUDA driver refused it: CUDA_ERROR_OUT_OF_MEMORY")

    for call in ("load", "reserve_smem", "occupancy", "encode"):  # in the order of a first call
        with monkeypatch.context() as patch, pytest.raises(TilecError, match="CUDA_ERROR_OUT_OF_MEMORY"):
            patch.setattr(driver, call, refused)
            kernel(*tensors(1))
        assert driver.stack == [0]
    driver.refusal = "CUDA_ERROR_LAUNCH_FAILED"
    with pytest.raises(TilecError, match="CUDA_ERROR_LAUNCH_FAILED"):
        kernel(*tensors(1))
    assert driver.stack == [0]
    # Nothing of it is remembered as done.
    driver.refusal = None
    kernel(*tensors(1))
    assert driver.log[-1] == ("launch", 1, 0)


def test_devices_of_two_kinds(compiler: FakeCompiler, torch: FakeTorch) -> None:
    driver = Recorder(capabilities=((9, 0), (10, 0)))
    kernel = tilec.compile(gemm(), driver=driver)
    for device in (0, 1, 0, 1):
        kernel(*tensors(device))
    assert [c.abi.target for c in compiler.compiled] == ["sm_90a", "sm_100a"]
    assert driver.loaded == [(0, b"cubin 0"), (1, b"cubin 1")]
    assert [str(one.function) for one in driver.launched] == ["gemm#1", "gemm#2"] * 2


# Kernels without arguments, fresh threads and processes


def test_a_kernel_without_arguments_makes_a_context_current(
    driver: Recorder, compiler: FakeCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("TILEC_CACHE_DIR", "off")
    monkeypatch.setattr("tilec.backend.ptxas.find_ptxas", lambda: None)
    driver.stack.clear()  # a process that has not used CUDA
    nothing = tilec.compile(NOTHING, driver=driver)
    nothing()
    run_threads([nothing, nothing])
    assert driver.log == [("load", 0, 0), *[("launch", 0, 0)] * 3]
    assert [one.parameters for one in driver.launched] == [()] * 3
    assert driver.stack == []


FRESH = """
import os, sys, threading
import tilec
nothing = tilec.compile("tile.kernel @nothing() {{\\n}}")

def attempt():
    try:
        nothing()
        print("launched", flush=True)
    except tilec.TilecError as error:
        print(str(error).splitlines()[0], flush=True)

for step in {steps}:
    if step == "call":
        attempt()
    elif step == "thread":
        thread = threading.Thread(target=attempt)
        thread.start()
        thread.join()
    elif os.fork() == 0:
        attempt()
        os._exit(0)
    else:
        assert os.wait()[1] == 0
"""


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="for machines without a GPU")
@pytest.mark.parametrize("steps", [["call", "thread", "fork"], ["thread", "call"], ["fork", "call"]])
def test_without_a_gpu_the_reason_is_told_wherever_the_first_call_is(steps: list[str]) -> None:
    """Nothing hangs, and no call leaves a state in which another one is told something else."""
    environment = {**os.environ, "TILEC_CACHE_DIR": "off"}
    ran = subprocess.run(
        [sys.executable, "-c", FRESH.format(steps=steps)], capture_output=True, text=True, timeout=60, env=environment
    )
    lines = ran.stdout.splitlines()
    assert ran.returncode == 0, ran.stderr
    assert len(lines) == len(steps) and len(set(lines)) == 1
    assert lines[0].startswith(
        ("error: launching a kernel needs the CUDA bindings: ", "error: there is no CUDA driver here: ")
    )


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork")
def test_a_forked_process_launches_what_was_launched_before(kernel: Kernel, driver: Recorder) -> None:
    """As far as it is ours to say: the real driver refuses all use of CUDA in it."""
    kernel(*tensors())
    child = os.fork()
    if child == 0:
        code = 1
        try:
            kernel(*tensors())
            kernel(*tensors(1))
            code = 0 if len(driver.launched) == 3 else 2
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert len(driver.launched) == 1


def test_one_module_for_all_threads_of_each_device(
    driver: Recorder, compiler: FakeCompiler, torch: FakeTorch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First calls at the same moment, half of them on either device: each thread with a context of its own."""
    local = threading.local()

    class Stack(list[int]):
        """One for each thread, as the driver has it."""

        def __getitem__(self, index: object) -> int:
            return local.stack[index]

        def __len__(self) -> int:
            return len(local.stack)

        def append(self, value: int) -> None:
            local.__dict__.setdefault("stack", []).append(value)

        def pop(self, index: object = -1) -> int:
            return local.stack.pop()

    driver.stack = Stack()
    compiler.delay = 0.02
    kernel = tilec.compile(gemm(), driver=driver)
    start = threading.Barrier(8)

    def work(device: int) -> None:
        start.wait()
        for _ in range(5):
            kernel(*tensors(device))
            assert local.stack == []

    run_threads([lambda d=i % 2: work(d) for i in range(8)])
    assert sorted(device for device, _ in driver.loaded) == [0, 1]
    assert len(compiler.compiled) == 1
    functions = {(one.device, one.function) for one in driver.launched}
    assert len(functions) == 2 and len(driver.launched) == 40


def run_threads(jobs: Sequence[Callable[[], object]]) -> None:
    """Run them all at a time; raise what any of them raised."""
    errors: list[BaseException] = []

    def guarded(job: Callable[[], object]) -> None:
        try:
            job()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=[job]) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    if errors:
        raise errors[0]


def test_every_pair_of_streams_and_devices(kernel: Kernel, driver: Recorder, torch: FakeTorch) -> None:
    """Whatever came before, a launch is where its tensors are and in the stream that is current now."""
    cases = list(product((0, 1), (0, 11, 12)))
    for before, now in product(cases, cases):
        for device, stream in (before, now):
            torch.streams[device] = stream
            kernel(*tensors(device))
        assert [(one.device, one.stream) for one in driver.launched[-2:]] == [before, now]
