"""Keyword arguments as they are stored: a JSON object, as text."""

from __future__ import annotations

import json
from typing import Any


def read_keywords(text: str, whose: str) -> dict[str, Any]:
    """The arguments; `ValueError` if they are not a JSON object, because the row was edited."""
    try:
        found = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ValueError(
            f"{whose}: its stored keyword arguments are not a JSON object: {text!r:.200}"
        )
    return found
