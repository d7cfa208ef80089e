"""Triggers as they are stored: plain JSON with a type and a version."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from tenure.errors import InvalidTrigger, UnknownTrigger
from tenure.triggers.at import At
from tenure.triggers.base import Trigger
from tenure.triggers.cron import Cron
from tenure.triggers.every import Every
from tenure.triggers.rrule import RRule

_TYPES: dict[str, Any] = {"at": At, "cron": Cron, "every": Every, "rrule": RRule}
LONGEST_TEXT = 1_000
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


@lru_cache(maxsize=16_384)
def load(text: str) -> Trigger:
    """The trigger of a stored text; cached, as it is needed again at every occurrence.

    `UnknownTrigger`: newer code wrote it. `InvalidTrigger`: it is wrong. SQL, which knows nothing
    of triggers, stores them as text; they stay that until they are planned.
    """
    try:
        if not text.lstrip().startswith("{") and len(text) < LONGEST_TEXT:
            from tenure.triggers.text import parse

            return parse(text)
        data = json.loads(text)
        kind = data["type"]
        if isinstance(kind, str) and kind not in _TYPES:
            raise UnknownTrigger(f"its type {kind!r} is not known to this version of Tenure")
        trigger: Trigger = _TYPES[kind].from_json(data)
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        wrong = UnknownTrigger if isinstance(error, UnknownTrigger) else InvalidTrigger
        raise wrong(f"the stored trigger {text[:200]!r} cannot be read: {error}") from error
    return trigger
