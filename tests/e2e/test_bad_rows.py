"""Rows that somebody edited by hand: shown or set aside, and no reason for the others to stop."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tenure import Scheduler, every
from tests.e2e.command import at_hand, until
from tests.support.servers import PostgresServer

_numbers = count()
BAD = {
    "broken-trigger": "trigger = 'not a trigger'",
    "broken-json": """trigger = '{"type": "cron"'""",
    "unknown-catch-up": "catch_up = 'sometimes'",
    "unknown-overlap": "overlap = 'perhaps'",
    "unknown-on-crash": "on_crash = 'weep'",
    "broken-kwargs": "kwargs = '{'",
    "listed-kwargs": "kwargs = '[1]'",
    "no-retries": "retries = -5",
    "low": "priority = -2147483648",
}
ONLY_SQLITE = {  # which takes anything in any column
    "due-in-words": "next_due = 'tomorrow'",
    "nominal-in-words": "next_nominal = '2026-01-01'",
    "limit-in-words": "catch_up = 'all', catch_up_limit = 'many'",
    "timeout-in-words": "timeout = 'soon'",
    "created-in-words": "created_at = 'once'",
    "no-end": "timeout = 9e999",
    "priority-in-words": "priority = 'high'",
    "retries-in-words": "retries = 'often'",
    "lock-in-bytes": "lock = x'ff00'",
    "kwargs-in-bytes": "kwargs = x'ff00'",
    "kwargs-in-latin-1": """kwargs = CAST(x'7b2261223a2022e4227d' AS TEXT)""",
}
ONLY_POSTGRES = {
    "no-end": "timeout = 'infinity'",
    "timeout-not-a-number": "timeout = 'nan'",
}
CANNOT_RUN = {  # what is fired, and recorded as failed with the reason
    "priority-in-words": "its row cannot be read: priority='high'",
    "retries-in-words": "its row cannot be read: retries='often'",
    "lock-in-bytes": "its row cannot be read: lock=b'\\xff\\x00'",
    "kwargs-in-bytes": "its row cannot be read: kwargs=b'\\xff\\x00'",
    "kwargs-in-latin-1": "its keyword arguments are not a JSON object",
}
RUNS = {  # of runs that wait
    "priority": "priority = 'abc'",
    "lock": "lock = x'ff00'",
    "kwargs": "kwargs = x'ff00'",
    "timeout": "timeout = 'soon'",
    "retries": "retries = x'00'",
    "failures": "failures = 'few'",
    "nominal": "nominal = 'then'",
    "due": "due = 'tomorrow'",
    "early": "due = -1000000000000000000",
    "created": "created_at = 9e999",
}


class Store:
    def __init__(self, url: str, execute: Callable[[str], Any], table: str, folder: Path) -> None:
        self.namespace = f"bad {next(_numbers)}"
        self.url = url
        self.execute = execute
        self.table = table
        self.folder = folder
        self.bad = BAD | (ONLY_SQLITE if url.startswith("sqlite") else ONLY_POSTGRES)
        self.done: list[str] = []
        self.scheduler = Scheduler(url, namespace=self.namespace, ttl=3)

        @self.scheduler.task
        def note(name: str) -> None:
            self.done.append(name)

    def spoil(self) -> None:
        for name, assignment in self.bad.items():
            mine = f"namespace = '{self.namespace}' AND name = '{name}'"
            self.execute(f"UPDATE {self.table} SET {assignment} WHERE {mine}")

    def cli(self, *arguments: object) -> Any:
        where = ("--url", self.url, "--namespace", self.namespace)
        answer = at_hand(self.folder, *arguments, *where)
        assert answer.code == 0, answer
        return answer


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "sqlite":
        path = tmp_path / "shop.db"
        connection: Any = sqlite3.connect(path, isolation_level=None, timeout=20)
        store = Store(f"sqlite:///{path}", connection.execute, "tenure_schedule", tmp_path)
    else:
        postgres: PostgresServer = request.getfixturevalue("postgres")
        connection = psycopg.connect(postgres.url, autocommit=True)
        store = Store(postgres.url, connection.execute, "tenure.schedule", tmp_path)
    yield store
    store.scheduler.stop()
    connection.close()


def test_bad_rows_do_not_stop_the_others(store: Store) -> None:
    for name in (*store.bad, "good"):
        store.scheduler.add(name, every(seconds=1), task="note", kwargs={"name": name})
    store.spoil()
    with store.scheduler:
        until(lambda: store.done.count("good") >= 2, "the good one, twice")
        until(lambda: not store.scheduler.get("broken-trigger").active, "a bad one set aside")
        until(lambda: store.scheduler.runs("broken-kwargs", "failed"), "a run that cannot begin")
        until(lambda: store.scheduler.get("unknown-overlap").reason, "why it is put off")
        count = store.done.count("good")
        until(lambda: store.done.count("good") > count, "the good one goes on")
    found = {schedule.name: schedule for schedule in store.scheduler.schedules()}
    assert found.keys() == {*store.bad, "good"}
    for name in ("broken-trigger", "broken-json"):
        assert (found[name].reason or "").startswith("set aside: the stored trigger")
    for name in ("unknown-catch-up", "unknown-overlap"):
        assert (found[name].active, (found[name].reason or "")[:9]) == (True, "put off: ")
    [run, *_] = store.scheduler.runs("broken-kwargs", "failed")
    assert "its keyword arguments are not a JSON object: '{'" in (run.error or "")
    assert "unknown-on-crash" in store.done
    if store.url.startswith("sqlite"):
        assert "its row cannot be read" in (found["due-in-words"].reason or "")
        assert (found["nominal-in-words"].reason or "").startswith("its row cannot be read")
        assert store.scheduler.runs("timeout-in-words", "failed")
        for name, error in CANNOT_RUN.items():
            [run, *_] = store.scheduler.runs(name, "failed")
            assert (run.error or "").startswith(error)
            assert store.cli("runs", "show", run.id, "--json").json["error"] == run.error
    else:
        [run, *_] = store.scheduler.runs("timeout-not-a-number", "failed")
        assert run.error == "its row cannot be read: timeout=nan"
    assert {"no-end", "low"} <= set(store.done)


def test_bad_runs_do_not_stop_the_others(tmp_path: Path) -> None:
    """On SQLite: the columns of the others take what they are for only."""
    path = tmp_path / "shop.db"
    connection = sqlite3.connect(path, isolation_level=None, timeout=20)
    store = Store(f"sqlite:///{path}", connection.execute, "tenure_schedule", tmp_path)
    scheduler = store.scheduler
    bad = RUNS | {"never": "due = 1000000000000000000"}
    others = {"counted": "attempt = 9e999"}
    for name in (*bad, *others, "good"):
        scheduler.add(name, every(hours=1), task="note", kwargs={"name": name})
        scheduler.run_now(name)
    for name, assignment in (bad | others).items():
        connection.execute(f"UPDATE tenure_run SET {assignment} WHERE schedule = '{name}'")
    assert len(store.cli("runs", "list", "--json").json) == len(bad) + 2
    with scheduler:
        until(lambda: sorted(store.done) == ["counted", "good"], "the good ones")
        until(lambda: len(scheduler.runs(state="failed")) == len(bad), "the others, failed")
    for run in scheduler.runs(state="failed"):
        assert (run.error or "").startswith("its row cannot be read: "), run
        assert run.attempt == 1
    assert "its row cannot be read: priority='abc'" in store.cli("runs", "list").out
    scheduler.stop()
    connection.close()


def test_bad_rows_are_shown(store: Store) -> None:
    for name in store.bad:
        store.scheduler.add(name, every(hours=1), task="note", kwargs={"name": name})
    store.spoil()
    listed = store.cli("schedules", "list")
    for name in store.bad:
        assert name in listed.out
        shown = store.cli("schedules", "show", name)
        assert name in shown.out
    as_json = {s["name"]: s for s in store.cli("schedules", "list", "--json").json}
    assert as_json.keys() == store.bad.keys()
    assert as_json["broken-kwargs"]["kwargs"] == "{"
    assert as_json["unknown-catch-up"]["catch_up"] == "sometimes"
    assert as_json["broken-trigger"]["rule"] == "unreadable"
    json.dumps(as_json)
    doctor = at_hand(store.folder, "doctor", "--url", store.url, "--namespace", store.namespace)
    assert doctor.code in (0, 1), doctor


def test_bad_rows_can_be_mended_or_removed(store: Store) -> None:
    for name in store.bad:
        store.scheduler.add(name, every(hours=1), task="note", kwargs={"name": name})
    store.spoil()
    scheduler = store.scheduler
    assert scheduler.update("broken-trigger", trigger=every(hours=2)).next_nominal is not None
    assert scheduler.update("unknown-catch-up", catch_up="all").spec.catch_up == "all"
    assert scheduler.update("unknown-overlap", overlap="queue").spec.overlap == "queue"
    assert scheduler.update("broken-kwargs", kwargs={"name": "x"}).spec.kwargs == '{"name":"x"}'
    with pytest.raises(ValueError, match=r"are not a JSON object: '\[1\]'\. Give new ones"):
        scheduler.update("listed-kwargs", retries=1)
    for name in store.bad:
        scheduler.remove(name)
    assert scheduler.schedules() == []
