"""Calls of Python kernels: every kind of argument, what is refused, and functions that change between calls."""

from __future__ import annotations

import copy
import importlib
import pickle
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kernels
import numpy as np
import operator_kernels
import pytest

import tilec
from tilec.diagnostics import TilecError

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "runtime"))
from fake_driver import FakeArray, FakeDriver

torch: Any = pytest.importorskip("torch")
PIPELINE = "tma,pipeline(2),persistent"
gemm = tilec.jit(pipeline=PIPELINE)(kernels.gemm.__wrapped__)
product = tilec.jit(pipeline="tma")(operator_kernels.product)


def integers(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).integers(-4, 5, shape).astype(np.float16)


def wanted(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a.astype(np.float64) @ b.astype(np.float64).T


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(TilecError) as caught:
        call()
    return str(caught.value)


class OnlyDLPack:
    """What a library has that tilec does not know."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    def __dlpack__(self, **options: Any) -> Any:
        return self.tensor.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.tensor.__dlpack_device__()


class OnlyInterface:
    def __init__(self, array: np.ndarray) -> None:
        self.__array_interface__ = array.__array_interface__
        self.array = array


KINDS: dict[str, Callable[[np.ndarray], Any]] = {
    "NumPy": lambda a: a,
    "torch": lambda a: torch.from_numpy(a.copy()),
    "torch parameter": lambda a: torch.nn.Parameter(torch.from_numpy(a.copy()), requires_grad=False),
    "DLPack": lambda a: OnlyDLPack(torch.from_numpy(a.copy())),
    "array interface": lambda a: OnlyInterface(a.copy()),
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_argument(kind: str) -> None:
    a, b, d = integers(72, 40), integers(136, 40), np.full((72, 136), np.nan, np.float16)
    out = KINDS[kind](d)
    assert gemm(KINDS[kind](a), KINDS[kind](b), out=out) is out
    held = {"NumPy": out, "DLPack": getattr(out, "tensor", None), "array interface": getattr(out, "array", None)}
    assert np.array_equal(np.asarray(held.get(kind, out)), wanted(a, b))


def test_outputs_are_of_the_inputs_framework() -> None:
    a, b = integers(72, 40), integers(136, 40)
    assert type(gemm(a, b)) is np.ndarray
    made = gemm(torch.from_numpy(a), torch.from_numpy(b))
    assert type(made) is torch.Tensor and made.dtype is torch.float16 and np.array_equal(made.numpy(), wanted(a, b))
    bf16 = gemm(torch.from_numpy(a).bfloat16(), torch.from_numpy(b).bfloat16())
    assert bf16.dtype is torch.bfloat16
    assert torch.equal(bf16, torch.from_numpy(wanted(a, b)).bfloat16())
    assert type(gemm(a, torch.from_numpy(b))) is torch.Tensor


def test_views_are_read_where_they_are() -> None:
    a, b = integers(40, 72), integers(136, 200)
    d = np.full((72, 300), np.nan, np.float16)
    out = d[:, 100:236]
    gemm(a.T, b[:, 8:48], out=out)
    assert np.array_equal(out, wanted(a.T, b[:, 8:48]))
    assert np.isnan(d[:, :100]).all() and np.isnan(d[:, 236:]).all()
    batch = torch.from_numpy(integers(3, 72, 40))
    weights = torch.from_numpy(integers(136, 40))
    for matrix in batch:
        assert torch.equal(gemm(matrix, weights).double(), matrix.double() @ weights.double().t())


def test_a_broadcast_input() -> None:
    row, b = integers(1, 40), integers(136, 40)
    assert np.array_equal(gemm(np.broadcast_to(row, (72, 40)), b), wanted(np.repeat(row, 72, 0), b))


@pytest.mark.parametrize("m", [0, 72])
@pytest.mark.parametrize("n", [0, 136])
@pytest.mark.parametrize("k", [0, 40])
def test_empty_problems(m: int, n: int, k: int) -> None:
    d = np.full((m, n), np.nan, np.float16)
    gemm(integers(m, k), integers(n, k), out=d)
    assert np.array_equal(d, wanted(integers(m, k), integers(n, k)))


def shifted() -> np.ndarray:
    return np.zeros(72 * 40 + 1, np.float16).view(np.uint8)[1:-1].view(np.float16).reshape(72, 40)


def half_of_one_array() -> tuple[np.ndarray, np.ndarray]:
    memory = np.zeros(72 * 136 + 72 * 40, np.float16)
    return memory[: 72 * 40].reshape(72, 40), memory[72 * 39 : 72 * 39 + 72 * 136].reshape(72, 136)


A, B = integers(72, 40), integers(136, 40)
HINT_COPY = "\nhint: pass a contiguous copy, such as tensor.contiguous()"
WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "rank": (
        lambda: gemm(A[0], B),
        "argument A has 1 dimension; the kernel takes 2\nhint: A[None, :] is a row and A[:, None] a column: both are views",
    ),
    "batch": (
        lambda: gemm(integers(2, 72, 40), B),
        "argument A has 3 dimensions; the kernel takes 2\n"
        "hint: call the kernel for each A[i], or once for A.reshape(144, 40), which is a view too",
    ),
    "dtype": (
        lambda: gemm(A.astype(np.float64), B),
        "argument A holds float64; a view holds f16, bf16 or f32\nhint: convert it before the call: a call copies nothing",
    ),
    "dtype of an output": (
        lambda: gemm(A, B, out=np.zeros((72, 136), np.float32)),
        "argument D holds f32; the kernel takes f16\nhint: convert it before the call: a call copies nothing",
    ),
    "K": (
        lambda: gemm(A, integers(136, 48)),
        "arguments A and B disagree about K: dimension 1 of A has 40 elements, dimension 1 of B has 48",
    ),
    "every second column": (
        lambda: gemm(A[:, ::2], B[:, :20]),
        f"argument A: no dimension is contiguous (strides 40, 2 elements): one needs stride 1{HINT_COPY}",
    ),
    "negative stride": (
        lambda: gemm(A[::-1], B),
        "argument A: dimension 0 has a negative stride of -80 bytes",
    ),
    "misaligned base": (
        lambda: gemm(shifted(), B),
        "argument A: address 0x",
    ),
    "grad": (
        lambda: gemm(torch.from_numpy(A).requires_grad_(), torch.from_numpy(B)),
        "argument A requires grad",
    ),
    "too few": (lambda: gemm(A), "gemm takes 2 tensors (A, B), not 1"),
    "too many": (lambda: gemm(A, B, A), "gemm takes 2 tensors (A, B), not 3"),
    "twice": (lambda: gemm(A, B, A=A), "gemm got two values for A"),
    "unknown": (
        lambda: gemm(A, B, otu=A),
        "gemm has no parameter 'otu'\nhint: did you mean 'out'? known: A, B, out, stream, max_ctas",
    ),
    "outputs": (lambda: gemm(A, B, out=(A, B)), "gemm has 1 outputs (D), not 2"),
    "no tensor": (lambda: gemm(A, 3), "argument B is an int, not a tensor"),
    "max_ctas": (lambda: gemm(A, B, max_ctas="all"), "max_ctas is an integer, not a str"),
    "max_ctas of a grid": (
        lambda: product(A, B, max_ctas=3),
        "max_ctas bounds the grid of a persistent kernel; this one has a CTA for each tile\n"
        "hint: add persistent to the pipeline",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_refused(case: str) -> None:
    call, message = WRONG[case]
    assert refused(call).startswith(f"error: {message}")


def test_an_output_that_overlaps_an_input() -> None:
    a, d = half_of_one_array()
    said = refused(lambda: gemm(a, B, out=d))
    assert said.startswith("error: arguments A and D overlap")
    both = np.zeros((72, 200), np.float16)
    both[:, :40] = A
    gemm(both[:, :40], B, out=both[:, 64:])  # side by side is not overlapping
    assert np.array_equal(both[:, 64:], wanted(A, B))


def test_arguments_by_name_and_position() -> None:
    assert np.array_equal(gemm(B=B, A=A), wanted(A, B))
    assert np.array_equal(product(A, B, block=128), wanted(A, B))
    assert product.kernel(A, B, block=128) is not product.kernel(A, B)
    assert product.kernel(A, B, block=64) is product.kernel(A, B)


def test_a_kernel_that_writes_into_its_argument() -> None:
    into = tilec.jit(operator_kernels.product_into)
    d = np.full((72, 136), np.nan, np.float16)
    assert into(A, B, d) is None
    assert np.array_equal(d, wanted(A, B))
    assert refused(lambda: into(A, B, d, out=d)) == (
        "error: product_into makes no outputs: it writes into its arguments, and takes no out="
    )


def test_gradients_are_refused_only_where_they_would_be_lost() -> None:
    a, b = torch.from_numpy(A).requires_grad_(), torch.from_numpy(B)
    with torch.no_grad():
        assert np.array_equal(gemm(a, b).numpy(), wanted(A, B))
    assert np.array_equal(gemm(a.detach(), b).numpy(), wanted(A, B))


MODULE = """
import tilec
from tilec import tile

FACTOR = 2.0

@tilec.jit
def scaled(A: tile.View["M", "K"]):
    D = tile.empty("M", "K", dtype=A.dtype)
    for m, k in tile.grid(D, step=(64, 64)):
        a = tile.smem(64, 64, A.dtype)
        tile.copy(A[m, k], a)
        tile.copy(tile.load(a) * FACTOR, D[m, k])
    return D
"""


@pytest.fixture(params=["memory", "disk"])
def module(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Path]:
    """A module with a kernel, and its file; with and without a cache on disk."""
    if request.param == "disk":
        monkeypatch.setenv("TILEC_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    name = f"edited_kernel_{request.param}"
    path = tmp_path / f"{name}.py"
    path.write_text(MODULE)
    sys.modules.pop(name, None)
    return importlib.import_module(name), path


def test_a_kernel_edited_between_calls(module: tuple[Any, Path]) -> None:
    loaded, path = module
    assert np.array_equal(loaded.scaled(A), 2 * A)
    path.write_text(MODULE.replace("tile.load(a) *", "tile.load(a) +"))
    assert np.array_equal(loaded.scaled(A), 2 * A)  # Python still has the old function
    loaded = importlib.reload(loaded)
    assert np.array_equal(loaded.scaled(A), A + 2)
    path.write_text(MODULE)
    loaded = importlib.reload(loaded)
    assert np.array_equal(loaded.scaled(A), 2 * A)


def test_a_file_edited_before_the_first_call(module: tuple[Any, Path]) -> None:
    loaded, path = module
    path.write_text(MODULE.replace("tile.load(a) *", "tile.load(a) +"))
    assert np.array_equal(loaded.scaled(A), 2 * A)


def test_a_global_that_changes_between_calls(module: tuple[Any, Path]) -> None:
    loaded, _ = module
    for factor in (2.0, 3.0, 2.0, 0.5):
        loaded.FACTOR = factor
        assert np.array_equal(loaded.scaled(A), (factor * A).astype(np.float16))


def test_eight_threads_call_one_kernel_first(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilec import driver

    compiled: list[object] = []
    compile_module = driver.compile_module
    monkeypatch.setattr(driver, "compile_module", lambda *a, **k: compiled.append(a) or compile_module(*a, **k))
    function = tilec.jit(pipeline=PIPELINE)(kernels.gemm.__wrapped__)
    start, results = threading.Barrier(8), list[Any]()

    def call() -> None:
        start.wait()
        results.append(function(A, B))

    threads = [threading.Thread(target=call) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 8 and all(np.array_equal(d, wanted(A, B)) for d in results)
    assert len(compiled) == 1


def test_functions_are_copied_and_pickled_by_name() -> None:
    assert copy.copy(kernels.gemm) is kernels.gemm and copy.deepcopy(kernels.gemm) is kernels.gemm
    assert pickle.loads(pickle.dumps(kernels.gemm)) is kernels.gemm


def test_tensors_on_a_gpu_of_a_test() -> None:
    driver = FakeDriver(cuda=(13, 3))
    function = tilec.jit(pipeline="tma", driver=driver)(kernels.gemm.__wrapped__)
    a, b, d = (FakeArray(s, address=0x1000000 * i) for i, s in enumerate(((72, 40), (136, 40), (72, 136)), 1))
    assert function(a, b, out=d) is d
    assert len(driver.launched) == 1
    assert refused(lambda: function(a, b)).startswith("error: the outputs of inputs that are FakeArrays cannot be made")
    assert refused(lambda: function(a, B, out=d)) == (
        "error: arguments A and B are in different places: A on a GPU, B in host memory\n"
        "hint: move B to the GPU, or the others to the host: a call copies nothing"
    )


def test_gpu_calls_can_be_sent_to_the_simulator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEC_SIMULATE", "1")

    class OnGPU(FakeArray):
        """What numba-cuda gives."""

        held: np.ndarray

        def copy_to_host(self) -> np.ndarray:
            return self.held.copy()

        def copy_to_device(self, array: np.ndarray) -> None:
            self.held[...] = array

    def on_gpu(array: np.ndarray, address: int) -> OnGPU:
        made = OnGPU(array.shape, address=address)
        made.held = array
        return made

    out = np.full((72, 136), np.nan, np.float16)
    driver = FakeDriver(cuda=(13, 3))
    function = tilec.jit(pipeline=PIPELINE, driver=driver)(kernels.gemm.__wrapped__)
    function(on_gpu(A, 0x10000), on_gpu(B, 0x20000), out=on_gpu(out, 0x40000))
    assert np.array_equal(out, wanted(A, B))
    assert driver.launched == []


def test_outputs_that_are_not_written_everywhere() -> None:
    holes = tilec.jit(operator_kernels.holes)
    path = Path(operator_kernels.__file__)
    line = next(i for i, text in enumerate(path.read_text().split("\n"), 1) if text.startswith("def holes")) + 2
    said = (
        f"{path}:{line}:9: error: 320 of 2880 elements of D are never written, the first at (64, 0)\n"
        '    D = tile.empty("M", "K", dtype=A.dtype)\n        ^\n'
        "hint: let the grid run over D, in steps of the tiles that are stored to it"
    )
    assert refused(lambda: holes(A)) == said
    d = np.zeros((72, 40), np.float16)
    holes(A, out=d)  # who gives an output knows what is in there
    assert np.array_equal(d[:64], A[:64]) and not d[64:].any()
    assert refused(lambda: holes(torch.from_numpy(A).bfloat16())) == said
