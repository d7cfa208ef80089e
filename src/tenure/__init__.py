"""Tenure: a distributed scheduler for Python."""

from tenure.async_scheduler import AsyncScheduler
from tenure.edits import NewSchedule
from tenure.errors import (
    BeyondHistory,
    ConfigError,
    Conflict,
    Fenced,
    InvalidSchedule,
    InvalidTrigger,
    LeaseHeld,
    LeaseLost,
    NotFound,
    Retry,
    SchemaMismatch,
    StoreError,
    StoreUnavailable,
    TenureError,
    UnknownTask,
    UnknownTrigger,
)
from tenure.guards import Skipped
from tenure.lease import Lease
from tenure.locks import Leases
from tenure.scheduler import Scheduler
from tenure.settings import Settings
from tenure.single_instance import single_instance
from tenure.tasks import Run, Tasks
from tenure.triggers import at, cron, every, rrule
from tenure.workers import check_workers

__all__ = [
    "AsyncScheduler",
    "BeyondHistory",
    "ConfigError",
    "Conflict",
    "Fenced",
    "InvalidSchedule",
    "InvalidTrigger",
    "Lease",
    "LeaseHeld",
    "LeaseLost",
    "Leases",
    "NewSchedule",
    "NotFound",
    "Retry",
    "Run",
    "Scheduler",
    "SchemaMismatch",
    "Settings",
    "Skipped",
    "StoreError",
    "StoreUnavailable",
    "Tasks",
    "TenureError",
    "UnknownTask",
    "UnknownTrigger",
    "at",
    "check_workers",
    "cron",
    "every",
    "rrule",
    "single_instance",
]
