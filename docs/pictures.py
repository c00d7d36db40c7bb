"""Makes the pictures of the documentation: ``python docs/pictures.py [FOLDER]``.

The page of a timeline, light and dark, through headless chromium; the drawing in the terminal and a report of the designer as SVG.
They show what the commands in their titles print, with today's cost models.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

from tilec.source import parse_file
from tilec.timeline import Request, make
from tilec.timeline.page import page
from tilec.timeline.terminal import drawing

_ROOT = Path(__file__).resolve().parent.parent
_PROGRAM = "examples/gemm.tile"
_PIPELINE = "tma,pipeline(3)"
_TARGET = "sm_90a"
_SCHEDULE = "#mode=prefetch&depth=2&ktiles=12&costs=chip&span=20"
_PAGE_SIZE = "1400,1330"
_COLUMNS = 100
_REPORT_LINES = 46
_QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--hide-scrollbars", "--virtual-time-budget=3000",
)  # fmt: skip


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    source = (_ROOT / _PROGRAM).read_text(encoding="utf-8")
    subject = make(parse_file(_ROOT / _PROGRAM), Request(_PIPELINE, _TARGET), file=Path(_PROGRAM).name, source=source)
    options = f"{_PROGRAM} --pipeline='{_PIPELINE}' --target={_TARGET}"
    for scheme in ("light", "dark"):
        _screenshot(page(subject), scheme, folder / f"timeline-{scheme}.png")
    _terminal(drawing(subject, _COLUMNS), f"tilec timeline {options}", folder / "timeline-terminal.svg")
    report = _printed("design", _PROGRAM, f"--pipeline={_PIPELINE}", f"--target={_TARGET}").splitlines()
    shown = [Text(line) for line in report[:_REPORT_LINES]]
    if len(report) > _REPORT_LINES:
        shown.append(Text(f"... {len(report) - _REPORT_LINES} more lines", style="italic dim"))
    _terminal(shown, f"tilec design {options}", folder / "design.svg")


def _screenshot(html: str, scheme: str, path: Path) -> None:
    """One schedule of the page, without a profile or a network."""
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "timeline.html"
        file.write_text(html, encoding="utf-8")
        arguments = (
            *_QUIET,
            f"--user-data-dir={scratch}/profile",
            f"--window-size={_PAGE_SIZE}",
            f"--blink-settings=preferredColorScheme={0 if scheme == 'dark' else 1}",
            f"--screenshot={path.resolve()}",
            f"{file.as_uri()}{_SCHEDULE}",
        )
        subprocess.run(["chromium", *arguments], check=True, capture_output=True, timeout=120)


def _terminal(lines: list[Text], title: str, path: Path) -> None:
    console = Console(record=True, width=_COLUMNS, file=StringIO(), force_terminal=True, color_system="truecolor")
    for line in lines:
        console.print(line, soft_wrap=True, highlight=False)
    svg = console.export_svg(title=title, unique_id=path.stem)
    # rich's SVG fetches its font; the widths of all texts are in the file, so that any other one does.
    own = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL).replace("Fira Code", "DejaVu Sans Mono")
    path.write_text(own, encoding="utf-8")


def _printed(*arguments: str) -> str:
    command = [sys.executable, "-m", "tilec", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=_ROOT).stdout


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else _ROOT / "docs" / "pictures")
