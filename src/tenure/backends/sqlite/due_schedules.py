"""Which schedules are due on SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import Any

from tenure.backends.shared.schedule_turns import MOST_TENANTS, Turns, in_turn
from tenure.backends.shared.sql import load
from tenure.model import DueBatch, DueSchedule
from tenure.process.clock import EPOCH, Clock, from_micros, to_micros


@cache
def statements() -> dict[str, str]:
    """Those of schedules."""
    sql = dict(load("tenure.backends.sqlite", "sql/schedules.sql"))
    tenant, first = sql.pop("tenant").replace("{nobody}", sql["nobody"]), sql.pop("first")
    return {
        name: text.replace("{tenant}", tenant)
        .replace("{first}", first)
        .replace("{due}", "tenure_firing.due" if name == "judge_firings" else ":now")
        for name, text in sql.items()
    }


_sql = statements()


class DueSchedules:
    """Those of one namespace."""

    def __init__(self, namespace: str, clock: Clock) -> None:
        self._namespace = namespace
        self._clock = clock
        self._turns = Turns()

    def first(self, c: sqlite3.Connection, limit: int, ahead: float) -> DueBatch:
        """So many that are due, or will be in a moment."""
        now = self._clock.now()
        until = to_micros(now) + int(ahead * 1_000_000)
        values = {"namespace": self._namespace, "until": until, "limit": limit + 1}
        due = [_read(row) for row in c.execute(_sql["due"], values).fetchall()]
        if len(due) > limit:  # the query has one more, as the earliest of the others
            return self._in_turn(c, DueBatch(now, due, None), values)
        (later,) = c.execute(_sql["next_due"], values).fetchone()
        return DueBatch(now, due, time_of(later))

    def _in_turn(self, c: sqlite3.Connection, batch: DueBatch, values: dict[str, Any]) -> DueBatch:
        """Let tenants take turns: more is due than `limit`."""
        limit = len(batch.schedules) - 1
        values |= {"after": self._turns.after, "most": MOST_TENANTS}
        asked = [tuple(row) for row in c.execute(_sql["tenants"], values)]
        tenants, values["share"] = self._turns.share(asked, limit)
        groups: list[list[Any]] = []
        if asked and self._turns.begins:
            values |= {"near": self._turns.search() * limit, "newest": limit}
            groups += [c.execute(_sql["due_of_nobody"], values).fetchall()]
            self._turns.found(len(groups[0]))
        if len(tenants) > 1 or any(groups) or not self._turns.whole:
            # Otherwise there is one tenant, and the batch has its oldest already.
            for tenant in tenants:
                groups += [c.execute(_sql["due_of_tenant"], values | {"tenant": tenant}).fetchall()]
        return in_turn(batch, [[_read(row) for row in rows] for rows in groups], limit)


def _read(row: Sequence[Any]) -> DueSchedule:
    (
        uid,
        name,
        version,
        trigger,
        next_nominal,
        next_due,
        catch_up,
        overlap,
        lock,
        limit,
        grace,
        begins,
        payload,
        tenant,
        target,
    ) = row  # all at once: to ask a row for one after the other takes longer
    try:
        due = from_micros(next_due)
    except (TypeError, OverflowError):
        due, trigger = EPOCH, f"next_due={next_due!r}"
    nominal = due if next_nominal == next_due else time_of(next_nominal)
    if nominal is None and next_nominal is not None:
        trigger = f"next_nominal={next_nominal!r}"  # unreadable: the leader sets it aside for that
    began = None if next_nominal is not None else time_of(begins)
    plan = uid, name, version, trigger, nominal, due, catch_up, overlap, lock, limit, grace, began
    return DueSchedule(*plan, payload or 0, tenant, target)


def time_of(micros: int | None) -> datetime | None:
    """None also for a value that is no time: SQLite stores anything, and rows can be edited."""
    try:
        return None if micros is None else from_micros(micros)
    except (TypeError, OverflowError):
        return None
