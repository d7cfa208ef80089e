"""Rows that somebody put there to do harm: they are named, and the schedules of others go on."""

from __future__ import annotations

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
LARGE = """'{"a":"' || {repeated} || '"}'"""


class Store:
    def __init__(self, url: str, execute: Callable[[str], Any], folder: Path) -> None:
        self.namespace = f"hostile {next(_numbers)}"
        self.url, self.execute, self.folder = url, execute, folder
        sqlite = url.startswith("sqlite")
        self.table = "tenure_schedule" if sqlite else "tenure.schedule"
        repeated = "printf('%.*c', 300000, 'x')" if sqlite else "repeat('x', 300000)"
        self.large = LARGE.replace("{repeated}", repeated)
        self.done: list[str] = []
        self.scheduler = Scheduler(url, namespace=self.namespace, ttl=3)

        @self.scheduler.task
        def note(name: str) -> None:
            self.done.append(name)

    def add(self, name: str) -> int:
        return self.scheduler.add(name, every(seconds=1), task="note", kwargs={"name": name}).uid

    def edit(self, name: str, assignment: str) -> None:
        mine = f"namespace = '{self.namespace}' AND name = '{name}'"
        self.execute(f"UPDATE {self.table} SET {assignment} WHERE {mine}")

    def doctor(self) -> list[dict[str, Any]]:
        where = ("--url", self.url, "--namespace", self.namespace)
        found: list[dict[str, Any]] = at_hand(self.folder, "doctor", "--json", *where).json[
            "findings"
        ]
        return found


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "sqlite":
        path = tmp_path / "shop.db"
        connection: Any = sqlite3.connect(path, isolation_level=None, timeout=20)
        store = Store(f"sqlite:///{path}", connection.execute, tmp_path)
    else:
        postgres: PostgresServer = request.getfixturevalue("postgres")
        connection = psycopg.connect(postgres.url, autocommit=True)
        store = Store(postgres.url, connection.execute, tmp_path)
    yield store
    store.scheduler.stop()
    connection.close()


def test_arguments_beyond_the_limit_are_not_copied_into_runs(store: Store) -> None:
    for name in ("good", "large"):
        store.add(name)
    store.edit("large", f"kwargs = {store.large}")
    with store.scheduler:
        until(lambda: store.done.count("good") >= 2, "the good one, twice")
        until(lambda: not store.scheduler.get("large").active, "the large one set aside")
    large = store.scheduler.get("large")
    assert (large.reason or "").startswith(
        "set aside: the keyword arguments are 300,008 bytes of JSON; the limit is 262,144."
    )
    assert store.scheduler.runs("large") == []
    store.scheduler.update("large", kwargs={"name": "large"})
    store.scheduler.resume("large")
    with store.scheduler:
        until(lambda: "large" in store.done, "it runs again, with arguments that fit")


def test_lock_key_that_is_another_schedules_own_is_named(store: Store) -> None:
    uid = store.add("victim")
    store.add("thief")
    assert not [finding for finding in store.doctor() if finding["check"] == "locks"]
    store.edit("thief", f"lock = 'schedule:{uid}'")
    [finding] = [finding for finding in store.doctor() if finding["check"] == "locks"]
    assert finding["severity"] == "problem"
    assert f"'thief' has the lock key 'schedule:{uid}'" in finding["text"]
    assert "schedules update --lock KEY thief" in finding["remedy"]
    store.scheduler.update("thief", lock="mine")
    assert not [finding for finding in store.doctor() if finding["check"] == "locks"]
