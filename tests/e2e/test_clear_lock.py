"""One stuck run lock is cleared: its run is cancelled, its node told, its late words refused."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tenure import Conflict, Fact, Fenced, Run, Scheduler
from tenure.backends.registry import parse
from tenure.process.clock import SystemClock
from tenure.schedules.control import RunControl
from tests.e2e.command import at_hand, until
from tests.e2e.sql_database import Database, made, on_sqlite
from tests.support.servers import PostgresServer


class Stuck:
    """A function that does not listen, and the facts of its node."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.scheduler = Scheduler(database.url)
        self.begun, self.goes_on = threading.Event(), threading.Event()
        self.told = threading.Event()
        self.fenced: list[bool] = []
        self.facts: list[Fact] = []
        self.scheduler.on("run.*", self.facts.append)
        self.scheduler.on("lock.*", self.facts.append)
        self.scheduler.task(name="stuck", lock="mailbox:{user}")(self.work)
        self.scheduler.task(name="other")(self.other)

    def work(self, user: int, run: Run) -> None:
        if self.begun.is_set():
            return  # the next one
        self.begun.set()
        until(lambda: run.cancelled, "that it is told")
        self.told.set()
        assert self.goes_on.wait(60)
        with closing(self.database_connection()) as connection:
            try:
                run.fence(connection)
            except Fenced:
                self.fenced.append(True)

    def other(self, run: Run) -> str:
        return "done"

    def database_connection(self) -> Any:
        import sqlite3

        import psycopg

        if self.database.url.startswith("sqlite"):
            return sqlite3.connect(self.database.url.removeprefix("sqlite:///"))
        return psycopg.connect(self.database.url)

    def names(self) -> list[str]:
        return [fact.name for fact in self.facts]


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    if request.param == "sqlite":
        with on_sqlite(tmp_path / "jobs.db") as database:
            yield database
    else:
        server: PostgresServer = request.getfixturevalue("postgres")
        with made(server) as database:
            yield database


@pytest.fixture
def stuck(database: Database) -> Iterator[Stuck]:
    stuck = Stuck(database)
    with stuck.scheduler:
        yield stuck
        stuck.goes_on.set()


def test_from_the_command_line(stuck: Stuck, tmp_path: Path) -> None:
    url = ("--url", stuck.database.url)
    first = stuck.scheduler.enqueue("stuck", kwargs={"user": 7})
    assert stuck.begun.wait(20)
    second = stuck.scheduler.enqueue("stuck", kwargs={"user": 7})
    listed = at_hand(tmp_path, "leases", "list", "--json", *url).json
    [lock] = [each for each in listed if each["name"] == "mailbox:7"]
    [presence] = [each for each in listed if each["name"] == f"tenure/node/{lock['holder']}"]
    assert (lock["kind"], lock["live"], lock["pid"]) == ("lock", True, presence["pid"])
    assert lock["expires_at"] >= presence["since"]
    evicting = at_hand(tmp_path, "leases", "evict", "mailbox:7", "--yes", *url)
    assert evicting.code == 1
    assert "tenure leases clear mailbox:7" in evicting.err

    asked = at_hand(tmp_path, "leases", "clear", "mailbox:7", *url, stdin="n\n")
    assert asked.code == 1
    since = r"since 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d \w+ \((now|.* ago)\)\."
    assert re.search(since, asked.err), asked
    words = ("--yes", "--wait", "1", "--reason", "hangs since noon", *url)
    cleared = at_hand(tmp_path, "leases", "clear", "mailbox:7", *words)
    assert cleared.code == 0, cleared
    assert f"Run {first.id} is cancelled; mailbox:7 is free." in cleared.out
    assert stuck.told.is_set()  # its node was told before that
    run = stuck.scheduler.get_run(first)
    assert run.state == "cancelled"
    assert run.error is not None
    assert run.error.endswith(": hangs since noon")
    until(lambda: stuck.scheduler.get_run(second).state == "succeeded", "the next of that lock")
    assert stuck.scheduler.result(stuck.scheduler.enqueue("other"), timeout=20) == "done"

    stuck.goes_on.set()
    until(lambda: "run.refused" in stuck.names(), "that its late end is refused")
    assert stuck.fenced == [True]
    assert stuck.scheduler.get_run(first).state == "cancelled"


def test_lock_of_nobody_and_a_lease_are_not_cleared(database: Database, tmp_path: Path) -> None:
    url = ("--url", database.url)
    nobody = at_hand(tmp_path, "leases", "clear", "mailbox:7", "--yes", *url)
    assert nobody.code == 1
    assert "no run has the lock key 'mailbox:7'; nothing was changed" in nobody.err
    with database.scheduler:
        until(lambda: database.scheduler.is_leader, "a leader")
        lease = at_hand(tmp_path, "leases", "clear", "tenure/leader", "--yes", *url)
    assert lease.code == 1
    assert "tenure leases evict tenure/leader" in lease.err


def test_claim_that_is_over_is_not_cleared(stuck: Stuck) -> None:
    """It may be what somebody agreed to, at a prompt that waited."""
    first = stuck.scheduler.enqueue("stuck", kwargs={"user": 7})
    assert stuck.begun.wait(20)
    run = stuck.scheduler.get_run(first)
    clock = SystemClock()

    async def clear(claim: int) -> list[tuple[int, int]]:
        backend = parse(stuck.database.url, "default", clock)()
        await backend.open(migrate=False)
        try:
            with pytest.raises(Conflict, match=r"changed meanwhile.*Nothing was changed"):
                await RunControl(backend).clear(replace(run, claim=claim), 0.0, "why", clock)
            return await backend.runs.cancelling(run.node or "")
        finally:
            await backend.close()

    assert asyncio.run(clear(run.claim - 1)) == []
    stuck.scheduler.cancel(first)


@pytest.mark.parametrize("database", ["postgres"], indirect=True)
def test_from_sql(stuck: Stuck) -> None:
    call = stuck.database.call
    first = stuck.scheduler.enqueue("stuck", kwargs={"user": 7})
    assert stuck.begun.wait(20)
    second = stuck.scheduler.enqueue("stuck", kwargs={"user": 7})
    assert call("clear_lock('mailbox:8')") is None
    assert call("clear_lock('mailbox:7')") == "requested"
    stuck.database.connection.commit()
    assert stuck.told.wait(20)
    assert call("clear_lock('mailbox:7')") == "requested"  # it has ten seconds
    assert call("clear_lock('mailbox:7', patience => '0 s')") == "cleared"
    stuck.database.connection.commit()
    run = stuck.scheduler.get_run(first)
    assert (run.state, run.finished_at is not None) == ("cancelled", True)
    [attempt] = stuck.scheduler.attempts(first)
    assert (str(attempt.outcome), attempt.node) == ("cancelled", stuck.scheduler.node)
    until(lambda: stuck.scheduler.get_run(second).state == "succeeded", "the next of that lock")
    stuck.goes_on.set()
    until(lambda: "run.refused" in stuck.names(), "that its late end is refused")
    assert stuck.fenced == [True]


def test_run_that_listens_ends_by_itself(database: Database, tmp_path: Path) -> None:
    begun = threading.Event()

    @database.scheduler.task(lock="{task}:{user}")
    def listens(user: int, run: Run) -> None:
        begun.set()
        until(lambda: run.cancelled, "that it is told")
        run.check()

    with database.scheduler:
        run = database.scheduler.enqueue(listens, kwargs={"user": 7})
        assert begun.wait(20)
        words = ("listens:7", "--yes", "--wait", "60", "--url", database.url)
        cleared = at_hand(tmp_path, "leases", "clear", *words)
        assert f"Run {run.id} is cancelled, by itself; listens:7 is free." in cleared.out


def test_lines_in_the_log(stuck: Stuck) -> None:
    run = stuck.scheduler.enqueue("stuck", kwargs={"user": 7})
    assert stuck.begun.wait(20)
    stuck.scheduler.cancel(run)
    stuck.goes_on.set()
    until(lambda: "lock.released" in stuck.names(), "its end")
    of_run = [fact for fact in stuck.facts if fact.values().get("run") == run.id]
    names = [fact.name for fact in of_run]
    assert names == ["lock.acquired", "run.started", names[2], "lock.released"]
    assert {of_run[i].values()["lock"] for i in (0, 1, 3)} == {"mailbox:7"}
    assert [fact.level for fact in of_run[:2]] == [logging.DEBUG, logging.INFO]


def test_views_of_locks_show_those_that_are_live_unless_asked(database: Database) -> None:
    database.scheduler.enqueue("pack")
    prefix = database.prefix
    expired = "'2020-01-01T00:00:00Z'" if prefix == "tenure." else "1577836800000000"
    columns = (
        "namespace, name, term, holder, host, pid, ttl, fenced, counter, acquired_at, renewed_at"
    )
    more, value = (", expires_at", f", {expired}") if prefix == "tenure." else (", expires", ", 1")
    no = "false" if prefix == "tenure." else "0"
    database.connection.execute(
        f"INSERT INTO {prefix}lease ({columns}, info{more})"
        f" VALUES ('default', 'tenure/node/gone', 1, 'gone', 'far', 1, 15, {no}, 0, {expired},"
        f" {expired}, '{{}}'{value})"
    )
    database.connection.execute(
        f"UPDATE {prefix}run SET state = 'claimed', node = 'gone', lock = 'k',"
        f" claimed_at = {expired}, attempt = 1"
    )
    assert database.view("active_lock") == []
    found = {row["name"]: bool(row["live"]) for row in database.view("every_lock")}
    assert found == {"tenure/node/gone": False, "k": False}
    database.connection.rollback()
