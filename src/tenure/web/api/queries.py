"""Queries: text that is read by the types of a struct, strictly, as its description says."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

import msgspec
from msgspec.inspect import (
    BoolType,
    FloatType,
    IntType,
    Metadata,
    NoneType,
    StructType,
    Type,
    UnionType,
)

from tenure.web.api.problems import unprocessable

_INT = re.compile("-?[0-9]{1,19}")
_FLOAT = re.compile(r"-?[0-9]{1,30}(\.[0-9]{1,30})?")
_BOOL = {"true": True, "false": False}


def read_query(kind: type[msgspec.Struct] | None, given: Sequence[tuple[str, str]]) -> Any:
    """The struct; a problem for whatever it does not have, has twice, or has of another type."""
    types = {} if kind is None else _types(kind)
    values: dict[str, object] = {}
    for name, text in given:
        if name not in types:
            known = f" There are: {', '.join(types)}." if types else " There are none here."
            raise unprocessable(f"the query has an unknown parameter {name[:50]!r}.{known}")
        if name in values:
            raise unprocessable(f"the query has {name!r} twice.")
        values[name] = _value(types[name], text)
    if kind is None:
        return None
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        raise unprocessable(f"the query: {error}") from error


@cache
def _types(kind: type[msgspec.Struct]) -> dict[str, Type]:
    told = msgspec.inspect.type_info(kind)
    assert isinstance(told, StructType)
    return {field.name: _some(field.type) for field in told.fields}


def _some(told: Type) -> Type:
    """What it is if it is not None."""
    if isinstance(told, Metadata):
        return _some(told.type)
    if isinstance(told, UnionType):
        (some,) = (each for each in told.types if not isinstance(each, NoneType))
        return _some(some)
    return told


def _value(told: Type, text: str) -> object:
    """As the type has it; the text, if it cannot be that, which `convert` then refuses."""
    if "\0" in text:
        raise unprocessable("the query has a zero character.")
    if isinstance(told, BoolType):
        return _BOOL.get(text, text)
    if isinstance(told, IntType) and _INT.fullmatch(text):
        return int(text)
    if isinstance(told, FloatType) and _FLOAT.fullmatch(text):
        return float(text)
    return text
