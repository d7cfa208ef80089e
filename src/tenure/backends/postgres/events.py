"""The log of events on PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any

from tenure.backends.base import EVENTS, UNSEQUENCED
from tenure.backends.postgres.office import PostgresOffice
from tenure.backends.postgres.statements import Statement, Transactions, as_it_is
from tenure.backends.postgres.wakeups import PostgresWakeups
from tenure.backends.shared import event_rows
from tenure.model import (
    PARTITIONS,
    UNREAD_COUNTED,
    EventGroup,
    Fence,
    LoggedEvent,
    NewEvent,
    PrunedEvents,
    Result,
    RunState,
)

_logged = partial(event_rows.logged, when=as_it_is)
_group = partial(event_rows.group, when=as_it_is)
FEW = PARTITIONS // 4
"""From so many partitions a consumer takes at a time: so many more can take beside it."""
_values = partial(event_rows.values, moment=datetime.isoformat)


class PostgresEvents:
    """The events of one namespace."""

    def __init__(
        self,
        database: Transactions,
        office: PostgresOffice,
        wakeups: PostgresWakeups,
        namespace: str,
    ) -> None:
        self._database = database
        self._office = office
        self._wakeups = wakeups
        self._namespace = namespace
        self._sql = database.statements("sql/events.sql")

    async def append(self, events: Sequence[NewEvent]) -> int:
        if not events:
            return 0
        append = self._sql["append"], self._named(rows=_json([_values(event) for event in events]))
        new, _ = await self._database.run(append, self._wake(UNSEQUENCED))
        return len(new)

    def of_results(self, results: Sequence[Result]) -> tuple[Statement, Statement]:
        """In the transaction that records these results: store their events, if they are kept."""
        rows = [
            _values(event) | {"run": result.run_id, "claim": result.claim, "node": result.node}
            for result in results
            if result.state is RunState.SUCCEEDED
            for event in result.events
        ]
        return (self._sql["of_results"], self._named(rows=_json(rows))), self._wake(UNSEQUENCED)

    def _wake(self, topic: str) -> Statement:
        return self._sql["wake"], {"channel": self._wakeups.channel_of(topic), "topic": topic}

    async def sequence(self, fence: Fence, limit: int = 1_000) -> int:
        if not await self._database.one(self._sql["unsequenced"], self._named()):
            return 0
        values = {**self._office.of(fence), "limit": limit}
        *_, [row], _ = await self._office.transaction(
            fence,
            self._office.standing(fence.scope),
            (self._sql["lock_log"], values),
            (self._sql["sequence"], values),
            self._wake(EVENTS),
        )
        given: int = row["given"]
        return given

    async def read(self, topic: str, after: int = 0, limit: int = 100) -> list[LoggedEvent]:
        values = self._named(topic=topic, after=after, limit=limit)
        return [_logged(row) for row in await self._database.one(self._sql["read"], values)]

    async def find(
        self,
        ids: Sequence[str] | None = None,
        *,
        topic: str | None = None,
        type: str | None = None,  # noqa: A002 - the word that users know
        key: str | None = None,
        limit: int = 50,
        below: int | None = None,
    ) -> list[LoggedEvent]:
        values = self._named(topic=topic, type=type, key=key, limit=limit, below=below)
        statement = "find"
        if ids is not None:
            values["ids"], statement = list(ids), "of_ids"
        return [_logged(row) for row in await self._database.one(self._sql[statement], values)]

    async def unplaced(self) -> LoggedEvent | None:
        rows = await self._database.one(self._sql["unplaced"], self._named())
        return _logged(rows[0]) if rows else None

    async def follow(self, topic: str, group: str, *, from_now: bool = False) -> bool:
        return await self._some("follow", topic=topic, name=group, from_now=from_now)

    async def consume(self, topic: str, group: str, limit: int = 100) -> list[LoggedEvent]:
        values = self._named(topic=topic, name=group, limit=limit, few=FEW)
        return [_logged(row) for row in await self._database.one(self._sql["take"], values)]

    async def has_unread(self, topic: str, group: str) -> bool:
        return await self._some("has_unread", topic=topic, name=group)

    async def groups(self, topic: str | None = None) -> list[EventGroup]:
        values = self._named(topic=topic, counted=UNREAD_COUNTED)
        return [_group(row) for row in await self._database.one(self._sql["groups"], values)]

    async def seek(self, topic: str, group: str, after: int) -> bool:
        return await self._some("seek", topic=topic, name=group, after=after)

    async def position_at(self, topic: str, moment: datetime) -> int:
        values = self._named(topic=topic, moment=moment)
        [row] = await self._database.one(self._sql["position_at"], values)
        position: int = row["position"]
        return position

    async def drop(self, topic: str, group: str) -> bool:
        return await self._some("drop", topic=topic, name=group)

    async def trim(
        self,
        fence: Fence | None,
        older_than: float,
        unread_after: float,
        limit: int,
        *,
        dry_run: bool = False,
    ) -> PrunedEvents:
        values = self._named(older_than=older_than, unread_after=unread_after, dry_run=dry_run)
        count = unread = 0
        for row in await self._database.one(self._sql["topics"], values):
            more = {**values, "topic": row["topic"], "limit": limit - count}
            if fence is None:
                nobody = dict.fromkeys(("scope", "term", "holder"))
                [done] = await self._database.one(self._sql["prune"], {**more, **nobody})
            else:
                [done] = await self._office.under(fence, self._sql["prune"], more)
            count, unread = count + done["count"], unread + done["unread"]
            if count >= limit:
                break
        return PrunedEvents(count, unread)

    async def _some(self, statement: str, **values: Any) -> bool:
        """Did this statement change something?"""
        return bool(await self._database.one(self._sql[statement], self._named(**values)))

    def _named(self, **values: Any) -> dict[str, Any]:
        return {"namespace": self._namespace, **values}


def _json(rows: Sequence[dict[str, Any]]) -> str:
    """All rows as one parameter, numbered in their order."""
    return json.dumps([row | {"place": place} for place, row in enumerate(rows)])
