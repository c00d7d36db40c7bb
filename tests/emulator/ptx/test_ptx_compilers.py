"""The PTX of other compilers: everything is read, and nothing is left out."""

from __future__ import annotations

import re
from itertools import chain
from pathlib import Path

import pytest

from tilec.backend.emulator.ptx.parser import parse_ptx
from tilec.backend.emulator.ptx.syntax import Label, Table

FILES = sorted((Path(__file__).parents[2] / "data").rglob("*.ptx"))


def instructions_in(text: str) -> list[str]:
    """The opcodes in order, found by splitting at semicolons and at the braces of blocks."""
    text = re.sub(r"//[^\n]*|/\*(?s:.*?)\*/|\"[^\"\n]*\"", " ", text)
    text = re.sub(r"\.section[^{]*\{[^}]*\}", " ", text)
    text = re.sub(r"(?m)^\s*\.(loc|file|version|target|address_size)\b.*$", " ", text)
    # A brace that begins a line, or follows the end of a statement, is one of a block and not of a vector.
    text = re.sub(r"(?m)^\s*[{}]", "\x00", text).replace("{\n", "\x00")
    text = re.sub(r"(?<=[;):\x00])((?:\s*[{}])+)", "\x00", text)
    statements = (re.sub(r"[A-Za-z_$%][\w$]*\s*:(?!:)", " ", statement) for statement in re.split(r";|\x00", text))
    found = (re.match(r"\s*(?:@!?[\w%$]+\s+)?([a-z][\w.:]*)", statement) for statement in statements)
    return [match[1] for match in found if match]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_instruction_is_read(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    module = parse_ptx(text, str(file))
    functions = sorted((f for f in module.functions.values() if f.body is not None), key=lambda f: f.line)
    bodies = [f.body or () for f in functions]
    assert [i.opcode for i in chain(*bodies)] == instructions_in(text)
    lines = text.split("\n")
    for function, body in zip(functions, bodies, strict=True):
        assert [r.slot for r in function.registers] == list(range(len(function.registers)))
        for instruction in body:
            assert lines[instruction.line - 1][instruction.column - 1 :].startswith(instruction.opcode)
            for operand in instruction.operands:
                labels = (
                    operand.labels if isinstance(operand, Table) else (operand,) if isinstance(operand, Label) else ()
                )
                for label in labels:
                    assert 0 <= label.target <= len(body)
