"""The one table of routes: the parts of all nouns, in the order in which they are described."""

from __future__ import annotations

from tenure.web.api import (
    audit,
    events,
    leases,
    occurrences,
    relays,
    run_control,
    runs,
    schedule_changes,
    schedules,
)
from tenure.web.api import status as statuses
from tenure.web.api.table import Operation

TABLE: tuple[Operation, ...] = (
    *statuses.OPERATIONS,
    *schedules.OPERATIONS,
    *schedule_changes.OPERATIONS,
    *occurrences.OPERATIONS,
    *runs.OPERATIONS,
    *run_control.OPERATIONS,
    *leases.OPERATIONS,
    *events.OPERATIONS,
    *relays.OPERATIONS,
    *audit.OPERATIONS,
)
