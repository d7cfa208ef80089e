"""What pages ask of the store. Every question has a limit, in rows and in time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from tenure.backends.base import (
    AuditStore,
    Backend,
    EventStore,
    LeaseBackend,
    LeaseStore,
    OverviewStore,
    RelayStore,
    RunStore,
    ScheduleStore,
    SummaryStore,
    Wakeups,
)
from tenure.errors import StoreUnavailable
from tenure.model import LeaseRecord
from tenure.scheduler.async_scheduler import AsyncScheduler
from tenure.schedules.editor import Editor

T = TypeVar("T")
ANSWER_WITHIN = 10.0


@dataclass(frozen=True, slots=True)
class Store:
    """An open store, with its leases wherever they are."""

    backend: Backend
    for_leases: LeaseBackend

    @property
    def leases(self) -> LeaseStore:
        return self.for_leases.leases

    @property
    def schedules(self) -> ScheduleStore:
        return self.backend.schedules

    @property
    def runs(self) -> RunStore:
        return self.backend.runs

    @property
    def events(self) -> EventStore:
        return self.backend.events

    @property
    def relays(self) -> RelayStore:
        return self.backend.relays

    @property
    def audit(self) -> AuditStore:
        return self.backend.audit

    @property
    def summaries(self) -> SummaryStore:
        return self.backend.summaries

    @property
    def overview(self) -> OverviewStore:
        return self.backend.overview

    @property
    def wakeups(self) -> Wakeups:
        return self.backend.wakeups

    @property
    def location(self) -> str:
        return self.backend.location

    async def now(self) -> datetime:
        """By the clock that says what is due."""
        return await self.backend.now()

    async def lease_now(self) -> datetime:
        """By the clock that judges the leases."""
        return await self.for_leases.now()


class Reader:
    """Asks the store on Tenure's own thread: nothing that pages do can hold up a heartbeat. The one
    place of the pages that knows what a scheduler is made of."""

    def __init__(self, access: AsyncScheduler) -> None:
        self.access = access

    async def ask(self, question: Callable[[Store], Coroutine[Any, Any, T]]) -> T:
        runtime = self.access._runtime

        async def asking() -> T:
            async with asyncio.timeout(ANSWER_WITHIN):
                backend = await runtime.backend()
                return await question(Store(backend, runtime._lease_backend or backend))

        try:
            return await self.access._call(asking())
        except TimeoutError as error:
            raise StoreUnavailable(
                f"the store did not answer within {ANSWER_WITHIN:g} s."
            ) from error

    def editor(self, store: Store) -> Editor:
        """What says what an edit would change; the edits themselves are `access`'s."""
        return self.access._runtime.editor(store.backend)


def is_live(record: LeaseRecord | None, now: datetime) -> bool:
    return (
        record is not None
        and record.live
        and (record.expires_at is None or record.expires_at > now)
    )
