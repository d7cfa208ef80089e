"""Event tables of applications: what docs/events.md and docs/debezium.md show, as it is shown."""

from __future__ import annotations

import configparser
import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tenure import Event, Run, Scheduler
from tests.docs.markdown import ROOT, blocks
from tests.e2e.command import until
from tests.e2e.test_events import now
from tests.support.servers import PostgresServer

_SHOWN = [
    block.text
    for block in blocks(ROOT / "docs" / "events.md")
    if "CREATE TRIGGER keep_event" in block.text
]
DEBEZIUM = ROOT / "docs" / "debezium.md"


class Application:
    """With a table of its own, as the page shows it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.sqlite = url.startswith("sqlite")
        self.table = "domain_event" if self.sqlite else "app.domain_event"
        self.scheduler = Scheduler(url)
        self.scheduler.schedules()  # makes the tables
        [script] = [text for text in _SHOWN if ("tenure_event" in text) == self.sqlite]
        with self.connect() as connection:
            if self.sqlite:
                connection.executescript(script)
            else:
                connection.execute(script)

    @contextmanager
    def connect(self) -> Iterator[Any]:
        if self.sqlite:
            path = self.url.removeprefix("sqlite:///")
            connection: Any = sqlite3.connect(path, timeout=20, isolation_level=None)
        else:
            connection = psycopg.connect(self.url, autocommit=True)
        try:
            yield connection
        finally:
            connection.close()

    def rows(self, text: str) -> list[tuple[Any, ...]]:
        with self.connect() as connection:
            return [tuple(row) for row in connection.execute(text).fetchall()]

    def kept(self) -> dict[str, tuple[Any, ...]]:
        found = self.rows(f"SELECT id, stream, kind, body, at FROM {self.table}")
        return {row[2]: row for row in found}


@pytest.fixture(params=["sqlite", "postgres"])
def application(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Application]:
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/app.db"
    else:
        server: PostgresServer = request.getfixturevalue("postgres")
        url = server.create_database(f"own_{id(tmp_path)}")
    application = Application(url)
    yield application
    application.scheduler.stop()


def test_events_of_every_origin_are_in_it(application: Application) -> None:
    scheduler = application.scheduler

    @scheduler.task
    def close(run: Run) -> None:
        run.emit(Event("ledger", "Closed", 1, key="books"))

    @scheduler.task(transactional=True)
    def book(run: Run, connection: Any) -> None:
        run.emit(Event("ledger", "Booked", 2, key="books"))

    with scheduler:
        added = scheduler.add("month-end", now(), emit=Event("ledger", "Ended", {"n": 3}, key="k"))
        scheduler.enqueue(close)
        scheduler.enqueue(book)
        opened = scheduler.emit(Event("ledger", "Opened"))
        scheduler.emit(Event("elsewhere", "Ignored"))
        until(lambda: len(application.kept()) == 4, "all of the topic are in the table")
    kept = application.kept()
    assert kept.keys() == {"Ended", "Closed", "Booked", "Opened"}
    assert kept["Opened"][:2] == (opened, None)
    identity, stream, _, body, at = kept["Ended"]
    assert (stream, body) == ("k", '{"n":3}' if application.sqlite else {"n": 3})
    assert identity.startswith(f"{added.uid}/planned/")
    moment = datetime.fromisoformat(at) if isinstance(at, str) else at
    assert moment == added.next_nominal


def test_it_is_one_transaction(application: Application) -> None:
    scheduler = application.scheduler
    with application.connect() as connection:
        for kept in (False, True):
            connection.execute("BEGIN")
            scheduler.emit(Event("ledger", f"{kept}"), connection=connection)
            connection.execute("COMMIT" if kept else "ROLLBACK")
    assert application.kept().keys() == {"True"}
    # What refuses a row of that table refuses the event.
    identity = scheduler.emit(Event("ledger", "First"), id="first")
    log = "tenure_event" if application.sqlite else "tenure.event"
    with application.connect() as connection:
        connection.execute(f"DELETE FROM {log}")
    with pytest.raises(Exception, match=r"(?i)unique"):
        scheduler.emit(Event("ledger", "Second"), id=identity)
    assert application.rows(f"SELECT count(*) FROM {log}") == [(0,)]


def test_nodes_need_no_rights_on_it(postgres: PostgresServer) -> None:
    application = Application(postgres.create_database("own_rights"))
    application.scheduler.stop()
    with application.connect() as connection:
        connection.execute("DROP ROLE IF EXISTS other")
        connection.execute("CREATE ROLE other")
        connection.execute("GRANT USAGE ON SCHEMA tenure TO other")
        connection.execute("GRANT SELECT, INSERT ON tenure.event TO other")
        connection.execute("SET ROLE other")
        connection.execute("SELECT tenure.emit('ledger', 'Opened')")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("SELECT * FROM app.domain_event")
    assert application.kept().keys() == {"Opened"}


def test_debezium_finds_the_columns_that_the_page_names(postgres: PostgresServer) -> None:
    [shown] = [block.text for block in blocks(DEBEZIUM) if block.language == "ini"]
    reader = configparser.ConfigParser(interpolation=None)
    reader.read_string(f"[connector]\n{shown}")
    options = dict(reader["connector"])
    outbox = "transforms.outbox."
    named = [options[f"{outbox}table.field.event.{field}"] for field in ("id", "key", "payload")]
    named.append(options[f"{outbox}route.by.field"])
    placed = options[f"{outbox}table.fields.additional.placement"].split(",")
    named += [column for column, _, _ in (each.split(":") for each in placed)]
    rows = re.findall(r"^\| `\w+` \| `(\w+)` \|", DEBEZIUM.read_text(), re.MULTILINE)
    assert set(rows) == {"id", "topic", "key", "type", "data"}

    scheduler = Scheduler(postgres.create_database("debezium"))
    try:
        scheduler.emit(Event("ledger", "Opened", {"n": 1}, key="k"))
    finally:
        scheduler.stop()
    assert options["table.include.list"] == "tenure.event"
    with psycopg.connect(scheduler.url) as connection:
        # Without a leader there is only the INSERT, which is all that Debezium is shown.
        chosen = ", ".join(named + rows + ["position"])
        found = connection.execute(f"SELECT {chosen} FROM tenure.event".encode()).fetchone()
        assert found is not None
        assert found[-1] is None
        assert dict(zip(rows, found[len(named) :], strict=False)) == {
            "id": found[0],
            "topic": "ledger",
            "key": "k",
            "type": "Opened",
            "data": '{"n":1}',
        }
        # A connector for tables without a replica identity needs their primary key.
        identity = connection.execute(
            "SELECT relreplident FROM pg_class WHERE oid = 'tenure.event'::regclass"
        ).fetchone()
        assert identity == ("d",)
