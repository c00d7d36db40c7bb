"""Variables that a module first declares `.extern` and then defines (PTX 11.6.1)."""

from __future__ import annotations

from dataclasses import replace

from tilec.backend.emulator.ptx.syntax import Address, Arguments, Function, Operand, Symbol, Variable, Vector


def with_definitions(function: Function, definitions: dict[Variable, Variable]) -> Function:
    """`function` with every declared variable replaced by its definition."""
    if function.body is None:
        return function
    body = tuple(
        replace(instruction, operands=tuple(_defined(item, definitions) for item in instruction.operands))
        for instruction in function.body
    )
    return replace(function, body=body)


def _defined(item: Operand, definitions: dict[Variable, Variable]) -> Operand:
    match item:
        case Symbol(variable):
            return replace(item, variable=definitions.get(variable, variable))
        case Address(Symbol(variable) as base):
            return replace(item, base=replace(base, variable=definitions.get(variable, variable)))
        case Vector(elements) | Arguments(elements):
            return replace(item, elements=tuple(_defined(element, definitions) for element in elements))
        case _:
            return item
