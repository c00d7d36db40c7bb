"""Layouts in which others have computed wrong numbers in silence: here each gives the right ones, or one error that says why.

On the CPU, whose simulator keeps to the rules of the hardware (bases, pitches and stores in units of 16 bytes).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from gemm_text import gemm

import tilec
from tilec.diagnostics import TilecError, collect
from tilec.kernel import Kernel

torch: Any = pytest.importorskip("torch")
PIPELINES = ["", "tma", "tma,pipeline(2),persistent"]
DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}
BY_HAND = """
tile.kernel @copy(%A: !tile.view<MxKxbf16>, %D: !tile.view<MxKxbf16>) {
  %zero = arith.constant 0 : index
  %phase = arith.constant 0 : i32
  %a = tile.alloc : !tile.smem<128x64xbf16, swizzle = 128>
  %full = tile.mbarrier.init count 1 : !tile.mbarrier<1>
  tile.cta_sync
  tile.single_thread {
    tile.mbarrier.arrive.expect_tx %full, 16384
    tile.copy_async %A[%zero, %zero] to %a dispatch tma signal %full
  }
  tile.mbarrier.try_wait %full, %phase
  tile.single_thread {
    tile.copy_async %a to %D[%zero, %zero] dispatch tma
    tile.bulk.commit_group
    tile.bulk.wait_group 0
  }
}
"""


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """That some copies are not by TMA is told elsewhere."""
    with collect():
        yield


@pytest.fixture(params=PIPELINES)
def pipeline(request: pytest.FixtureRequest) -> str:
    return request.param


def compile_gemm(pipeline: str, dtype: str = "f16", out: str = "f32") -> Kernel:
    return tilec.compile(gemm(dtype=dtype, out=out), pipeline=pipeline)


def numbers(rows: int, columns: int, dtype: str = "f16") -> Any:
    """Small integers: their sums are exact."""
    generator = torch.Generator().manual_seed(rows * 4096 + columns)
    return torch.randint(-2, 3, (rows, columns), generator=generator).to(DTYPES[dtype])


def product(a: Any, b: Any) -> Any:
    return a.double() @ b.double().t()


def aligned(elements: int, dtype: str = "f16") -> Any:
    """Memory whose first element is at a multiple of 16 bytes."""
    size = torch.empty(0, dtype=DTYPES[dtype]).element_size()
    memory = torch.zeros(elements + 16, dtype=DTYPES[dtype])
    start = -memory.data_ptr() % 16 // size
    return memory[start : start + elements]


# Rows off the 16-byte grid


def test_k_of_511_in_rows_of_their_own_and_in_padded_ones(pipeline: str) -> None:
    run = compile_gemm(pipeline, "bf16")
    wide_a, wide_b = torch.full((128, 512), 7.0).bfloat16(), torch.full((128, 512), 7.0).bfloat16()
    wide_a[:, :511], wide_b[:, :511] = numbers(128, 511, "bf16"), numbers(128, 511, "bf16")
    for a, b in (
        (wide_a[:, :511].contiguous(), wide_b[:, :511].contiguous()),  # a pitch of 1022 bytes
        (wide_a[:, :511], wide_b[:, :511]),  # one of 1024: the last column is not of A, and counts as zero
    ):
        d = torch.full((128, 128), float("nan"))
        run(a, b, d)
        assert torch.equal(d.double(), product(a, b))


def test_one_callable_over_k_of_512_511_and_512(pipeline: str) -> None:
    run = compile_gemm(pipeline, "bf16")
    for k in (512, 511, 512, 511):
        a, b, d = numbers(128, k, "bf16"), numbers(128, k, "bf16"), torch.full((128, 128), float("nan"))
        run(a, b, d)
        assert torch.equal(d.double(), product(a, b))


def test_a_kernel_by_hand_for_tma_refuses_such_rows() -> None:
    """It names the argument, the dimension, the pitch in bytes and the rule; afterwards it takes the next tensor."""
    run = tilec.compile(BY_HAND)
    for k, pitch in ((64, 64), (511, 511), (64, 64)):
        a, d = aligned(128 * pitch, "bf16").view(128, pitch)[:, :k], aligned(128 * 64, "bf16").view(128, 64)
        a.copy_(numbers(128, k, "bf16"))
        if k == 64:
            run(a, d)
            assert torch.equal(a, d)
            continue
        with pytest.raises(TilecError) as caught:
            run(a, aligned(128 * 512, "bf16").view(128, 512)[:, :511])
        assert str(caught.value) == (
            "error: argument A: base address and pitches must be multiples of 16 bytes (align = 16), but the pitch of "
            "dimension 0 is 1022 bytes\n"
            "hint: pad the rows to multiples of 16 bytes, or write the kernel without explicit TMA copies"
        )


# Outputs that end between two units of 16 bytes


@pytest.mark.parametrize(
    ("out", "columns"),
    [("f16", 466), ("f16", 470), ("f16", 471), ("f16", 464), ("bf16", 470), ("f32", 466), ("f32", 465), ("f32", 468)],
)
def test_what_lies_beside_an_output_stays(pipeline: str, out: str, columns: int) -> None:
    """The first columns of a buffer of 32 x 512, full of sevens before."""
    run = compile_gemm(pipeline, "f16", out)
    a, b = numbers(32, 64), numbers(columns, 64)
    buffer = aligned(34 * 512, out).view(34, 512)
    buffer.fill_(7)
    run(a, b, buffer[1:33, :columns])
    assert torch.equal(buffer[1:33, :columns].double(), product(a, b))
    assert (buffer[:, columns:] == 7).all() and (buffer[0] == 7).all() and (buffer[33] == 7).all()


# Bases off the 16-byte grid


@pytest.mark.parametrize("which", ["A", "B", "D"])
def test_views_that_start_some_elements_in(pipeline: str, which: str) -> None:
    """f32 for the output, f16 for the inputs; one callable, whose first call is with aligned tensors."""
    run = compile_gemm(pipeline)
    m, n, k = 64, 72, 128
    memory = {"A": aligned(m * k + 16), "B": aligned(n * k + 16), "D": aligned(m * n + 16, "f32")}
    shapes = {"A": (m, k), "B": (n, k), "D": (m, n)}
    for start in (0, 1, 2, 4, 8, 0):
        tensors: dict[str, Any] = {}
        for name, flat in memory.items():
            rows, columns = shapes[name]
            first = start if name == which else 0
            tensors[name] = flat[first : first + rows * columns].view(rows, columns)
        tensors["A"].copy_(numbers(m, k))
        tensors["B"].copy_(numbers(n, k))
        memory["D"].fill_(7)
        run(*tensors.values())
        assert torch.equal(tensors["D"].double(), product(tensors["A"], tensors["B"]))
        first = start if which == "D" else 0
        assert (memory["D"][:first] == 7).all() and (memory["D"][first + m * n :] == 7).all()


# Every layout of every argument

LAYOUTS: dict[str, Callable[[int, int, str], Any]] = {
    "contiguous": lambda rows, columns, dtype: torch.zeros(rows, columns, dtype=DTYPES[dtype]),
    "transposed": lambda rows, columns, dtype: torch.zeros(columns, rows, dtype=DTYPES[dtype]).t(),
    "every second row": lambda rows, columns, dtype: torch.zeros(2 * rows, columns, dtype=DTYPES[dtype])[::2],
    "every second column": lambda rows, columns, dtype: torch.zeros(rows, 2 * columns, dtype=DTYPES[dtype])[:, ::2],
    "every second column, transposed": lambda rows, columns, dtype: torch.zeros(columns, 2 * rows, dtype=DTYPES[dtype])[
        :, ::2
    ].t(),
    "a window": lambda rows, columns, dtype: torch.zeros(rows + 3, columns + 5, dtype=DTYPES[dtype])[2:-1, 3:-2],
    "one row for all": lambda rows, columns, dtype: torch.zeros(columns, dtype=DTYPES[dtype]).expand(rows, columns),
}
STEPS = {
    ("every second column", "A"): "strides 144, 2",
    ("every second column", "B"): "strides 144, 2",
    ("every second column", "D"): "strides 176, 2",
    ("every second column, transposed", "A"): "strides 2, 160",
    ("every second column, transposed", "B"): "strides 2, 176",
    ("every second column, transposed", "D"): "strides 2, 160",
}


@pytest.mark.parametrize("which", ["A", "B", "D"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_right_numbers_or_an_error_that_names_the_argument(pipeline: str, layout: str, which: str) -> None:
    run = compile_gemm(pipeline)
    m, n, k = 80, 88, 72
    shapes = {"A": (m, k, "f16"), "B": (n, k, "f16"), "D": (m, n, "f32")}
    tensors = {name: LAYOUTS[layout if name == which else "contiguous"](*shape) for name, shape in shapes.items()}
    for name in "AB":
        source = numbers(*shapes[name])
        # The one row of a broadcast tensor is written once.
        (tensors[name][:1] if tensors[name].stride(0) == 0 else tensors[name]).copy_(
            source[:1] if tensors[name].stride(0) == 0 else source
        )
    if (layout, which) in STEPS:
        with pytest.raises(TilecError) as caught:
            run(*tensors.values())
        assert str(caught.value) == (
            f"error: argument {which}: no dimension is contiguous ({STEPS[layout, which]} elements): one needs stride 1\n"
            "hint: pass a contiguous copy, such as tensor.contiguous()"
        )
        return
    if (layout, which) == ("one row for all", "D"):
        with pytest.raises(TilecError, match=r"argument D: its rows overlap \(pitch 0 bytes, rows of 352 bytes\)"):
            run(*tensors.values())
        return
    whole = tensors["D"] if tensors["D"]._base is None else tensors["D"]._base
    whole.fill_(7)
    run(*tensors.values())
    assert torch.equal(tensors["D"].double(), product(tensors["A"], tensors["B"]))
    tensors["D"].fill_(7)
    assert (whole == 7).all()


def test_reversed_arrays_are_refused(pipeline: str) -> None:
    """Of NumPy: torch has none."""
    run = compile_gemm(pipeline)
    a, b, d = np.zeros((64, 64), np.float16), np.zeros((64, 64), np.float16), np.zeros((64, 64), np.float32)
    for arguments, name, pitch in (([a[::-1], b, d], "A", -128), ([a, b, d[::-1]], "D", -256)):
        with pytest.raises(TilecError, match=rf"argument {name}: dimension 0 has a negative stride of {pitch} bytes"):
            run(*arguments)
