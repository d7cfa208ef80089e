"""Plain SQL: functions on PostgreSQL inside a transaction of the application's, views on both."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from tenure import NotFound, Retry, Scheduler, Settings, every
from tests.e2e.command import until
from tests.support.servers import PostgresServer


class Database:
    """A store, and a connection of somebody who knows nothing of Tenure but its SQL."""

    def __init__(self, url: str, connection: Any, prefix: str) -> None:
        self.url = url
        self.connection = connection
        self.prefix = prefix
        self.scheduler = Scheduler(url)
        self.done: list[str] = []

        @self.scheduler.task
        def pack(order: str = "none", **rest: Any) -> None:
            self.done.append(order)

    def rows(self, text: str) -> list[dict[str, Any]]:
        return [dict(row) for row in self.connection.execute(text).fetchall()]

    def view(self, name: str, where: str = "true") -> list[dict[str, Any]]:
        return self.rows(f"SELECT * FROM {self.prefix}{name} WHERE {where}")

    def call(self, text: str) -> Any:
        (row,) = self.rows(f"SELECT tenure.{text} AS answer")
        return row["answer"]


@pytest.fixture(scope="module")
def any_postgres(postgres: PostgresServer) -> Iterator[Database]:
    url = postgres.create_database("sql")
    with psycopg.connect(url, row_factory=dict_row) as connection:
        database = Database(url, connection, "tenure.")
        database.scheduler.schedules()
        yield database
        connection.rollback()
    database.scheduler.stop()


@pytest.fixture
def postgres_database(any_postgres: Database) -> Iterator[Database]:
    connection = any_postgres.connection
    connection.rollback()
    connection.execute("TRUNCATE tenure.schedule, tenure.occurrence, tenure.run, tenure.release")
    connection.commit()
    database = Database(any_postgres.url, connection, "tenure.")
    yield database
    connection.rollback()
    database.scheduler.stop()


@pytest.fixture
def sqlite_database(tmp_path: Path) -> Iterator[Database]:
    connection = sqlite3.connect(tmp_path / "shop.db", isolation_level=None)
    connection.row_factory = sqlite3.Row
    database = Database(f"sqlite:///{tmp_path / 'shop.db'}", connection, "tenure_")
    database.scheduler.schedules()
    yield database
    database.scheduler.stop()
    connection.close()


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> Database:
    found: Database = request.getfixturevalue(f"{request.param}_database")
    return found


# -- functions ------------------------------------------------------------------------------------


@pytest.fixture
def shop(postgres_database: Database) -> Database:
    return postgres_database


def test_schedule_that_sql_added_is_planned_and_fired(shop: Database) -> None:
    shop.connection.execute("CREATE TABLE IF NOT EXISTS orders (id int)")
    shop.connection.commit()
    with shop.scheduler:
        shop.connection.execute("INSERT INTO orders VALUES (1)")
        uid = shop.call("""add_schedule('often', 'every 1s', 'pack', '{"order": "a"}', 'acme')""")
        assert shop.scheduler.schedules() == []
        shop.connection.commit()
        until(lambda: shop.done.count("a") >= 2, "its second run")
        planned = shop.scheduler.get("often")
        assert (planned.uid, planned.spec.tenant, planned.version) == (uid, "acme", 1)
        assert json.loads(planned.spec.trigger)["type"] == "every"
        assert json.loads(planned.spec.kwargs) == {"order": "a"}
        assert planned.spec.lock == f"schedule:{uid}"
        [first] = shop.rows(
            "SELECT min(o.nominal) AS nominal, min(s.created_at) AS created"
            " FROM tenure.occurrence o JOIN tenure.schedule s ON s.uid = o.schedule_uid"
        )
        assert timedelta(seconds=1) <= first["nominal"] - first["created"] < timedelta(seconds=2)


def test_what_is_rolled_back_never_was(shop: Database) -> None:
    shop.scheduler.add("old", every(weeks=1), task="pack")
    shop.call("add_schedule('new', 'cron 0 7 * * * tz=Europe/Berlin', 'pack')")
    shop.call("run_now('old')")
    shop.call("pause_schedule('old')")
    shop.call("remove_schedule('old')")
    shop.connection.rollback()
    assert [s.name for s in shop.scheduler.schedules()] == ["old"]
    assert shop.scheduler.get("old").active
    assert shop.scheduler.runs() == []


def test_pause_resume_and_remove(shop: Database) -> None:
    shop.scheduler.add("a", every(weeks=1), task="pack")
    assert shop.call("pause_schedule('a', 'stocktaking')")
    assert not shop.call("pause_schedule('a')")
    shop.connection.commit()
    paused = shop.scheduler.get("a")
    assert (paused.active, paused.reason, paused.version) == (False, "paused: stocktaking", 2)
    assert shop.call("resume_schedule('a')")
    assert not shop.call("resume_schedule('a')")
    shop.connection.commit()
    resumed = shop.scheduler.get("a")
    assert (resumed.active, resumed.reason) == (True, None)
    assert resumed.next_nominal == paused.next_nominal  # still ahead: the plan goes on
    run_id = shop.call("run_now('a', 'key')")
    assert shop.call("run_now('a', 'key')") == run_id
    assert shop.call("run_now('a', 'other')") is None  # skipped: the first is unfinished
    assert shop.call("remove_schedule('a')")
    assert not shop.call("remove_schedule('a')")
    shop.connection.commit()
    with pytest.raises(NotFound):
        shop.scheduler.get("a")
    assert [run.state for run in shop.scheduler.runs()] == ["cancelled"]
    for call in ("pause_schedule('a')", "resume_schedule('a')", "run_now('a')"):
        with pytest.raises(psycopg.errors.NoDataFound, match="no schedule named 'a'"):
            shop.call(call)
        shop.connection.rollback()


def test_resume_accounts_for_what_came_due_meanwhile(shop: Database) -> None:
    shop.scheduler.add("a", every(seconds=1), task="pack")
    shop.scheduler.add("b", every(seconds=1), task="pack", catch_up="all", overlap="queue")
    for name in ("a", "b"):
        shop.scheduler.pause(name, "stocktaking")
        shop.connection.execute(
            "UPDATE tenure.schedule SET next_nominal = next_nominal - interval '10 s',"
            " next_due = next_due - interval '10 s',"
            ' trigger = replace(trigger, substring(trigger from \'anchor":"([^"]*)\'),'
            "   to_char((next_nominal - interval '1 h') at time zone 'UTC',"
            '     \'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"\')) WHERE name = %s',
            (name,),
        )
    begun = shop.rows("SELECT name, next_nominal FROM tenure.schedule ORDER BY name")
    assert shop.call("resume_schedule('a')")
    assert shop.call("resume_schedule('b', catch_up => true)")
    shop.connection.commit()
    [missed] = shop.scheduler.occurrences("a")
    assert (missed.nominal, missed.state) == (begun[0]["next_nominal"], "missed")
    assert missed.reason == "paused: stocktaking"
    with shop.scheduler:
        until(lambda: len(shop.scheduler.occurrences("a")) >= 2, "the next one")
        until(lambda: len(shop.scheduler.occurrences("b")) >= 9, "those that are caught up")
    occurrences = sorted(shop.scheduler.occurrences("a"), key=lambda o: o.nominal)
    following = occurrences[1]
    assert following.state in ("fired", "skipped")
    assert timedelta(0) < following.nominal - missed.last <= timedelta(seconds=1)
    assert min(o.nominal for o in shop.scheduler.occurrences("b")) == begun[1]["next_nominal"]


def test_resume_does_not_lose_what_waits_for_its_jitter(shop: Database) -> None:
    shop.scheduler.add("a", every(weeks=1), task="pack")
    shop.scheduler.pause("a", "brief")
    shop.connection.execute(
        "UPDATE tenure.schedule SET next_nominal = now() - interval '2 s',"
        " next_due = now() + interval '2 min'"
    )
    shop.connection.commit()
    waiting = shop.scheduler.get("a")
    assert shop.call("resume_schedule('a')")
    shop.connection.commit()
    resumed = shop.scheduler.get("a")
    assert (resumed.next_nominal, resumed.next_due) == (waiting.next_nominal, waiting.next_due)
    assert shop.scheduler.occurrences("a") == []


def test_resume_loses_nothing_when_its_first_time_is_on_record(shop: Database) -> None:
    """The plan was set back by hand: onto a time that was fired, then onto one that was missed."""
    shop.scheduler.add("a", every(weeks=1), task="pack")
    first = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)
    shop.connection.execute(
        "INSERT INTO tenure.occurrence (schedule_uid, kind, key, nominal, last, state, recorded_at,"
        " term) SELECT uid, 'planned', (extract(epoch FROM %s)::bigint * 1000000)::text, %s, %s,"
        " 'fired', now(), 1 FROM tenure.schedule",
        [first] * 3,
    )
    for nominal, why in ((first, "one"), (first + timedelta(microseconds=1), "two")):
        shop.scheduler.pause("a", why)
        shop.connection.execute(
            "UPDATE tenure.schedule SET next_nominal = %s, next_due = %s", [nominal] * 2
        )
        assert shop.call("resume_schedule('a')")
        shop.connection.commit()
    missed, fired = shop.scheduler.occurrences("a")
    assert (fired.nominal, fired.state) == (first, "fired")
    assert (missed.nominal - first, missed.state) == (timedelta(microseconds=1), "missed")
    assert missed.reason == "paused: one; paused: two"
    assert datetime.now(UTC) - missed.last < timedelta(minutes=1)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ("'', 'every 5m', 'pack'", "a name is 1 to 200 printable"),
        ("NULL, 'every 5m', 'pack'", "a name is 1 to 200 printable"),
        ("'a', '5m', 'pack'", "trigger: it begins with every, cron, at or rrule"),
        ("'a', NULL, 'pack'", "trigger: it begins"),
        ("'a', 'every 5m', ''", "task: its name is"),
        ("'a', 'every 5m', 'pack', '[1]'", "kwargs: give a JSON object"),
        ("'a', 'every 5m', 'pack', catch_up => 'some'", "catch_up: latest, all or none"),
        ("'a', 'every 5m', 'pack', overlap => NULL", "overlap: skip, queue or allow"),
        ("'a', 'every 5m', 'pack', lock => 'user:{user}'", "lock: a plain key"),
        ("'a', 'every 5m', 'pack', retries => -1", "retries: not negative"),
        ("'a', 'every 5m', 'pack', timeout => 0", "timeout: more than 0"),
        ("'a', 'every 5m', 'pack', timeout => 'infinity'", "timeout: .* at most 3162240000"),
        ("'a', 'every 5m', 'pack', timeout => 'NaN'", "timeout: more than 0"),
        ("'a', 'every 5m', 'pack', catch_up_grace => -1", "catch_up_grace: 0 to 3162240000"),
        ("'a', 'every 5m', 'pack', catch_up_grace => 'NaN'", "catch_up_grace: 0 to"),
        ("E'a\\nb', 'every 5m', 'pack'", "a name is 1 to 200 printable"),
        ("'a', 'every 5m', 'pack', lock => ''", "lock: a key of 1 to 500"),
        ("'a', 'every 5m', 'pack', lock => repeat('k', 501)", "lock: a key of 1 to 500"),
        ("'a', 'every 5m', 'pack', catch_up_limit => 0", "catch_up_limit: 1 to 1000"),
    ],
)
def test_wrong_arguments(any_postgres: Database, arguments: str, why: str) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match=why):
        any_postgres.call(f"add_schedule({arguments})")
    any_postgres.connection.rollback()


def test_name_that_is_taken(any_postgres: Database) -> None:
    any_postgres.call("add_schedule('taken', 'every 5m', 'pack')")
    with pytest.raises(psycopg.errors.UniqueViolation):
        any_postgres.call("add_schedule('taken', 'every 5m', 'pack')")
    any_postgres.connection.rollback()


def test_trigger_that_is_wrong_is_set_aside_with_its_error(shop: Database) -> None:
    shop.call("add_schedule('bad', 'every 5 parsecs', 'pack')")
    shop.call("add_schedule('good', 'every 1s', 'pack')")
    shop.connection.commit()
    with shop.scheduler:
        until(lambda: shop.done, "the good one")
        until(lambda: not shop.scheduler.get("bad").active, "the bad one is set aside")
    bad = shop.scheduler.get("bad")
    assert (bad.reason or "").startswith("set aside: the stored trigger 'every 5 parsecs'")
    [why] = shop.view("why_not", "schedule = 'bad'")
    assert (why["what"], why["reason"]) == ("inactive", bad.reason)


def test_schedule_of_sql_before_anybody_planned_it(shop: Database) -> None:
    """No leader yet: it is listed, previewed, paused, resumed and edited like any other."""
    for name in ("a", "b", "c"):
        shop.call(f"add_schedule('{name}', 'every 1h', 'pack')")
    shop.connection.commit()
    [told, *_] = shop.scheduler.preview("a")
    created = shop.scheduler.get("a").created_at
    # It counts from now, in whole milliseconds.
    assert -timedelta(milliseconds=1) < told.moment - created - timedelta(hours=1)
    assert told.moment - created < timedelta(hours=1, seconds=5)
    shop.scheduler.pause("a")
    resumed = shop.scheduler.resume("a")
    assert resumed.next_nominal is not None
    assert resumed.next_nominal > created + timedelta(hours=1)
    assert shop.scheduler.update("b", retries=3).spec.retries == 3
    assert shop.scheduler.update("c", trigger=every(days=1)).next_nominal is not None
    with shop.scheduler:
        until(lambda: shop.scheduler.get("b").next_nominal, "its plan")


# -- views ----------------------------------------------------------------------------------------


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


def test_views_of_a_cluster_at_work(database: Database) -> None:
    slow = Slow()
    database.scheduler.task(every(seconds=1), name="slow")(slow)
    database.scheduler.add("lost", every(weeks=1), task="pack")
    database.connection.execute(f"UPDATE {database.prefix}schedule SET task = 'gone'")
    database.connection.commit()
    with database.scheduler:
        lost = database.scheduler.run_now("lost")
        assert lost is not None
        where = f"run_id = {lost.id} AND reason = 'no live node declares task gone'"
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
        assert status["last_state"] in ("fired", "skipped")


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


def moment(value: Any) -> datetime:
    if isinstance(value, str):
        return datetime.strptime(value, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
    assert isinstance(value, datetime)
    return value
