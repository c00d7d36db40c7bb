"""The assembler: where it is looked for, what its version allows, and every way in which it can fail.

Most assemblers here are shell scripts that behave as a broken one would.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tilec.backend import ptxas
from tilec.backend.ptxas import PTX_OF_RELEASE, Assembled, PtxasError, assemble, find_ptxas, probe_ptxas
from tilec.backend.target import TARGETS
from tilec.diagnostics import SourceLocation, TilecError

in_wheel = ptxas._in_wheel  # pyright: ignore[reportPrivateUsage]
Fake = Callable[..., str]
HOPPER, BLACKWELL = TARGETS["sm_90a"], TARGETS["sm_100a"]
PTX = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k()
{
ret;
}
"""
real = pytest.mark.skipif(shutil.which("ptxas") is None, reason="no ptxas on PATH")


@pytest.fixture(autouse=True)
def own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """PTX files that failures leave behind go where the test can see them."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def script(path: Path, body: str, release: str = "13.0") -> str:
    """An assembler that tells `release` as its version and otherwise runs `body`."""
    version = f'case "$1" in --version) echo "Cuda compilation tools, release {release}, V{release}.88"; exit 0;; esac'
    path.write_text(f"#!/bin/sh\n{version}\n{body}\n")
    path.chmod(0o755)
    return str(path)


WRITES_CUBIN = """while [ "$1" != -o ]; do shift; done
printf cubin > "$2"
echo "ptxas info    : Used 168 registers, used 1 barriers, 16 bytes smem, 400 bytes cmem[0]" >&2
echo "    48 bytes stack frame, 32 bytes spill stores, 24 bytes spill loads" >&2"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    """Make the assembler a script."""

    def make(body: str, release: str = "13.0") -> str:
        path = script(tmp_path / "ptxas", body, release)
        monkeypatch.setenv("TILEC_PTXAS", path)
        return path

    return make


def failure(target: ptxas.Target = HOPPER, *, timeout: float = 60.0) -> str:
    with pytest.raises(PtxasError) as caught:
        assemble(PTX, target, timeout=timeout)
    assert isinstance(caught.value, TilecError)
    return str(caught.value)


def saved(message: str) -> str:
    found = re.search(r"PTX saved as (\S+)", message)
    assert found is not None, message
    return Path(found[1]).read_text()


# Where it is looked for


def test_the_environment_variable_comes_first(fake: Fake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = fake(WRITES_CUBIN)
    other = tmp_path / "bin"
    other.mkdir()
    script(other / "ptxas", WRITES_CUBIN)
    monkeypatch.setenv("PATH", str(other))
    monkeypatch.setattr(ptxas, "_in_wheel", lambda: "/wheel/ptxas")
    assert find_ptxas() == path


def test_then_the_wheel_then_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TILEC_PTXAS", raising=False)
    path = script(tmp_path / "ptxas", WRITES_CUBIN)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(ptxas, "_in_wheel", lambda: "/wheel/ptxas")
    assert find_ptxas() == "/wheel/ptxas"
    monkeypatch.setattr(ptxas, "_in_wheel", lambda: None)
    assert find_ptxas() == path


@pytest.mark.parametrize("place", ["nvidia/cu13/bin/ptxas", "nvidia/cuda_nvcc/bin/ptxas"])
@pytest.mark.parametrize("installed", [True, False])
def test_both_layouts_of_the_wheel(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: str, installed: bool
) -> None:
    """By the wheel's own list of files, and without one (a copied tree) by the nvidia namespace package."""
    path = tmp_path / place
    path.parent.mkdir(parents=True)
    script(path, WRITES_CUBIN)
    if installed:
        record = tmp_path / "nvidia_cuda_nvcc-13.0.88.dist-info"
        record.mkdir()
        (record / "METADATA").write_text("Metadata-Version: 2.1\nName: nvidia-cuda-nvcc\nVersion: 13.0.88\n")
        (record / "RECORD").write_text(f"{place},,\n")
        monkeypatch.setattr(ptxas, "_IN_NAMESPACE", ())
    else:
        monkeypatch.setattr(ptxas, "_WHEELS", ())
    monkeypatch.syspath_prepend(str(tmp_path))  # pyright: ignore[reportUnknownMemberType]
    in_wheel.cache_clear()
    try:
        monkeypatch.delenv("TILEC_PTXAS", raising=False)
        assert find_ptxas() == str(path)
    finally:
        in_wheel.cache_clear()


def test_none_anywhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TILEC_PTXAS", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(ptxas, "_in_wheel", lambda: None)
    message = failure()
    assert "no ptxas" in message and "TILEC_PTXAS" in message and "pip install" in message


def test_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = str(tmp_path / "gone")
    monkeypatch.setenv("TILEC_PTXAS", path)
    message = failure()
    assert path in message and "No such file" in message and "$TILEC_PTXAS names this assembler" in message


def test_not_executable(fake: Fake) -> None:
    path = fake(WRITES_CUBIN)
    os.chmod(path, stat.S_IRUSR)
    message = failure()
    assert path in message and "Permission denied" in message


def test_a_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TILEC_PTXAS", str(tmp_path))
    assert str(tmp_path) in failure()


# Versions


@pytest.mark.parametrize(
    ("release", "version"),
    [("12.0", 80), ("12.4", 84), ("12.6", 85), ("12.7", 86), ("12.8", 87), ("12.9", 88), ("13.0", 90)],
)
def test_ptx_version_of_a_release(fake: Fake, release: str, version: int) -> None:
    fake(WRITES_CUBIN, release)
    assert probe_ptxas().ptx_version == version


def test_a_release_after_the_last_known_one_reads_at_least_what_that_does(fake: Fake) -> None:
    fake(WRITES_CUBIN, "17.3")
    assert probe_ptxas().ptx_version == max(PTX_OF_RELEASE.values())


@pytest.mark.parametrize(
    ("told", "build"),
    [("release 13.0, V13.0.88", "13.0.88"), ("release 12.8, of our own", "12.8"), ("release 13.0", "13.0")],
)
def test_the_build_of_a_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str, build: str) -> None:
    path = tmp_path / "ptxas"
    path.write_text(f"#!/bin/sh\necho 'Cuda compilation tools, {told}'\n")
    path.chmod(0o755)
    monkeypatch.setenv("TILEC_PTXAS", str(path))
    assert probe_ptxas().build == build


def test_no_wheel_is_known_without_asking_for_metadata(tmp_path: Path) -> None:
    """That alone would take 20 ms of each process that finds its kernel in the disk cache."""
    program = (
        "import sys\n"
        "from tilec.backend.ptxas import find_ptxas\n"
        f"sys.path[:] = [path for path in sys.path if 'site-packages' not in path] + [{str(tmp_path)!r}]\n"
        "print(find_ptxas(), 'importlib.metadata' in sys.modules)"
    )
    environment = {"PATH": str(tmp_path)}
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert (finished.stdout, finished.stderr) == ("None False\n", "")


@pytest.mark.parametrize("release", ["12.3", "12.8", "13.0"])
def test_hopper_works_from_12_0_on(fake: Fake, release: str) -> None:
    fake(WRITES_CUBIN, release)
    assert assemble(PTX, HOPPER).cubin == b"cubin"


@pytest.mark.parametrize("release", ["12.3", "12.6"])
def test_too_old_for_blackwell_is_refused_before_assembling(fake: Fake, tmp_path: Path, release: str) -> None:
    path = fake(f"touch {tmp_path}/was-run", release)
    message = failure(BLACKWELL)
    assert path in message and release in message and "sm_100a needs PTX 8.6" in message and "12.7 or later" in message
    assert not (tmp_path / "was-run").exists()
    assert "PTX saved" not in message


def test_too_old_for_the_text(fake: Fake) -> None:
    fake(WRITES_CUBIN, "12.8")
    with pytest.raises(PtxasError, match=r"reads PTX up to 8\.7; sm_90a needs PTX 9\.0, that is CUDA 13\.0 or later"):
        assemble(PTX.replace("8.0", "9.0"), HOPPER)


def test_older_than_all_known(fake: Fake) -> None:
    fake(WRITES_CUBIN, "11.8")
    assert "12.0 is the oldest" in failure()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("exit 0", "no release in its output"),
        ("exit 5", "exit status 5"),
        ("echo broken >&2; exit 1", "broken"),
        ("kill -SEGV $$", "SIGSEGV"),
    ],
)
def test_version_is_not_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, said: str) -> None:
    path = tmp_path / "ptxas"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    monkeypatch.setenv("TILEC_PTXAS", str(path))
    message = failure()
    assert f"{path} does not tell its version" in message and said in message


def test_a_replaced_assembler_is_asked_again(fake: Fake) -> None:
    fake(WRITES_CUBIN, "12.6")
    assert probe_ptxas().release == (12, 6)
    fake(WRITES_CUBIN + "\n# longer", "13.0")
    assert probe_ptxas().release == (13, 0)


# Failures


def test_silent_exit_status(fake: Fake) -> None:
    path = fake("exit 5")
    message = failure()
    assert "exit status 5" in message and "output: (none)" in message
    assert path in message and "-arch=sm_90a" in message and "sm_90a" in message
    assert saved(message) == PTX


def test_exit_status_with_text(fake: Fake) -> None:
    fake('echo "ptxas $7, line 7; error   : Arguments mismatch" >&2; exit 1')
    message = failure()
    assert "exit status 1" in message and "error   : Arguments mismatch" in message and saved(message) == PTX


def test_text_and_command_name_the_saved_file(fake: Fake) -> None:
    fake('for last; do :; done; echo "in $last" >&2; exit 1')
    message = failure()
    found = re.search(r"PTX saved as (\S+)", message)
    assert found is not None
    assert f"in {found[1]}" in message and message.count(found[1]) == 3


def test_killed_by_a_signal(fake: Fake) -> None:
    fake("kill -SEGV $$")
    message = failure()
    assert "killed by SIGSEGV" in message and saved(message) == PTX


def test_hangs(fake: Fake, tmp_path: Path) -> None:
    """The time limit holds, and what the tool started dies too."""
    fake(f"(sleep 60; touch {tmp_path}/survived) & echo $! > {tmp_path}/child; wait")
    start = time.monotonic()
    message = failure(timeout=1.5)
    assert time.monotonic() - start < 10
    assert "no answer within 1.5 s" in message and saved(message) == PTX
    child = int((tmp_path / "child").read_text())
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and _alive(child):
        time.sleep(0.05)
    assert not _alive(child)


def _alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().split()[2] != "Z"
    except FileNotFoundError:
        return False


def test_success_without_a_cubin(fake: Fake) -> None:
    fake("exit 0")
    assert "it wrote no cubin" in failure()


@pytest.mark.parametrize("code", ["C7508", "C7510", "C7514", "C7519", "C7602"])
def test_notes_that_mean_another_program_are_errors(fake: Fake, code: str) -> None:
    fake(f"{WRITES_CUBIN}\necho 'ptxas info    : ({code}) Potential Performance Loss: wgmma serialized' >&2")
    message = failure()
    assert code in message and "it would change the program" in message and saved(message) == PTX


def test_other_notes_are_not(fake: Fake) -> None:
    fake(f"{WRITES_CUBIN}\necho 'ptxas info    : (C7123) something harmless' >&2")
    assert "C7123" in assemble(PTX, HOPPER).log


def test_the_location_of_the_kernel_heads_the_message(fake: Fake) -> None:
    fake("exit 5")
    with pytest.raises(PtxasError) as caught:
        assemble(PTX, HOPPER, kernel_location=SourceLocation("gemm.tile", 3, 1))
    assert str(caught.value).startswith("gemm.tile:3:1: error: ptxas failed on a kernel for sm_90a")


# Success


def test_what_the_assembler_says(fake: Fake, own_temporary_folder: Path) -> None:
    fake(WRITES_CUBIN)
    done = assemble(PTX, HOPPER)
    assert done == Assembled(b"cubin", 168, spill_stores=32, spill_loads=24, stack=48, smem=16, log=done.log)
    assert "168 registers" in done.log
    assert list(own_temporary_folder.iterdir()) == []


@real
@pytest.mark.parametrize("target", [HOPPER, BLACKWELL], ids=lambda target: target.name)
def test_the_real_one(monkeypatch: pytest.MonkeyPatch, target: ptxas.Target) -> None:
    monkeypatch.delenv("TILEC_PTXAS", raising=False)
    ptx = PTX.replace("8.0", f"{target.ptx_version // 10}.{target.ptx_version % 10}").replace("sm_90a", target.name)
    done = assemble(ptx, target)
    assert done.cubin.startswith(b"\x7fELF") and done.spill_stores == done.stack == 0 and done.registers > 0


@real
def test_the_real_one_rejects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TILEC_PTXAS", raising=False)
    with pytest.raises(PtxasError, match="Not a name of any known instruction"):
        assemble(PTX.replace("ret;", "tcgen06.mma;"), HOPPER)


@real
def test_the_real_one_complains_of_a_missing_wgmma_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TILEC_PTXAS", raising=False)
    body = """.reg .f32 f<4>; .reg .b64 d; mov.b64 d, 0;
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {f0, f1, f2, f3}, d, d, 1, 1, 1, 0, 0;
wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
st.global.f32 [d], f0; ret;"""
    with pytest.raises(PtxasError, match=r"\(C75\d\d\)"):
        assemble(PTX.replace("ret;", body), HOPPER)
