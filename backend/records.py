"""Frozen dataclasses as JSON: read back with every name and type checked.

What a kernel leaves for others (its ABI, its signature, an entry of the cache, a sidecar) is a dataclass of scalars, tuples and
other such classes; `dataclasses.asdict` writes it. A union of classes is told apart by the default of the field ``kind``.
"""

from __future__ import annotations

import json
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

_Record = TypeVar("_Record")


def parse(text: str | bytes) -> Any:
    """The value of a JSON text. Raises ValueError for what is none."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def decode(cls: type[_Record], raw: Any) -> _Record:
    """The record that `raw`, parsed JSON, is the text of. Raises ValueError, which says what is wrong."""
    return cast(_Record, _decode(cls, raw, "it"))


_NAMES: dict[type[Any], str] = {
    int: "an integer",
    str: "a string",
    bool: "true or false",
    NoneType: "null",
    list: "a list",
    dict: "an object",
    float: "a number",
}


def _decode(hint: Any, raw: Any, where: str) -> Any:
    """The value of a type that JSON is the text of; `where` names it in the message of a ValueError."""
    if get_origin(hint) is UnionType:
        parts = get_args(hint)
        if kinds := _kinds(parts):
            kind: object = cast("dict[str, Any]", raw).get("kind") if isinstance(raw, dict) else None
            if not isinstance(kind, str) or kind not in kinds:
                raise ValueError(f"{where} is of no known kind: {', '.join(kinds)}")
            return _decode(kinds[kind], raw, where)
        # Of the classes in one union, none but a scalar stands beside null and other scalars.
        part = next((p for p in parts if type(raw) is p), next((p for p in parts if is_dataclass(p)), None))
        if part is None:
            raise ValueError(f"{where} is {_NAMES[type(raw)]}, not {' or '.join(_NAMES[p] for p in parts)}")
        return _decode(part, raw, where)
    if get_origin(hint) is Literal:
        if raw not in get_args(hint):
            raise ValueError(f"{where} is none of {', '.join(map(str, get_args(hint)))}")
        return raw
    if get_origin(hint) is tuple:
        if not isinstance(raw, list):
            raise ValueError(f"{where} is {_NAMES[type(raw)]}, not a list")
        element = get_args(hint)[0]
        return tuple(_decode(element, one, f"{where}[{i}]") for i, one in enumerate(cast("list[Any]", raw)))
    if is_dataclass(hint):
        return _decode_object(cast("type[Any]", hint), raw, where)
    if type(raw) is not hint:  # the exact class: to Python, true is an integer
        raise ValueError(f"{where} is {_NAMES[type(raw)]}, not {_NAMES[hint]}")
    return raw


def _decode_object(cls: type[Any], raw: Any, where: str) -> Any:
    if not isinstance(raw, dict):
        raise ValueError(f"{where} is {_NAMES[type(raw)]}, not an object")
    given = cast("dict[str, Any]", raw)
    known = {field.name: field for field in fields(cls)}
    for name in given:
        if name not in known:
            raise ValueError(f"{where} has an unknown field '{name}'")
    for name, field in known.items():
        if name not in given and field.default is MISSING:
            raise ValueError(f"{where} has no field '{name}'")
    hints = _hints(cls)
    prefix = "" if where == "it" else f"{where}."
    return cls(**{name: _decode(hints[name], value, f"{prefix}{name}") for name, value in given.items()})


def _kinds(parts: tuple[Any, ...]) -> dict[str, type[Any]]:
    """The classes of a union that are told apart by their kind; empty for other unions."""
    found: dict[str, type[Any]] = {}
    for part in parts:
        defaults = {f.name: f.default for f in fields(part)} if is_dataclass(part) else {}
        if isinstance(kind := defaults.get("kind"), str):
            found[kind] = cast("type[Any]", part)
    return found


@cache
def _hints(cls: type[Any]) -> dict[str, Any]:
    return get_type_hints(cls)
