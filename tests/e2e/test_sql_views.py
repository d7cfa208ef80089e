"""Plain SQL: views, which say the same on SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tenure import Event, Retry, Scheduler, Settings, Trigger, at, cron, every
from tests.e2e.command import until
from tests.e2e.sql_database import Database, emptied, made, moment, on_sqlite
from tests.support.servers import PostgresServer

MINUTE = timedelta(minutes=1)


@pytest.fixture(scope="module")
def any_postgres(postgres: PostgresServer) -> Iterator[Database]:
    with made(postgres) as database:
        yield database


@pytest.fixture
def postgres_database(any_postgres: Database) -> Iterator[Database]:
    with emptied(any_postgres) as database:
        yield database


@pytest.fixture
def sqlite_database(tmp_path: Path) -> Iterator[Database]:
    with on_sqlite(tmp_path / "shop.db") as database:
        yield database


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> Database:
    found: Database = request.getfixturevalue(f"{request.param}_database")
    return found


def test_views_of_a_quiet_store(database: Database) -> None:
    database.scheduler.add("a", every(weeks=1), task="pack", tenant="acme")
    database.scheduler.pause("a", "stocktaking")
    [status] = database.view("schedule_status")
    assert (status["name"], status["tenant"], status["state"]) == ("a", "acme", "paused")
    assert (bool(status["active"]), status["reason"]) == (False, "paused: stocktaking")
    assert (status["last_nominal"], status["last_state"]) == (None, None)
    due = database.scheduler.get("a").next_due
    assert moment(status["next_due"]) == due
    [why] = database.view("why_not")
    assert (why["schedule"], why["what"], why["reason"]) == ("a", "inactive", "paused: stocktaking")
    assert database.view("active_lock") == []
    run = database.scheduler.run_now("a")
    assert run is not None
    [history] = database.view("run_history")
    assert (history["id"], history["state"], history["tenant"]) == (run.id, "waiting", "acme")
    assert moment(history["due"]) == run.due
    until(lambda: database.view("why_not", "what = 'waiting'"), "the second in which it was due")
    [waiting] = database.view("why_not", "what = 'waiting'")
    assert (waiting["run_id"], waiting["reason"]) == (
        run.id,
        "no live node is known in this database",
    )


def test_frequency_and_start_are_columns(database: Database) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    triggers: dict[str, Trigger] = {
        "a": every(months=3, start=start),
        "b": every(unit="years", count=2),
        "c": every(weeks=2),
        "d": every(days=10),
        "e": every(hours=36),
        "f": every(minutes=90),
        "g": every(seconds=0.5),
        "h": cron("0 7 * * *", start=start),
        "i": at("2100-01-01T00:00Z"),
    }
    for name, trigger in triggers.items():
        database.scheduler.add(name, trigger, emit=Event("ledger", "Due", {"n": 1}), tenant="acme")
    rows = database.view("schedule_status", "true ORDER BY name")
    assert [(row["frequency_unit"], row["frequency_count"]) for row in rows] == [
        ("months", 3),
        ("years", 2),
        ("weeks", 2),
        ("days", 10),
        ("hours", 36),
        ("minutes", 90),
        ("seconds", 0.5),
        (None, None),
        (None, None),
    ]
    starts = [row["start"] and datetime.fromisoformat(row["start"]) for row in rows]
    created = database.scheduler.get("b").created_at
    assert (starts[0], starts[7], starts[8]) == (start, start, None)
    assert all(begun is not None and abs(created - begun) < MINUTE for begun in starts[1:7])
    told = {(row["tenant"], row["topic"], row["event_type"], row["event_data"]) for row in rows}
    assert told == {("acme", "ledger", "Due", '{"n":1}')}
    # What somebody wrote by hand leaves them empty, and the view readable.
    for text in ("every 5m", "{", '{"type":"every","days":1e9}', '{"type":"every","months":"x"}'):
        database.connection.execute(f"UPDATE {database.prefix}schedule SET trigger = '{text}'")
        assert len(database.view("schedule_status")) == 9


def test_views_of_a_cluster_at_work(database: Database) -> None:
    slow = Slow()
    database.scheduler.task(every(seconds=1), name="slow")(slow)
    database.scheduler.add("lost", every(weeks=1), task="pack")
    database.connection.execute(f"UPDATE {database.prefix}schedule SET task = 'gone'")
    database.connection.commit()
    with database.scheduler:
        lost = database.scheduler.run_now("lost")
        assert lost is not None
        where = f"run_id = {lost.id} AND reason = 'no live node executes task gone'"
        until(lambda: database.view("why_not", where), "why it waits")
        until(lambda: database.view("why_not", "what = 'skipped'"), "an occurrence that is skipped")
        [skipped, *_] = database.view("why_not", "what = 'skipped'")
        assert skipped["reason"] == "overlap=skip: an earlier run of the same lock was unfinished"
        [lock] = database.view("active_lock", "kind = 'run'")
        assert (lock["schedule"], lock["holder"]) == ("slow", database.scheduler.node)
        assert bool(lock["live"])
        leader = database.view("active_lock", "name = 'tenure/leader'")[0]
        assert leader["holder"] == database.scheduler.node
        assert moment(leader["expires_at"]) > moment(leader["since"])
        slow.ended = True
        done = until(lambda: database.view("run_history", "state = 'succeeded'"), "its end")[0]
        assert (done["schedule"], done["attempt"]) == ("slow", 1)
        assert done["seconds"] > 0
        [status] = database.view("schedule_status", "name = 'slow'")
        assert (status["state"], status["app"]) == ("active", "default")
        assert status["last_state"] in ("fired", "skipped", "missed")


def test_run_that_waits_for_the_retry_of_another_says_so(database: Database) -> None:
    @database.scheduler.task
    def stuck() -> None:
        raise Retry("not yet", delay=600)

    database.scheduler.add("queue", every(weeks=1), task="stuck", overlap="queue")
    with database.scheduler:
        first = database.scheduler.run_now("queue")
        until(lambda: database.view("run_history", "error = 'not yet'"), "it waits for its retry")
        second = database.scheduler.run_now("queue")
        assert first is not None
        assert second is not None
        where = "reason LIKE '%goes first'"
        [why] = until(lambda: database.view("why_not", where), "why the second waits")
        assert why["run_id"] == second.id
        [one, two] = database.view("run_history", "schedule = 'queue' ORDER BY id")
        assert (one["attempt"], two["attempt"]) == (1, 0)


def test_run_that_waits_for_the_limit_of_its_task_says_so(database: Database) -> None:
    slow = Slow()
    database.scheduler.task(max_running=1, name="slow")(slow)
    with database.scheduler:
        database.scheduler.enqueue("slow")
        until(lambda: database.view("run_history", "state = 'claimed'"), "the first is claimed")
        second = database.scheduler.enqueue("slow")
        where = "reason = 'as many runs of task slow are claimed as its max_running allows: 1'"
        [why] = until(lambda: database.view("why_not", where), "why the second waits")
        assert why["run_id"] == second.id
        slow.ended = True
        done = "state = 'succeeded'"
        until(lambda: len(database.view("run_history", done)) == 2, "both are executed")


def test_run_that_is_not_due_yet_is_in_nobodys_way(database: Database) -> None:
    """As the claim has it: only a retry goes first while it is not due."""
    slow = Slow()
    scheduler = Scheduler(database.url, settings=Settings(concurrency=1))
    scheduler.task(slow)

    @scheduler.task
    def pack() -> None: ...

    for name, task in (("busy", "slow"), ("queue", "pack")):
        scheduler.add(name, every(weeks=1), task=task, overlap="queue")
    with scheduler:
        assert scheduler.run_now("busy") is not None
        until(lambda: database.view("run_history", "state = 'claimed'"), "its one slot is taken")
        waiting, later = scheduler.run_now("queue"), scheduler.run_now("queue")
        assert waiting is not None
        assert later is not None
        hour = "3600000000" if database.prefix == "tenure_" else "interval '1 h'"
        database.connection.execute(
            f"UPDATE {database.prefix}run SET priority = 9, due = due + {hour} WHERE id ="
            f" {later.id}"
        )
        database.connection.commit()
        [why] = until(lambda: database.view("why_not", "what = 'waiting'"), "why it waits")
        slow.ended = True
        assert why["run_id"] == waiting.id
        assert why["reason"].endswith("have not claimed it yet")


def test_why_what_is_due_was_not_fired(database: Database) -> None:
    database.scheduler.add("a", every(seconds=1), task="pack", tenant="acme")
    database.scheduler.add("later", every(weeks=1), task="pack")
    planned = database.scheduler.get("a")
    until(lambda: database.view("why_not"), "the second in which it is due")
    [why] = database.view("why_not")
    assert (why["schedule"], why["tenant"], why["what"]) == ("a", "acme", "due")
    assert (moment(why["since"]), why["until"]) == (planned.next_nominal, None)
    assert why["reason"] == "no live leader is known in this database"
    database.connection.execute(f"UPDATE {database.prefix}schedule SET overlap = 'perhaps'")
    database.connection.commit()
    with database.scheduler:
        [why] = until(lambda: database.view("why_not", "reason LIKE 'put off%'"), "it is put off")
        assert (why["schedule"], why["what"]) == ("a", "due")
        assert moment(why["since"]) == planned.next_nominal
        database.scheduler.update("a", overlap="skip")
        assert not database.view("why_not", "reason LIKE 'put off%'")


def test_what_came_due_while_a_schedule_was_set_aside_is_told(database: Database) -> None:
    database.scheduler.add("bad", every(seconds=1), task="pack")
    database.connection.execute(f"UPDATE {database.prefix}schedule SET trigger = 'broken'")
    database.connection.commit()
    with database.scheduler:
        until(lambda: not database.scheduler.get("bad").active, "it is set aside")
    aside = database.scheduler.get("bad")
    database.scheduler.update("bad", trigger=every(hours=1))
    [why] = database.view("why_not", "schedule = 'bad'")
    assert (why["what"], moment(why["since"])) == ("missed", aside.next_nominal)
    assert moment(why["until"]) == database.scheduler.occurrences("bad")[0].last
    assert why["reason"].startswith(aside.reason)


class Slow:
    """A task that ends when it is told to."""

    __name__ = "slow"
    ended = False

    def __call__(self) -> None:
        until(lambda: self.ended, "the word to end")


def test_views_have_the_same_columns_everywhere(
    sqlite_database: Database, any_postgres: Database
) -> None:
    for view in ("schedule_status", "active_lock", "run_history", "why_not"):
        cursors = [
            database.connection.execute(f"SELECT * FROM {database.prefix}{view} LIMIT 0")
            for database in (sqlite_database, any_postgres)
        ]
        first, second = ([column[0] for column in cursor.description] for cursor in cursors)
        assert first == second, view
    any_postgres.connection.rollback()
