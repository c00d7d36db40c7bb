"""Pipelines as text: ``tma,pipeline(2),persistent`` to passes and back.

    pipeline ::= [pass ("," pass)* [","]]
    pass     ::= name [ "(" [option ("," option)* [","]] ")" | "{" [setting+] "}" ]
    option   ::= [key "="] (value | "[" [value ("," value)*] "]")     positional ones first, in the order of the fields
    setting  ::= key [ "=" (value ("," value)* | "[" ... "]") ]       xDSL's spelling: blanks between settings
    value    ::= integer | float | "true" | "false" | name | string

Blanks and newlines may stand anywhere between these. Keys take ``-`` for ``_``. Both forms become one xDSL `ArgSpec`;
`print_pipeline` prints the second, which is what xdsl-opt reads.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import Any, NoReturn, get_args, get_origin, get_type_hints

from xdsl.passes import ModulePass
from xdsl.utils.arg_spec import ArgSpec, ParameterListType, ParameterType
from xdsl.utils.hints import isa, type_repr

from tilec.diagnostics import SourceLocation, TilecError, did_you_mean, kind_of, one_line, register_source
from tilec.passes import PASSES

_FILE = "<pipeline>"
_TOKEN = re.compile(
    r"""\s*(?:
        (?P<string>"(?:[^"\\]|\\.)*")
      | (?P<number>[-+]?[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?(?![A-Za-z0-9_-]))
      | (?P<name>[A-Za-z0-9_-]+)
      | (?P<mark>[(){}\[\],=])
      | (?P<end>\Z)
      | (?P<unknown>.)
    )""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r'\\([nt"\\]|[0-9A-Fa-f]{2})?', re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", '"': '"', "\\": "\\"}
_TO_ESCAPE = re.compile(r'["\\\x00-\x1f\x7f]')


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    position: int


@dataclass(frozen=True)
class _Option:
    """One option as written; `key` is None for a positional one, `values` are None where no value is written."""

    key: str | None
    values: ParameterListType | None
    text: str
    position: int


def parse_pipeline(text: str, passes: Mapping[str, Callable[[], type[ModulePass]]] = PASSES) -> tuple[ModulePass, ...]:
    """The passes that a pipeline text names; what is wrong with the text is a `TilecError` that points into it."""
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TilecError(f"a pipeline is a text, not {kind_of(text)}", hint="for example 'tma,pipeline(2),persistent'")
    return tuple(_Parser(text, passes).pipeline())


def print_pipeline(passes: Sequence[ModulePass]) -> str:
    """The long form of a pipeline, with every option spelled out; `parse_pipeline` reads it back."""
    return ",".join(print_pass(one) for one in passes)


def print_pass(one: ModulePass) -> str:
    """The long form of one pass: ``pipeline{stages=2 lag=0}``."""
    settings: list[str] = []
    for key, values in one.spec(include_default=True).parameters.items():
        if values:
            settings.append(f"{key}={','.join(_print_value(value) for value in values)}")
        elif getattr(one, key) is not None:
            settings.append(key)
    return f"{one.name}{{{' '.join(settings)}}}" if settings else one.name


def describe_options(cls: type[ModulePass]) -> str:
    """The options of a pass with their types and defaults, in the order in which they may be given without names."""
    types = get_type_hints(cls)
    return ", ".join(
        f"{field.name}: {type_repr(types[field.name])}{_print_default(field.default)}"
        for field in dataclasses.fields(cls)
        if field.init
    )


def _print_default(default: Any) -> str:
    return f" = {_print_value(default)}" if isinstance(default, ParameterType) else ""


def _print_value(value: ParameterType) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            escaped = _TO_ESCAPE.sub(lambda m: "\\" + (m[0] if m[0] in '"\\' else f"{ord(m[0]):02X}"), value)
            return f'"{escaped}"'
        case _:
            return repr(value)


_SCALARS: dict[type, str] = {int: "an integer", float: "a number", bool: "true or false", str: "a string"}


def _scalars(hint: Any) -> set[type]:
    """The classes that single values may have under a type hint."""
    return {hint} if hint in _SCALARS else {scalar for part in get_args(hint) for scalar in _scalars(part)}


def _describe(hint: Any) -> str:
    """A type hint in words."""
    if hint in _SCALARS:
        return _SCALARS[hint]
    words = " or ".join(_describe(part) for part in get_args(hint) if part not in (NoneType, ...))
    return f"a list, each {words}" if get_origin(hint) is tuple else words


class _Parser:
    def __init__(self, text: str, passes: Mapping[str, Callable[[], type[ModulePass]]]) -> None:
        register_source(_FILE, text)
        self._text = text
        self._passes = passes
        self._tokens = self._lex()
        self._token = next(self._tokens)

    def pipeline(self) -> Iterator[ModulePass]:
        while self._token.kind != "end":
            yield self._pass()
            if self._token.kind != "end":
                self._expect(",", "between passes")

    def _pass(self) -> ModulePass:
        name = self._token
        if name.kind != "name":
            self._fail(name.position, "expected the name of a pass", f"known: {', '.join(self._passes)}")
        self._advance()
        if name.text not in self._passes:
            self._fail(name.position, f"unknown pass '{name.text}'", did_you_mean(name.text, self._passes))
        if self._take("("):
            options = list(self._options_in_parentheses())
        elif self._take("{"):
            options = list(self._settings_in_braces())
        else:
            options = []
        return self._build(name, self._passes[name.text](), options)

    def _options_in_parentheses(self) -> Iterator[_Option]:
        named = False
        while not self._take(")"):
            start = self._token
            key, values = None, self._list_or_value()
            if start.kind == "name" and self._take("="):
                key, values = start.text, self._list_or_value()
            elif named:
                self._fail(start.position, "a positional option after a named one", "name it, or move it to the front")
            named = key is not None
            yield _Option(key, values, start.text, start.position)
            if self._token.text != ")" or self._token.kind != "mark":
                self._expect(",", "or ')' after an option")

    def _settings_in_braces(self) -> Iterator[_Option]:
        while not self._take("}"):
            key = self._token
            if key.kind != "name":
                self._fail(key.position, f"expected the name of an option or '}}', found {self._found()}")
            self._advance()
            values: ParameterListType | None = None
            if self._take("="):
                values = self._list_or_value()
                while self._take(","):
                    values = (*values, self._value())
            yield _Option(key.text, values, key.text, key.position)

    def _list_or_value(self) -> ParameterListType:
        if not self._take("["):
            return (self._value(),)
        values: list[ParameterType] = []
        while not self._take("]"):
            values.append(self._value())
            if self._token.text != "]" or self._token.kind != "mark":
                self._expect(",", "or ']' after a value")
        return tuple(values)

    def _value(self) -> ParameterType:
        token = self._token
        match token.kind:
            case "number":
                self._advance()
                return float(token.text) if re.search(r"[.eE]", token.text) else int(token.text)
            case "name":
                self._advance()
                return {"true": True, "false": False}.get(token.text, token.text)
            case "string":
                self._advance()
                return self._unescape(token)
            case "unknown" if token.text == '"':
                self._fail(token.position, "this string has no end")
            case _:
                self._fail(token.position, f"expected a value, found {self._found()}")

    def _unescape(self, token: _Token) -> str:
        def replace(match: re.Match[str]) -> str:
            if match[1] is None:
                hint = 'escapes are \\n, \\t, \\", \\\\ and two hexadecimal digits'
                self._fail(token.position + 1 + match.start(), "unknown escape in a string", hint)
            return _ESCAPED.get(match[1]) or chr(int(match[1], 16))

        return _ESCAPE.sub(replace, token.text[1:-1])

    def _build(self, name: _Token, cls: type[ModulePass], options: Sequence[_Option]) -> ModulePass:
        fields = [field.name for field in dataclasses.fields(cls) if field.init]
        types = get_type_hints(cls)
        usage = f"options of {name.text}: {', '.join(fields)}" if fields else f"{name.text} has no options"
        parameters: dict[str, ParameterListType] = {}
        for index, option in enumerate(options):
            if option.key is None and index >= len(fields):
                self._fail(option.position, f"too many options for pass '{name.text}'", usage)
            key = fields[index] if option.key is None else option.key.replace("-", "_")
            if key not in fields:
                self._fail(option.position, f"pass '{name.text}' has no option '{option.key}'", usage)
            if key in parameters:
                self._fail(option.position, f"option '{key}' is given twice")
            parameters[key] = self._convert(key, option, types[key])
        for key in fields:
            if key in cls.required_fields() and key not in parameters:
                self._fail(name.position, f"pass '{name.text}' needs option '{key}'", usage)
        try:
            return cls.from_spec(ArgSpec(cls.name, parameters))
        except ValueError as error:
            self._fail(name.position, one_line(error))

    def _convert(self, key: str, option: _Option, wanted: Any) -> ParameterListType:
        """The values as `ModulePass.from_spec` takes them; checked here, where it is known at which place they stand."""
        values = option.values or ()
        scalars = _scalars(wanted)
        if float in scalars and int not in scalars:
            values = tuple(float(value) if type(value) is int else value for value in values)
        # The exact class counts: to Python, true is an integer.
        fits = all(type(value) in scalars for value in values)
        if option.values is None and not isa((), wanted) and not isa(None, wanted):
            self._fail(option.position, f"option '{key}' needs a value: {_describe(wanted)}")
        if not fits or not (isa(values, wanted) or (len(values) <= 1 and isa(next(iter(values), None), wanted))):
            self._fail(option.position, f"option '{key}' takes {_describe(wanted)}")
        return values

    def _lex(self) -> Iterator[_Token]:
        position = 0
        while True:
            match = _TOKEN.match(self._text, position)
            assert match is not None and match.lastgroup is not None  # 'unknown' and 'end' take what the others leave
            token = _Token(match.lastgroup, match[match.lastgroup], match.start(match.lastgroup))
            yield token
            position = match.end()

    def _advance(self) -> None:
        self._token = next(self._tokens)

    def _take(self, mark: str) -> bool:
        if self._token.kind == "mark" and self._token.text == mark:
            self._advance()
            return True
        return False

    def _expect(self, mark: str, context: str) -> None:
        if not self._take(mark):
            self._fail(self._token.position, f"expected '{mark}' {context}, found {self._found()}")

    def _found(self) -> str:
        return "the end" if self._token.kind == "end" else f"'{self._token.text}'"

    def _fail(self, position: int, message: str, hint: str | None = None) -> NoReturn:
        line_start = self._text.rfind("\n", 0, position) + 1
        line = self._text.count("\n", 0, position) + 1
        raise TilecError(message, SourceLocation(_FILE, line, position - line_start + 1), hint)
