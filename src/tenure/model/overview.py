"""Which schedules people look for."""

from __future__ import annotations

from tenure.model.value import value


@value(frozen=True, slots=True)
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
    failing: bool = False
    """Only those whose summary says that they fail."""


FACET_COUNTED = 10_000
"""Where the counts of `Facets` end: they are one more if there are more."""
FACET_VALUES = 20
"""How many tenants, and how many apps, are counted: the first ones by name."""


@value(frozen=True, slots=True)
class Facets:
    """How many schedules there are of each kind. Each count ends at `FACET_COUNTED` + 1."""

    all: int
    failing: int
    late: int
    inactive: int
    orphaned: int
    tenants: tuple[tuple[str, int], ...]
    apps: tuple[tuple[str, int], ...]
