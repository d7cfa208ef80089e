"""Which numbers of rows a store may have given: ids of runs, uids of schedules, and so on."""

from __future__ import annotations

from typing import Any, TypeGuard

NUMBERS = 9_000_000_000_000_000
"""Not so many were ever given: a greater number was put there by hand, and new rows get theirs
below it. The SQL files have it too. It is not 2^53: 2^53 - 1 may be there by hand."""


def is_number(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and 0 <= value < NUMBERS
