"""Runs without a schedule on SQLite. It has one writer, so looking up a key and adding is safe."""

from __future__ import annotations

import sqlite3
from datetime import timedelta

from tenure.backends.shared.rows import Row
from tenure.backends.shared.sql import load
from tenure.model import NewRun
from tenure.process.clock import to_micros


def _statements() -> dict[str, str]:
    parts = load("tenure.backends.sqlite", "sql/schedules.sql")
    first = parts["first"].replace("{due}", ":due")
    tenant = parts["tenant"].replace("{nobody}", parts["nobody"])
    sql = load("tenure.backends.sqlite", "sql/enqueue.sql")
    insert = sql["insert"].replace("{tenant}", tenant).replace("{first}", first)
    return {**sql, "insert": insert, "last_run": parts["last_run"]}


_sql = _statements()


def enqueue(c: sqlite3.Connection, namespace: str, new: NewRun, now: int) -> tuple[Row, bool]:
    """The run, and whether it is new."""
    values = {"namespace": namespace, "task": new.task, "key": new.key}
    known = c.execute(_sql["of_key"], values).fetchone()
    if known is not None:
        return known, False
    later = timedelta(seconds=new.delay) // timedelta(microseconds=1)
    nominal = now + later if new.at is None else to_micros(new.at)
    more = {
        "base": c.execute(_sql["last_run"]).fetchone()[0],
        "nominal": nominal,
        "due": max(nominal, now),
        "now": now,
        "kwargs": new.kwargs,
        "tenant": new.tenant,
        "lock": new.lock,
        "priority": new.priority,
        "timeout": new.timeout,
        "retries": new.retries,
        "on_crash": str(new.on_crash),
        "traceparent": new.traceparent,
    }
    c.execute(_sql["insert"], values | more)
    return c.execute(_sql["of_key"], values).fetchone(), True
