"""Which runs a claim takes on SQLite, and the marks that lead to them.

Claims look only at runs that are marked ready; `RunStore` has the rule. A transaction that changes
a run sets the marks of its lock key too. SQLite has one writer, so nothing can come in between.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, NamedTuple

from tenure.backends.shared.claim_turns import NEAR, NOBODY, ClaimTurns, Waiting
from tenure.backends.shared.sql import load
from tenure.process.clock import to_micros

_END = to_micros(datetime.max.replace(tzinfo=UTC))
"""A later due time was edited by hand: Python has no such date."""
MEND = 200
"""How many lock keys are checked at a time for a missing mark."""


def _statements() -> dict[str, str]:
    sql = load("tenure.backends.sqlite", "sql/claims.sql")
    whole = {
        name: text.replace("{free}", sql["free"]).replace("{room}", sql["room"])
        for name, text in sql.items()
    }
    front = whole.pop("front")
    return whole | {
        "front": front.replace("{due}", "<= :now"),
        "never_due": front.replace("{due}", "> :end"),
    }


_sql = _statements()
Found = tuple[int, bool]
"""The id of a run, and whether it is run again if its node dies."""


class Turns:
    """Whose turn it is: among the runs of each task that has a limit, and among all others."""

    def __init__(self) -> None:
        self._turns: dict[str | None, ClaimTurns] = {}

    def of(self, task: str | None) -> ClaimTurns:
        return self._turns.setdefault(task, ClaimTurns())


class _Group(NamedTuple):
    """The ready runs of a task and priority."""

    task: str
    priority: Any
    due: bool
    later: Any
    never: bool
    room: int | None


class ReadyRuns:
    """The ready runs of a node's tasks, at one moment."""

    def __init__(
        self, c: sqlite3.Connection, namespace: str, tasks: Sequence[str], now: int
    ) -> None:
        self._c = c
        self._values: dict[str, Any] = {
            "namespace": namespace,
            "tasks": json.dumps(list(tasks)),
            "now": now,
            "end": _END,
        }
        self._groups = [_Group(*row) for row in c.execute(_sql["groups"], self._values)]

    @property
    def any(self) -> bool:
        """Is anything due that may be claimed?"""
        return any((group.due or group.never) and group.room != 0 for group in self._groups)

    @property
    def limited(self) -> bool:
        """Has one of these tasks a limit?"""
        return any(group.room is not None for group in self._groups)

    @property
    def next_due(self) -> int | None:
        """When the next run after now is due."""
        times = (group.later for group in self._groups)
        return min((t for t in times if isinstance(t, int) and t <= _END), default=None)

    def first(self, most: int, turns: Turns) -> list[Found]:
        """The runs that a claim of so many takes, in their order."""
        rooms = {group.task: group.room for group in self._groups if group.room is not None}
        chosen: list[Found] = []
        for task, room in rooms.items():
            of_task = [group for group in self._groups if group.task == task]
            chosen += self._first(of_task, min(room, most), turns.of(task))
        others = [group for group in self._groups if group.task not in rooms]
        return self._first(others, most, turns.of(None), chosen)

    def _first(
        self, groups: list[_Group], most: int, turns: ClaimTurns, chosen: Sequence[Found] = ()
    ) -> list[Found]:
        """The first of these groups, and of those that were chosen from others."""
        found: list[Found] = []
        for priority, of_priority in groupby(groups, lambda group: group.priority):
            level = list(of_priority)
            due, never = [g.task for g in level if g.due], [g.task for g in level if g.never]
            for statement, some in (("front", due), ("never_due", never)):
                if some and len(found) < most:
                    found += self._of(statement, priority, some, most - len(found))
        if chosen:
            ids = json.dumps([id_ for id_, _ in (*found, *chosen)])
            found = self._found("merged", {"ids": ids, "limit": most})
        if 0 < most == len(found) and self._c.execute(_sql["any_tenant"], self._values).fetchone():
            self._values["open"] = json.dumps([group.task for group in groups])
            self._values["chosen"] = json.dumps([id_ for id_, _ in chosen])
            return self._in_turn(found, turns)
        return found

    def _of(self, statement: str, priority: Any, tasks: list[str], limit: int) -> list[Found]:
        values = {"priority": priority, "some": json.dumps(tasks), "limit": limit}
        return self._found(statement, values)

    def _found(self, statement: str, values: dict[str, Any]) -> list[Found]:
        (found,) = self._c.execute(_sql[statement], self._values | values).fetchone()
        return [(id_, bool(reruns)) for id_, reruns in json.loads(found)]

    def _in_turn(self, found: list[Found], turns: ClaimTurns) -> list[Found]:
        """Let tenants take turns: `found` fills all places, and more runs may be waiting."""
        ids = json.dumps([id_ for id_, _ in found])
        known = {row[0]: Waiting(*row) for row in self._c.execute(_sql["known"], {"ids": ids})}
        front = [known[id_] for id_, _ in found]
        if not all(isinstance(each.priority, int) for each in front):
            return found  # a row was edited by hand
        unmarked = [each for each in front if each.tenant is None and isinstance(each.due, int)]

        def ask(priority: int, after: Any, most: int) -> list[Any]:
            more = {"priority": priority, "after": after, "most": most}
            return [row[0] for row in self._c.execute(_sql["tenants"], self._values | more)]

        def take(priority: int, tenant: Any, most: int) -> list[Waiting]:
            more = {"priority": priority, "tenant": tenant, "share": most, "near": NEAR}
            taken = [
                Waiting(*row) for row in self._c.execute(_sql["of_tenant"], self._values | more)
            ]
            if tenant == NOBODY:
                taken += [each for each in unmarked if each.priority == priority]
                taken.sort(key=lambda each: (each.due, each.id))
            return taken[:most]

        return [(each.id, each.reruns) for each in turns.order(front, ask, take)]


def claim(c: sqlite3.Connection, namespace: str, node: str, ids: str, now: int) -> None:
    """Give these runs to this node, and unmark the others of their lock keys."""
    values = {"namespace": namespace, "node": node, "ids": ids, "now": now}
    c.execute(_sql["claim"], values)
    c.execute(_sql["unmark"], values)


def mark(c: sqlite3.Connection, namespace: str, ids: Sequence[int]) -> None:
    """After these runs have ended, or wait again: mark what is next of their lock keys."""
    if ids:
        c.execute(_sql["mark"], {"namespace": namespace, "ids": json.dumps(list(ids))})


def leaves_room(c: sqlite3.Connection, namespace: str, ids: Sequence[int]) -> bool:
    """Is there room for a run of their tasks, within a limit, that waits?"""
    values = {"namespace": namespace, "ids": json.dumps(list(ids))}
    return c.execute(_sql["leaves_room"], values).fetchone() is not None


def lost(c: sqlite3.Connection, namespace: str, after: str) -> tuple[list[int], str]:
    """Runs of lock keys that would wait for ever, because a row was edited by hand; one of each
    key. Checks `MEND` keys, beginning after `after`; also returns where to go on."""
    values = {"namespace": namespace, "after": after, "most": MEND}
    rows = c.execute(_sql["lost"], values).fetchall()
    found = [id_ for _, id_ in rows if id_ is not None]
    return found, str(rows[-1][0]) if len(rows) == MEND else ""
