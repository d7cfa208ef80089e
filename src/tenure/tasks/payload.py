"""Keyword arguments as JSON: exactly what is given comes back, or a precise refusal."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from tenure.errors import InvalidSchedule
from tenure.printable import brief

TOO_LARGE = "the keyword arguments are"
"""How the reason begins for which they are refused."""
_encoder = json.JSONEncoder(separators=(",", ":"), sort_keys=True, ensure_ascii=False)


def encode(kwargs: Mapping[str, Any], limit: int, what: str) -> str:
    """The JSON text, if it carries the arguments unchanged and is not longer than `limit` bytes."""
    for key, value in kwargs.items():
        try:
            check(value, f"{what}: kwargs[{key!r}]")
        except RecursionError:
            raise InvalidSchedule(
                f"{what}: kwargs[{key!r}] is nested too deeply, or contains itself."
            ) from None
    text = _encoder.encode(kwargs)
    size = len(text.encode())
    if size > limit:
        raise InvalidSchedule(f"{what}: {too_large(size, limit)}")
    return text


def too_large(size: int, limit: int) -> str:
    """Why arguments of that size are refused, and what to do."""
    return (
        f"{TOO_LARGE} {size:,} bytes of JSON; the limit is {limit:,}. Store the data"
        " elsewhere and pass its key, or raise payload_limit on every node."
    )


def decode(text: str) -> dict[str, Any] | None:
    """The stored arguments; None if they are not a JSON object, because the row was edited."""
    if text == "{}":  # most have none
        return {}
    try:
        kwargs = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return None
    return kwargs if isinstance(kwargs, dict) else None


def check(value: object, path: str) -> None:
    """Refuse what JSON cannot carry, or would change. `path`: what to call it."""
    match value:
        case None | int() | float() | str():
            problem = _wrong(value)
            if problem is None:
                return
        case list():
            for index, item in enumerate(value):
                check(item, f"{path}[{index}]")
            return
        case dict():
            for key, item in value.items():
                if not isinstance(key, str):
                    raise InvalidSchedule(
                        f"{path} has the key {brief(key)}; JSON keys are strings."
                    )
                check(item, f"{path}[{key!r}]")
            return
        case tuple():
            problem = "is a tuple, which would come back as a list; use a list"
        case _:
            problem = (
                f"is of type {type(value).__name__}, which JSON cannot carry; use a string, a"
                " number, a list or a dict, and convert it"
            )
    raise InvalidSchedule(f"{path} {problem}.")


def _wrong(value: object) -> str | None:
    """Why JSON cannot carry it; None if it can."""
    match value:
        case str() if not is_unicode(value):
            return "has a lone surrogate, which is not Unicode; decode it properly"
        case float() if not math.isfinite(value):
            return f"is {value}, which JSON does not have"
        case int():
            try:
                int.__repr__(value)  # Python refuses beyond sys.get_int_max_str_digits()
            except ValueError:
                return "has more digits than Python writes and reads; pass it as a text"
    return None


def is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
