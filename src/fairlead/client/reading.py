"""From JSON to dataclasses, by their annotations. Fields that a newer scheduler has added are passed over; one that is missing
takes its default, or is an error that says which."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from fairlead.client.errors import UnexpectedAnswer

T = TypeVar("T")


def read(kind: type[T], data: object, where: str = "") -> T:
    """`data` as `kind`: a dataclass, or what one may have for a field."""
    made: T = _read(kind, data, where or getattr(kind, "__name__", str(kind)))
    return made


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _read(kind: Any, data: Any, where: str) -> Any:
    if kind is Any or kind is object:
        return data
    if is_dataclass(kind):
        return _dataclass(kind, data, where)
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        if data is None and type(None) in args:
            return None
        return _read(next(one for one in args if one is not type(None)), data, where)
    if origin is tuple and isinstance(data, list):
        return tuple(_read(args[0], one, f"{where}[{i}]") for i, one in enumerate(data))
    if origin is Mapping and isinstance(data, dict):
        return {key: _read(args[1], value, f"{where}.{key}") for key, value in data.items()}
    if kind is float and isinstance(data, int | float) and not isinstance(data, bool):
        return float(data)
    if isinstance(kind, type) and isinstance(data, kind) and (kind is bool or not isinstance(data, bool)):
        return data
    raise UnexpectedAnswer(f"the scheduler's answer is not understood: {where} is {data!r:.80}, no {_name(kind)}")


def _dataclass(kind: Any, data: Any, where: str) -> Any:
    if not isinstance(data, dict):
        raise UnexpectedAnswer(f"the scheduler's answer is not understood: {where} is {data!r:.80}, no object")
    hints, values = _hints(kind), {}
    for field in fields(kind):
        if field.name in data:
            values[field.name] = _read(hints[field.name], data[field.name], f"{where}.{field.name}")
        elif field.default is MISSING and field.default_factory is MISSING:
            raise UnexpectedAnswer(f"the scheduler's answer is not understood: {where} has no {field.name}")
    return kind(**values)


def _name(kind: Any) -> str:
    return getattr(kind, "__name__", str(kind))
