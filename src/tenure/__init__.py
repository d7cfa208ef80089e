"""Tenure: a distributed scheduler for Python."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tenure.backends.redis_client import RedisClient
    from tenure.errors import (
        BeyondHistory,
        Cancelled,
        ConfigError,
        Conflict,
        Fenced,
        InvalidEvent,
        InvalidSchedule,
        InvalidTrigger,
        LeaseHeld,
        LeaseLost,
        NoResult,
        NotFound,
        ProcessDied,
        ResultNotKept,
        ResultTimeout,
        Retry,
        SchemaMismatch,
        StoreError,
        StoreUnavailable,
        TaskCancelled,
        TaskFailed,
        TenureError,
        TransactionLost,
        UnknownTask,
        UnknownTrigger,
    )
    from tenure.events.relay import Relay
    from tenure.facts import Fact
    from tenure.leases.async_leases import AsyncLeases
    from tenure.leases.exclusive import Skipped
    from tenure.leases.leadership import AsyncLeadership, Leadership
    from tenure.leases.lease import AsyncLease, Lease
    from tenure.leases.leases import Leases
    from tenure.leases.single_instance import SingleInstance, single_instance
    from tenure.model import (
        Attempt,
        Event,
        EventGroup,
        LeaseRecord,
        LoggedEvent,
        Occurrence,
        RunRecord,
        Schedule,
        ScheduleSpec,
    )
    from tenure.process.worker_count import check_workers
    from tenure.scheduler.async_consumer import AsyncBatch, AsyncConsumer
    from tenure.scheduler.async_scheduler import AsyncScheduler
    from tenure.scheduler.consumer import Batch, Consumer
    from tenure.scheduler.scheduler import Scheduler
    from tenure.schedules.drafts import NewSchedule
    from tenure.settings import Settings
    from tenure.tasks.backoff import Backoff
    from tenure.tasks.log_handler import RunLogHandler
    from tenure.tasks.registry import Tasks
    from tenure.tasks.run import Run
    from tenure.triggers import Explanation, Trigger, at, cron, every, rrule

__all__ = [
    "AsyncBatch",
    "AsyncConsumer",
    "AsyncLeadership",
    "AsyncLease",
    "AsyncLeases",
    "AsyncScheduler",
    "Attempt",
    "Backoff",
    "Batch",
    "BeyondHistory",
    "Cancelled",
    "ConfigError",
    "Conflict",
    "Consumer",
    "Event",
    "EventGroup",
    "Explanation",
    "Fact",
    "Fenced",
    "InvalidEvent",
    "InvalidSchedule",
    "InvalidTrigger",
    "Leadership",
    "Lease",
    "LeaseHeld",
    "LeaseLost",
    "LeaseRecord",
    "Leases",
    "LoggedEvent",
    "NewSchedule",
    "NoResult",
    "NotFound",
    "Occurrence",
    "ProcessDied",
    "RedisClient",
    "Relay",
    "ResultNotKept",
    "ResultTimeout",
    "Retry",
    "Run",
    "RunLogHandler",
    "RunRecord",
    "Schedule",
    "ScheduleSpec",
    "Scheduler",
    "SchemaMismatch",
    "Settings",
    "SingleInstance",
    "Skipped",
    "StoreError",
    "StoreUnavailable",
    "TaskCancelled",
    "TaskFailed",
    "Tasks",
    "TenureError",
    "TransactionLost",
    "Trigger",
    "UnknownTask",
    "UnknownTrigger",
    "at",
    "check_workers",
    "cron",
    "every",
    "rrule",
    "single_instance",
]

# A name is imported when it is first used: a process that only takes a lock needs no scheduler.
_WHERE = {
    "AsyncBatch": "tenure.scheduler.async_consumer",
    "AsyncConsumer": "tenure.scheduler.async_consumer",
    "AsyncLeadership": "tenure.leases.leadership",
    "AsyncLease": "tenure.leases.lease",
    "AsyncLeases": "tenure.leases.async_leases",
    "AsyncScheduler": "tenure.scheduler.async_scheduler",
    "Attempt": "tenure.model",
    "Backoff": "tenure.tasks.backoff",
    "Batch": "tenure.scheduler.consumer",
    "BeyondHistory": "tenure.errors",
    "Cancelled": "tenure.errors",
    "ConfigError": "tenure.errors",
    "Conflict": "tenure.errors",
    "Consumer": "tenure.scheduler.consumer",
    "Event": "tenure.model",
    "EventGroup": "tenure.model",
    "Explanation": "tenure.triggers",
    "Fact": "tenure.facts",
    "Fenced": "tenure.errors",
    "InvalidEvent": "tenure.errors",
    "InvalidSchedule": "tenure.errors",
    "InvalidTrigger": "tenure.errors",
    "Leadership": "tenure.leases.leadership",
    "Lease": "tenure.leases.lease",
    "LeaseHeld": "tenure.errors",
    "LeaseLost": "tenure.errors",
    "LeaseRecord": "tenure.model",
    "Leases": "tenure.leases.leases",
    "LoggedEvent": "tenure.model",
    "NewSchedule": "tenure.schedules.drafts",
    "NoResult": "tenure.errors",
    "NotFound": "tenure.errors",
    "Occurrence": "tenure.model",
    "ProcessDied": "tenure.errors",
    "RedisClient": "tenure.backends.redis_client",
    "Relay": "tenure.events.relay",
    "ResultNotKept": "tenure.errors",
    "ResultTimeout": "tenure.errors",
    "Retry": "tenure.errors",
    "Run": "tenure.tasks.run",
    "RunLogHandler": "tenure.tasks.log_handler",
    "RunRecord": "tenure.model",
    "Schedule": "tenure.model",
    "ScheduleSpec": "tenure.model",
    "Scheduler": "tenure.scheduler.scheduler",
    "SchemaMismatch": "tenure.errors",
    "Settings": "tenure.settings",
    "Skipped": "tenure.leases.exclusive",
    "StoreError": "tenure.errors",
    "StoreUnavailable": "tenure.errors",
    "TaskCancelled": "tenure.errors",
    "TaskFailed": "tenure.errors",
    "Tasks": "tenure.tasks.registry",
    "TenureError": "tenure.errors",
    "TransactionLost": "tenure.errors",
    "Trigger": "tenure.triggers",
    "UnknownTask": "tenure.errors",
    "UnknownTrigger": "tenure.errors",
    "at": "tenure.triggers",
    "check_workers": "tenure.process.worker_count",
    "cron": "tenure.triggers",
    "every": "tenure.triggers",
    "rrule": "tenure.triggers",
    "SingleInstance": "tenure.leases.single_instance",
    "single_instance": "tenure.leases.single_instance",
}


def __getattr__(name: str) -> object:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_WHERE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *_WHERE]
