"""What is on record about the attempts of a run."""

from __future__ import annotations

from datetime import datetime

from tenure.model.choices import AttemptOutcome
from tenure.model.value import value

FIRST_ATTEMPTS, LAST_ATTEMPTS = 10, 90
"""How many attempts of a run stay on record, if it has more: so many of the first, and of the last.
"""


@value(frozen=True, slots=True)
class Report:
    """What the present attempt of a run has told so far. The whole of it: a later report takes the
    place of an earlier one."""

    progress: float | None = None
    """From 0 to 1; None if it has not said."""
    message: str = ""
    log: str = ""
    log_dropped: int = 0
    """How many bytes are missing in the middle of the log."""


@value(frozen=True, slots=True)
class Attempt:
    """An attempt of a run: one that did not succeed, or that has told something."""

    run: int
    claim: int
    """The number of the claim under which it was made; `attempt` is how people count."""
    attempt: int
    node: str
    started_at: datetime
    """When the run was claimed."""
    ended_at: datetime | None = None
    """None while it goes on."""
    outcome: AttemptOutcome | None = None
    error: str | None = None
    progress: float | None = None
    message: str = ""
    log: str = ""
    log_dropped: int = 0
    """How many bytes are missing in the middle of the log."""
    reported_at: datetime | None = None
    """When its progress and log were last brought to the store; None if it has told nothing."""
