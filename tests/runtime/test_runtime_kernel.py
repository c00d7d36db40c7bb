"""A kernel's calls: which variant is compiled, what the driver is asked for, and what is refused."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from fake_compiler import FakeCompiler, sizes
from fake_driver import DEVICE_MEMORY, FakeArray, FakeDriver, FakeTensor, FakeTorch
from gemm_text import gemm

import tilec
from tilec.backend.runtime.driver import LaunchShape
from tilec.diagnostics import TilecError
from tilec.kernel import Kernel

GEMM = gemm()
BY_HAND = """
tile.kernel @load(%A: !tile.view<MxKxf16>) {
  %zero = arith.constant 0 : index
  %a = tile.alloc : !tile.smem<128x64xf16, swizzle = 128>
  %full = tile.mbarrier.init count 1 : !tile.mbarrier<1>
  tile.copy_async %A[%zero, %zero] to %a dispatch tma signal %full
}
"""
OUT = 0x800000


@pytest.fixture
def kernel(driver: FakeDriver, compiler: FakeCompiler) -> Kernel:
    return tilec.compile(GEMM, driver=driver)


def tensors(m: int = 256, n: int = 256, k: int = 128, *, device: int = 0) -> list[FakeTensor]:
    base = device * DEVICE_MEMORY
    return [
        FakeTensor((m, k), address=base + 0x10000, device=device),
        FakeTensor((n, k), address=base + 0x400000, device=device),
        FakeTensor((m, n), address=base + OUT, device=device),
    ]


def call(kernel: Kernel, driver: FakeDriver, compiler: FakeCompiler, *arguments: object) -> None:
    """Call once to compile, so that the driver knows the parameters, and once more to look at."""
    driver.sizes = ()
    kernel(*arguments)
    driver.sizes = sizes(compiler.compiled[-1].abi)
    driver.launched.clear()
    kernel(*arguments)


def test_parameters_arrive_in_order(
    kernel: Kernel, driver: FakeDriver, compiler: FakeCompiler, torch: FakeTorch
) -> None:
    call(kernel, driver, compiler, *tensors(256, 384, 128))
    (launched,) = driver.launched
    assert launched.shape == LaunchShape(6, 256, 100_000)
    assert [int.from_bytes(p, "little") for p in launched.parameters[3:]] == [256, 128, 384, 128, 256, 384]
    assert launched.parameters[:3] == tuple(i.to_bytes(2, "little") * 64 for i in (1, 2, 3))
    assert all(a % 128 == 0 for a in launched.addresses[:3])
    assert [f.address for f in driver.encoded] == [0x10000, 0x400000, OUT]


def test_addresses_and_pitches_where_there_is_no_map(
    kernel: Kernel, driver: FakeDriver, compiler: FakeCompiler, torch: FakeTorch
) -> None:
    a, b, _ = tensors(256, 256, 128)
    d = FakeTensor((256, 256), (1001, 1), address=OUT + 2)
    call(kernel, driver, compiler, a, b, d)
    pointer, pitch = driver.launched[0].parameters[2:4]
    assert int.from_bytes(pointer, "little") == OUT + 2
    assert int.from_bytes(pitch, "little") == 2002


def test_one_variant_for_each_class_of_facts(
    kernel: Kernel, driver: FakeDriver, compiler: FakeCompiler, torch: FakeTorch
) -> None:
    for m, n, k in ((128, 128, 64), (256, 512, 128), (64, 64, 16)):
        kernel(*tensors(m, n, k))
    assert len(compiler.compiled) == 1
    a, b, d = tensors(256, 256, 128)
    kernel(FakeTensor((256, 128), (1, 256)), b, d)
    kernel(FakeTensor((256, 128), (1, 512)), b, d)
    assert len(compiler.compiled) == 2
    kernel(a, b, FakeTensor((256, 256), (257, 1), address=OUT))
    assert len(compiler.compiled) == 3
    views = [v for c in compiler.compiled for v in c.abi.views]
    assert [v.order for v in views] == [(1, 0)] * 3 + [(0, 1), (1, 0), (1, 0)] + [(1, 0)] * 3
    assert [(v.align, v.grid_tail) for v in views[-3:]] == [(16, True), (16, True), (2, False)]


def test_k_off_the_grid_takes_another_variant_each_time_it_comes(
    kernel: Kernel, driver: FakeDriver, compiler: FakeCompiler, torch: FakeTorch
) -> None:
    for k in (512, 511, 512, 511):
        kernel(*tensors(128, 128, k))
    aligned, odd = compiler.compiled
    assert [v.align for v in aligned.abi.views] == [16, 16, 16]
    assert [v.align for v in odd.abi.views] == [2, 2, 16]
    assert [image for _, image in driver.loaded] == [b"cubin 0", b"cubin 1"]


def test_the_pointer_is_looked_at_again_at_every_call(
    kernel: Kernel, driver: FakeDriver, compiler: FakeCompiler, torch: FakeTorch
) -> None:
    _, b, d = tensors(256, 256, 128)
    for offset in (0, 2, 4, 8, 16):
        kernel(FakeTensor((256, 128), (136, 1), address=0x10000 + offset), b, d)
    assert [c.abi.views[0].align for c in compiler.compiled] == [16, 2, 4, 8]
    assert [f.address for f in driver.encoded] == [0x10000, 0x400000, OUT, 0x10010]


def test_maps_are_encoded_exactly_when_something_changed(kernel: Kernel, driver: FakeDriver, torch: FakeTorch) -> None:
    a, b, d = tensors()
    other = FakeTensor((256, 128), address=0x20000)
    for _ in range(100):
        kernel(a, b, d)
        kernel(other, b, d)
    assert [f.address for f in driver.encoded] == [0x10000, 0x400000, OUT, 0x20000]
    # Freed and allocated again at the same address, with another shape.
    kernel(FakeTensor((128, 128), (256, 1)), b, FakeTensor((128, 256), address=OUT))
    assert len(driver.encoded) == 6


def test_outer_strides_and_offsets_of_views(
    kernel: Kernel, driver: FakeDriver, compiler: FakeCompiler, torch: FakeTorch
) -> None:
    _, b, d = tensors(256, 256, 128)
    kernel(FakeTensor((256, 128), (1024, 1)), b, d)
    assert driver.encoded[0].pitches == (2048,)
    for message, a in (
        ("argument A: no dimension is contiguous", FakeTensor((256, 128), (512, 2))),
        ("argument A: no dimension is contiguous", FakeTensor((256, 128), (2, 256))),
    ):
        with pytest.raises(TilecError, match=message):
            kernel(a, b, d)


Damage = Callable[[list[FakeTensor]], list[object]]
BAD: list[tuple[Damage, str]] = [
    (lambda t: [*t[:2]], "kernel gemm takes 3 tensors (A, B, D), not 2"),
    (lambda t: [t[0], FakeTensor((256, 64)), t[2]], "arguments A and B disagree about K: dimension 1 of A has 128"),
    (lambda t: [t[0], t[1], FakeTensor((128, 256))], "arguments A and D disagree about M"),
    (lambda t: [t[0], t[1], FakeTensor((256, 256, 1))], "argument D has 3 dimensions; the kernel takes 2"),
    (lambda t: [FakeTensor((256, 128), dtype="bfloat16"), *t[1:]], "argument A holds bf16; the kernel takes f16"),
    (lambda t: [FakeTensor((256, 128), dtype="int8"), *t[1:]], "argument A holds int8; the kernel takes f16"),
    (
        lambda t: [FakeTensor((256, 128), device=None), *t[1:]],
        "arguments A and B are in different places: A in host memory, B on GPU 0",
    ),
    (
        lambda t: [np.zeros((256, 128), np.float16), *t[1:]],
        "arguments A and B are in different places: A in host memory, B on GPU 0",
    ),
    (lambda t: [t[0], FakeTensor((256, 128), device=1), t[2]], "arguments A and B are on different devices: 0 and 1"),
    (lambda t: [t[0], t[1], FakeTensor((256, 256), (0, 1))], "argument D: its rows overlap (pitch 0 bytes"),
    (lambda t: [t[0], t[1], FakeArray((256, 256), readonly=True)], "argument D is read-only"),
]


@pytest.mark.parametrize(("make", "words"), BAD)
def test_bad_tensors_never_reach_the_driver(
    kernel: Kernel,
    driver: FakeDriver,
    torch: FakeTorch,
    make: Damage,
    words: str,
) -> None:
    with pytest.raises(TilecError) as error:
        kernel(*make(tensors()))
    assert words in str(error.value)
    assert not driver.launched


@pytest.mark.parametrize(("m", "n", "k"), list(product((0, 1, 64), repeat=3)))
def test_empty_problems(
    kernel: Kernel, driver: FakeDriver, compiler: FakeCompiler, torch: FakeTorch, m: int, n: int, k: int
) -> None:
    kernel(*tensors(m, n, k))
    assert len(driver.launched) == (m > 0 and n > 0)
    assert all(0 not in f.extents for f in driver.encoded)
    kernel(*tensors())
    assert len(driver.launched) == (m > 0 and n > 0) + 1


def test_k_of_zero_runs_in_the_usual_variant(
    kernel: Kernel, driver: FakeDriver, compiler: FakeCompiler, torch: FakeTorch
) -> None:
    kernel(*tensors(256, 256, 64))
    kernel(*tensors(256, 256, 0))
    assert len(compiler.compiled) == 1
    assert driver.launched[-1].shape.ctas == 4


def test_launch_goes_to_the_current_stream_at_each_call(kernel: Kernel, driver: FakeDriver, torch: FakeTorch) -> None:
    for stream in (0, 77, 88, 77):
        torch.streams[0] = stream
        kernel(*tensors())
    assert [one.stream for one in driver.launched] == [0, 77, 88, 77]


def test_explicit_streams_are_respected(kernel: Kernel, driver: FakeDriver, torch: FakeTorch) -> None:
    class TorchStream:
        cuda_stream = 5

    class NumbaStream:
        def __cuda_stream__(self) -> tuple[int, int]:
            return 0, 6

    torch.streams[0] = 77
    for stream in (4, TorchStream(), NumbaStream(), 0):
        kernel(*tensors(), stream=stream)
    assert [one.stream for one in driver.launched] == [4, 5, 6, 0]
    with pytest.raises(TilecError, match="stream is a str, not a CUDA stream"):
        kernel(*tensors(), stream="main")


def test_arrays_that_name_their_stream(kernel: Kernel, driver: FakeDriver) -> None:
    def arrays(*streams: int | None) -> list[FakeArray]:
        shapes = ((256, 128), (256, 128), (256, 256))
        return [FakeArray(s, address=0x10000 * (i + 1), stream=q) for i, (s, q) in enumerate(zip(shapes, streams))]  # noqa: B905

    kernel(*arrays(None, None, None))
    kernel(*arrays(9, 9, 9))
    kernel(*arrays(1, None, 1))
    assert [one.stream for one in driver.launched] == [0, 9, 1]
    assert driver.ordered == []
    kernel(*arrays(9, 9, 8), stream=8)
    kernel(*arrays(1, 1, 1), stream=0)
    assert driver.ordered == [(8, 9)]


def test_each_device_has_its_own_context_module_and_stream(
    kernel: Kernel, driver: FakeDriver, compiler: FakeCompiler, torch: FakeTorch
) -> None:
    torch.streams = {0: 10, 1: 11}
    for device in (1, 0, 1, 0, 1):
        kernel(*tensors(device=device))
    assert [(one.device, one.stream) for one in driver.launched] == [(1, 11), (0, 10), (1, 11), (0, 10), (1, 11)]
    assert [device for device, _ in driver.loaded] == [1, 0]
    assert len({one.function for one in driver.launched}) == 2
    assert len(compiler.compiled) == 1
    assert len(driver.encoded) == 6
    assert driver.stack == []


def test_refused_launch_names_the_kernel_and_the_drivers_reason(
    kernel: Kernel, driver: FakeDriver, torch: FakeTorch
) -> None:
    driver.refusal = "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"
    with pytest.raises(TilecError) as error:
        kernel(*tensors())
    assert "launch of kernel gemm (4 CTAs of 256 threads, 100000 bytes of shared memory) failed" in str(error.value)
    assert "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES" in str(error.value)
    assert driver.stack == []


def test_grid_of_a_persistent_kernel(kernel: Kernel, driver: FakeDriver, torch: FakeTorch) -> None:
    large = tensors(4096, 4096, 64)
    kernel(*large)
    for ctas in (1, 7, 2000):
        kernel(*large, max_ctas=ctas)
    assert [one.shape.ctas for one in driver.launched] == [132, 1, 7, 1024]


def test_two_threads_compile_once(kernel: Kernel, driver: FakeDriver, compiler: FakeCompiler, torch: FakeTorch) -> None:
    compiler.delay = 0.05
    start = threading.Barrier(8)
    errors: list[BaseException] = []

    def work() -> None:
        start.wait()
        try:
            kernel(*tensors())
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert len(compiler.compiled) == 1
    assert len(driver.loaded) == 1
    assert len(driver.launched) == 8


def test_threads_compile_different_kernels_at_a_time() -> None:
    """With the real compiler; a fault is told to its own thread and leaves the others alone."""
    faulty = GEMM.replace("%b = tile.alloc : !tile.smem<128x64", "%b = tile.alloc : !tile.smem<128x32")
    sources = [GEMM, GEMM.replace("f16", "bf16"), GEMM.replace("64", "32"), faulty] * 2
    start = threading.Barrier(len(sources))
    results: list[object] = [None] * len(sources)

    def work(i: int) -> None:
        start.wait()
        try:
            results[i] = tilec.compile(sources[i]).compiled(target="sm_90a").ptx
        except TilecError as error:
            results[i] = error

    threads = [threading.Thread(target=work, args=[i]) for i in range(len(sources))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for source, result in zip(sources, results, strict=True):
        if source is faulty:
            assert isinstance(result, TilecError) and "K differs" in str(result)
        else:
            assert result == tilec.compile(source).compiled(target="sm_90a").ptx


def test_a_failed_compilation_is_not_remembered(
    kernel: Kernel, driver: FakeDriver, compiler: FakeCompiler, torch: FakeTorch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> object:
        raise TilecError("no MMA takes this tile")

    with monkeypatch.context() as patch:
        patch.setattr("tilec.driver.compile_module", broken)
        for _ in range(2):
            with pytest.raises(TilecError, match="no MMA takes this tile"):
                kernel(*tensors())
    kernel(*tensors())
    assert len(driver.launched) == 1


def test_without_an_assembler_the_driver_gets_ptx(
    kernel: Kernel, driver: FakeDriver, compiler: FakeCompiler, torch: FakeTorch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tilec.backend.ptxas.find_ptxas", lambda: None)
    kernel(*tensors())
    assert driver.loaded == [(0, compiler.compiled[0].ptx.encode())]


def test_target_that_the_device_is_not(driver: FakeDriver, compiler: FakeCompiler, torch: FakeTorch) -> None:
    with pytest.raises(TilecError, match="the kernel was compiled for sm_100a, but device 0 is sm_90a"):
        tilec.compile(GEMM, target="sm_100a", driver=driver)(*tensors())
    with pytest.raises(TilecError, match="unknown target 'sm_80'"):
        tilec.compile(GEMM, target="sm_80", driver=driver)
    written = GEMM.replace("%D: !tile.view<MxNxf16>)", '%D: !tile.view<MxNxf16>) attributes {target = "sm_100a"}')
    with pytest.raises(TilecError, match="the kernel was compiled for sm_100a, but device 0 is sm_90a"):
        tilec.compile(written, driver=driver)(*tensors())


def test_kernels_by_hand_take_tensors_as_good_as_declared(
    driver: FakeDriver, compiler: FakeCompiler, torch: FakeTorch
) -> None:
    kernel = tilec.compile(BY_HAND, driver=driver)
    kernel(FakeTensor((128, 64)))
    kernel(FakeTensor((128, 8), address=0x40))
    assert len(compiler.compiled) == 1
    for tensor, words in (
        (
            FakeTensor((128, 64), (1, 128)),
            "argument A: dimension 0 is contiguous, but the kernel was written for views",
        ),
        (
            FakeTensor((128, 511)),
            "must be multiples of 16 bytes (align = 16), but the pitch of dimension 0 is 1022 bytes",
        ),
        (FakeTensor((128, 64), address=0x10002), "but it starts at 0x10002, 2 bytes past such an address"),
    ):
        with pytest.raises(TilecError) as error:
            kernel(tensor)
        assert words in str(error.value)


def test_kernels_by_hand_check_the_tail(driver: FakeDriver, compiler: FakeCompiler, torch: FakeTorch) -> None:
    kernel = tilec.compile(BY_HAND, driver=driver)
    with pytest.raises(TilecError, match=r"argument A: dimension 1 has 1022 bytes, .*\(tail = grid\)"):
        kernel(FakeTensor((128, 511), (512, 1)))
    free = tilec.compile(BY_HAND.replace("MxKxf16", "MxKxf16, tail = free"), driver=driver)
    free(FakeTensor((128, 511), (512, 1)))
    assert len(driver.launched) == 1


def test_sources(tmp_path: Path, driver: FakeDriver) -> None:
    path = tmp_path / "gemm.tile"
    path.write_text(GEMM)
    for source in (path, str(path), GEMM, tilec.compile(GEMM, driver=driver).module):
        assert tilec.compile(source, driver=driver).name == "gemm"
    with pytest.raises(TilecError, match=r"cannot read nowhere.tile"):
        tilec.compile("nowhere.tile", driver=driver)
    with pytest.raises(TilecError, match="unknown pass"):
        tilec.compile(GEMM, pipeline="tmaa", driver=driver)
    with pytest.raises(TilecError, match="there is no kernel in this module"):
        tilec.compile("builtin.module {}", driver=driver)
    with pytest.raises(TilecError, match="a second kernel in one module"):
        tilec.compile(GEMM + GEMM.replace("@gemm", "@again"), driver=driver)


def test_what_was_compiled_can_be_looked_at_without_a_gpu(compiler: FakeCompiler) -> None:
    kernel = tilec.compile(GEMM)
    assert kernel.compiled().target.name == "sm_100a"
    assert kernel.compiled(target="sm_90a").target.name == "sm_90a"
    assert kernel.compiled() is kernel.compiled(target="sm_100a")


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (
            lambda: tilec.compile(None),  # pyright: ignore[reportArgumentType]
            "a program is a path, the text of a file or a module, not None\n"
            'hint: for example tilec.compile("gemm.tile")',
        ),
        (
            lambda: tilec.compile(b"x"),  # pyright: ignore[reportArgumentType]
            "a program is a path, the text of a file or a module, not a bytes\n"
            'hint: for example tilec.compile("gemm.tile")',
        ),
        (
            lambda: tilec.compile(GEMM, pipeline=3),  # pyright: ignore[reportArgumentType]
            "a pipeline is a text, not an int\nhint: for example 'tma,pipeline(2),persistent'",
        ),
        (
            lambda: tilec.compile(GEMM, pipeline=["tma"]),  # pyright: ignore[reportArgumentType]
            "a pipeline is a text, not a list\nhint: for example 'tma,pipeline(2),persistent'",
        ),
        (
            lambda: tilec.compile(GEMM, pipeline=None),  # pyright: ignore[reportArgumentType]
            "a pipeline is a text, not None\nhint: for example 'tma,pipeline(2),persistent'",
        ),
        (
            lambda: tilec.compile(GEMM, target=3),  # pyright: ignore[reportArgumentType]
            "a target is a name, not an int\nhint: known: sm_90a, sm_100a",
        ),
        (lambda: tilec.compile(GEMM, target=""), "unknown target ''\nhint: known: sm_90a, sm_100a"),
        (
            lambda: tilec.compile(GEMM).compiled(target=[]),  # pyright: ignore[reportArgumentType]
            "a target is a name, not a list\nhint: known: sm_90a, sm_100a",
        ),
    ],
)
def test_arguments_of_the_wrong_class(attempt: Callable[[], object], message: str) -> None:
    with pytest.raises(TilecError) as caught:
        attempt()
    assert str(caught.value) == f"error: {message}"


def test_calls_with_arguments_of_the_wrong_class(kernel: Kernel, torch: FakeTorch) -> None:
    a, b, d = tensors(128, 128, 64)
    with pytest.raises(TilecError) as caught:
        kernel(a, b, d, max_ctas="x")  # pyright: ignore[reportArgumentType]
    assert str(caught.value) == "error: max_ctas is an integer, not a str"
    with pytest.raises(TilecError, match="argument B is a str, not a tensor"):
        kernel(a, "f16", d)
