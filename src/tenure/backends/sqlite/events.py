"""The log of events on SQLite.

SQLite has one writer at a time, so events are committed in the order in which they are stored. They
get their positions at once, from a trigger of the table, and the leader has none to give.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial

from tenure.backends.base import EVENTS
from tenure.backends.shared import event_rows
from tenure.backends.shared.sql import load
from tenure.backends.sqlite.connection import Transactions
from tenure.backends.sqlite.office import SQLiteOffice
from tenure.backends.sqlite.wakeups import Sends
from tenure.model import UNREAD_COUNTED, EventGroup, Fence, LoggedEvent, NewEvent, PrunedEvents
from tenure.process.clock import Clock, from_micros, to_micros

_sql = load("tenure.backends.sqlite", "sql/events.sql")
_logged = partial(event_rows.logged, when=from_micros)
_group = partial(event_rows.group, when=from_micros)


class SQLiteEvents:
    """The events of one namespace."""

    def __init__(
        self,
        connection: Transactions,
        office: SQLiteOffice,
        wakeups: Sends,
        namespace: str,
        clock: Clock,
    ) -> None:
        self._connection = connection
        self._office = office
        self._wakeups = wakeups
        self._namespace = namespace
        self._clock = clock

    async def append(self, events: Sequence[NewEvent]) -> int:
        if not events:
            return 0
        new = await self._connection.write(
            lambda c: append(c, self._namespace, events, to_micros(self._clock.now()))
        )
        self._wakeups.send(EVENTS)
        return new

    async def sequence(self, fence: Fence, limit: int = 1_000) -> int:
        """Does nothing: see above."""
        del fence, limit
        return 0

    async def read(self, topic: str, after: int = 0, limit: int = 100) -> list[LoggedEvent]:
        return await self._found("read", topic=topic, after=after, limit=limit)

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
        statement = "find" if topic is None else "of_topic"
        values: dict[str, object] = {"topic": topic, "type": type, "key": key, "limit": limit}
        values["below"] = below
        if ids is not None:
            values["ids"], statement = json.dumps(list(ids)), "of_ids"
        return await self._found(statement, **values)

    async def unplaced(self) -> LoggedEvent | None:
        return None

    async def follow(self, topic: str, group: str, *, from_now: bool = False) -> bool:
        return await self._changes("follow", topic=topic, name=group, from_now=from_now)

    async def consume(self, topic: str, group: str, limit: int = 100) -> list[LoggedEvent]:
        values = self._named(topic=topic, name=group, limit=limit)

        def work(c: sqlite3.Connection) -> list[LoggedEvent]:
            taken = [_logged(row) for row in c.execute(_sql["take"], values).fetchall()]
            if taken:
                c.execute(_sql["move"], values | {"position": taken[-1].position, **self._now()})
            return taken

        return await self._connection.write(work)

    async def has_unread(self, topic: str, group: str) -> bool:
        return bool(await self._found("take", topic=topic, name=group, limit=1))

    async def groups(self, topic: str | None = None) -> list[EventGroup]:
        values = self._named(topic=topic, counted=UNREAD_COUNTED)
        rows = await self._connection.read(lambda c: c.execute(_sql["groups"], values).fetchall())
        return [_group(row) for row in rows]

    async def seek(self, topic: str, group: str, after: int) -> bool:
        return await self._changes("move", topic=topic, name=group, position=after)

    async def position_at(self, topic: str, moment: datetime) -> int:
        now = to_micros(self._clock.now())
        values = self._named(topic=topic, moment=to_micros(moment), now=now)
        (position,) = await self._connection.read(
            lambda c: c.execute(_sql["position_at"], values).fetchone()
        )
        return int(position)

    async def drop(self, topic: str, group: str) -> bool:
        return await self._changes("drop", topic=topic, name=group)

    async def trim(
        self,
        fence: Fence | None,
        older_than: float,
        unread_after: float,
        limit: int,
        *,
        dry_run: bool = False,
    ) -> PrunedEvents:
        def work(c: sqlite3.Connection) -> PrunedEvents:
            if fence is not None:
                self._office.check(c, fence)
            now = self._clock.now()
            old, very_old = (now - timedelta(seconds=s) for s in (older_than, unread_after))
            values = self._named(old=to_micros(old), very_old=to_micros(very_old))
            gone: list[tuple[int, bool]] = []
            for (topic,) in c.execute(_sql["topics"], values).fetchall():
                values |= {"topic": topic, "limit": limit - len(gone)}
                gone += [(row[0], bool(row[1])) for row in c.execute(_sql["prunable"], values)]
            if gone and not dry_run:
                c.execute(_sql["delete"], {"numbers": json.dumps([number for number, _ in gone])})
            return PrunedEvents(len(gone), sum(unread for _, unread in gone))

        return await (self._connection.read(work) if dry_run else self._connection.write(work))

    async def _changes(self, statement: str, **values: object) -> bool:
        named = self._named(**values, **self._now())
        return await self._connection.write(
            lambda c: bool(c.execute(_sql[statement], named).rowcount)
        )

    async def _found(self, statement: str, **values: object) -> list[LoggedEvent]:
        named = self._named(**values)
        rows = await self._connection.read(lambda c: c.execute(_sql[statement], named).fetchall())
        return [_logged(row) for row in rows]

    def _named(self, **values: object) -> dict[str, object]:
        return {"namespace": self._namespace, **values}

    def _now(self) -> dict[str, object]:
        return {"now": to_micros(self._clock.now())}


def append(c: sqlite3.Connection, namespace: str, events: Sequence[NewEvent], now: int) -> int:
    """Store these in the transaction of `c`; how many are new."""
    new = 0
    for event in events:
        values = event_rows.values(event, to_micros) | {"namespace": namespace, "now": now}
        new += c.execute(_sql["append"], values).rowcount
    return new
