"""Records as JSON: written with every name, and read back with every name and type checked.

What a kernel leaves for others (its ABI, its signature, an entry of the cache, a sidecar) is a `NamedTuple` of scalars, tuples
and other such records. They are that, and not dataclasses, because every process makes their classes before its first
kernel, and those of dataclasses take seven times as long. A union of records is told apart by the default of the field ``kind``.
"""

from __future__ import annotations

import json
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

_Record = TypeVar("_Record", bound=tuple[Any, ...])


def parse(text: str | bytes) -> Any:
    """The value of a JSON text. Raises ValueError for what is none."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def encode(value: Any) -> Any:
    """What JSON has for a record, or for a value of one."""
    if isinstance(value, tuple):
        items = cast("tuple[Any, ...]", value)
        names: tuple[str, ...] | None = getattr(items, "_fields", None)
        if names is None:
            return [encode(item) for item in items]
        return {name: encode(item) for name, item in zip(names, items, strict=True)}
    return value


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


def _is_record(hint: Any) -> bool:
    return isinstance(hint, type) and hasattr(hint, "_fields")


def _decode(hint: Any, raw: Any, where: str) -> Any:
    """The value of a type that JSON is the text of; `where` names it in the message of a ValueError."""
    if _is_record(hint):
        return _decode_object(cast("type[Any]", hint), raw, where)
    origin = get_origin(hint)
    if origin is UnionType:
        return _decode_union(get_args(hint), raw, where)
    if origin is Literal:
        if raw not in get_args(hint):
            raise ValueError(f"{where} is none of {', '.join(map(str, get_args(hint)))}")
        return raw
    if origin is tuple:
        if not isinstance(raw, list):
            raise ValueError(f"{where} is {_NAMES[type(raw)]}, not a list")
        element = get_args(hint)[0]
        return tuple(_decode(element, one, f"{where}[{i}]") for i, one in enumerate(cast("list[Any]", raw)))
    if type(raw) is not hint:  # the exact class: to Python, true is an integer
        raise ValueError(f"{where} is {_NAMES[type(raw)]}, not {_NAMES[hint]}")
    return raw


def _decode_union(parts: tuple[Any, ...], raw: Any, where: str) -> Any:
    if kinds := _kinds(parts):
        kind: object = cast("dict[str, Any]", raw).get("kind") if isinstance(raw, dict) else None
        if not isinstance(kind, str) or kind not in kinds:
            raise ValueError(f"{where} is of no known kind: {', '.join(kinds)}")
        return _decode(kinds[kind], raw, where)
    # Of the records in one union, none but a scalar stands beside null and other scalars.
    part = next((p for p in parts if type(raw) is p), next((p for p in parts if _is_record(p)), None))
    if part is None:
        raise ValueError(f"{where} is {_NAMES[type(raw)]}, not {' or '.join(_NAMES[p] for p in parts)}")
    return _decode(part, raw, where)


def _decode_object(cls: type[Any], raw: Any, where: str) -> Any:
    if not isinstance(raw, dict):
        raise ValueError(f"{where} is {_NAMES[type(raw)]}, not an object")
    given = cast("dict[str, Any]", raw)
    hints, defaults = _fields(cls)
    for name in given:
        if name not in hints:
            raise ValueError(f"{where} has an unknown field '{name}'")
    for name in hints:
        if name not in given and name not in defaults:
            raise ValueError(f"{where} has no field '{name}'")
    prefix = "" if where == "it" else f"{where}."
    return cls(**{name: _decode(hints[name], value, f"{prefix}{name}") for name, value in given.items()})


@cache
def _fields(cls: type[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The types of a record's fields, and the defaults of those that have one."""
    return get_type_hints(cls), cls._field_defaults


@cache
def _kinds(parts: tuple[Any, ...]) -> dict[str, type[Any]]:
    """The records of a union that are told apart by their kind; empty for other unions."""
    with_kind = [p for p in parts if _is_record(p) and "kind" in p._field_defaults]
    return {p._field_defaults["kind"]: p for p in with_kind}
