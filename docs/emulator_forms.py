"""Writes the table of instruction forms of ``emulator.md`` from a record of what passing tests executed.

    rm -f forms.txt
    EMULATOR_FORMS=$PWD/forms.txt python -m pytest -q tests/emulator
    python docs/emulator_forms.py forms.txt

Each line of the record is the kind of evidence and an opcode (see ``tests/emulator/conftest.py``).
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from tilec.backend.emulator.execution.decode import find_builder
from tilec.backend.emulator.instructions import register_all
from tilec.backend.emulator.numbers.types import is_type

PAGE = Path(__file__).parent / "emulator.md"
_BEGIN, _END = "<!-- forms -->\n", "<!-- end of forms -->\n"
_EVIDENCE = ("hardware", "foreign", "rule")
"""From the best to the least: what an opcode has of the best kind counts."""

Form = tuple[str, str]
"""The instruction, and the form with its types left out."""


def form_of(opcode: str) -> tuple[Form, str]:
    """The form of an opcode, and its types. N of wgmma is a number like any other, and part of the types too."""
    parts = tuple(opcode.split("."))
    found = find_builder(parts)
    named = found[1] if found else 1
    # Instructions that are registered by type are one instruction all the same.
    while named > 1 and is_type(parts[named - 1]):
        named -= 1
    kept: list[str] = list(parts[:named])
    types: list[str] = []
    for part in parts[named:]:
        shape = re.fullmatch(r"m64n(\d+)(k\d+)", part)
        if shape:
            kept.append(f"m64nN{shape[2]}")
            types.append(f"n{shape[1]}")
        elif is_type(part):
            types.append(part)
        else:
            kept.append(part)
    return (".".join(parts[:named]), ".".join(kept)), ".".join(types) or "yes"


def table(lines: Iterable[str]) -> str:
    """A section for each instruction, a row for each of its forms."""
    best: dict[str, int] = {}
    for line in lines:
        kind, opcode = line.split(maxsplit=1)
        best[opcode] = min(best.get(opcode, len(_EVIDENCE)), _EVIDENCE.index(kind))
    rows: dict[Form, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    for opcode, evidence in best.items():
        form, types = form_of(opcode)
        rows[form][evidence].add(types)
    counts = [sum(1 for evidence in best.values() if evidence == at) for at in range(3)]
    instructions = len({name for name, _ in rows})
    text = [
        f"{len(rows)} forms of {instructions} instructions; {len(best)} with their types, of which {counts[0]} ran on hardware, {counts[1]} "
        f"more come from other compilers, and {counts[2]} are held to the rule."
    ]
    families: dict[str, list[Form]] = defaultdict(list)
    for form in sorted(rows):
        families[_family(form[1])].append(form)
    for family in sorted(families):
        text += [
            "",
            f"### {family}",
            "",
            "| form | on hardware | from other compilers | by the rule only |",
            "|---|---|---|---|",
        ]
        for form in families[family]:
            cells = (_cell(rows[form][at]) for at in range(3))
            text.append(f"| `{form[1]}` | {' | '.join(cells)} |")
    return "\n".join(text) + "\n"


def _family(opcode: str) -> str:
    """The heading of an instruction: the first sentence of the module that executes it, without its reference."""
    found = find_builder(tuple(opcode.split("."))) or find_builder((*opcode.split("."), "s32"))
    if found is None:
        return "Branches, calls and returns"
    module = sys.modules[found[0].__module__]
    first = (module.__doc__ or "").strip().split("\n\n")[0].replace("\n", " ")
    return re.sub(r" \(PTX [^)]*\)", "", first).split(":")[0].rstrip(".").replace("`", "")


def _cell(types: set[str]) -> str:
    widths = sorted((int(t.split(".")[0][1:]), t) for t in types if re.match(r"n\d+", t))
    if len(widths) > 4:
        rest = sorted({t.split(".", 1)[1] for _, t in widths if "." in t})
        return f"n{widths[0][0]} to n{widths[-1][0]}: {', '.join(rest)}"
    return ", ".join(sorted(types))


def main() -> None:
    register_all()
    lines = {line for path in sys.argv[1:] for line in Path(path).read_text().splitlines() if line}
    page = PAGE.read_text()
    before, _, rest = page.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    PAGE.write_text(f"{before}{_BEGIN}{table(lines)}{_END}{after}")


if __name__ == "__main__":
    main()
