"""How far relays have come, on SQLite."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from datetime import timedelta
from functools import partial

from tenure.backends.base import EVENTS, REPLAYS
from tenure.backends.shared import event_rows, relay_rows
from tenure.backends.shared.sql import load
from tenure.backends.sqlite.connection import Transactions
from tenure.backends.sqlite.office import SQLiteOffice
from tenure.backends.sqlite.wakeups import Sends
from tenure.model import (
    UNREAD_COUNTED,
    WAITING_COUNTED,
    WAITING_LISTED,
    Acknowledgement,
    Fence,
    Lane,
    LoggedEvent,
    ParkedEvent,
    RelayProgress,
    RelayStatus,
)
from tenure.process.clock import Clock, from_micros, to_micros

_sql = {
    name: text.replace("{logged}", event_rows.COLUMNS)
    for name, text in load("tenure.backends.sqlite", "sql/relays.sql").items()
}
_logged = partial(event_rows.logged, when=from_micros)
_held = partial(relay_rows.held, when=from_micros)
_status = partial(relay_rows.status, when=from_micros)
_parked = partial(relay_rows.parked, when=from_micros)


class SQLiteRelays:
    """The relays of one namespace."""

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

    async def resume(
        self,
        fence: Fence,
        name: str,
        location: str,
        topics: Sequence[str] = (),
        *,
        from_now: bool = False,
    ) -> RelayProgress:
        values = self._named(
            name=name, location=location, topics=" ".join(topics), from_now=from_now, limit=REPLAYS
        )

        def work(c: sqlite3.Connection) -> RelayProgress:
            self._office.check(c, fence)
            now = self._clock.now()
            c.execute(_sql["make"], values | {"now": to_micros(now)})
            relay = c.execute(_sql["relay"], values).fetchone()
            return RelayProgress(
                max(0, event_rows.as_number(relay["position"])),
                tuple(_held(row, now) for row in c.execute(_sql["lanes"], values).fetchall()),
                tuple(map(_logged, c.execute(_sql["replays"], values).fetchall())),
                relay_rows.optional(relay["ended"]),
                event_rows.as_number(relay["revision"]),
            )

        return await self._connection.write(work)

    async def read(self, topics: Sequence[str], after: int, limit: int = 100) -> list[LoggedEvent]:
        if not topics:
            return await self._found("read", after=after, limit=limit)
        parts = [
            await self._found("read_topic", topic=topic, after=after, limit=limit)
            for topic in topics
        ]
        return relay_rows.merged(parts, limit)

    async def read_lane(
        self, topics: Sequence[str], lane: Lane, first: int, last: int, limit: int = 100
    ) -> list[LoggedEvent]:
        after = first - 1
        if lane.single:
            found = await self._found("read", after=max(after, lane.single - 1), limit=1)
        elif lane.topic is None:
            found = await self.read(topics, after, limit)
        else:
            statement = "read_topic" if lane.key is None else "read_key"
            found = await self._found(
                statement, topic=lane.topic, key=lane.key, after=after, limit=limit
            )
        return relay_rows.of_lane(found, lane, last)

    async def acknowledge(
        self, fence: Fence, name: str, revision: int, done: Acknowledgement
    ) -> bool:
        def work(c: sqlite3.Connection) -> bool:
            self._office.check(c, fence)
            now = self._clock.now()
            values = self._named(name=name, now=to_micros(now))
            advanced = c.execute(
                _sql["advance"],
                values
                | {
                    "cursor": done.cursor,
                    "trouble": done.trouble,
                    "ended": done.ended,
                    "revision": revision,
                },
            )
            if not advanced.rowcount:
                return False
            for held in done.held:
                lane = {
                    **held.lane._asdict(),
                    "lane": relay_rows.name_of(held.lane),
                    "position": held.position,
                    "tries": held.tries,
                    "due": to_micros(now + timedelta(seconds=held.due)),
                    "reason": held.reason,
                    "parked": held.parked,
                }
                c.execute(_sql["hold"], values | lane)
            for free in done.free:
                c.execute(_sql["free"], values | {"lane": relay_rows.name_of(free)})
            for parked in done.parked:
                told = {
                    "position": parked.position,
                    "tries": parked.tries,
                    "reason": parked.reason,
                }
                c.execute(_sql["park"], values | told)
            for position in done.unparked:
                c.execute(_sql["unpark"], values | {"position": position})
            return True

        return await self._connection.write(work)

    async def revision(self, name: str) -> int:
        values = self._named(name=name)
        row = await self._connection.read(lambda c: c.execute(_sql["relay"], values).fetchone())
        return 0 if row is None else event_rows.as_number(row["revision"])

    async def all(self) -> list[RelayStatus]:
        values = self._named(counted=UNREAD_COUNTED)
        rows = await self._connection.read(lambda c: c.execute(_sql["all"], values).fetchall())
        return [_status(row) for row in rows]

    async def parked(
        self,
        name: str | None = None,
        limit: int = 100,
        *,
        positions: Sequence[int] | None = None,
    ) -> list[ParkedEvent]:
        values = self._named(name=name, limit=limit, counted=WAITING_COUNTED, listed=WAITING_LISTED)
        values["positions"] = _chosen(positions)
        rows = await self._connection.read(lambda c: c.execute(_sql["parked"], values).fetchall())
        return [_parked(row) for row in rows]

    async def replay(self, name: str, positions: Sequence[int] | None = None) -> int:
        return await self._settle("passed_again", name, positions, further=0)

    async def drop(self, name: str, positions: Sequence[int] | None = None) -> int:
        return await self._settle("passed_gone", name, positions, further=1)

    async def revive(self, name: str) -> bool:
        return bool(await self._change("revive", name=name))

    async def forget(self, name: str) -> bool:
        def work(c: sqlite3.Connection) -> bool:
            values = self._named(name=name)
            c.execute(_sql["forget_lanes"], values)
            c.execute(_sql["forget_parked"], values)
            return bool(c.execute(_sql["forget"], values).rowcount)

        return await self._connection.write(work)

    async def _settle(
        self, passed: str, name: str, positions: Sequence[int] | None, *, further: int
    ) -> int:
        return await self._change(
            "lanes_again", passed, name=name, positions=_chosen(positions), further=further
        )

    async def _change(self, *statements: str, **values: object) -> int:
        """An operator's change; how many rows it concerns."""
        named = self._named(**values, now=to_micros(self._clock.now()))

        def work(c: sqlite3.Connection) -> int:
            count = sum(c.execute(_sql[each], named).rowcount for each in statements)
            if count:
                c.execute(_sql["changed"], named)
            return count

        count = await self._connection.write(work)
        if count:
            self._wakeups.send(EVENTS)
        return count

    async def _found(self, statement: str, **values: object) -> list[LoggedEvent]:
        named = self._named(**values)

        def work(c: sqlite3.Connection) -> list[LoggedEvent]:
            cursor = c.cursor()
            cursor.row_factory = None  # tuples: nothing is looked up by name
            rows = cursor.execute(_sql[statement], named)
            return [event_rows.of_columns(row, from_micros) for row in rows]

        return await self._connection.read(work)

    def _named(self, **values: object) -> dict[str, object]:
        return {"namespace": self._namespace, **values}


def _chosen(positions: Sequence[int] | None) -> str | None:
    return None if positions is None else json.dumps(list(positions))
