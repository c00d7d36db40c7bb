"""The identity of what compiles: it changes with everything that may change a kernel, and with nothing else."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
from cache_files import entries_in

from tilec.backend import ptxas
from tilec.backend.ptxas import Ptxas, PtxasError
from tilec.cache import ptxas_identity, toolchain
from tilec.diagnostics import Diagnostic

module = sys.modules[toolchain.__module__]
ROOT = Path(__file__).resolve().parents[2]
FOLDERS: dict[str, str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-dir"]


@pytest.fixture(autouse=True)
def asked_anew() -> Iterator[None]:
    toolchain.cache_clear()
    yield
    toolchain.cache_clear()


def installed(place: Path) -> Path:
    """A copy of the package as a wheel lays it out, with times of its own."""
    for name, folder in sorted(FOLDERS.items()):
        shutil.copytree(
            ROOT / folder,
            place.joinpath(*name.split(".")),
            ignore=shutil.ignore_patterns("__pycache__"),
            copy_function=shutil.copyfile,
        )
    return place


def asked(place: Path) -> str:
    """What a process says that uses the package there."""
    program = "import tilec, tilec.cache; print(tilec.__file__); print(tilec.cache.toolchain())"
    path = os.pathsep.join(filter(None, [str(place), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    where, said = finished.stdout.splitlines()
    assert where == str(place / "tilec" / "__init__.py") and finished.stderr == ""
    return said


# tilec, llvmlite, xDSL, Python


def test_what_it_tells() -> None:
    python = f"cpython {sys.version_info.major}.{sys.version_info.minor}"
    assert platform.python_implementation() == "CPython"
    said = re.fullmatch(r"tilec [0-9a-f]{32}, llvmlite (\S+), xdsl (\S+), (.*)", toolchain())
    assert said is not None and said.groups() == (version("llvmlite"), version("xdsl"), python)


def test_every_source_file_counts() -> None:
    expected = {
        f"{'/'.join(name.split('.'))}/{path.relative_to(ROOT / folder)}"
        for name, folder in FOLDERS.items()
        for path in (ROOT / folder).rglob("[!.]*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert "tilec/cache/toolchain.py" in expected and "tilec/py.typed" in expected
    assert {one.name for one in module._sources()} == expected


def test_it_is_the_content_that_counts(tmp_path: Path) -> None:
    """The same files elsewhere, with other times and in another layout, are the same compiler; one other letter is not."""
    place = installed(tmp_path / "there")
    said = asked(place)
    assert said == toolchain()
    path = place / "tilec" / "passes" / "tma.py"
    before, text = path.stat(), path.read_bytes()
    path.write_bytes(text.replace(b"a", b"b", 1))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert asked(place) != said
    path.write_bytes(text)
    assert asked(place) == said


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The one source file of a tilec of the test's own."""
    path = tmp_path / "sources" / "one.py"
    path.parent.mkdir()
    path.write_text("x = 1\n")
    monkeypatch.setattr(module, "_sources", lambda: module._sources_in(str(path.parent), "tilec"))
    return path


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some seconds after the last change."""
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 10)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many files were read, each time that they were."""
    counts: list[int] = []
    real: Callable[[list[object]], str] = module._digest_of

    def read(sources: list[object]) -> str:
        counts.append(len(sources))
        return real(sources)

    monkeypatch.setattr(module, "_digest_of", read)
    return counts


def say() -> str:
    """As a new process would."""
    toolchain.cache_clear()
    return toolchain()


@pytest.mark.usefixtures("later")
def test_files_are_read_once(source: Path, reads: list[int]) -> None:
    first = toolchain()
    assert say() == first and say() == first and reads == [1]
    source.write_text("x = 2\n")
    assert say() != first and reads == [1, 1]
    source.write_text("x = 1\n")
    assert say() == first and reads == [1, 1, 1]


@pytest.mark.usefixtures("later")
def test_a_change_that_hides_itself(source: Path) -> None:
    before, first = source.stat(), say()
    source.write_text("x = 2\n")
    os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert source.stat().st_mtime_ns == before.st_mtime_ns
    assert say() != first


def test_what_has_just_changed_may_change_again_unseen(source: Path, reads: list[int]) -> None:
    first = say()
    assert say() == first and reads == [1, 1]
    assert source.exists()


@pytest.mark.usefixtures("later")
def test_a_new_file_and_a_new_name(source: Path) -> None:
    first = say()
    (source.parent / "sub").mkdir()
    (source.parent / "sub" / "two.py").write_text("")
    second = say()
    (source.parent / "sub" / "two.py").rename(source.parent / "sub" / "three.py")
    third = say()
    assert len({first, second, third}) == 3
    (source.parent / "__pycache__").mkdir()
    (source.parent / "__pycache__" / "three.py").write_text("")
    (source.parent / ".hidden").write_text("")
    assert say() == third


def test_without_a_cache_the_files_are_read(
    source: Path, reads: list[int], monkeypatch: pytest.MonkeyPatch, later: None
) -> None:
    first = say()
    monkeypatch.setenv("TILEC_CACHE_DIR", "off")
    assert say() == first and say() == first and reads == [1, 1, 1]
    assert source.exists()


def package(place: Path, *versions: str) -> Path:
    (place / "some_package").mkdir(parents=True)
    (place / "some_package" / "__init__.py").write_text("raise AssertionError('imported')\n")
    for one in versions:
        metadata = place / f"some_package-{one}.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: some-package\nVersion: {one}\n")
    return place


def version_of(monkeypatch: pytest.MonkeyPatch, *places: Path) -> str:
    for place in places:
        monkeypatch.syspath_prepend(str(place))  # pyright: ignore[reportUnknownMemberType]
    return module._version("some_package")


def test_the_version_of_a_package_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert version_of(monkeypatch, package(tmp_path, "1.2.3")) == "1.2.3"


def test_the_version_of_a_package_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of an editable installation."""
    package(tmp_path / "a")
    (package(tmp_path / "b", "1.2.3") / "some_package" / "__init__.py").unlink()
    (tmp_path / "b" / "some_package").rmdir()
    assert version_of(monkeypatch, tmp_path / "b", tmp_path / "a") == "1.2.3"


def test_the_version_of_no_package() -> None:
    assert module._version("no_such_package") == "none"


# ptxas


@pytest.fixture
def assembler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that cannot run."""
    path = tmp_path / "ptxas"
    path.write_bytes(b"\x7fELF, or so it says")
    path.chmod(0o755)
    monkeypatch.setenv("TILEC_PTXAS", str(path))
    return path


@pytest.fixture
def probes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The builds that the assembler tells when it is asked, the next one last; those it has told are gone."""
    builds = ["13.0.99", "13.0.88"]
    monkeypatch.setattr(ptxas, "probe_ptxas", lambda: Ptxas("", (13, 0), 90, builds.pop()))
    return builds


def test_the_assembler_is_asked_once(assembler: Path, probes: list[str]) -> None:
    assert [ptxas_identity() for _ in range(3)] == ["13.0.88"] * 3
    assert probes == ["13.0.99"] and assembler.exists()


def test_nor_does_another_process_ask(assembler: Path, probes: list[str]) -> None:
    assert ptxas_identity() == "13.0.88"
    program = (
        "import sys\n"
        "started = []\n"
        "sys.addaudithook(lambda event, _: started.append(event) if event == 'subprocess.Popen' else None)\n"
        "from tilec.cache import ptxas_identity\n"
        "print(ptxas_identity(), started)"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (finished.stdout, finished.stderr) == ("13.0.88 []\n", "")
    assert probes == ["13.0.99"] and assembler.exists()


@pytest.mark.parametrize("change", ["size", "time", "place"])
def test_another_assembler_is_asked(
    assembler: Path, probes: list[str], change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.utime(assembler, (1000, 1000))
    assert ptxas_identity() == "13.0.88"
    if change == "size":
        assembler.write_bytes(assembler.read_bytes() + b".")
        os.utime(assembler, (1000, 1000))
    elif change == "time":
        os.utime(assembler, ns=(0, 1000 * 10**9 + 1))
    else:
        other = tmp_path / "other"
        other.write_bytes(assembler.read_bytes())
        os.utime(other, (1000, 1000))
        monkeypatch.setenv("TILEC_PTXAS", str(other))
    assert ptxas_identity() == "13.0.99" and probes == []


def test_a_link_is_what_it_points_to(
    assembler: Path, probes: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ptxas_identity() == "13.0.88"
    (tmp_path / "link").symlink_to(assembler)
    monkeypatch.setenv("TILEC_PTXAS", str(tmp_path / "link"))
    assert ptxas_identity() == "13.0.88" and probes == ["13.0.99"]


def test_a_script_may_run_another_program_tomorrow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, probes: list[str], folder: Path
) -> None:
    path = tmp_path / "ptxas"
    path.write_text("#!/bin/sh\nexec $CUDA/bin/ptxas\n")
    monkeypatch.setenv("TILEC_PTXAS", str(path))
    assert [ptxas_identity(), ptxas_identity()] == ["13.0.88", "13.0.99"]
    assert entries_in(folder) == set()


def test_no_assembler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ptxas, "find_ptxas", lambda: None)
    assert ptxas_identity() == "none"


def test_a_broken_assembler_is_an_error_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    path = tmp_path / "gone"
    monkeypatch.setenv("TILEC_PTXAS", str(path))
    for _ in range(2):
        with pytest.raises(PtxasError) as caught:
            ptxas_identity()
        assert str(caught.value) == (
            f"error: ptxas at {path} cannot be used: No such file or directory\nhint: $TILEC_PTXAS names this assembler"
        )
    assert entries_in(folder) == set()


def test_without_a_cache_it_is_asked(assembler: Path, probes: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEC_CACHE_DIR", "off")
    assert [ptxas_identity(), ptxas_identity()] == ["13.0.88", "13.0.99"] and probes == []
    assert assembler.exists()


def test_a_cache_that_is_refused_does_not_stop_it(
    folder: Path, assembler: Path, probes: list[str], warned: list[Diagnostic]
) -> None:
    folder.mkdir()
    folder.chmod(0o777)
    assert ptxas_identity() == "13.0.88" and toolchain().startswith("tilec ")
    assert len(warned) == 1 and probes == ["13.0.99"] and assembler.exists()
