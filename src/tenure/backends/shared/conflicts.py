"""Why a change of schedules did not land: the same words for every store."""

from __future__ import annotations

from tenure.errors import Conflict
from tenure.model import Change


def taken(name: str) -> Conflict:
    """Another schedule has the name."""
    return Conflict(
        f"a schedule named {name!r} exists already. Nothing was changed: update() changes that one,"
        " put() adds a schedule or changes it, and another name adds another."
    )


def changed(name: str) -> Conflict:
    """It is not as it was read."""
    return Conflict(f"schedule {name!r} changed since it was read.")


def is_renamed(change: Change) -> bool:
    return change.replaces is not None and change.replaces.name != change.spec.name
