"""Text of tile programs: files and strings to verified modules in which every operation knows its line.

xDSL's parser keeps only the locations that a text spells out with ``loc(...)``. The one here gives every other operation and
block argument the position of its own text, so that passes, errors and PTX ``.loc`` lines can point at the program.
"""

from __future__ import annotations

import re
import threading
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, ModuleOp, StringAttr, UnknownLoc
from xdsl.ir import AttributeInvT, Block, BlockArgument, Data, Dialect, Operation, ParametrizedAttribute, SSAValue
from xdsl.parser import Parser
from xdsl.parser.core import UnresolvedOperand
from xdsl.parser.generic_parser import ParserState
from xdsl.utils.exceptions import MultipleSpansParseError, ParseError, VerifyException
from xdsl.utils.lexer import Input, Position, Span
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRToken, MLIRTokenKind, StringLiteral

from tilec.context import make_context
from tilec.diagnostics import Diagnostic, SourceLocation, TilecError, did_you_mean, one_line, refusal, register_source
from tilec.source_text import read_source, refuse_python
from tilec.verify import verify

_parsing = threading.RLock()
"""One text at a time: to end a loop that has no terminator, xDSL's parser replaces a method of all operations for a moment
(`xdsl.builder.ImplicitBuilder`), and two threads that do so put back each other's, for good."""


def parse_file(path: str | Path, context: Context | None = None) -> ModuleOp:
    """Read, parse and verify a file; all that can be wrong with it is a `TilecError`."""
    text = read_source(path)
    refuse_python(str(path))
    return parse_text(text, str(path), context)


def parse_text(
    text: str,
    name: str = "<string>",
    context: Context | None = None,
    *,
    check: bool = True,
    implicit_module: bool = True,
) -> ModuleOp:
    """Parse a module, with or without ``builtin.module`` around it, and verify it unless `check` is off."""
    register_source(name, text)
    parser = None
    try:
        parser = TileParser(context or make_context(), text, name)
        with _parsing:
            module = parser.parse_module(implicit_module)
    except TilecError:
        raise
    except ParseError as error:
        raise _from_parse_error(error) from error
    except Exception as error:
        raise refusal(error, None if parser is None else parser.location_of_operation()) from error
    inherit_locations(module)
    if check:
        verify(module)
    return module


def inherit_locations(root: Operation) -> None:
    """Give each operation without a location that of its predecessor, or else its parent's.

    Terminators that no text spells out have none, for example.
    """
    for region in root.regions:
        for block in region.blocks:
            last = root.location
            for op in block.ops:
                if isinstance(op.location, UnknownLoc):
                    op.location = last
                last = op.location
                inherit_locations(op)


class _Lexer(MLIRLexer):
    """Reads every UTF-8 string literal as a string: xDSL takes one for bytes if an escape in it is not ASCII."""

    # xDSL's expression, without its nested repetition: that takes exponential time to see that a string has no end.
    _unescaped_characters_regex = re.compile(r'"(?:[^"\\\n\v\f]|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*+"')

    def _lex_string_literal(self, start_pos: Position) -> MLIRToken:
        token = super()._lex_string_literal(start_pos)
        if token.kind is MLIRTokenKind.BYTES_LIT:
            try:
                StringLiteral(token.span.start, token.span.end, self.input).bytes_contents.decode("utf-8")
            except UnicodeDecodeError:
                return token
            return MLIRToken(MLIRTokenKind.STRING_LIT, token.span)
        return token


class TileParser(Parser):
    """xDSL's parser; sets locations, and says what was meant where a name is not known."""

    def __init__(self, context: Context, text: str, name: str) -> None:
        super().__init__(context, "", name)
        self._name = name
        self._line_starts = [0, *(i + 1 for i, c in enumerate(text) if c == "\n")]
        self._operation_positions: list[Position] = []
        self._placeholders: dict[SSAValue, SSAValue] = {}
        """What was defined for the values that stood for a name until then."""
        self._first_uses: dict[str, Position] = {}
        """Of names that were not defined when they were used."""
        self._defined: set[str] = set()
        self._parser_state = ParserState(_Lexer(Input(text, name)))

    def parse_module(self, allow_implicit_module: bool = True) -> ModuleOp:
        if self._current_token.kind is MLIRTokenKind.EOF:
            self.raise_error("there is no operation in this text")
        try:
            module = super().parse_module(allow_implicit_module)
        except ParseError as error:
            if self.forward_ssa_references and error.msg.startswith("values used but not defined"):
                raise self._undefined() from error
            raise
        if isinstance(module.location, UnknownLoc):
            module.location = self._attribute_at(0)
        return module

    def resolve_operand(self, operand: UnresolvedOperand, type: AttributeInvT) -> SSAValue[AttributeInvT]:
        if operand.operand_name not in self.ssa_values:
            self._first_uses.setdefault(operand.operand_name, operand.span.start)
        return super().resolve_operand(operand, type)

    def _undefined(self) -> TilecError:
        """The first value that nothing defines, at its first use."""
        first, *others = sorted((self._first_uses.get(name, self.pos), name) for name in self.forward_ssa_references)
        meant = get_close_matches(first[1], self._defined, n=1)
        return TilecError(
            f"%{first[1]} is not defined",
            self._locate(first[0]),
            f"did you mean %{meant[0]}?" if meant else None,
            tuple(Diagnostic("note", f"nor is %{name}", self._locate(place)) for place, name in others),
        )

    def parse_operation(self) -> Operation:
        operation = super().parse_operation()
        # A name that an operation uses and its own regions define: xDSL puts the value in place of the name before there is
        # an operation that uses it.
        for i, operand in enumerate(operation.operands):
            if operand in self._placeholders:
                operation.operands[i] = self._placeholders[operand]
        position = self._operation_positions.pop()
        if isinstance(operation.location, UnknownLoc):
            operation.location = self._attribute_at(position)
        return operation

    def parse_optional_argument(self, expect_type: bool = True) -> Any:
        # xDSL reads the location of an argument in the generic format and of functions only.
        argument = super().parse_optional_argument(expect_type)
        if isinstance(argument, Parser.Argument):
            argument.location = self.parse_optional_location()
        return argument

    def location_of_operation(self) -> SourceLocation:
        """Where the name of the operation that is being parsed stands."""
        return self._locate(self._operation_positions[-1] if self._operation_positions else self.pos)

    def _parse_op_result_list(self) -> list[tuple[Span, int]]:
        # The first thing that parse_operation reads: what follows is the name of the operation.
        self._operation_positions.append(self.pos)
        results = super()._parse_op_result_list()
        self._operation_positions[-1] = self.pos
        return results

    def _parse_block(self) -> Block:
        if self._current_token.kind is not MLIRTokenKind.CARET_IDENT:
            self.raise_error("expected an operation or '}'")
        return super()._parse_block()

    def _register_ssa_definition(self, name: str, values: Sequence[SSAValue], span: Span) -> None:
        self._defined.add(name)
        self._first_uses.pop(name, None)
        placeholders = self.forward_ssa_references.get(name, {})
        super()._register_ssa_definition(name, values, span)
        self._placeholders.update((placeholder, values[i]) for i, placeholder in placeholders.items())
        for value in values:
            if isinstance(value, BlockArgument) and isinstance(value.location, UnknownLoc):
                value.location = self._attribute_at(span.start)

    def _get_op_by_name(self, name: str) -> type[Operation]:
        found = self.ctx.get_optional_op(name, dialect_stack=self._parser_state.dialect_stack)
        if found is not None:
            return found
        dialect, dot, _ = name.partition(".")
        if not dot:
            raise TilecError(f"expected an operation, found '{name}'", self.location_of_operation())
        if self.ctx.get_optional_dialect(dialect) is None:
            known = self.ctx.registered_dialect_names
            hint = did_you_mean(dialect, known)
            raise TilecError(f"unknown dialect '{dialect}' of operation '{name}'", self.location_of_operation(), hint)
        known = sorted(op.name for op in self.ctx.loaded_ops if op.dialect_name() == dialect)
        raise TilecError(f"unknown operation '{name}'", self.location_of_operation(), did_you_mean(name, known))

    def _parse_dialect_type_or_attribute_body(
        self, attr_name: str, is_type: bool, is_opaque: bool, starting_opaque_pos: Position | None
    ) -> ParametrizedAttribute | Data[Any]:
        start = max(self.lexer.input.content.rfind(attr_name, 0, self.pos) - 1, 0)
        kind = "type" if is_type else "attribute"
        if "." in attr_name:
            find = self.ctx.get_optional_type if is_type else self.ctx.get_optional_attr
            if find(attr_name) is None:
                loaded = self.ctx.loaded_types if is_type else self.ctx.loaded_attrs
                dialect = Dialect.split_name(attr_name)[0] + "."
                known = sorted(known.name for known in loaded if known.name.startswith(dialect))
                hint = did_you_mean(attr_name, known) if known else None
                raise TilecError(f"unknown {kind} '{attr_name}'", self._locate(start), hint)
        try:
            return super()._parse_dialect_type_or_attribute_body(attr_name, is_type, is_opaque, starting_opaque_pos)
        except VerifyException as error:
            raise TilecError(one_line(error), self._locate(start)) from error

    def _locate(self, position: Position) -> SourceLocation:
        line = bisect_right(self._line_starts, position)
        return SourceLocation(self._name, line, position - self._line_starts[line - 1] + 1)

    def _attribute_at(self, position: Position) -> FileLineColLoc:
        at = self._locate(position)
        return FileLineColLoc(StringAttr(at.file), IntAttr(at.line), IntAttr(at.column))


def _from_parse_error(error: ParseError) -> TilecError:
    notes: tuple[Diagnostic, ...] = ()
    if isinstance(error, MultipleSpansParseError):
        notes = tuple(
            Diagnostic("note", one_line(text or error.ref_text or "see here"), _location_of_span(span))
            for span, text in error.refs
        )
    # xDSL's words for whatever is no operation where one must stand.
    message = "expected an operation" if error.msg == "Could not parse entire input!" else one_line(error.msg)
    return TilecError(message, _location_of_span(error.span), notes=notes)


def _location_of_span(span: Span[str] | Span[bytes]) -> SourceLocation:
    # An error at the end of the text points behind its last word, not at an empty line below.
    start = min(span.start, len(span.input.content.rstrip()))
    return SourceLocation(*replace(span, start=start).get_location())
