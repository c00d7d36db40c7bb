"""PTX to cubin with NVIDIA's offline assembler, and every way in which that can fail as one readable error."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

from tilec.backend.releases import PTX_OF_RELEASE
from tilec.backend.target import Target
from tilec.diagnostics import SourceLocation, TilecError

ENVIRONMENT_VARIABLE = "TILEC_PTXAS"
_WHEELS = ("nvidia-cuda-nvcc", "nvidia-cuda-nvcc-cu13", "nvidia-cuda-nvcc-cu12")
_SHOWN_LINES, _SHOWN_COLUMNS = 20, 300
"""Of the output of an assembler that failed; the whole of it is in a file."""
_IN_NAMESPACE = ("cu13/bin/ptxas", "cuda_nvcc/bin/ptxas")


class PtxasError(TilecError):
    """The assembler is missing, too old, broken, or rejects what it was given."""


class Assembled(NamedTuple):
    """A cubin and what the assembler says of it: registers per thread; spills, stack and static `smem` in bytes.

    Of a module with several kernels, the largest of each.
    """

    cubin: bytes
    registers: int
    spill_stores: int
    spill_loads: int
    stack: int
    smem: int
    log: str

    def __repr__(self) -> str:
        return f"<Assembled: {len(self.cubin)} bytes, {self.registers} registers>"


class Ptxas(NamedTuple):
    """An assembler: where it is, its CUDA release, and the highest PTX version (times ten) that it reads.

    `build` is the release in full, such as 13.0.88: two builds of one release may make different code.
    """

    path: str
    release: tuple[int, int]
    ptx_version: int
    build: str


def find_ptxas() -> str | None:
    """Path of the assembler: ``$TILEC_PTXAS``, else the nvidia-cuda-nvcc wheel's, else the first on ``PATH``."""
    return os.environ.get(ENVIRONMENT_VARIABLE) or _in_wheel() or shutil.which("ptxas")


@cache
def _in_wheel() -> str | None:
    """What the wheels of today hold is found by its place: asking `importlib.metadata` takes 20 ms, most of them its import."""
    for folder in sys.path:
        for tail in _IN_NAMESPACE:
            if os.path.isfile(path := os.path.join(folder, "nvidia", tail)):
                return path
    return _in_list_of_files() if any(map(_has_wheel, sys.path)) else None


def _has_wheel(folder: str) -> bool:
    names = tuple(f"{wheel.replace('-', '_')}-" for wheel in _WHEELS)
    with suppress(OSError):
        return any(name.startswith(names) and name.endswith(".dist-info") for name in os.listdir(folder or "."))
    return False


def _in_list_of_files() -> str | None:
    """The assembler of a wheel that lays its files out in another way, by its own list of them."""
    from importlib import metadata

    for name in _WHEELS:
        try:
            files = metadata.files(name) or []
        except metadata.PackageNotFoundError:
            continue
        for file in files:
            if file.parts[-2:] == ("bin", "ptxas") and (path := Path(str(file.locate()))).is_file():
                return str(path)
    return None


def probe_ptxas(*, timeout: float = 60.0) -> Ptxas:
    """The assembler that `assemble` would use, asked for its version; `timeout` in seconds."""
    path = find_ptxas()
    if path is None:
        raise PtxasError(
            f"no ptxas: ${ENVIRONMENT_VARIABLE} is not set, the wheel nvidia-cuda-nvcc is not installed, and PATH has none",
            hint="pip install 'tilec[ptxas]', or emit PTX and let the driver assemble it",
        )
    try:
        stat = os.stat(path)
    except OSError as error:
        raise PtxasError(f"ptxas at {path} cannot be used: {error.strerror}", hint=_origin()) from error
    return _probe(path, (stat.st_mtime_ns, stat.st_size, stat.st_ino), timeout)


@cache
def _probe(path: str, _identity: tuple[int, ...], timeout: float) -> Ptxas:
    """Cached by the file's identity, so that a replaced assembler is asked again."""
    ran = _run([path, "--version"], timeout)
    found = re.search(r"\brelease (\d+)\.(\d+)(?:, V([\d.]+))?", ran.output)
    if ran.failure is not None or found is None:
        raise PtxasError(
            f"ptxas at {path} does not tell its version: {ran.failure or 'no release in its output'}\n"
            + ran.report(ran.keep),
            hint=_origin(),
        )
    release = int(found[1]), int(found[2])
    known = [version for r, version in PTX_OF_RELEASE.items() if r <= release]
    if not known:
        raise PtxasError(
            f"ptxas at {path} is of CUDA {_dotted(release)}; 12.0 is the oldest that is known", hint=_origin()
        )
    return Ptxas(path, release, max(known), found[3] or _dotted(release))


def assemble(
    ptx: str, target: Target, *, timeout: float = 60.0, kernel_location: SourceLocation | None = None
) -> Assembled:
    """Assemble `ptx` for `target` within `timeout` seconds; errors point at `kernel_location`.

    Notes of the families C75xx and C76xx are errors: with them the assembler says that it serialises wgmma, waits where we
    did not, or drops setmaxnreg, and what it then makes is slow or wrong.
    """
    tool = probe_ptxas(timeout=timeout)
    needed = max(target.ptx_version, _version_of(ptx))
    if tool.ptx_version < needed:
        release = min(release for release, version in PTX_OF_RELEASE.items() if version >= needed)
        raise PtxasError(
            f"ptxas at {tool.path} is of CUDA {_dotted(tool.release)} and reads PTX up to {_ptx(tool.ptx_version)};"
            f" {target.name} needs PTX {_ptx(needed)}, that is CUDA {_dotted(release)} or later",
            kernel_location,
            _origin(),
        )
    with tempfile.TemporaryDirectory(prefix="tilec-") as folder:
        source, cubin = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(ptx, encoding="utf-8")
        ran = _run([tool.path, f"-arch={target.name}", "-v", "-o", str(cubin), str(source)], timeout)
        failure = ran.failure
        if failure is None and (complaints := re.findall(r".*\(C7[56]\d\d\).*", ran.output)):
            failure = "it would change the program: " + _printable(complaints[0].strip())
        if failure is None and not cubin.is_file():
            failure = "it wrote no cubin"
        if failure is not None:
            saved = _keep(ptx)
            report = ran.report(lambda: ran.keep(Path(saved).with_suffix(".log"))).replace(str(source), saved)
            raise PtxasError(
                f"ptxas failed on a kernel for {target.name}: {failure}\n{report}\nPTX saved as {saved}",
                kernel_location,
            )
        return _read(cubin.read_bytes(), ran.output)


@dataclass(frozen=True)
class _Ran:
    """A finished command. `failure` says in words how it ended, unless well."""

    command: list[str]
    raw: bytes
    failure: str | None

    @cached_property
    def output(self) -> str:
        return self.raw.decode("utf-8", "backslashreplace").replace("\r\n", "\n")

    def report(self, keep: Callable[[], str]) -> str:
        """The command and what it said, fit for a terminal; `keep` saves all of it where that leaves something out."""
        text = self.output.strip()
        lines = text.split("\n")
        shown = [_printable(line) for line in lines[:_SHOWN_LINES]]
        if shown != lines:
            dropped = len(lines) - len(shown)
            shown.append((f"({dropped} more lines; " if dropped else "(") + f"the output as it came is in {keep()})")
        said = "\n".join(shown) if text else "(none)"
        return f"command: {shlex.join(self.command)}\noutput: {said}"

    def keep(self, path: Path | None = None) -> str:
        """Save the output as it came; gives the file's name."""
        if path is None:
            handle, name = tempfile.mkstemp(prefix="tilec-", suffix=".log")
            os.close(handle)
            path = Path(name)
        path.write_bytes(self.raw)
        return str(path)


def _printable(line: str) -> str:
    """A line of output that moves no cursor and changes no colour, and not too much of it."""
    text = "".join(c if c.isprintable() or c == "\t" else c.encode("unicode_escape").decode() for c in line)
    return text if len(text) <= _SHOWN_COLUMNS else f"{text[:_SHOWN_COLUMNS]}..."


def _run(command: list[str], timeout: float) -> _Ran:
    try:
        # In a session of its own, so that whatever the tool starts dies with it.
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        return _Ran(command, b"", f"it does not start: {error.strerror}")
    try:
        output, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        _kill_group(process)
        try:
            output, _ = process.communicate(timeout=1)
        except subprocess.TimeoutExpired:  # a descendant that left the group holds the pipe
            output = b""
        return _Ran(command, output, f"no answer within {timeout:g} s, killed")
    except BaseException:
        _kill_group(process)
        process.wait()
        raise
    return _Ran(command, output, _failure(process.returncode))


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        process.kill()


def _failure(status: int) -> str | None:
    if status == 0:
        return None
    if status > 0:
        return f"exit status {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"


def _read(cubin: bytes, log: str) -> Assembled:
    def largest(pattern: str) -> int:
        return max((int(number) for number in re.findall(pattern, log)), default=0)

    return Assembled(
        cubin=cubin,
        registers=largest(r"Used (\d+) registers"),
        spill_stores=largest(r"(\d+) bytes spill stores"),
        spill_loads=largest(r"(\d+) bytes spill loads"),
        stack=largest(r"(\d+) bytes stack frame"),
        smem=largest(r"(\d+) bytes smem"),
        log=log,
    )


def _keep(ptx: str) -> str:
    """Save the PTX where it outlives the process, for a bug report."""
    handle, path = tempfile.mkstemp(prefix="tilec-", suffix=".ptx")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(ptx)
    return path


def _version_of(ptx: str) -> int:
    found = re.search(r"^\s*\.version\s+(\d+)\.(\d+)", ptx, re.MULTILINE)
    return 0 if found is None else int(found[1]) * 10 + int(found[2])


def _origin() -> str:
    named = "names this assembler" if os.environ.get(ENVIRONMENT_VARIABLE) else "can name another one"
    return f"${ENVIRONMENT_VARIABLE} {named}"


def _dotted(release: tuple[int, int]) -> str:
    return f"{release[0]}.{release[1]}"


def _ptx(version: int) -> str:
    return f"{version // 10}.{version % 10}"
