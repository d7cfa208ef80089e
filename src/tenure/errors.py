"""Every error that Tenure raises, as one tree.

TenureError
├── ConfigError            wrong settings, URL, trigger or arguments: nothing was changed
│   ├── InvalidTrigger
│   │   └── UnknownTrigger  stored by a newer version of Tenure: not wrong, only not known here
│   ├── InvalidSchedule
│   │   └── BeyondHistory   it may have been run, and been removed from history since
│   └── UnknownTask
├── NotFound               no schedule, run or lease of that name
├── Conflict               it exists already, or changed since you read it
├── StoreError             the store answered with something unexpected
│   ├── StoreUnavailable   timeout, lock or connection: safe to try again
│   └── SchemaMismatch     the tables are older or newer than this code
├── LeaseHeld              somebody else holds it
├── LeaseLost              it was yours and is no longer: stop what it guarded
└── Fenced                 a newer term has taken office: the write was refused

`Retry` is no error: a task raises it to be run again later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tenure.printable import one_line

if TYPE_CHECKING:
    from datetime import datetime

    from tenure.model import LeaseRecord, Schedule


class TenureError(Exception):
    """Something in Tenure went wrong."""

    stage: str | None = None
    """While starting: the stage that failed, of those in startup.py."""

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
    """These times may have been run, and their runs removed since. Nothing was changed."""

    def __init__(self, message: str, since: datetime) -> None:
        super().__init__(message)
        self.since = since
        """All runs that ended after this are on record."""


class UnknownTask(ConfigError):
    """No task of that name is declared in this process."""


class NotFound(TenureError, LookupError):
    """Nothing of that name is stored."""


class Conflict(TenureError):
    """It exists already, or changed since you read it."""

    def __init__(self, message: str, schedule: Schedule | None = None) -> None:
        super().__init__(message)
        self.schedule = schedule
        """As it is now, if that is known."""


class StoreError(TenureError):
    """The store answered with something unexpected."""


class StoreUnavailable(StoreError):
    """The store did not answer in time, or refused the connection. Safe to try again."""


class SchemaMismatch(StoreError):
    """The tables are older or newer than this code. Run `tenure migrate`, or upgrade Tenure."""


class LeaseHeld(TenureError):
    """Somebody else holds the lease."""

    def __init__(self, message: str, record: LeaseRecord | None = None) -> None:
        super().__init__(message)
        self.record = record


class LeaseLost(TenureError):
    """The lease is no longer yours, or can no longer be trusted."""


class Fenced(TenureError):
    """A newer term has taken office; this write was refused and changed nothing."""


class Retry(Exception):
    """Raised by a task that wants to be run again, after `delay` seconds or its usual backoff."""

    def __init__(self, reason: str = "asked to be run again", delay: float | None = None) -> None:
        super().__init__(reason)
        self.delay = delay
