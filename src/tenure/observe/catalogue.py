"""Every metric, in one list. Names, kinds and labels are stable; docs/observability.md has each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

LATENESS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0, 1800.0)
DURATION = (0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0, 7200.0)
CALLS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


@dataclass(frozen=True, slots=True, eq=False)
class Metric:
    """What is exposed under one name."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    starts: tuple[tuple[str, ...], ...] = ()
    """Labels that are there from the beginning, with 0: a rate needs a value before the first."""


def _counter(name: str, text: str, *labels: str, starts: tuple[str, ...] = ()) -> Metric:
    known = tuple((each,) for each in starts) if labels else ((),)
    return Metric(name, "counter", text, labels, starts=known)


def _gauge(name: str, text: str, *labels: str) -> Metric:
    return Metric(name, "gauge", text, labels)


# -- of this node ---------------------------------------------------------------------------------

INFO = _gauge("tenure_node_info", "Always 1.", "version", "app", "tenure_namespace")
LEADER = _gauge("tenure_leader", "1 if this node leads, else 0.")
READY = _gauge("tenure_ready", "1 if /readyz would answer 200, else 0.")
ELECTED = _counter("tenure_took_office_total", "How often this node began to lead.")
TAKEOVERS = _counter(
    "tenure_takeovers_total",
    "How often this node took the leadership from a node that had not released it.",
)
RESIGNED = _counter(
    "tenure_left_office_total",
    "How often this node ceased to lead.",
    "reason",
    starts=("released", "lost", "fenced", "other"),
)
HEARTBEAT = _gauge(
    "tenure_heartbeat_timestamp_seconds", "When the leases of this node were last renewed."
)
TTL = _gauge(
    "tenure_lease_ttl_seconds", "How long a lease of this node lasts without being renewed."
)
LOSSES = _counter(
    "tenure_lease_losses_total",
    "How often a lease of this process was in doubt or over against its will.",
    "reason",
    starts=("suspended", "lost", "overrun"),
)
OCCURRENCES = Metric(
    "tenure_occurrences_total",
    "counter",
    "Occurrences that this node has accounted for as leader; a missed stretch counts as one.",
    ("outcome", "reason"),
    starts=(("fired", ""), ("skipped", "overlap"), ("missed", "catch_up")),
)
TICK_LATENESS = Metric(
    "tenure_tick_lateness_seconds",
    "histogram",
    "How late the latest occurrence of each firing transaction was.",
    buckets=LATENESS,
    starts=((),),
)
SET_ASIDE = _counter(
    "tenure_schedules_refused_total",
    "Schedules that could not be fired: set aside, or put off for a while.",
    "outcome",
    starts=("set_aside", "put_off"),
)
RUNS = _counter("tenure_runs_total", "Attempts of this node that ended, by how.", "outcome", "task")
RUN_LATENESS = Metric(
    "tenure_run_lateness_seconds",
    "histogram",
    "How late this node claimed runs; those that were given back count again.",
    buckets=LATENESS,
    starts=((),),
)
RUN_DURATION = Metric(
    "tenure_run_duration_seconds",
    "histogram",
    "How long attempts took on this node, whatever their outcome.",
    buckets=DURATION,
    starts=((),),
)
LAST_SUCCESS = _gauge(
    "tenure_last_success_timestamp_seconds",
    "When a run of this task last succeeded on this node.",
    "task",
)
SCHEDULE_RUNS = _counter(
    "tenure_schedule_runs_total",
    "The same attempts by schedule; only if asked for.",
    "outcome",
    "schedule",
)
SCHEDULE_SUCCESS = _gauge(
    "tenure_schedule_last_success_timestamp_seconds",
    "When a run of this schedule last succeeded on this node; only if asked for.",
    "schedule",
)
RUNNING = _gauge("tenure_running_runs", "Runs that this node executes now.")
OLDEST_RUNNING = _gauge(
    "tenure_oldest_running_timestamp_seconds",
    "When the oldest run that this node executes began; missing if it executes none.",
)
HUNG = _gauge("tenure_hung_runs", "Runs of this node that were told to end and go on.")
SLOTS = _gauge("tenure_slots", "How many runs this node executes at a time, at most.")
RECOVERED = _counter(
    "tenure_runs_recovered_total",
    "Runs of dead nodes that this node, as leader, has dealt with.",
    "outcome",
    starts=("rerun", "lost", "cancelled"),
)
RELAYED = _counter("tenure_relay_events_total", "Events that a sink has confirmed.", "relay")
RELAY_STALLED = _gauge(
    "tenure_relay_stalled", "1 while nothing gets through to the sink of this relay.", "relay"
)
PARKED = _counter(
    "tenure_relay_parked_total", "Events that a relay has parked for an operator.", "relay"
)
DROPPED = _counter("tenure_events_dropped_total", "Events that were deleted before all had read.")
CALL_DURATION = Metric(
    "tenure_store_call_duration_seconds",
    "histogram",
    "How long the calls of this node to its store took.",
    ("part",),
    buckets=CALLS,
)
CALL_ERRORS = Metric(
    "tenure_store_errors_total",
    "counter",
    "Calls of this node to its store that failed.",
    ("part", "error"),
)
STORE_UP = _gauge(
    "tenure_store_up", "0 while the calls of this node to its store fail, else 1.", "part"
)
CONNECTIONS = _gauge(
    "tenure_store_connections",
    "Connections of this node to PostgreSQL, but for those lent to transactional tasks.",
)
SKEW = _gauge("tenure_clock_skew_seconds", "By how much this node's clock is ahead of the store's.")
JUMPED = _gauge("tenure_clock_held", "1 while firing waits for a clock that jumped, else 0.")
FAILURES = _counter(
    "tenure_service_failures_total", "Failures in Tenure itself: please report them.", "service"
)
LOOP_BEAT = _gauge(
    "tenure_loop_timestamp_seconds", "When Tenure's own loop was last seen to advance."
)

# -- of the whole store, from the leader only -----------------------------------------------------

TERM = _gauge("tenure_term", "The term of the leader.")
NODES = _gauge("tenure_nodes", "How many nodes are alive.")
DUE = _gauge("tenure_due_schedules", "Schedules that are due and not fired yet.")
NEXT_DUE = _gauge("tenure_next_due_timestamp_seconds", "When the next schedule is due.")
WAITING = _gauge("tenure_waiting_runs", "Runs that wait for a node.")
CLAIMED = _gauge("tenure_claimed_runs", "Runs that some node has claimed.")
OLDEST_WAITING = _gauge(
    "tenure_oldest_waiting_timestamp_seconds",
    "When the run that has waited longest was due; missing if none is overdue.",
)
OLDEST_LOCK = _gauge(
    "tenure_oldest_lock_timestamp_seconds",
    "When the lock key of a run that is held longest was taken; missing if none is held.",
)
RETENTION_LAG = _gauge(
    "tenure_retention_lag_seconds",
    "By how much at least the oldest history is older than the retention: 0, 60, 120, 240 …",
)
UNREAD = _gauge(
    "tenure_events_unread", "Events that a group of consumers has not read.", "topic", "group"
)
OLDEST_UNREAD = _gauge(
    "tenure_events_oldest_unread_timestamp_seconds",
    "When the oldest of those was stored; missing if it has read all.",
    "topic",
    "group",
)
UNDELIVERED = _gauge("tenure_relay_undelivered", "Events that wait for this relay.", "relay")
OLDEST_UNDELIVERED = _gauge(
    "tenure_relay_oldest_timestamp_seconds",
    "When the oldest event was stored that waits, is held or is parked; missing if none does.",
    "relay",
)
RELAY_PARKED = _gauge("tenure_relay_parked", "Events of this relay that are parked now.", "relay")
SURVEYED = _gauge(
    "tenure_survey_timestamp_seconds", "When the leader last looked at the store for these."
)

METRICS = tuple(each for each in list(globals().values()) if isinstance(each, Metric))
OF_STORE = METRICS[METRICS.index(TERM) :]
"""Those that only the leader exposes."""
