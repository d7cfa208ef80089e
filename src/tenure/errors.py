"""Every error that Tenure raises, as one tree.

TenureError
├── ConfigError            wrong settings, URL, trigger or arguments: nothing was changed
│   ├── InvalidTrigger
│   │   └── UnknownTrigger  stored by a newer version of Tenure: not wrong, only unknown here
│   ├── InvalidSchedule
│   │   └── BeyondHistory   it may have been run, and deleted from history since
│   ├── InvalidEvent
│   └── UnknownTask
├── NotFound               no schedule, run or lease with that name
├── Conflict               it already exists, or changed since you read it
├── NoResult               a run has no result to return
│   ├── TaskFailed         it failed, or was lost with its node
│   ├── TaskCancelled      it was cancelled
│   ├── ResultNotKept      it succeeded, and what its task returned was not kept
│   └── ResultTimeout      it has not ended in time
├── ProcessDied            the process of an isolated task ended before the task did
├── StoreError             the store answered with something unexpected
│   ├── StoreUnavailable   timeout, lock or connection: safe to try again
│   └── SchemaMismatch     the tables are older or newer than this code
├── TransactionLost        the transaction lent to a task or a consumer's batch is over
├── LeaseHeld              another holder has it
├── LeaseLost              it was yours and is no longer: stop what it guarded
└── Fenced                 a newer term has taken office: the write was refused

`Retry` and `Cancelled` are not errors: a task raises them to be run again later, or to end its run
as cancelled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tenure.printable import brief, one_line

if TYPE_CHECKING:
    from datetime import datetime

    from tenure.model import LeaseRecord, RunRecord, Schedule


STAGES = ("workers", "connect", "migrate", "check", "campaign", "serve")
"""Of a start, one after the other: see node/stages.py."""


class TenureError(Exception):
    """Something in Tenure went wrong."""

    stage: str | None = None
    """While starting: the stage that failed, of `STAGES` or the application's own."""

    def __str__(self) -> str:
        """One line, whatever came into it from a store, a server or a driver."""
        return one_line(super().__str__())


class ConfigError(TenureError, ValueError):
    """A setting or an argument is wrong."""


class InvalidTrigger(ConfigError):
    """A trigger that can never be right."""


class UnknownTrigger(InvalidTrigger):
    """A stored trigger of a type or version that this code does not know; newer code may."""


class InvalidSchedule(ConfigError):
    """A schedule or task declaration that cannot work."""


class BeyondHistory(InvalidSchedule):
    """These times may have been run, and their runs deleted since. Nothing was changed."""

    def __init__(self, message: str, since: datetime) -> None:
        super().__init__(message)
        self.since = since
        """All runs that ended after this are on record."""

    def __reduce__(self) -> tuple[type[BeyondHistory], tuple[str, datetime]]:
        return type(self), (self.args[0], self.since)


class InvalidEvent(ConfigError):
    """An event that cannot be stored, or not passed on."""


class UnknownTask(ConfigError):
    """This process declares no task with that name."""


class NotFound(TenureError, LookupError):
    """Nothing with that name is stored."""


class Conflict(TenureError):
    """It exists already, or changed since you read it."""

    def __init__(self, message: str, schedule: Schedule | None = None) -> None:
        super().__init__(message)
        self.schedule = schedule
        """As it is now, if that is known."""


class NoResult(TenureError):
    """A run has no result to return."""

    def __init__(self, message: str, run: RunRecord | None = None) -> None:
        super().__init__(message)
        self.run = run
        """As it is now; `run.error` is the whole error of its task."""


class TaskFailed(NoResult):
    """The run failed, or was lost with its node."""


class TaskCancelled(NoResult):
    """The run was cancelled."""


class ResultNotKept(NoResult):
    """The run succeeded, and what its task returned was not kept."""


class ResultTimeout(NoResult, TimeoutError):
    """The run has not ended in time. It goes on."""


class ProcessDied(TenureError):
    """The process of an isolated task ended before the task did: `retry_on` can name it."""

    def __str__(self) -> str:
        """With the last lines that the process wrote."""
        return Exception.__str__(self)


class StoreError(TenureError):
    """The store answered with something unexpected."""


class StoreUnavailable(StoreError):
    """The store did not answer in time, or refused the connection. Safe to try again."""


class SchemaMismatch(StoreError):
    """The tables are older or newer than this code. Run `tenure migrate`, or upgrade Tenure."""


class TransactionLost(TenureError):
    """The transaction that was lent to a task is over: the task ended it, or its time was up. Or a
    consumer's batch is used again after its transaction."""


class LeaseHeld(TenureError):
    """Another holder has the lease."""

    def __init__(self, message: str, record: LeaseRecord | None = None) -> None:
        super().__init__(message)
        self.record = record


class LeaseLost(TenureError):
    """The lease is no longer yours, or can no longer be trusted."""


class Fenced(TenureError):
    """A newer term has taken office; this write was refused and changed nothing."""


class Retry(Exception):
    """Raised by a task that wants to be run again, after `delay` seconds or its usual backoff.

    A delay until a moment that has passed, below 0, is over at once. `ConfigError` if it is no
    number of seconds: then that is what the task raised.
    """

    def __init__(self, reason: str = "asked to be run again", delay: float | None = None) -> None:
        from tenure.model import SECONDS_MOST  # here, since every command needs the errors

        super().__init__(reason)
        if delay is not None and not _is_delay(delay, SECONDS_MOST):
            raise ConfigError(
                f"Retry(delay={brief(delay)}): that is not a number of seconds up to"
                f" {SECONDS_MOST:,} (100 years), such as 30."
            )
        self.delay = None if delay is None else float(max(delay, -SECONDS_MOST))


class Cancelled(Exception):
    """Raised by a task that ends before its work is done: its run is cancelled, not failed.

    `run.check()` raises it if the run was told to come to an end.
    """

    def __init__(self, reason: str = "cancelled while it ran") -> None:
        super().__init__(reason)


def _is_delay(value: object, most: float) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return value <= most  # NaN is not


def mark(error: Exception, stage: str) -> None:
    """Let it say at which stage a start stopped. Once: the first to know does."""
    among = f" of {', '.join(STAGES)}" if stage in STAGES else ""
    note = f"Startup stopped at stage {stage!r}{among}."
    if note in getattr(error, "__notes__", ()):
        return
    if isinstance(error, TenureError):
        error.stage = stage
    error.add_note(note)
