"""The protocols that a backend fulfils. This package is the specification.

Read it in this order: leases.py, office.py, schedules.py, runs.py, events.py, relays.py,
audit.py, summaries.py, overview.py, backend.py. The extras that a backend may offer are in
capabilities.py.

A backend has eleven parts: **leases** (who may act), the **office** (whose writes land),
**schedules** (what is due, and the transaction that fires it), **editions** (what code declares),
**runs** (claims and results), **events** (the log), **relays** (what of it is delivered), an
**audit** (who changed what), **summaries** (of what runs came to), an **overview** (lists for
people), and **wake-ups**. Each method is one atomic operation, written as
one SQL transaction or one script: there is no begin or commit here, and no optional method. An
expected "no" is a value; exceptions are for a store that cannot be reached (`StoreUnavailable`), a
wrong schema, and a leader that is no longer in office (`Fenced`).

A cancelled call ends at once, wherever it is. The caller cannot know whether the change was made,
so every change is safe to repeat. Other calls go on undisturbed, and each gets its own answer.

The store's clock decides what has expired and what is due. No method takes the caller's time.

`tenure.testing.contract` turns every sentence into a test; a backend that passes is correct.
"""

from tenure.backends.base.audit import AuditStore
from tenure.backends.base.backend import (
    CANCELS,
    EVENTS,
    MOST_WAKES,
    RUNS,
    SCHEDULES,
    UNSEQUENCED,
    Backend,
    LeaseBackend,
    Place,
    Scheme,
    Stores,
    Wakeups,
    lease_topic,
)
from tenure.backends.base.capabilities import (
    LEND_WITHIN,
    AsyncLentTransaction,
    BacksUp,
    BlockingLeases,
    Connects,
    CountsConnections,
    Joined,
    Joins,
    KnowsNamespaces,
    KnowsRoles,
    Lender,
    Lends,
    LentTransaction,
    Upkeep,
)
from tenure.backends.base.copying import Copies, CopyMark, CopySide
from tenure.backends.base.events import UNREAD_KEPT, EventStore, unread_kept
from tenure.backends.base.leases import FREE_AFTER, KEPT_LINES, OWN, LeaseStore
from tenure.backends.base.office import Office
from tenure.backends.base.overview import LAST_OF_ERROR, OverviewStore
from tenure.backends.base.relays import REPLAYS, RelayStore
from tenure.backends.base.runs import RunStore
from tenure.backends.base.schedules import LONGEST_WAIT, EditionStore, Now, ScheduleStore
from tenure.backends.base.summaries import SummaryStore

__all__ = [
    "CANCELS",
    "EVENTS",
    "FREE_AFTER",
    "KEPT_LINES",
    "LAST_OF_ERROR",
    "LEND_WITHIN",
    "LONGEST_WAIT",
    "MOST_WAKES",
    "OWN",
    "REPLAYS",
    "RUNS",
    "SCHEDULES",
    "UNREAD_KEPT",
    "UNSEQUENCED",
    "AsyncLentTransaction",
    "AuditStore",
    "Backend",
    "BacksUp",
    "BlockingLeases",
    "Connects",
    "Copies",
    "CopyMark",
    "CopySide",
    "CountsConnections",
    "EditionStore",
    "EventStore",
    "Joined",
    "Joins",
    "KnowsNamespaces",
    "KnowsRoles",
    "LeaseBackend",
    "LeaseStore",
    "Lender",
    "Lends",
    "LentTransaction",
    "Now",
    "Office",
    "OverviewStore",
    "Place",
    "RelayStore",
    "RunStore",
    "ScheduleStore",
    "Scheme",
    "Stores",
    "SummaryStore",
    "Upkeep",
    "Wakeups",
    "lease_topic",
    "unread_kept",
]
