"""Keyword arguments as JSON: exactly what is given comes back, or a precise refusal."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from tenure.errors import InvalidSchedule

_encoder = json.JSONEncoder(separators=(",", ":"), sort_keys=True, ensure_ascii=False)


def encode(kwargs: Mapping[str, Any], limit: int, what: str) -> str:
    """The JSON text, if it carries the arguments unchanged and is not longer than `limit` bytes."""
    for key, value in kwargs.items():
        try:
            _check(value, f"kwargs[{key!r}]", what)
        except RecursionError:
            raise InvalidSchedule(
                f"{what}: kwargs[{key!r}] is nested too deeply, or contains itself."
            ) from None
    text = _encoder.encode(kwargs)
    size = len(text.encode())
    if size > limit:
        raise InvalidSchedule(
            f"{what}: the keyword arguments are {size:,} bytes of JSON; the limit is {limit:,}."
            " Store the data elsewhere and pass its key, or raise payload_limit."
        )
    return text


def decode(text: str) -> dict[str, Any] | None:
    """What was stored; None if that is no JSON object, since somebody edited it."""
    try:
        kwargs = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return None
    return kwargs if isinstance(kwargs, dict) else None


def _check(value: object, path: str, what: str) -> None:
    match value:
        case None | bool() | int():
            return
        case str():
            if is_unicode(value):
                return
            problem = "has a lone surrogate, which is not Unicode; decode it properly"
        case float():
            if math.isfinite(value):
                return
            problem = f"is {value}, which JSON does not have"
        case list():
            for index, item in enumerate(value):
                _check(item, f"{path}[{index}]", what)
            return
        case dict():
            for key, item in value.items():
                if not isinstance(key, str):
                    raise InvalidSchedule(
                        f"{what}: {path} has the key {key!r}; JSON keys are strings."
                    )
                _check(item, f"{path}[{key!r}]", what)
            return
        case tuple():
            problem = "is a tuple, which would come back as a list; pass a list"
        case _:
            problem = (
                f"is of type {type(value).__name__}, which JSON cannot carry; pass a string, a"
                " number, a list or a dict, and convert it in the task"
            )
    raise InvalidSchedule(f"{what}: {path} {problem}.")


def is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
