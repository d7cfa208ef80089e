"""A driver's error as the cause of one of ours, without a way to the password.

The error itself leads to the connection, and so to the password: by its attributes, and by the
local variables in its traceback. Error reporters collect both.
"""

from __future__ import annotations

from copy import copy
from typing import NoReturn, TypeVar

from tenure.errors import TenureError

T = TypeVar("T", bound=TenureError)


def caused(told: T, error: BaseException) -> T:
    """Our error, with a copy of the driver's as its cause: the same class, message and state, but
    no connection, traceback or further causes."""
    try:
        told.__cause__ = copy(error)  # psycopg copies as it pickles: without the connection
    except Exception:  # noqa: BLE001 - an error whose class cannot be called with its arguments
        told.__cause__ = Exception(f"{type(error).__name__}: {error}")
    return told


def alone(told: TenureError) -> NoReturn:
    """Raise it without Python's context, which would be the driver's error."""
    try:
        raise told
    finally:
        told.__context__ = None
