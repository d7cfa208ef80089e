"""The store, as handlers see it: asked on Tenure's own thread, for a limited time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from tenure.backends.base import Backend, LeaseBackend, Stores
from tenure.errors import StoreUnavailable
from tenure.model import RunRecord
from tenure.scheduler.async_scheduler import AsyncScheduler
from tenure.schedules.control import RunControl
from tenure.schedules.drafts import Drafts
from tenure.schedules.editor import Editor
from tenure.settings import Settings
from tenure.tasks.registry import Tasks

T = TypeVar("T")
ANSWER_WITHIN = 30.0


@dataclass(frozen=True, slots=True)
class Opened:
    """An open store. Errors name no address: those who read them may not know where it is."""

    stores: Stores
    backend: Backend
    elsewhere: LeaseBackend | None
    """Where the leases are, if not in the store itself."""
    namespace: str
    tasks: Tasks
    settings: Settings
    tz: str | None

    def drafts(self, task: str | None = None) -> Drafts:
        """What this process declares is checked; all other tasks are taken by their names."""
        known = self.tasks if task is not None and task in self.tasks else None
        return Drafts(known, self.settings, self.tz)

    def editor(self, task: str | None = None) -> Editor:
        return Editor(self.backend, self.drafts(task))

    @property
    def control(self) -> RunControl:
        return RunControl(self.stores)

    async def run(self, run_id: int) -> RunRecord:
        return await self.control.get(run_id)

    async def lease_now(self) -> datetime:
        """By the clock that judges the leases."""
        return await (self.elsewhere or self.backend).now()


class Access:
    """A scheduler that need not be started, and needs no tasks."""

    def __init__(self, scheduler: AsyncScheduler) -> None:
        self._scheduler = scheduler

    @property
    def largest(self) -> int:
        """How many bytes of arguments, or of an event's data, a request may bring."""
        settings = self._scheduler.settings
        return max(settings.payload_limit, settings.event_limit)

    async def ask(self, question: Callable[[Opened], Awaitable[T]]) -> T:
        runtime = self._scheduler._runtime

        async def asking() -> T:
            async with asyncio.timeout(ANSWER_WITHIN):
                backend = await runtime.backend()
                elsewhere = runtime._lease_backend
                opened = Opened(
                    stores=Stores.of(backend, elsewhere),
                    backend=backend,
                    elsewhere=elsewhere,
                    namespace=runtime.namespace,
                    tasks=runtime.tasks,
                    settings=runtime.settings,
                    tz=runtime.tz,
                )
                return await question(opened)

        try:
            return await self._scheduler._call(asking())
        except TimeoutError as error:
            raise StoreUnavailable(f"no answer within {ANSWER_WITHIN:g} s") from error
