"""What one set of element types and constants makes of a kernel function: a program, and what it returns.

On disk a program is found by the function's digest, the types and the constants, among those whose reads (values around
the function) hold in this process: who finds it there does not lower, and imports no xDSL.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tilec.backend.records import decode, encode, parse
from tilec.collector import seldom_collecting
from tilec.frontend.function import Function
from tilec.frontend.reads import Read, constant, reads_from_json, reads_to_json, still
from tilec.frontend.returns import Returns
from tilec.program import Known, SourceProgram, check_pipeline, digest, recall, remember

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from tilec.frontend.lowering import Lowered

_KEPT = 16
"""Programs of one function that differ in what is around it; the latest come first."""


class FunctionProgram(NamedTuple):
    """A program of a function. It stands for the function as long as `reads` hold."""

    program: SourceProgram
    returns: Returns
    reads: tuple[Read, ...]

    def holds(self, function: Function) -> bool:
        return still(function, self.reads)


class _Entry(NamedTuple):
    known: Known
    returns: Returns


def program_of(
    function: Function, dtypes: Sequence[str], constants: Mapping[str, object], pipeline: str, check: bool
) -> FunctionProgram:
    """From the disk, or lowered. Raises TilecError at the Python line that is wrong."""
    key = digest(
        "function",
        function.digest,
        list(dtypes),
        [[name, constant(value)] for name, value in constants.items()],
        pipeline,
    )
    entries = _recalled(key)
    for _, entry, reads in entries:
        if still(function, reads):

            def lower_again() -> ModuleOp:
                return _lower(function, dtypes, constants).module

            return FunctionProgram(SourceProgram(entry.known, lower_again, pipeline, check), entry.returns, reads)
    lowered = _lower(function, dtypes, constants)
    _check(lowered)
    check_pipeline(pipeline)
    entry = _Entry(Known.of(lowered.module), lowered.returns)
    new = {"entry": encode(entry), "reads": reads_to_json(lowered.reads)}
    remember("function", key, json.dumps([new, *(raw for raw, _, _ in entries)][:_KEPT]).encode())
    return FunctionProgram(
        SourceProgram(entry.known, lambda: lowered.module, pipeline, check), entry.returns, tuple(lowered.reads)
    )


def _lower(function: Function, dtypes: Sequence[str], constants: Mapping[str, object]) -> Lowered:
    with seldom_collecting():
        from tilec.frontend.lowering import lower

        return lower(function, dtypes, constants)


def _check(lowered: Lowered) -> None:
    from tilec.frontend.lowering.outputs import check_outputs

    check_outputs(lowered.module, len(lowered.returns.outputs))


def _recalled(key: str) -> list[tuple[dict[str, Any], _Entry, tuple[Read, ...]]]:
    data = recall("function", key)
    try:
        raws: list[dict[str, Any]] = [] if data is None else parse(data)
        return [(raw, decode(_Entry, raw["entry"]), reads_from_json(raw["reads"])) for raw in raws]
    except (ValueError, TypeError, KeyError):  # of an earlier form; it is written anew
        return []
