"""How many schedules there are of each kind."""

from __future__ import annotations

from tenure.model import FACET_COUNTED, Facets
from tenure.web.api.values import Answer


class FacetAnswer(Answer):
    """A tenant or an app, and how many schedules it has."""

    value: str
    count: int
    count_is_more: bool


class FacetsAnswer(Answer):
    """How many schedules there are of each kind, whatever the filters are. Each count ends at
    10,000, and `is_more` lists those that do; of tenants and apps there are the first 20."""

    all: int
    failing: int
    late: int
    inactive: int
    orphaned: int
    is_more: list[str]
    tenants: list[FacetAnswer]
    apps: list[FacetAnswer]


def facets_answer(found: Facets) -> FacetsAnswer:
    kinds = ("all", "failing", "late", "inactive", "orphaned")
    counts: dict[str, int] = {kind: getattr(found, kind) for kind in kinds}
    return FacetsAnswer(
        **{kind: min(number, FACET_COUNTED) for kind, number in counts.items()},
        is_more=[kind for kind, number in counts.items() if number > FACET_COUNTED],
        tenants=[_facet(*each) for each in found.tenants],
        apps=[_facet(*each) for each in found.apps],
    )


def _facet(value: str, count: int) -> FacetAnswer:
    return FacetAnswer(
        value=value, count=min(count, FACET_COUNTED), count_is_more=count > FACET_COUNTED
    )
