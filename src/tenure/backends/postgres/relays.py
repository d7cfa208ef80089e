"""How far relays have come, on PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any

from tenure.backends.base import REPLAYS
from tenure.backends.postgres.connections.database import Database
from tenure.backends.postgres.office import PostgresOffice
from tenure.backends.postgres.statements import as_it_is
from tenure.backends.shared import event_rows, relay_rows
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

_logged = partial(event_rows.logged, when=as_it_is)
_held = partial(relay_rows.held, when=as_it_is)
_status = partial(relay_rows.status, when=as_it_is)
_parked = partial(relay_rows.parked, when=as_it_is)


class PostgresRelays:
    """The relays of one namespace."""

    def __init__(self, database: Database, office: PostgresOffice, namespace: str) -> None:
        self._database = database
        self._office = office
        self._namespace = namespace
        self._sql = database.statements("sql/relays.sql")

    async def resume(
        self,
        fence: Fence,
        name: str,
        location: str,
        topics: Sequence[str] = (),
        *,
        from_now: bool = False,
    ) -> RelayProgress:
        values = {
            **self._office.of(fence),
            "name": name,
            "location": location,
            "topics": " ".join(topics),
            "from_now": from_now,
            "limit": REPLAYS,
        }
        statements = [(self._sql[each], values) for each in ("make", "relay", "lanes", "replays")]
        _, _, [relay], lanes, replays = await self._office.transaction(
            fence, self._office.standing(fence.scope), *statements
        )
        return RelayProgress(
            max(0, relay["position"]),
            tuple(_held(row, relay["now"]) for row in lanes),
            tuple(_logged(row) for row in replays),
            relay["ended"],
            relay["revision"],
        )

    async def read(self, topics: Sequence[str], after: int, limit: int = 100) -> list[LoggedEvent]:
        statement = "read_topics" if topics else "read"
        return await self._found(statement, topics=list(topics), after=after, limit=limit)

    async def read_lane(
        self, topics: Sequence[str], lane: Lane, first: int, last: int, limit: int = 100
    ) -> list[LoggedEvent]:
        after = first - 1
        if lane.single:
            found = await self._found("read", after=max(after, lane.single - 1), limit=1)
        elif lane.key is None or lane.topic is None:
            wanted = topics if lane.topic is None else [lane.topic]
            found = await self.read(wanted, after, limit)
        else:
            found = await self._found(
                "read_key", topic=lane.topic, key=lane.key, after=after, limit=limit
            )
        return relay_rows.of_lane(found, lane, last)

    async def acknowledge(
        self, fence: Fence, name: str, revision: int, done: Acknowledgement
    ) -> bool:
        held = [
            {
                **each.lane._asdict(),
                "lane": relay_rows.name_of(each.lane),
                "position": each.position,
                "tries": each.tries,
                "due": each.due,
                "reason": each.reason,
                "parked": each.parked,
            }
            for each in done.held
        ]
        parked = [
            {"position": each.position, "tries": each.tries, "reason": each.reason}
            for each in done.parked
        ]
        values = {
            "name": name,
            "revision": revision,
            "cursor": done.cursor,
            "trouble": done.trouble,
            "ended": done.ended,
            "held": json.dumps(held),
            "free": [relay_rows.name_of(lane) for lane in done.free],
            "parked": json.dumps(parked),
            "unparked": list(done.unparked),
        }
        return bool(await self._office.under(fence, self._sql["acknowledge"], values))

    async def revision(self, name: str) -> int:
        rows = await self._database.one(self._sql["relay"], self._named(name=name))
        return rows[0]["revision"] if rows else 0

    async def all(self) -> list[RelayStatus]:
        values = self._named(counted=UNREAD_COUNTED)
        return [_status(row) for row in await self._database.one(self._sql["all"], values)]

    async def parked(
        self,
        name: str | None = None,
        limit: int = 100,
        *,
        positions: Sequence[int] | None = None,
    ) -> list[ParkedEvent]:
        values = self._named(name=name, limit=limit, counted=WAITING_COUNTED, listed=WAITING_LISTED)
        values["positions"] = None if positions is None else list(positions)
        return [_parked(row) for row in await self._database.one(self._sql["parked"], values)]

    async def replay(self, name: str, positions: Sequence[int] | None = None) -> int:
        return await self._settle("replay", name, positions)

    async def drop(self, name: str, positions: Sequence[int] | None = None) -> int:
        return await self._settle("drop", name, positions)

    async def revive(self, name: str) -> bool:
        return bool(await self._database.one(self._sql["revive"], self._named(name=name)))

    async def forget(self, name: str) -> bool:
        return bool(await self._database.one(self._sql["forget"], self._named(name=name)))

    async def _settle(self, statement: str, name: str, positions: Sequence[int] | None) -> int:
        chosen = None if positions is None else list(positions)
        [row] = await self._database.one(
            self._sql[statement], self._named(name=name, positions=chosen)
        )
        count: int = row["count"]
        return count

    async def _found(self, statement: str, **values: Any) -> list[LoggedEvent]:
        rows = await self._database.tuples(
            (self._sql["in_order"], {}), (self._sql[statement], self._named(**values))
        )
        return [event_rows.of_columns(row, datetime.fromisoformat) for row in rows]

    def _named(self, **values: Any) -> dict[str, Any]:
        return {"namespace": self._namespace, **values}
