"""`AsyncScheduler`: the names of `Scheduler`, awaited."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, Self, TypeVar, overload

from tenure.model import Attempt, Event, EventGroup, Occurrence, RunRecord, Schedule
from tenure.process.garbage import leave_out_what_stays
from tenure.scheduler import transaction
from tenure.scheduler.async_consumer import AsyncConsumer
from tenure.scheduler.base import BaseScheduler
from tenure.scheduler.blocking import Blocking
from tenure.scheduler.group_membership import IDLE
from tenure.scheduler.runtime import enabled
from tenure.schedules.drafts import UNCHANGED, Entries, NewSchedule
from tenure.schedules.editor import BACKFILL_LIMIT, Editor, stretch
from tenure.tasks.event_checks import emission
from tenure.triggers import Explanation, Trigger

T = TypeVar("T")
D = TypeVar("D")


class AsyncScheduler(BaseScheduler):
    """A scheduler for asyncio programs: coroutine tasks run on the loop that starts it."""

    @property
    def blocking(self) -> Blocking:
        """This scheduler for plain functions, such as handlers that run on threads:
        `scheduler.blocking.enqueue(resize, kwargs=…)`."""
        return Blocking(self)

    async def run(self) -> None:
        """Run until SIGTERM or SIGINT, then hand over."""
        if not enabled():
            return
        self._runtime.alone = True
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, ended.set)
        try:
            await self.start()
            leave_out_what_stays()
            await ended.wait()
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)
            await self.stop()

    async def start(self) -> None:
        """Join the cluster, in the background. With TENURE_ENABLED=0 this does nothing."""
        if not enabled():
            return
        self._runtime.forget_parent()
        await self._runtime.thread.call_async(self._runtime.start(asyncio.get_running_loop()))

    async def stop(self, grace: float | None = None) -> None:
        if self._runtime.thread.forked:
            return
        await self._runtime.thread.call_async(self._runtime.stop(grace))
        self._runtime.thread.close()

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
        trigger: Trigger | str,
        *,
        task: str | Callable[..., Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        emit: Event | None = None,
        tenant: str | None = None,
        connection: Any = None,
        **policy: Any,
    ) -> Schedule:
        new = NewSchedule(
            name, trigger, task=task, kwargs=kwargs, emit=emit, tenant=tenant, **policy
        )
        return await self._edit(connection, lambda editor: editor.add(new))

    async def put(
        self,
        name: str,
        trigger: Trigger | str,
        *,
        task: str | Callable[..., Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        emit: Event | None = None,
        tenant: str | None = None,
        connection: Any = None,
        **policy: Any,
    ) -> tuple[Schedule, bool]:
        new = NewSchedule(
            name, trigger, task=task, kwargs=kwargs, emit=emit, tenant=tenant, **policy
        )
        return await self._edit(connection, lambda editor: editor.put(new))

    async def add_many(self, entries: Entries, *, connection: Any = None) -> list[Schedule]:
        if connection is not None:
            return await self._edit(connection, lambda editor: editor.add_many(entries))
        now = await self._edit(None, Editor.now)
        planned = await asyncio.to_thread(self._runtime.drafts.additions, entries, now)
        return await self._edit(None, lambda editor: editor.land(planned))

    async def update(
        self,
        name: str,
        *,
        trigger: Trigger | str | None = None,
        task: str | Callable[..., Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        emit: Event | None = None,
        tenant: str | None = UNCHANGED,
        expected_version: int | None = None,
        connection: Any = None,
        **policy: Any,
    ) -> Schedule:
        return await self._edit(
            connection,
            lambda editor: editor.update(
                name,
                trigger=trigger,
                task=task,
                kwargs=kwargs,
                emit=emit,
                tenant=tenant,
                expected_version=expected_version,
                **policy,
            ),
        )

    async def rename(
        self, name: str, to: str, *, expected_version: int | None = None, connection: Any = None
    ) -> Schedule:
        return await self._edit(
            connection, lambda editor: editor.rename(name, to, expected_version)
        )

    @overload
    async def get(self, name: str) -> Schedule: ...
    @overload
    async def get(self, name: str, default: D) -> Schedule | D: ...

    async def get(self, name: str, default: Any = UNCHANGED) -> Any:
        return await self._call(self._runtime.get(name, default))

    async def preview(self, name: str, n: int = 5) -> list[Explanation]:
        return await self._call(self._runtime.preview(name, n))

    async def explain(self, name: str, time: datetime | str) -> Explanation:
        return await self._call(self._runtime.explain(name, time))

    async def schedules(
        self, tenant: str | None = None, limit: int = 1_000, *, ended: bool = False
    ) -> list[Schedule]:
        return await self._call(self._runtime.schedules(tenant, limit, ended))

    async def pause(
        self,
        name: str,
        reason: str | None = None,
        *,
        expected_version: int | None = None,
        connection: Any = None,
    ) -> Schedule:
        return await self._edit(
            connection, lambda editor: editor.pause(name, reason, expected_version)
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
            connection,
            lambda editor: editor.resume(
                name, catch_up=catch_up, expected_version=expected_version
            ),
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
            lambda editor: editor.backfill(
                name, start, end, limit=limit, dry_run=dry_run, beyond_history=beyond_history
            ),
        )

    async def remove(
        self, name: str, *, expected_version: int | None = None, connection: Any = None
    ) -> None:
        await self._edit(connection, lambda editor: editor.remove(name, expected_version))

    async def run_now(
        self, name: str, key: str | None = None, *, connection: Any = None
    ) -> RunRecord | None:
        return await self._edit(connection, lambda editor: editor.run_now(name, key))

    async def enqueue(
        self,
        task: str | Callable[..., Any],
        /,
        *,
        kwargs: Mapping[str, Any] | None = None,
        at: datetime | None = None,
        delay: float | None = None,
        key: str | None = None,
        tenant: str | None = None,
        connection: Any = None,
        **policy: Any,
    ) -> RunRecord:
        new = self._runtime.drafts.run(
            task, kwargs=kwargs, at=at, delay=delay, key=key, tenant=tenant, **policy
        )
        return await self._edit(connection, lambda editor: editor.enqueue(new))

    async def emit(self, event: Event, *, id: str | None = None, connection: Any = None) -> str:  # noqa: A002
        new = emission(event, id, self.settings.event_limit)
        await self._edit(connection, lambda editor: editor.emit(new))
        return new.id

    def consumer(
        self,
        topic: str,
        *,
        group: str,
        limit: int = 100,
        from_now: bool = False,
        wait: float | None = None,
        transaction_idle: float = IDLE,
    ) -> AsyncConsumer:
        following = self._runtime.following(
            topic,
            group,
            limit=limit,
            from_now=from_now,
            wait=wait,
            transaction_idle=transaction_idle,
        )
        return AsyncConsumer(self._runtime, following)

    async def replay(
        self,
        topic: str,
        *,
        group: str,
        after: int | None = None,
        since: datetime | None = None,
        connection: Any = None,
    ) -> EventGroup:
        return await self._edit(
            connection, lambda editor: editor.replay(topic, group, after, since)
        )

    async def cancel(self, run: RunRecord | int) -> RunRecord:
        return await self._call(self._runtime.cancel(run))

    async def retry(self, run: RunRecord | int, *, even_succeeded: bool = False) -> RunRecord:
        return await self._call(self._runtime.retry(run, even_succeeded=even_succeeded))

    async def result(self, run: RunRecord | int, timeout: float | None = None) -> Any:
        return await self._call(self._runtime.result(run, timeout))

    async def get_run(self, run: RunRecord | int) -> RunRecord:
        return await self._call(self._runtime.get_run(run))

    async def attempts(self, run: RunRecord | int) -> list[Attempt]:
        return await self._call(self._runtime.attempts(run))

    async def runs(
        self,
        schedule: str | None = None,
        state: str | None = None,
        limit: int = 50,
        *,
        task: str | Callable[..., Any] | None = None,
    ) -> list[RunRecord]:
        return await self._call(self._runtime.runs(schedule, state, limit, task))

    async def occurrences(self, schedule: str, limit: int = 50) -> list[Occurrence]:
        return await self._call(self._runtime.occurrences(schedule, limit))

    async def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        self._runtime.forget_parent()
        return await self._runtime.thread.call_async(coroutine)

    async def _edit(self, connection: Any, work: Callable[[Editor], Coroutine[Any, Any, T]]) -> T:
        runtime = self._runtime
        if connection is None:
            return await self._call(runtime.edit(work))
        return await transaction.there(
            await self._call(runtime.joins()),
            connection,
            lambda joined: work(runtime.editor(joined)),
        )
