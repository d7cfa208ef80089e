"""Runs, their claims and results."""

from __future__ import annotations

from dataclasses import field
from datetime import datetime
from typing import Any

from tenure.model.attempts import Report
from tenure.model.choices import AttemptOutcome, Kind, OnCrash, RunState
from tenure.model.events import NewEvent
from tenure.model.keywords import read_keywords
from tenure.model.value import value

CANCELLED_WAITING = "cancelled while it waited"
"""What is recorded of a run that is cancelled before a node has it, or between two attempts."""

FAILURE_KEY = "on_failure:"
"""How the keys of runs begin that were added because another failed. Nobody else may use them."""

PENDING = "?"
"""The result of a run that succeeded before its function returned, by `run.complete`: no JSON."""

RETRIED = (RunState.FAILED, RunState.LOST, RunState.CANCELLED)
"""The ends from which a run can be retried without insisting."""

_OUTCOMES = {
    RunState.SUCCEEDED: AttemptOutcome.SUCCEEDED,
    RunState.FAILED: AttemptOutcome.FAILED,
    RunState.WAITING: AttemptOutcome.PUT_BACK,
    RunState.LOST: AttemptOutcome.LOST,
    RunState.CANCELLED: AttemptOutcome.CANCELLED,
}

SECONDS_MOST = 366 * 100 * 86_400
"""100 years, as of intervals: a date that far away can still be reckoned with."""


@value(frozen=True, slots=True)
class RunRecord:
    """A run as the store has it."""

    id: int
    schedule: str | None
    """None, and so is the uid: it was enqueued, without a schedule."""
    uid: int | None
    kind: Kind
    nominal: datetime
    task: str
    arguments: str
    """Its keyword arguments as they are stored, a JSON object."""
    state: RunState
    due: datetime
    attempt: int
    crashes: int
    failures: int
    lock: str | None
    priority: int
    timeout: float | None
    retries: int
    on_crash: OnCrash
    term: int
    node: str | None
    created_at: datetime
    claimed_at: datetime | None
    finished_at: datetime | None
    error: str | None
    claim: int = 0
    """The number of its last claim. It counts every claim; `attempt` leaves out those that were
    given back before they began."""
    unreadable: str | None = None
    """Which of its columns have impossible values, because the row was edited by hand. It cannot be
    executed."""
    tenant: str | None = None
    """Its schedule's when it was fired, or the one it was enqueued with."""
    cancel_requested_at: datetime | None = None
    """When cancelling it was requested while a node had claimed it."""
    result: str | None = None
    """What its task returned, as JSON. None if that is None; nothing, "", if it was not kept: then
    `error` says why, unless the task does not want it. `PENDING` if it has not returned yet."""
    traceparent: str | None = None
    """The trace in which it was enqueued or fired, as W3C Trace Context writes it."""

    @property
    def kwargs(self) -> dict[str, Any]:
        """Its keyword arguments. `ValueError` if the row was edited and they cannot be read."""
        return read_keywords(self.arguments, f"run {self.id}")


@value(frozen=True, slots=True)
class NewRun:
    """A run to be added that belongs to no schedule. Due `at` that time, or in `delay` seconds."""

    task: str
    key: str
    kwargs: str = "{}"
    at: datetime | None = None
    delay: float = 0.0
    tenant: str | None = None
    lock: str | None = None
    priority: int = 0
    timeout: float | None = None
    retries: int = 0
    on_crash: OnCrash = OnCrash.RERUN
    traceparent: str | None = None


@value(frozen=True, slots=True)
class ClaimBatch:
    """Runs that this node has claimed, in the order in which to begin them, and when the next
    waiting one is due."""

    now: datetime
    runs: list[RunRecord]
    next_due: datetime | None
    kept: list[bool] = field(default_factory=list)
    """Which of the results that came with the request are recorded."""
    cancelled: frozenset[int] = frozenset()
    """The runs of those results that ended as cancelled, though the results say otherwise."""
    held: frozenset[int] = frozenset()
    """The runs of those results that a user's transaction has locked: report these again."""


@value(frozen=True, slots=True)
class Result:
    """How a claim ended. It counts only if (run, claim, node) is still the present claim.

    `state` WAITING puts the run back, due again `delay` seconds from now; without a delay it keeps
    its due time.
    """

    run_id: int
    claim: int
    node: str
    state: RunState
    error: str | None = None
    delay: float | None = None
    failed: bool = False
    """Did the task itself fail? That uses up a retry; being stopped with its node does not."""
    begun: bool = True
    """False: it is given back unchanged, and does not count as an attempt."""
    value: str | None = None
    """What is kept as `RunRecord.result`."""
    events: tuple[NewEvent, ...] = ()
    """What the task has emitted. They are stored if this result ends its claim as a success."""
    report: Report | None = None
    """All that the attempt has told; None if that is nothing."""

    @property
    def outcome(self) -> AttemptOutcome | None:
        """What became of the attempt. None if it was none: it did not begin."""
        if not self.begun:
            return None
        if self.failed:
            return AttemptOutcome.FAILED
        return _OUTCOMES.get(self.state)

    @property
    def recorded(self) -> bool:
        """Does the attempt get a row of its own? A success that has told nothing gets none."""
        outcome = self.outcome
        return outcome is not None and (
            outcome is not AttemptOutcome.SUCCEEDED or self.report is not None
        )


@value(frozen=True, slots=True)
class Recovered:
    """What became of a dead node's runs."""

    rerun: int = 0
    lost: int = 0
    cancelled: int = 0


@value(frozen=True, slots=True)
class Pruned:
    """What a call of `RunStore.prune` deleted, or would."""

    count: int
    ended: datetime | None = None
    """When the last of the deleted runs ended; those that are left ended no earlier. None if no run
    was deleted."""
