"""`AsyncScheduler`: the names of `Scheduler`, awaited."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, Self, TypeVar

from tenure import joining
from tenure.catalog import BACKFILL_LIMIT, UNCHANGED, stretch
from tenure.core import enabled
from tenure.declaring import Declaring
from tenure.edits import Edits, Entries, NewSchedule
from tenure.model import Occurrence, RunRecord, Schedule
from tenure.triggers import Explanation, Trigger

T = TypeVar("T")


class AsyncScheduler(Declaring):
    """A scheduler for asyncio programs: coroutine tasks run on the loop that starts it."""

    async def run(self) -> None:
        """Run until SIGTERM or SIGINT, then hand over politely."""
        if not enabled():
            return
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, ended.set)
        try:
            await self.start()
            await ended.wait()
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)
            await self.stop()

    async def start(self) -> None:
        """Join the cluster, in the background. TENURE_ENABLED=0 makes it do nothing."""
        if not enabled():
            return
        self._core.forget_parent()
        await self._core.engine.call_async(self._core.start(asyncio.get_running_loop()))

    async def stop(self, grace: float | None = None) -> None:
        if self._core.engine.forked:
            return
        await self._core.engine.call_async(self._core.stop(grace))
        self._core.engine.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    @asynccontextmanager
    async def lifespan(self, app: object) -> AsyncIterator[None]:
        """For FastAPI and Starlette: `FastAPI(lifespan=scheduler.lifespan)`."""
        async with self:
            yield

    async def add(
        self,
        name: str,
        trigger: Trigger,
        *,
        task: str | Callable[..., Any],
        kwargs: Mapping[str, Any] | None = None,
        tenant: str | None = None,
        connection: Any = None,
        **policy: Any,
    ) -> Schedule:
        new = NewSchedule(name, trigger, task=task, kwargs=kwargs, tenant=tenant, **policy)
        return await self._edit(connection, lambda edits: edits.add(new))

    async def add_many(self, entries: Entries, *, connection: Any = None) -> list[Schedule]:
        if connection is not None:
            return await self._edit(connection, lambda edits: edits.add_many(entries))
        now = await self._edit(None, Edits.now)
        planned = await asyncio.to_thread(self._core.drafts.additions, entries, now)
        return await self._edit(None, lambda edits: edits.land(planned))

    async def update(
        self,
        name: str,
        *,
        trigger: Trigger | None = None,
        task: str | Callable[..., Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        tenant: str | None = UNCHANGED,
        expected_version: int | None = None,
        connection: Any = None,
        **policy: Any,
    ) -> Schedule:
        return await self._edit(
            connection,
            lambda edits: edits.update(
                name, trigger, task, kwargs, expected_version, {"tenant": tenant, **policy}
            ),
        )

    async def get(self, name: str) -> Schedule:
        return await self._call(self._core.get(name))

    async def preview(self, name: str, n: int = 5) -> list[Explanation]:
        return await self._call(self._core.preview(name, n))

    async def explain(self, name: str, time: datetime | str) -> Explanation:
        return await self._call(self._core.explain(name, time))

    async def schedules(self, tenant: str | None = None, limit: int = 1_000) -> list[Schedule]:
        return await self._call(self._core.schedules(tenant, limit))

    async def pause(
        self,
        name: str,
        reason: str | None = None,
        *,
        expected_version: int | None = None,
        connection: Any = None,
    ) -> Schedule:
        return await self._edit(
            connection, lambda edits: edits.pause(name, reason, expected_version)
        )

    async def resume(
        self,
        name: str,
        *,
        catch_up: bool = False,
        expected_version: int | None = None,
        connection: Any = None,
    ) -> Schedule:
        return await self._edit(
            connection, lambda edits: edits.resume(name, catch_up, expected_version)
        )

    async def backfill(
        self,
        name: str,
        start: datetime,
        end: datetime,
        *,
        limit: int = BACKFILL_LIMIT,
        dry_run: bool = False,
        beyond_history: bool = False,
        connection: Any = None,
    ) -> list[datetime]:
        start, end = stretch(start, end)
        return await self._edit(
            connection,
            lambda edits: edits.backfill(name, start, end, limit, dry_run, beyond_history),
        )

    async def remove(
        self, name: str, *, expected_version: int | None = None, connection: Any = None
    ) -> None:
        await self._edit(connection, lambda edits: edits.remove(name, expected_version))

    async def run_now(
        self, name: str, key: str | None = None, *, connection: Any = None
    ) -> RunRecord | None:
        return await self._edit(connection, lambda edits: edits.run_now(name, key))

    async def runs(
        self, schedule: str | None = None, state: str | None = None, limit: int = 50
    ) -> list[RunRecord]:
        return await self._call(self._core.runs(schedule, state, limit))

    async def occurrences(self, schedule: str, limit: int = 50) -> list[Occurrence]:
        return await self._call(self._core.occurrences(schedule, limit))

    async def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        self._core.forget_parent()
        return await self._core.engine.call_async(coroutine)

    async def _edit(self, connection: Any, work: Callable[[Edits], Coroutine[Any, Any, T]]) -> T:
        core = self._core
        if connection is None:
            return await self._call(core.edit(work))
        return await joining.there(
            await self._call(core.joins()), connection, lambda joined: work(core.edits(joined))
        )
