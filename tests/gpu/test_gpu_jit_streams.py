"""Python kernels in streams and CUDA graphs."""

from __future__ import annotations

from typing import Any

import pytest
from harness import Buffer, finish, torch
from jit_kernels import check, expected, gemm, integers

DELAY = 20_000_000
"""Cycles, about 10 ms: longer than a launch takes on the host."""


def empty(*shape: int) -> Any:
    return torch.full(shape, float("nan"), dtype=torch.float16, device="cuda")


@pytest.fixture
def warm() -> None:
    """The variant for tensors on the grid is loaded: no call has to wait for it."""
    gemm(integers(8, 8), integers(8, 8))
    torch.cuda.synchronize()


@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize("given", [True, False], ids=["out", "new output"])
def test_current_stream_at_each_call(given: bool) -> None:
    """A delayed copy makes A, the kernel waits for it, a copy behind it sees the product: twice, in two streams."""
    source, b = integers(256, 192), integers(128, 192)
    a, d, copy = empty(256, 192), empty(256, 128), empty(256, 128)
    for _ in range(2):
        side = torch.cuda.Stream()
        for values in (a, d, copy):
            values.fill_(float("nan"))
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            torch.cuda._sleep(DELAY)
            a.copy_(source)
            made = gemm(a, b, out=d) if given else gemm(a, b)
            copy.copy_(made)
            check(copy, source, b)


@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize("given", [True, False], ids=["out", "new output"])
@pytest.mark.parametrize("form", ["object", "handle"])
def test_explicit_stream(form: str, given: bool) -> None:
    source, b = integers(256, 192), integers(128, 192)
    side = torch.cuda.Stream()
    a, d, copy = empty(256, 192), empty(256, 128), empty(256, 128)
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(DELAY)
        a.copy_(source)
    stream = side if form == "object" else side.cuda_stream
    before = torch.cuda.current_stream()
    made = gemm(a, b, out=d, stream=stream) if given else gemm(a, b, stream=stream)
    assert torch.cuda.current_stream() == before
    with torch.cuda.stream(side):
        copy.copy_(made)
        check(copy, source, b)


@pytest.mark.usefixtures("warm")
def test_a_stream_that_is_not_named_is_not_waited_for() -> None:
    """The kernel runs in its own stream while another one is delayed."""
    a, b = integers(256, 192), integers(128, 192)
    d = empty(256, 128)
    slow, fast = torch.cuda.Stream(), torch.cuda.Stream()
    delayed = torch.cuda.Event()
    torch.cuda.synchronize()
    with torch.cuda.stream(slow):
        torch.cuda._sleep(1_000_000_000)
        delayed.record()
    gemm(a, b, out=d, stream=fast)
    with torch.cuda.stream(fast):
        finish()
    assert not delayed.query()
    torch.cuda.synchronize()
    check(d, a, b)


@pytest.mark.usefixtures("warm")
def test_outputs_belong_to_their_stream() -> None:
    """The memory of an output that was made for a side stream is not given away before that stream is done with it."""
    source, b = integers(256, 192), integers(128, 192)
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(DELAY)
    made = gemm(source, b, stream=side)
    address = made.data_ptr()
    del made
    others = [empty(256, 128) for _ in range(8)]
    assert all(o.data_ptr() != address for o in others)
    torch.cuda.synchronize()
    assert all(bool(o.isnan().all()) for o in others)


def kernel_nodes(graph: Any) -> int:
    """How many nodes of a graph are kernels; all must be. Skips where the driver's bindings are missing."""
    driver: Any = pytest.importorskip("cuda.bindings.driver")
    count = driver.cuGraphGetNodes(graph, 0)[2]
    nodes = driver.cuGraphGetNodes(graph, count)[1][:count]
    kinds = [driver.cuGraphNodeGetType(node)[1] for node in nodes]
    assert all(kind == driver.CUgraphNodeType.CU_GRAPH_NODE_TYPE_KERNEL for kind in kinds), kinds
    return len(kinds)


@pytest.mark.usefixtures("warm")
def test_a_call_is_one_node_of_a_graph() -> None:
    driver: Any = pytest.importorskip("cuda.bindings.driver")
    a, b, d = integers(256, 192), integers(128, 192), empty(256, 128)
    side = torch.cuda.Stream()
    mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
    torch.cuda.synchronize()
    for _ in range(2):
        with torch.cuda.stream(side):
            assert int(driver.cuStreamBeginCapture(side.cuda_stream, mode)[0]) == 0
            gemm(a, b, out=d)
            status, graph = driver.cuStreamEndCapture(side.cuda_stream)
        assert int(status) == 0
        assert kernel_nodes(graph) == 1


@pytest.mark.usefixtures("warm")
def test_a_call_that_makes_its_output_is_one_node() -> None:
    a, b = integers(256, 192), integers(128, 192)
    try:
        graph = torch.cuda.CUDAGraph(keep_graph=True)
    except TypeError:
        pytest.skip(f"torch {torch.__version__} does not show its graphs")
    with torch.cuda.graph(graph):
        d = gemm(a, b)
    driver: Any = pytest.importorskip("cuda.bindings.driver")
    assert kernel_nodes(driver.CUgraph(graph.raw_cuda_graph())) == 1
    graph.instantiate()
    graph.replay()
    check(d, a, b)


@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize("given", [True, False], ids=["out", "new output"])
def test_graph_is_replayed_with_other_values(given: bool) -> None:
    a, b, d = integers(256, 192), integers(128, 192), empty(256, 128)
    gemm(a, b, out=d)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        made = gemm(a, b, out=d) if given else gemm(a, b)
    for _ in range(3):
        made.fill_(float("nan"))
        a.copy_(integers(256, 192))
        b.copy_(integers(128, 192))
        graph.replay()
        check(made, a, b)


@pytest.mark.usefixtures("warm")
def test_graph_of_shapes_that_are_new() -> None:
    """What a class of tensors needs is loaded by its first call: no later shape needs anything that capture forbids."""
    shapes = [(264, 72), (8, 512), (1000, 136)]
    problems = [(integers(m, k), integers(136, k)) for m, k in shapes]
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs = [gemm(a, b) for a, b in problems]
    graph.replay()
    for d, (a, b) in zip(outputs, problems, strict=True):
        check(d, a, b)


@pytest.mark.usefixtures("warm")
def test_graph_of_a_chain() -> None:
    """Each call in a graph reads what the one before wrote, and what torch's own kernels make in between."""
    a, b = integers(128, 64), integers(128, 64)
    ones = torch.eye(128, dtype=torch.float16, device="cuda")
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        first = gemm(a, b)
        last = gemm(first + 1, ones)
    for _ in range(2):
        a.copy_(integers(128, 64))
        graph.replay()
        finish()
        assert torch.equal(last, expected(a, b) + 1)


@pytest.mark.usefixtures("warm")
def test_repeated_calls_in_one_stream_are_in_order() -> None:
    """300 calls, each with the output of the one before as its input, without a wait in between."""
    shift = torch.roll(torch.eye(128, dtype=torch.float16, device="cuda"), 1, 0)
    first = integers(128, 128)
    buffers = [first.clone(), empty(128, 128)]
    for i in range(300):
        gemm(buffers[i % 2], shift, out=buffers[(i + 1) % 2])
    finish()
    # A row of `shift` picks a column: each call turns the columns by one.
    assert torch.equal(buffers[0], torch.roll(first, 300, 1))


@pytest.mark.usefixtures("warm")
def test_warm_calls_write_nothing_beside_their_output() -> None:
    a, b = integers(200, 136), integers(264, 136)
    buffer = Buffer(200, 264, "f16", pitch=512)
    for _ in range(3):
        buffer.poison()
        gemm(a, b, out=buffer.tensor)
        check(buffer.tensor, a, b)
    buffer.check_beside()
