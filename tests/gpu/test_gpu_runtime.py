"""Launching: empty problems, streams, threads, graphs, other libraries' arrays, repetition, and the ladder by hand."""

from __future__ import annotations

import importlib
import runpy
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest
from harness import EXAMPLES, FAST, TOLERANCE, Buffer, Errors, Problem, finish, kernel, problem, refused, torch

import tilec


@pytest.mark.parametrize("pipeline", ["tma", FAST])
def test_empty_problems(pipeline: str) -> None:
    for m in (0, 1, 64):
        for n in (0, 1, 64):
            for k in (0, 1, 64):
                Problem(m, n, k).run(kernel(pipeline))
    problem(200, 136, 72).run(kernel(pipeline))


def test_fresh_thread(errors: Errors) -> None:
    """A thread that has never used CUDA, with a kernel that is not loaded yet."""
    fresh = tilec.compile(EXAMPLES / "gemm.tile", pipeline=FAST)
    failures: list[BaseException] = []
    case = problem(200, 136, 72)
    d = Buffer(200, 136, "f16")

    def work() -> None:
        try:
            fresh(case.a.tensor, case.b.tensor, d.tensor, stream=0)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    finish()
    assert not failures, failures[0]
    errors.add(case.check(d.tensor))


FIRST_ACTION = """
import os, threading, tilec
from tilec.backend.runtime.driver import cuda_driver
nothing = tilec.compile("tile.kernel @nothing() {\\n}")
thread = threading.Thread(target=nothing)
thread.start()
thread.join()
nothing()
with cuda_driver().current(0):
    from cuda.bindings import driver
    assert int(driver.cuCtxSynchronize()[0]) == 0
print("launched", flush=True)
if os.fork() == 0:
    try:
        nothing()
    except tilec.TilecError as error:
        print(error, flush=True)
    os._exit(0)
os.wait()
"""


def test_first_action_of_a_process() -> None:
    """A kernel without arguments makes its context itself, in any thread; a forked process is told why it cannot."""
    ran = subprocess.run([sys.executable, "-c", FIRST_ACTION], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("launched\n")
    assert "CUDA_ERROR_NOT_INITIALIZED" in ran.stdout and "start workers with 'spawn'" in ran.stdout


def test_current_stream_is_used_at_each_call(errors: Errors) -> None:
    case = problem(256, 128, 192)
    run = kernel(FAST)
    run(case.a.tensor, case.b.tensor, Buffer(256, 128, "f16").tensor)
    finish()
    for _ in range(2):
        side = torch.cuda.Stream()
        a, d, copy = (torch.empty(s, dtype=torch.float16, device="cuda") for s in ((256, 192), (256, 128), (256, 128)))
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            torch.cuda._sleep(20_000_000)
            a.copy_(case.a.tensor)
            run(a, case.b.tensor, d)
            copy.copy_(d)
            finish()
        errors.add(case.check(copy))


def test_explicit_streams(errors: Errors) -> None:
    case = problem(256, 128, 192)
    side = torch.cuda.Stream()
    for stream in (side, side.cuda_stream):
        a, d = (torch.empty(s, dtype=torch.float16, device="cuda") for s in ((256, 192), (256, 128)))
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            torch.cuda._sleep(20_000_000)
            a.copy_(case.a.tensor)
        kernel(FAST)(a, case.b.tensor, d, stream=stream)
        with torch.cuda.stream(side):
            finish()
        errors.add(case.check(d))


def test_graph_has_one_kernel_node() -> None:
    driver: Any = importlib.import_module("cuda.bindings.driver")
    case = problem(256, 128, 192)
    d = Buffer(256, 128, "f16")
    run = kernel(FAST)
    run(case.a.tensor, case.b.tensor, d.tensor)
    finish()
    side = torch.cuda.Stream()
    mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
    with torch.cuda.stream(side):
        assert int(driver.cuStreamBeginCapture(side.cuda_stream, mode)[0]) == 0
        run(case.a.tensor, case.b.tensor, d.tensor)
        status, graph = driver.cuStreamEndCapture(side.cuda_stream)
    assert int(status) == 0
    count = driver.cuGraphGetNodes(graph, 0)[2]
    nodes = driver.cuGraphGetNodes(graph, count)[1]
    kinds = [driver.cuGraphNodeGetType(node)[1] for node in nodes[:count]]
    assert kinds == [driver.CUgraphNodeType.CU_GRAPH_NODE_TYPE_KERNEL]


def test_graph_replay(errors: Errors) -> None:
    case = problem(256, 128, 192)
    d = Buffer(256, 128, "f16")
    run = kernel(FAST)
    run(case.a.tensor, case.b.tensor, d.tensor)
    finish()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run(case.a.tensor, case.b.tensor, d.tensor)
    for _ in range(3):
        d.poison()
        graph.replay()
        finish()
        errors.add(case.check(d.tensor))


@pytest.mark.parametrize("pipeline", ["tma", "tma,pipeline(2)", FAST, "retile(128,256,64),tma,pipeline(4),persistent"])
@pytest.mark.parametrize("shape", [(1000, 1016, 520), (2048, 2048, 2048)], ids=["edges", "2048"])
def test_repeated_launches_are_bitwise_equal(pipeline: str, shape: tuple[int, int, int]) -> None:
    case = problem(*shape)
    d = Buffer(*case.shape, "f16")
    kernel(pipeline)(case.a.tensor, case.b.tensor, d.tensor)
    finish()
    first = d.tensor.clone()
    case.check(first)
    for _ in range(50):
        d.poison()
        kernel(pipeline)(case.a.tensor, case.b.tensor, d.tensor)
        finish()
        assert torch.equal(d.tensor, first)


def test_nothing_is_left_over_from_a_kernel_that_made_nan(errors: Errors) -> None:
    case = problem(1000, 1016, 520)
    nan = torch.full_like(case.a.tensor, float("nan"))
    for pipeline in ("tma", FAST):
        for _ in range(10):
            kernel(pipeline)(nan, case.b.tensor, Buffer(1000, 1016, "f16").tensor)
            errors.add(case.run(kernel(pipeline)))


def test_numba_cuda_on_the_same_stream() -> None:
    """A numba-cuda kernel makes A, ours multiplies, another one doubles the product; all in one stream of numba's."""
    try:
        numba_cuda: Any = importlib.import_module("numba.cuda")

        @numba_cuda.jit
        def copy(source: Any, target: Any) -> None:
            i, j = numba_cuda.grid(2)
            if i < target.shape[0] and j < target.shape[1]:
                target[i, j] = source[i, j]

        @numba_cuda.jit
        def double(values: Any) -> None:
            i, j = numba_cuda.grid(2)
            if i < values.shape[0] and j < values.shape[1]:
                values[i, j] = values[i, j] * 2

        probe = numba_cuda.to_device(np.zeros((8, 8), np.float16))
        copy[(1, 1), (8, 8)](probe, probe)
    except Exception as error:
        pytest.skip(f"numba-cuda does not work here: {type(error).__name__}: {error}")
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, s).astype(np.float16) for s in ((256, 192), (128, 192)))
    stream = numba_cuda.stream()
    source, weights = numba_cuda.to_device(a, stream=stream), numba_cuda.to_device(b, stream=stream)
    made = numba_cuda.device_array((256, 192), np.float16, stream=stream)
    product = numba_cuda.device_array((256, 128), np.float32, stream=stream)
    copy[(16, 12), (16, 16), stream](source, made)
    kernel(FAST, "f16", "f32")(made, weights, product, stream=stream)
    double[(16, 8), (16, 16), stream](product)
    got = product.copy_to_host(stream=stream)
    stream.synchronize()
    assert (got == 2 * (a.astype(np.float64) @ b.astype(np.float64).T)).all()


@pytest.mark.parametrize(
    ("step", "pipeline"),
    [
        ("step4_tma", "tma"),
        ("step5_pipeline", "tma,pipeline(2)"),
        ("step6_persistent", "tma,pipeline(2),persistent"),
    ],
)
def test_the_ladder_by_hand_equals_the_passes(step: str, pipeline: str, errors: Errors) -> None:
    by_hand = tilec.compile(EXAMPLES / f"{step}.tile")
    for shape in ((256, 128, 192), (200, 136, 72), (1000, 1016, 520), (256, 256, 0), (1024, 1024, 1024)):
        case = problem(*shape)
        results: list[Any] = []
        for run in (by_hand, kernel(pipeline)):
            d = Buffer(*case.shape, "f16")
            run(case.a.tensor, case.b.tensor, d.tensor)
            finish()
            errors.add(case.check(d.tensor))
            results.append(d.tensor.clone())
            d.check_beside()
        assert torch.equal(*results)


def test_python_function(errors: Errors) -> None:
    gemm: Any = runpy.run_path(str(EXAMPLES / "gemm.py"))["gemm"]
    for dtype in ("f16", "bf16"):
        case = problem(1000, 1016, 520, dtype)
        for function in (gemm, tilec.jit(gemm.__wrapped__)):
            d = function(case.a.tensor, case.b.tensor)
            finish()
            errors.add(case.check(d))
    case = problem(200, 136, 72)
    out = torch.empty(200, 136, dtype=torch.float16, device="cuda")
    assert gemm(case.a.tensor, case.b.tensor, out=out) is out
    finish()
    errors.add(case.check(out))


def test_output_of_more_than_two_to_the_31_elements() -> None:
    size, corner = 65536, 256
    generator = torch.Generator(device="cuda").manual_seed(0)
    a, b = (torch.randn(size, 64, generator=generator, device="cuda").half() for _ in range(2))
    d = torch.full((size, size), float("nan"), dtype=torch.float16, device="cuda")
    kernel(FAST)(a, b, d)
    finish()
    ends = (slice(0, corner), slice(size - corner, size))
    for rows in ends:
        for columns in ends:
            want = a[rows].double() @ b[columns].double().t()
            assert float((d[rows, columns].double() - want).norm() / want.norm()) < TOLERANCE["f16"]
    assert not any(bool(torch.isnan(d[i : i + 4096]).any()) for i in range(0, size, 4096))


def test_tensors_on_the_second_gpu(errors: Errors) -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("there is one GPU")
    case = problem(200, 136, 72)
    first = (case.a.tensor, case.b.tensor, torch.empty(200, 136, dtype=torch.float16, device="cuda:0"))
    second = tuple(t.to("cuda:1") for t in first)
    for tensors in (second, first, second):
        kernel(FAST)(*tensors)
        torch.cuda.synchronize(tensors[0].device)
        errors.add(case.check(tensors[2].to("cuda:0")))
        assert torch.cuda.current_device() == 0
    with refused("arguments A and B are on different devices: 0 and 1"):
        kernel(FAST)(first[0], *second[1:])
