"""Python kernels in processes of their own: without torch, after a fork, from the disk cache, compiled ahead of time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from harness import EXAMPLES

TIMEOUT_S = 80

MULTIPLY = f"""
import ctypes, os, runpy, sys
import numpy as np
from cuda.bindings import driver

def ask(result):
    assert int(result[0]) == 0, result[0]
    return result[1] if len(result) > 1 else None

class Array:
    "An array of the driver's own memory, known by its interface alone."

    def __init__(self, values):
        self.values = np.ascontiguousarray(values)
        self.address = int(ask(driver.cuMemAlloc(self.values.nbytes)))
        ask(driver.cuMemcpyHtoD(self.address, self.values.ctypes.data, self.values.nbytes))
        self.__cuda_array_interface__ = {{
            "version": 3, "shape": self.values.shape, "typestr": self.values.dtype.str, "strides": None,
            "data": (self.address, False), "stream": None,
        }}

    def read(self):
        ask(driver.cuCtxSynchronize())
        ask(driver.cuMemcpyDtoH(self.values.ctypes.data, self.address, self.values.nbytes))
        return self.values

def operands(*shapes):
    ask(driver.cuInit(0))
    ask(driver.cuCtxSetCurrent(ask(driver.cuDevicePrimaryCtxRetain(ask(driver.cuDeviceGet(0))))))
    rng = np.random.default_rng(0)
    return [Array(rng.integers(-2, 3, shape).astype(np.float16)) for shape in shapes]

def right(a, b, d):
    return (d.read() == (a.values.astype(np.float64) @ b.values.astype(np.float64).T)).all()

def gemm():
    return runpy.run_path({str(EXAMPLES / "gemm.py")!r})["gemm"]

def heavy():
    return sorted({{"torch", "xdsl", "llvmlite", "numba"}} & set(sys.modules))
"""
"""What the programs below share; none of them imports torch by itself."""

CALL = f"""{MULTIPLY}
a, b, d = operands((200, 136), (264, 136), (200, 264))
function = gemm()
for _ in range(2):
    assert function(a, b, out=d) is d
    assert right(a, b, d)
print("right", *heavy())
"""

WITH_TORCH = f"""
import runpy, sys
import torch
import tilec
a, b = (torch.randint(-2, 3, (rows, 136), device="cuda").half() for rows in (200, 264))
gemm = runpy.run_path({str(EXAMPLES / "gemm.py")!r})["gemm"]
for _ in range(3):
    d = gemm(a, b)
    assert torch.equal(d, (a.double() @ b.double().t()).half())
print("right", *sorted({{"xdsl", "llvmlite"}} & set(sys.modules)))
"""


def python(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own. It ends well, or the test fails with what it said."""
    ran = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env={**os.environ, **environment},
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran


@pytest.fixture
def cache(tmp_path: Path) -> str:
    """A folder that is not there yet."""
    return str(tmp_path / "cache")


@pytest.fixture
def warm_cache(cache: str) -> str:
    """A folder with the kernel of examples/gemm.py in it."""
    assert python(CALL, TILEC_CACHE_DIR=cache).stdout == "right llvmlite xdsl\n"
    return cache


def test_without_torch(cache: str) -> None:
    """Memory from the driver, no other library; from the disk cache neither xDSL nor LLVM."""
    assert python(CALL, TILEC_CACHE_DIR="off").stdout == "right llvmlite xdsl\n"
    assert python(CALL, TILEC_CACHE_DIR=cache).stdout == "right llvmlite xdsl\n"
    assert python(CALL, TILEC_CACHE_DIR=cache).stdout == "right\n"


def test_torch_and_the_disk_cache(cache: str) -> None:
    assert python(WITH_TORCH, TILEC_CACHE_DIR=cache).stdout.startswith("right ")
    assert python(WITH_TORCH, TILEC_CACHE_DIR=cache).stdout == "right\n"


def test_eight_processes_and_one_cold_cache(cache: str) -> None:
    environment = {**os.environ, "TILEC_CACHE_DIR": cache}
    running = [
        subprocess.Popen(
            [sys.executable, "-c", CALL], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
        for _ in range(8)
    ]
    try:
        said = [one.communicate(timeout=TIMEOUT_S) for one in running]
    finally:
        for one in running:
            one.kill()
    assert all(out.startswith("right") and not err for out, err in said), said
    assert python(CALL, TILEC_CACHE_DIR=cache).stdout == "right\n"


def files(folder: str) -> list[Path]:
    return [path for path in Path(folder).rglob("*") if path.is_file()]


def test_a_cache_that_cannot_be_written(warm_cache: str, tmp_path: Path) -> None:
    """What is there is read; what cannot be kept is computed all the same, and said once."""
    for path in (Path(warm_cache), *(p for p in Path(warm_cache).rglob("*") if p.is_dir())):
        path.chmod(0o500)
    try:
        ran = python(CALL, TILEC_CACHE_DIR=warm_cache)
        assert ran.stdout == "right\n" and ran.stderr == ""
    finally:
        for path in (Path(warm_cache), *(p for p in Path(warm_cache).rglob("*") if p.is_dir())):
            path.chmod(0o700)
    # Nobody makes folders there, not even root.
    ran = python(CALL, TILEC_CACHE_DIR="/proc/tilec")
    assert ran.stdout == "right llvmlite xdsl\n"
    assert ran.stderr.count("warning: ") == 1 and "/proc/tilec" in ran.stderr
    in_place_of_a_folder = tmp_path / "file"
    in_place_of_a_folder.write_text("")
    ran = python(CALL, TILEC_CACHE_DIR=str(in_place_of_a_folder))
    assert ran.stdout == "right llvmlite xdsl\n"
    assert f"the disk cache is not used: {in_place_of_a_folder} is not a folder" in ran.stderr


@pytest.mark.parametrize("damage", ["a byte", "the end", "all"])
def test_damaged_entries_are_made_anew(warm_cache: str, damage: str) -> None:
    for path in files(warm_cache):
        data = bytearray(path.read_bytes())
        if damage == "a byte" and data:
            data[-len(data) // 3] ^= 0x40
        path.chmod(0o600)
        path.write_bytes(b"" if damage == "all" else data[: len(data) // 2] if damage == "the end" else data)
    assert python(CALL, TILEC_CACHE_DIR=warm_cache).stdout == "right llvmlite xdsl\n"
    assert python(CALL, TILEC_CACHE_DIR=warm_cache).stdout == "right\n"


SAVE = f"""{MULTIPLY}
import tilec
gemm().variant("f16", "f16", target=os.environ["TARGET"]).save(os.environ["SAVED"])
"""

LOAD = f"""{MULTIPLY}
import importlib.abc
class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in ("xdsl", "llvmlite"):
            raise ModuleNotFoundError(f"{{name}} is not installed here", name=name)
sys.meta_path.insert(0, Missing())
import tilec
a, b, d = operands((200, 136), (264, 136), (200, 264))
kernel = tilec.load(os.environ["SAVED"])
for _ in range(2):
    assert kernel(a, b, d) is None
    assert right(a, b, d)
x, y, z = operands((1000, 520), (1016, 520), (1000, 1016))
kernel(x, y, z)
assert right(x, y, z)
try:
    kernel(*operands((200, 71), (264, 71), (200, 264)))
except tilec.TilecError as error:
    print(str(error).split(":")[0], kernel.resources.registers > 0)
assert not heavy(), heavy()
"""

LOAD_WITH_TORCH = LOAD.replace(MULTIPLY, "import os, sys").partition("import tilec")[0] + (
    """
import torch
import tilec
kernel = tilec.load(os.environ["SAVED"])
a, b = (torch.randint(-2, 3, (rows, 136), device="cuda").half() for rows in (200, 264))
d = torch.empty(200, 264, dtype=torch.float16, device="cuda")
for _ in range(3):
    d.fill_(float("nan"))
    kernel(a, b, d)
    assert torch.equal(d, (a.double() @ b.double().t()).half())
print("right", *sorted({"xdsl", "llvmlite"} & set(sys.modules)))
"""
)


def test_compiled_ahead_of_time(tmp_path: Path) -> None:
    """A fresh process with neither xDSL nor llvmlite nor a ptxas."""
    saved = str(tmp_path / "gemm.cubin")
    made_on = python("from tilec.backend.runtime.driver import cuda_driver; print(*cuda_driver().capability(0))").stdout
    target = "sm_{}{}a".format(*made_on.split())
    python(SAVE, SAVED=saved, TARGET=target)
    assert {path.name for path in tmp_path.iterdir()} == {"gemm.cubin", "gemm.json"}
    nowhere = {"SAVED": saved, "PATH": "/nowhere", "CUDA_HOME": "/nowhere", "CUDA_PATH": "/nowhere"}
    assert python(LOAD, **nowhere).stdout == "error True\n"
    assert python(LOAD_WITH_TORCH, **nowhere).stdout == "right\n"


FORK = f"""{MULTIPLY}
import tilec
a, b, d = operands((200, 136), (264, 136), (200, 264))
function = gemm()
for _ in range(3):
    function(a, b, out=d)
assert right(a, b, d)
if os.fork() == 0:
    for _ in range(2):
        try:
            function(a, b, out=d)
            print("launched", flush=True)
        except tilec.TilecError as error:
            print(error, flush=True)
    os._exit(0)
os.wait()
function(a, b, out=d)
assert right(a, b, d)
print("right in the parent")
"""

FORK_WITH_TORCH = f"""
import os, runpy
import torch
import tilec
a, b = (torch.randint(-2, 3, (rows, 136), device="cuda").half() for rows in (200, 264))
d = torch.empty(200, 264, dtype=torch.float16, device="cuda")
gemm = runpy.run_path({str(EXAMPLES / "gemm.py")!r})["gemm"]
for _ in range(3):
    gemm(a, b, out=d)
torch.cuda.synchronize()
if os.fork() == 0:
    for _ in range(2):
        try:
            gemm(a, b, out=d)
            print("launched", flush=True)
        except tilec.TilecError as error:
            print(error, flush=True)
        except RuntimeError as error:
            print("torch:", str(error).split("\\n")[0], flush=True)
    os._exit(0)
os.wait()
d.fill_(float("nan"))
gemm(a, b, out=d)
assert torch.equal(d, (a.double() @ b.double().t()).half())
print("right in the parent")
"""


@pytest.mark.parametrize("program", [FORK, FORK_WITH_TORCH], ids=["without torch", "torch"])
def test_a_fork_after_the_first_call(program: str) -> None:
    """The driver works in no forked process: each call there is refused, and the parent goes on."""
    *refusals, last = python(program).stdout.splitlines()
    assert last == "right in the parent"
    said = "\n".join(refusals)
    assert "launched" not in said
    assert said.count("CUDA_ERROR_NOT_INITIALIZED") == 2 or said.count("torch: Cannot re-initialize CUDA") == 2, said
    if "torch: " not in said:
        assert said.count("start workers with 'spawn'") == 2


FORK_BEFORE = f"""{MULTIPLY}
import tilec
function = gemm()
child = os.fork()
a, b, d = operands((200, 136), (264, 136), (200, 264))
function(a, b, out=d)
assert right(a, b, d)
if child == 0:
    os._exit(0)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
print("right in both")
"""


def test_a_fork_before_the_first_call(cache: str) -> None:
    assert python(FORK_BEFORE, TILEC_CACHE_DIR=cache).stdout == "right in both\n"


FIRST_IN_A_THREAD = f"""{MULTIPLY}
import threading
failures = []
function = gemm()
arrays = operands((200, 136), (264, 136), (200, 264))

def work():
    try:
        assert int(driver.cuCtxGetCurrent()[1]) == 0
        function(*arrays[:2], out=arrays[2])
        assert int(driver.cuCtxGetCurrent()[1]) == 0
    except BaseException as error:
        failures.append(error)

thread = threading.Thread(target=work)
thread.start()
thread.join()
assert not failures, failures
assert right(*arrays)
print("right")
"""


def test_the_first_call_is_made_in_a_thread() -> None:
    assert python(FIRST_IN_A_THREAD).stdout == "right\n"


DUMP = f"""{MULTIPLY}
a, b, d = operands((200, 136), (264, 136), (200, 264))
gemm()(a, b, out=d)
assert right(a, b, d)
"""


def test_stages_are_dumped_even_where_the_cache_has_the_kernel(warm_cache: str, tmp_path: Path) -> None:
    folder = tmp_path / "stages"
    python(DUMP, TILEC_CACHE_DIR=warm_cache, TILEC_DUMP_DIR=str(folder))
    texts = [path.read_text(errors="replace") for path in files(str(folder))]
    assert any("tile.grid" in text for text in texts)
    assert any("tile.mbarrier.init" in text for text in texts)
    assert any(".target sm_" in text for text in texts)


FIRST_IN_A_CAPTURE = f"""
import runpy
import torch
import tilec
a, b = (torch.randint(-2, 3, (rows, 136), device="cuda").half() for rows in (200, 264))
want = (a.double() @ b.double().t()).half()
gemm = runpy.run_path({str(EXAMPLES / "gemm.py")!r})["gemm"]
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
try:
    with torch.cuda.graph(graph):
        d = gemm(a, b)
    graph.replay()
    assert torch.equal(d, want)
    print("captured")
except Exception as error:
    while error is not None and not isinstance(error, tilec.TilecError):
        error = error.__context__
    assert error is not None, "a failure that is not told in words"
    print("refused:", error)
for _ in range(3):
    assert torch.equal(gemm(a, b), want)
print("right")
"""


def test_the_first_call_is_made_in_a_capture() -> None:
    """It is captured, or refused in words; the process can go on either way."""
    said = python(FIRST_IN_A_CAPTURE).stdout.splitlines()
    assert said[0] == "captured" or said[0].startswith("refused: error: ")
    assert said[-1] == "right"
