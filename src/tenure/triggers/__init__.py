"""Triggers: when a schedule's occurrences are. Stored as plain JSON with a type and a version."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from tenure.errors import InvalidTrigger
from tenure.triggers.base import Trigger
from tenure.triggers.every import Every, every

__all__ = ["Every", "Trigger", "dump", "every", "load"]

_TYPES: dict[str, Any] = {"every": Every}


def dump(trigger: Trigger) -> str:
    return json.dumps(trigger.to_json(), separators=(",", ":"), sort_keys=True)


@lru_cache(maxsize=16_384)
def load(text: str) -> Trigger:
    """The trigger of a stored text. Cached: many schedules share few triggers."""
    try:
        data = json.loads(text)
        kind = _TYPES[data["type"]]
        trigger: Trigger = kind.from_json(data)
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidTrigger(
            f"the stored trigger {text[:200]!r} cannot be read: {error}"
        ) from error
    return trigger
