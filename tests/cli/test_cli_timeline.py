"""``tilec timeline``."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

_PIPELINE = "--pipeline=tma,pipeline(2)"
_STEP7 = Path(__file__).resolve().parents[1] / "protocol" / "step7_roles.tile"


def test_the_lessons_figures_in_the_terminal(examples: Path, cli: Callable[..., Any]) -> None:
    """8 * (1.2 + 1) = 17.6, of which the tensor core computes 8; and a ring of two: 8 loads and the last MMA, 10.6."""
    serial = cli("timeline", examples / "gemm.tile", "--pipeline=tma", "--costs=abstract")
    assert serial.code == 0
    assert "makespan 17.6 MMAs   tensor core idle 54.5 %   MMA back to back: no" in serial.out.splitlines()
    assert "loads in flight: 1" in serial.out
    prefetch = cli("timeline", examples / "gemm.tile", _PIPELINE, "--costs=abstract", "--ratio=1.2")
    assert "makespan 10.6 MMAs   tensor core idle 24.5 %   MMA back to back: no" in prefetch.out.splitlines()
    assert "loads in flight: 2" in prefetch.out


def test_a_pipe_gets_80_columns_of_plain_text(examples: Path, cli: Callable[..., Any]) -> None:
    printed = cli("timeline", examples / "gemm.tile", "--pipeline=tma,pipeline(4)").out
    assert printed.isascii() and "\x1b" not in printed
    assert max(map(len, printed.splitlines())) <= 80
    assert printed.startswith("gemm for sm_100a, tma,pipeline(4), M=128 N=128 K=512\n")


def test_a_shape_that_nobody_gave_is_said_to_be_chosen(examples: Path, cli: Callable[..., Any]) -> None:
    chosen = "a small shape, since none is given (--shape M=..,N=..,K=..)"
    assert chosen in cli("timeline", examples / "gemm.tile", _PIPELINE).out.splitlines()
    given = cli("timeline", examples / "gemm.tile", _PIPELINE, "--shape=M=128,N=128,K=512").out
    assert chosen not in given
    alone = "as if it were alone: tilec predict reckons with the other multiprocessors"
    assert alone in given
    assert "one multiprocessor: 1 CTA of 1 output tile, 8 K tiles" in given.splitlines()


def test_a_persistent_kernel_gets_two_tiles_on_one_cta(examples: Path, cli: Callable[..., Any]) -> None:
    printed = cli("timeline", examples / "gemm.tile", f"{_PIPELINE},persistent").out.splitlines()
    assert "one multiprocessor: 1 CTA of 2 output tiles, 8 K tiles each" in printed
    two = cli("timeline", examples / "gemm.tile", f"{_PIPELINE},persistent", "--shape=M=512,N=128,K=64", "--ctas=2")
    assert "one multiprocessor: 1 CTA of 2 output tiles, 1 K tile each" in two.out.splitlines()


def test_roles_have_lanes_of_their_own(cli: Callable[..., Any]) -> None:
    lanes = [line.split(" ")[0] for line in cli("timeline", _STEP7, "--costs=abstract").out.splitlines()]
    for role in ("load", "mma", "store"):
        assert role in lanes


@pytest.mark.parametrize(
    ("name", "start"), [("t.html", b"<!doctype html>"), ("t.json", b"{"), ("t.PNG", b"\x89PNG"), ("t.svg", b"<?xml")]
)
def test_the_name_tells_what_is_written(
    name: str, start: bytes, examples: Path, tmp_path: Path, cli: Callable[..., Any]
) -> None:
    if name.endswith((".PNG", ".svg")):
        pytest.importorskip("matplotlib")
    finished = cli("timeline", examples / "gemm.tile", _PIPELINE, "-o", tmp_path / name)
    assert (finished.code, finished.out, finished.err) == (0, f"wrote {tmp_path / name}\n", "")
    assert (tmp_path / name).read_bytes().startswith(start)


def test_no_other_module_is_needed_for_the_page(
    examples: Path, tmp_path: Path, cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert cli("timeline", examples / "gemm.tile", _PIPELINE, "-o", tmp_path / "t.html").code == 0


def test_a_picture_without_matplotlib(
    examples: Path, tmp_path: Path, cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    importlib.invalidate_caches()
    finished = cli("timeline", examples / "gemm.tile", _PIPELINE, "-o", tmp_path / "t.png")
    assert finished.code == 1
    assert finished.err == (
        "error: a picture needs matplotlib, which is not installed\nhint: pip install 'tilec[picture]'\n"
    )


# ---- what is refused, in full

_KERNEL_LINE = "tile.kernel @gemm(%A: !tile.view<MxKxf16>, %B: !tile.view<NxKxf16>, %D: !tile.view<MxNxf16>) {\n^\n"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            ["-o", "t.pdf"],
            "error: no timeline is written as '.pdf': its name tells the kind of file\n"
            "hint: end with .html for a page, .json for Perfetto, .png or .svg for a picture; without -o it is drawn here\n",
        ),
        (
            ["-o", "-"],
            "error: no timeline is written as '-': its name tells the kind of file\n"
            "hint: end with .html for a page, .json for Perfetto, .png or .svg for a picture; without -o it is drawn here\n",
        ),
        (
            ["-o", "no/such/folder/t.html"],
            "error: cannot write no/such/folder/t.html: No such file or directory\nhint: choose another place with -o\n",
        ),
        (
            ["--shape=M=128"],
            "FILE:2:1: error: no extent for K, N in --shape\n"
            + _KERNEL_LINE
            + "hint: for example --shape M=128,K=256,N=256\n",
        ),
        (
            ["--shape=M=0,N=128,K=128"],
            "FILE:2:1: error: this shape has no output tile: there is nothing to show\n"
            + _KERNEL_LINE
            + "hint: give extents above 0\n",
        ),
        (
            ["--ctas=2"],
            "FILE:2:1: error: --ctas bounds the grid of a persistent kernel; this one has a CTA for each tile\n"
            + _KERNEL_LINE
            + "hint: add persistent to --pipeline\n",
        ),
        (
            ["--target=sm_80"],
            "error: unknown target 'sm_80'\nhint: known: sm_90a, sm_100a\n",
        ),
    ],
)
def test_what_is_refused(
    arguments: list[str],
    text: str,
    examples: Path,
    tmp_path: Path,
    cli: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    file = examples / "gemm.tile"
    finished = cli("timeline", file, _PIPELINE, *arguments)
    assert (finished.code, finished.out, finished.err) == (1, "", text.replace("FILE", str(file)))
    assert list(tmp_path.iterdir()) == []


def test_a_ratio_needs_loads_by_tma(examples: Path, cli: Callable[..., Any]) -> None:
    file = examples / "gemm.tile"
    finished = cli("timeline", file, "--ratio=1.2")
    assert finished.code == 1
    assert finished.err == (
        f"{file}:2:1: error: no load:MMA ratio can be set here. Threads copy the tiles of this kernel, so there are no loads "
        f"of TMA to run ahead: see the pass tma.\n{_KERNEL_LINE}hint: leave the ratio out\n"
    )


def test_a_lowered_kernel_is_refused(examples: Path, cli: Callable[..., Any]) -> None:
    finished = cli("timeline", examples / "gemm.tile", "--pipeline=tma,lower")
    assert finished.code == 1
    assert "error: there is no tile kernel in this module: it is lowered already\n" in finished.err


@pytest.mark.parametrize(
    ("argument", "problem"),
    [
        ("--ratio=x", "argument --ratio: invalid float value: 'x'"),
        ("--ratio=0", "argument --ratio: expected a number from 0.001 to 1000, not 0"),
        ("--ratio=nan", "argument --ratio: expected a number from 0.001 to 1000, not nan"),
        ("--ratio=inf", "argument --ratio: expected a number from 0.001 to 1000, not inf"),
        ("--ratio=-1", "argument --ratio: expected a number from 0.001 to 1000, not -1"),
        ("--ratio=1e300", "argument --ratio: expected a number from 0.001 to 1000, not 1e300"),
        ("--ratio=1000.1", "argument --ratio: expected a number from 0.001 to 1000, not 1000.1"),
        ("--ratio=0.0009", "argument --ratio: expected a number from 0.001 to 1000, not 0.0009"),
        ("--ctas=0", "argument --ctas: expected an integer from 1 on, not 0"),
        ("--costs=free", "argument --costs: invalid choice: 'free'"),
    ],
)
def test_wrong_usage(argument: str, problem: str, examples: Path, cli: Callable[..., Any]) -> None:
    finished = cli("timeline", examples / "gemm.tile", argument)
    assert finished.code == 1
    assert f"tilec timeline: error: {problem}" in finished.err


def test_the_trace_names_the_program(examples: Path, tmp_path: Path, cli: Callable[..., Any]) -> None:
    cli("timeline", examples / "gemm.tile", _PIPELINE, "-o", tmp_path / "t.json")
    about = json.loads((tmp_path / "t.json").read_text())["otherData"]
    assert about["program"] == "gemm.tile"
    assert about["kernel"] == "gemm for sm_100a, tma,pipeline(2), M=128 N=128 K=512"


@pytest.mark.parametrize("ratio", ["0.001", "1000"])
@pytest.mark.parametrize("ending", ["html", "json"])
def test_the_ratios_at_the_limits(
    ratio: str, ending: str, examples: Path, tmp_path: Path, cli: Callable[..., Any]
) -> None:
    for costs in ("chip", "abstract"):
        options = (f"--ratio={ratio}", f"--costs={costs}", "-o", tmp_path / f"t.{ending}")
        assert cli("timeline", examples / "gemm.tile", _PIPELINE, *options).code == 0


def test_a_pipe_is_read_once(examples: Path, tmp_path: Path) -> None:
    """The page has the program that was compiled, and nothing waits for more of it."""
    text, out = (examples / "gemm.tile").read_bytes(), tmp_path / "t.html"
    command = [sys.executable, "-m", "tilec", "timeline", "/dev/stdin", _PIPELINE, "-o", str(out)]
    finished = subprocess.run(command, input=text, capture_output=True, timeout=60, check=False)
    assert (finished.returncode, finished.stderr) == (0, b"")
    assert embedded(out)["source"] == text.decode()
    assert embedded(out)["file"] == "stdin"


def test_a_named_pipe_is_read_once(examples: Path, tmp_path: Path, cli: Callable[..., Any]) -> None:
    text, pipe, out = (examples / "gemm.tile").read_text(), tmp_path / "pipe", tmp_path / "t.html"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(text,), daemon=True)
    writer.start()
    reader = threading.Thread(target=cli, args=("timeline", pipe, _PIPELINE, "-o", out), daemon=True)
    reader.start()
    reader.join(timeout=30)
    assert not reader.is_alive()
    assert embedded(out)["source"] == text


def test_a_python_file_is_refused(tmp_path: Path, cli: Callable[..., Any]) -> None:
    (tmp_path / "kernel.py").write_text("import tilec\n")
    finished = cli("timeline", tmp_path / "kernel.py")
    assert (finished.code, finished.out) == (1, "")
    assert finished.err == (
        f"error: {tmp_path}/kernel.py is Python, and what is read here is tile code\n"
        "hint: call its tilec.jit function from Python; its `ir()` returns the tile code of the last call\n"
    )


@pytest.mark.parametrize("ending", ["html", "json", "svg"])
def test_a_name_that_is_no_text(ending: str, examples: Path, tmp_path: Path, cli: Callable[..., Any]) -> None:
    if ending == "svg":
        pytest.importorskip("matplotlib")
    file, out = tmp_path / os.fsdecode(b"b\xff.tile"), tmp_path / f"t.{ending}"
    file.write_text((examples / "gemm.tile").read_text())
    finished = cli("timeline", file, _PIPELINE, "-o", out)
    assert (finished.code, finished.err) == (0, "")
    if ending == "html":
        assert embedded(out)["file"] == "b\N{REPLACEMENT CHARACTER}.tile"


def embedded(page: Path) -> dict[str, Any]:
    """The data of a page."""
    _, _, rest = page.read_text(encoding="utf-8").partition('<script type="application/json" id="document">')
    return json.loads(rest.partition("</script>")[0])
