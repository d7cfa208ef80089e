"""Triggers as they are stored: plain JSON with a type and a version."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from tenure.errors import InvalidTrigger, UnknownTrigger
from tenure.printable import brief
from tenure.triggers.at import At
from tenure.triggers.base import Bounded, Trigger
from tenure.triggers.cron import Cron
from tenure.triggers.effort import affordable, spend
from tenure.triggers.every import Every
from tenure.triggers.rrule import RRule

_TYPES: dict[str, Any] = {"at": At, "cron": Cron, "every": Every, "rrule": RRule}
# 10,000 excluded times take some 300,000 characters.
LONGEST_TEXT = 1_000_000
LONGEST_ERROR = 500
_encode = json.JSONEncoder(separators=(",", ":"), sort_keys=True).encode
KNOWN: dict[str, tuple[int, ...]] = {name: kind.VERSIONS for name, kind in _TYPES.items()}
"""The types and versions that this code can read."""


def kinds() -> list[str]:
    """The same, as a node advertises them: "cron:1"."""
    return sorted(f"{name}:{version}" for name, versions in KNOWN.items() for version in versions)


def kind_of(text: str) -> str:
    """The type and version of a stored text that is JSON, known or not."""
    data = json.loads(text)
    return f"{data['type']}:{data.get('v')}"


def dump(trigger: Trigger) -> str:
    return _encode(trigger.to_json())


def fingerprint(trigger: Trigger) -> str:
    """The text of which the digest says whether a declaration has changed.

    Digests outlive upgrades, so a start that may still be given a zone counts as one in UTC: `dump`
    once wrote it so.
    """
    if isinstance(trigger, Every) and trigger.tz is None:
        trigger = trigger.from_instant()
    return dump(trigger)


_WRONG = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)
"""What comes of data of wrong types and sizes."""


@lru_cache(maxsize=16_384)
def load(text: str) -> Trigger:
    """The trigger of a stored text; cached, as it is needed again at every occurrence.

    `UnknownTrigger`: newer code wrote it. `InvalidTrigger`: it is wrong. SQL, which knows nothing
    of triggers, stores them as text; they stay that until they are planned.
    """
    if not isinstance(text, str):
        raise InvalidTrigger(f"the stored trigger {brief(text)} cannot be read: it is not text")
    try:
        if len(text) > LONGEST_TEXT:
            raise ValueError(
                f"it has {len(text):,} characters; at most {LONGEST_TEXT:,} are allowed"
            )
        with affordable("read it"):
            spend(len(text) / 8)
            trigger = _read(text)
            return trigger.prepared() if isinstance(trigger, Bounded) else trigger
    except _WRONG as error:
        wrong = UnknownTrigger if isinstance(error, UnknownTrigger) else InvalidTrigger
        said = f"the key {error} is missing" if isinstance(error, KeyError) else str(error)
        if len(said) > LONGEST_ERROR:
            said = f"{said[:LONGEST_ERROR]} …"
        raise wrong(f"the stored trigger {text[:200]!r} cannot be read: {said}") from error


def _read(text: str) -> Trigger:
    if not text.lstrip().startswith("{"):
        from tenure.triggers.text import parse

        return parse(text)
    data = json.loads(text)
    kind = data["type"]
    if not isinstance(kind, str):
        raise ValueError(f"its type {kind!r} is not text")
    if kind not in _TYPES:
        raise UnknownTrigger(f"its type {kind!r} is not known to this version of Tenure")
    trigger: Trigger = _TYPES[kind].from_json(data)
    return trigger
