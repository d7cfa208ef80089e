"""What a task returns, as JSON: exactly that, or why it is not kept.

It is encoded where the task ran, not on Tenure's loop: a task may return anything, of any size.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tenure.errors import InvalidSchedule
from tenure.tasks.payload import check

NOT_KEPT = "its result was not kept"
_encoder = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False)


@dataclass(frozen=True, slots=True)
class Kept:
    """What is recorded of a value that is not None."""

    text: str
    """JSON; or nothing, if it is not kept."""
    reason: str | None = None
    """Why not; also None if the task does not want it."""


UNWANTED = Kept("")


def keep(value: object, limit: int, *, wanted: bool) -> Kept | None:
    """None for None, at no cost."""
    if value is None:
        return None
    if not wanted:
        return UNWANTED
    try:
        text = _encode(value, limit)
        check(value, "the value")  # what JSON would change is not what was returned
    except _TooLarge:
        return Kept("", f"{NOT_KEPT}: it is more than {limit:,} bytes of JSON (result_limit)")
    except RecursionError:
        return Kept("", f"{NOT_KEPT}: it is nested too deeply")
    except InvalidSchedule as wrong:
        return Kept("", f"{NOT_KEPT}: {wrong}")
    except (TypeError, ValueError) as wrong:
        return Kept("", f"{NOT_KEPT}: {wrong}")
    except Exception as wrong:  # noqa: BLE001 - a value may have code of its own
        return Kept("", f"{NOT_KEPT}: {type(wrong).__name__} when it was turned into JSON")
    return Kept(text)


def value_of(text: str | None) -> Any:
    """What was returned. `ValueError` if the row was edited by hand."""
    return None if text is None else json.loads(text)


class _TooLarge(Exception):
    pass


def _encode(value: object, limit: int) -> str:
    """Piece by piece, and no further than the limit."""
    pieces, size = [], 0
    for piece in _encoder.iterencode(value):
        size += len(piece.encode())
        if size > limit:
            raise _TooLarge
        pieces.append(piece)
    return "".join(pieces)
