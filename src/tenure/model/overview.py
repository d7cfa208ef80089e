"""Which schedules people look for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sought:
    """What is None does not matter."""

    text: str | None = None
    """Part of the name. Letters from A to Z match in either case."""
    tenant: str | None = None
    app: str | None = None
    active: bool | None = None
    reason: str | None = None
    """What its reason begins with."""
    late: float | None = None
    """It is active, and has been due for more than so many seconds."""
