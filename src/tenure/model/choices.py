"""Enumerations: policies, kinds, states."""

from __future__ import annotations

from enum import StrEnum


class CatchUp(StrEnum):
    """What happens to occurrences that came due while no leader could fire them."""

    LATEST = "latest"
    ALL = "all"
    NONE = "none"


class Overlap(StrEnum):
    """What happens when an occurrence comes due while its lock key has an unfinished run."""

    SKIP = "skip"
    QUEUE = "queue"
    ALLOW = "allow"


class OnCrash(StrEnum):
    """What happens to a run whose node died."""

    RERUN = "rerun"
    ABANDON = "abandon"


class Kind(StrEnum):
    """Where an occurrence comes from, or a run."""

    PLANNED = "planned"
    MANUAL = "manual"
    BACKFILL = "backfill"
    ENQUEUED = "enqueued"
    """Asked for without a schedule: a run, and no occurrence."""


TARGETS = frozenset({"task", "event"})
"""What a schedule may fire, as far as this code knows."""


class OccurrenceState(StrEnum):
    FIRED = "fired"
    SKIPPED = "skipped"
    MISSED = "missed"


class RunState(StrEnum):
    WAITING = "waiting"
    CLAIMED = "claimed"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    LOST = "lost"
    CANCELLED = "cancelled"


class AttemptOutcome(StrEnum):
    """What became of one attempt of a run."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    """It raised something, or ran into its timeout; `error` says which."""
    PUT_BACK = "put back"
    """It ended early and the run waits again: it raised `Retry`, or its node was stopped."""
    LOST = "lost"
    """Its node was stopped in the middle of it, and the run is not repeated."""
    CRASHED = "crashed"
    """Its node died."""
    CANCELLED = "cancelled"


class Cancelling(StrEnum):
    """What became of the wish to cancel a run."""

    CANCELLED = "cancelled"
    REQUESTED = "requested"
    ENDED = "ended"
