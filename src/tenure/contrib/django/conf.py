"""`TENURE = {…}` in the project's settings, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS

from tenure.errors import ConfigError
from tenure.printable import brief, nearest

_TEXT = (str, "a text")
_YES = (bool, "True or False")
_LIST = (Sequence, "a list")
_KEYS: dict[str, tuple[Any, str]] = {
    "DATABASE": _TEXT,
    "URL": _TEXT,
    "LEASES": _TEXT,
    "NAMESPACE": _TEXT,
    "APP": _TEXT,
    "TZ": _TEXT,
    "TTL": ((int, float), "a number of seconds"),
    "CONCURRENCY": (int, "a whole number"),
    "QUEUES": _LIST,
    "LEADS": _YES,
    "RELAYS": _LIST,
    "HEALTH": _TEXT,
    "MIGRATE": _YES,
    "POLICIES": (Mapping, "a dict"),
}
_OURS = ("DATABASE", "URL")
"""All others are arguments of `Scheduler`."""


def given() -> dict[str, Any]:
    """What the project says; what is None counts as left out."""
    found = getattr(settings, "TENURE", {})
    if not isinstance(found, Mapping):
        raise ConfigError(f"TENURE must be a dict, not {brief(found)}: TENURE = {{'TTL': 15}}.")
    for key, value in found.items():
        if key not in _KEYS:
            known = ", ".join(_KEYS)
            raise ConfigError(
                f"TENURE[{key!r}] is not a setting.{nearest(str(key), _KEYS)} There are: {known}."
            )
        kind, words = _KEYS[key]
        wrong = not isinstance(value, kind) or (kind is not bool and isinstance(value, bool))
        if value is not None and (wrong or (kind is Sequence and isinstance(value, str))):
            shown = "what it is" if key in ("URL", "LEASES") else brief(value)  # it may be secret
            raise ConfigError(f"TENURE[{key!r}] must be {words}, not {shown}.")
    if found.get("URL") is not None and found.get("DATABASE") is not None:
        raise ConfigError("TENURE has both 'URL' and 'DATABASE': which is meant? Leave out one.")
    return {key: value for key, value in found.items() if value is not None}


def options() -> dict[str, Any]:
    """The arguments of `Scheduler`. Triggers that name no time zone have the project's."""
    named = {key.lower(): value for key, value in given().items() if key not in _OURS}
    return {"tz": settings.TIME_ZONE, **named}


def alias() -> str:
    """The database, of `DATABASES`, that the schedules are in, if no URL is given."""
    return str(given().get("DATABASE", DEFAULT_DB_ALIAS))
