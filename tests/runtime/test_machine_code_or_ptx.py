"""From a program to a loaded kernel, with assemblers and drivers of any age: what is loaded, or the one message instead."""

from __future__ import annotations

import re
import runpy
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from fake_driver import FakeDriver, FakeTensor, FakeTorch
from gemm_text import gemm

import tilec
from tilec.backend import ptxas
from tilec.diagnostics import TilecError, collect
from tilec.kernel import Kernel

Script = Callable[..., str]
CAPABILITIES = {"sm_90a": (9, 0), "sm_100a": (10, 0)}
SUCCEEDS = 'while [ "$1" != -o ]; do shift; done; printf "cubin" > "$2"'
TENSORS = [FakeTensor(s, address=0x400000 * (i + 1)) for i, s in enumerate(((128, 64), (128, 64), (128, 128)))]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """That small copies are not by TMA is told elsewhere."""
    with collect():
        yield


@pytest.fixture(autouse=True)
def own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PTX files that failures leave behind."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))


@pytest.fixture
def assembler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Script:
    """Make the assembler a script that tells `release` as its version and otherwise runs `body`."""

    def make(body: str = SUCCEEDS, release: str = "13.0") -> str:
        path = tmp_path / "ptxas"
        version = f'case "$1" in --version) echo "Cuda compilation tools, release {release}, V{release}.1"; exit;; esac'
        path.write_text(f"#!/bin/sh\n{version}\n{body}\n")
        path.chmod(0o755)
        monkeypatch.setenv("TILEC_PTXAS", str(path))
        return str(path)

    return make


@pytest.fixture
def no_assembler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TILEC_PTXAS", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(ptxas, "_in_wheel", lambda: None)


def program(tmp_path: Path) -> Path:
    path = tmp_path / "gemm.tile"
    path.write_text(gemm())
    return path


def kernel(tmp_path: Path, target: str, cuda: tuple[int, int] = (13, 0)) -> tuple[Kernel, FakeDriver]:
    driver = FakeDriver(cuda=cuda, capabilities=(CAPABILITIES[target],))
    return tilec.compile(program(tmp_path), driver=driver), driver


def refusal(run: Kernel) -> str:
    with pytest.raises(TilecError) as caught:
        run(*TENSORS)
    return str(caught.value)


def version_of(ptx: str) -> str:
    found = re.search(r"^\.version (\S+)$", ptx, re.MULTILINE)
    assert found is not None
    return found[1]


# The version of the PTX is the lowest that has what a kernel needs: old assemblers and drivers read it.


@pytest.mark.parametrize(("target", "version"), [("sm_90a", "8.0"), ("sm_100a", "8.6")])
def test_the_version_of_the_ptx(tmp_path: Path, target: str, version: str, no_assembler: None) -> None:
    run, _ = kernel(tmp_path, target)
    assert version_of(run.variant(target=target).asm["ptx"]) == version


# Assemblers


@pytest.mark.parametrize("target", CAPABILITIES)
@pytest.mark.parametrize("release", ["12.8", "13.0"])
@pytest.mark.parametrize("cuda", [(12, 2), (12, 4), (12, 8)])
def test_machine_code_where_the_assembler_knows_the_target(
    tmp_path: Path, assembler: Script, torch: FakeTorch, target: str, release: str, cuda: tuple[int, int]
) -> None:
    """Whatever PTX the driver reads."""
    assembler(release=release)
    run, driver = kernel(tmp_path, target, cuda)
    run(*TENSORS)
    assert [image for _, image in driver.loaded] == [b"cubin"]
    assert len(driver.launched) == 1


def test_an_assembler_that_only_knows_hopper(tmp_path: Path, assembler: Script, torch: FakeTorch) -> None:
    """It is not run for Blackwell; where the driver can compile the PTX, that does."""
    assembler(f"touch {tmp_path}/was-run; {SUCCEEDS}", "12.3")
    run, driver = kernel(tmp_path, "sm_100a")
    run(*TENSORS)
    ((_, image),) = driver.loaded
    assert version_of(image.decode()) == "8.6" and not (tmp_path / "was-run").exists()
    run, driver = kernel(tmp_path, "sm_90a", (12, 2))
    run(*TENSORS)
    assert [image for _, image in driver.loaded] == [b"cubin"]


TOO_NEW = (
    "error: PTX version 8.6 is too new for the installed driver (CUDA {cuda}), which would have to compile it: it needs "
    "CUDA 12.7\n"
    "hint: install ptxas (pip install 'tilec[ptxas]'), so that machine code is loaded in place of PTX"
)


@pytest.mark.parametrize("cuda", [(12, 2), (12, 4)])
@pytest.mark.parametrize("release", [None, "12.3"])
def test_neither_assembler_nor_driver_knows_the_target(
    tmp_path: Path,
    assembler: Script,
    torch: FakeTorch,
    monkeypatch: pytest.MonkeyPatch,
    release: str | None,
    cuda: tuple[int, int],
) -> None:
    if release is None:
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.delenv("TILEC_PTXAS", raising=False)
        monkeypatch.setattr(ptxas, "_in_wheel", lambda: None)
    else:
        assembler(release=release)
    run, driver = kernel(tmp_path, "sm_100a", cuda)
    for _ in range(2):
        assert refusal(run) == TOO_NEW.format(cuda=f"{cuda[0]}.{cuda[1]}")
    assert not driver.loaded and not driver.launched


@pytest.mark.parametrize(
    ("target", "cuda"), [("sm_90a", (12, 2)), ("sm_90a", (12, 4)), ("sm_90a", (12, 8)), ("sm_100a", (12, 8))]
)
def test_without_an_assembler_drivers_that_read_the_ptx_get_it(
    tmp_path: Path, no_assembler: None, torch: FakeTorch, target: str, cuda: tuple[int, int]
) -> None:
    run, driver = kernel(tmp_path, target, cuda)
    run(*TENSORS)
    ((_, image),) = driver.loaded
    assert f".target {target}".encode() in image


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (
        lambda path: path.unlink(),
        "error: ptxas at {path} cannot be used: No such file or directory",
    ),
    "not executable": (
        lambda path: path.chmod(0o600),
        "error: ptxas at {path} does not tell its version: it does not start: Permission denied\n"
        "command: {path} --version\n"
        "output: (none)",
    ),
    "prints nothing": (
        lambda path: path.write_text("#!/bin/sh\n"),
        "error: ptxas at {path} does not tell its version: no release in its output\n"
        "command: {path} --version\n"
        "output: (none)",
    ),
    "older than all": (
        lambda path: path.write_text("#!/bin/sh\necho 'Cuda compilation tools, release 11.8, V11.8.89'\n"),
        "error: ptxas at {path} is of CUDA 11.8; 12.0 is the oldest that is known",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_an_assembler_that_is_named_but_no_use(tmp_path: Path, assembler: Script, torch: FakeTorch, case: str) -> None:
    """It is not passed over in silence for PTX: who named it wants it."""
    path = assembler()
    change, message = BROKEN[case]
    change(Path(path))
    run, driver = kernel(tmp_path, "sm_90a")
    expected = message.format(path=path) + "\nhint: $TILEC_PTXAS names this assembler"
    for _ in range(2):
        assert refusal(run) == expected
    assert not driver.loaded
    assembler()
    run(*TENSORS)
    assert [image for _, image in driver.loaded] == [b"cubin"]


# Assemblers that fail on a kernel: which tool, how it ended, what it said, for which target, where the kernel and its PTX are

FAILS: dict[str, tuple[str, str, str]] = {
    "silently": ("exit 5", "exit status 5", "(none)"),
    "with a text": (
        'echo "ptxas fatal   : no good" >&2; exit 1',
        "exit status 1",
        "ptxas fatal   : no good",
    ),
    "by a signal": ("kill -SEGV $$", "killed by SIGSEGV", "(none)"),
    "by the kernel's memory killer": ("kill -KILL $$", "killed by SIGKILL", "(none)"),
    "never": ("exec sleep 60", "no answer within 1 s, killed", "(none)"),
    "without a word of it": ("exit 0", "it wrote no cubin", "(none)"),
}


@pytest.mark.parametrize("target", CAPABILITIES)
@pytest.mark.parametrize("case", FAILS)
def test_the_whole_message_of_a_failure(
    tmp_path: Path, assembler: Script, torch: FakeTorch, monkeypatch: pytest.MonkeyPatch, case: str, target: str
) -> None:
    body, ended, said = FAILS[case]
    if case == "never":
        monkeypatch.setitem(ptxas.assemble.__kwdefaults__, "timeout", 1.0)
    path = assembler(body)
    run, driver = kernel(tmp_path, target)
    message = refusal(run)
    found = re.search(r"^PTX saved as (\S+)$", message, re.MULTILINE)
    assert found is not None, message
    saved = found[1]
    command = f"{path} -arch={target} -v -o <cubin> {saved}"
    # The cubin was to be in a folder that is gone.
    message = re.sub(r"-o \S+", "-o <cubin>", message)
    assert message == (
        f"{tmp_path}/gemm.tile:2:1: error: ptxas failed on a kernel for {target}: {ended}\n"
        f"command: {command}\n"
        f"output: {said}\n"
        f"PTX saved as {saved}\n"
        f"{gemm().splitlines()[1]}\n"
        "^"
    )
    assert Path(saved).read_text() == run.variant(target=target).compiled.ptx
    assert not driver.loaded and not driver.launched and driver.stack == []


def test_a_failure_on_a_python_function_points_at_it(tmp_path: Path, assembler: Script) -> None:
    path = tmp_path / "gemm.py"
    path.write_text((Path(__file__).parents[2] / "examples" / "gemm.py").read_text())
    assembler("exit 5")
    function = runpy.run_path(str(path))["gemm"]
    a = np.zeros((128, 64), np.float16)
    with pytest.raises(TilecError) as caught:
        _ = function.variant(a, a, target="sm_90a").artifact
    first, *rest = str(caught.value).splitlines()
    at = re.fullmatch(rf"{path}:(\d+):\d+: error: ptxas failed on a kernel for sm_90a: exit status 5", first)
    assert at is not None, first
    line = path.read_text().splitlines()[int(at[1]) - 1]
    assert line.startswith("def gemm(") and line in rest
    assert any(one.startswith("PTX saved as ") for one in rest)
