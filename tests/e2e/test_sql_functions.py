"""Plain SQL on PostgreSQL: functions inside a transaction of the application's."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from tenure import NotFound, Run, Scheduler, every
from tests.docs.markdown import ROOT
from tests.e2e.command import until
from tests.e2e.sql_database import Database, emptied, made
from tests.support.servers import PostgresServer


@pytest.fixture(scope="module")
def any_postgres(postgres: PostgresServer) -> Iterator[Database]:
    with made(postgres) as database:
        yield database


@pytest.fixture
def shop(any_postgres: Database) -> Iterator[Database]:
    with emptied(any_postgres) as database:
        yield database


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


def test_run_now_keeps_the_limit_of_arguments(shop: Database) -> None:
    shop.call("add_schedule('big', 'every 1h', 'pack')")
    shop.connection.execute(
        "UPDATE tenure.schedule SET kwargs = json_build_object('order', repeat('x', 262144))"
    )
    shop.connection.commit()
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="the limit is 262144"):
        shop.call("run_now('big')")
    shop.connection.rollback()
    assert shop.rows("SELECT id FROM tenure.run") == []


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
    assert not shop.call("pause_schedule('a', 'stocktaking')")
    shop.connection.commit()
    paused = shop.scheduler.get("a")
    assert (paused.active, paused.reason, paused.version) == (False, "paused: stocktaking", 2)
    assert not shop.call("pause_schedule('a', 'audit')")
    shop.connection.commit()
    again = shop.scheduler.get("a")
    assert (again.active, again.reason, again.version) == (False, "paused: audit", 3)
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


def test_rename_keeps_what_is_on_record(shop: Database) -> None:
    shop.scheduler.add("a", every(weeks=1), task="pack")
    shop.scheduler.add("taken", every(weeks=1), task="pack")
    run_id = shop.call("run_now('a', 'key')")
    shop.call("rename_schedule('a', 'b')")
    shop.connection.rollback()
    before = shop.scheduler.get("a")
    run_id = shop.call("run_now('a', 'key')")
    shop.call("rename_schedule('a', 'b')")
    assert shop.call("run_now('b', 'key')") == run_id
    shop.connection.commit()
    after = shop.scheduler.get("b")
    assert (after.uid, after.version) == (before.uid, before.version + 1)
    assert after.next_nominal == before.next_nominal
    assert [(run.id, run.schedule) for run in shop.scheduler.runs("b")] == [(run_id, "b")]
    [row] = shop.rows("SELECT schedule FROM tenure.run_history")
    assert row["schedule"] == "b"
    for call, error, said in (
        ("rename_schedule('b', 'taken')", psycopg.errors.UniqueViolation, "taken"),
        ("rename_schedule('a', 'c')", psycopg.errors.NoDataFound, "no schedule named 'a'"),
        ("rename_schedule('b', '')", psycopg.errors.InvalidParameterValue, "1 to 200 printable"),
    ):
        with pytest.raises(error, match=said):
            shop.call(call)
        shop.connection.rollback()
    shop.connection.execute("UPDATE tenure.schedule SET app = 'shop' WHERE name = 'b'")
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="of app 'shop' declares"):
        shop.call("rename_schedule('b', 'c')")
    shop.connection.rollback()


def test_cron_expression_needs_no_word_before_it(shop: Database) -> None:
    with shop.scheduler:
        for name, trigger in (("daily", "@daily"), ("seven", "0 7 * * * tz=Europe/Berlin")):
            shop.call(f"add_schedule('{name}', '{trigger}', 'pack')")
        shop.connection.commit()
        planned = shop.scheduler.schedules
        until(lambda: all(s.next_nominal for s in planned()), "their first plan")
        assert {json.loads(s.spec.trigger)["type"] for s in planned()} == {"cron"}


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
    assert following.state in ("fired", "skipped", "missed")  # the latter if nobody was up in time
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
        "INSERT INTO tenure.occurrence (namespace, schedule_uid, kind, key, nominal, last, state,"
        " recorded_at, term) SELECT namespace, uid, 'planned',"
        " (extract(epoch FROM %s)::bigint * 1000000)::text, %s, %s, 'fired', now(), 1"
        " FROM tenure.schedule",
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


NESTED = "format('{\"a\":%s1%s}', repeat('[', 600), repeat(']', 600))::jsonb"


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
        ("'a', 'every 5m', 'pack', lock => 'schedule:1'", "lock: keys that begin with schedule:"),
        (
            "'a', 'every 5m', 'pack', jsonb_build_object('a', repeat('x', 262136))",
            "kwargs: they are 262145 bytes of JSON; the limit is 262144. Store the data elsewhere",
        ),
        (
            f"'a', 'every 5m', 'pack', {NESTED}",
            "kwargs: nested more than 500 deep",
        ),
        ("'a', 'every 5m' || repeat(' ', 1000000), 'pack'", "trigger: at most 1000000 characters"),
        ("repeat('a', 201), 'every 5m', 'pack'", "a name is 1 to 200 printable"),
        ("U&'a\\200bb', 'every 5m', 'pack'", "a name is 1 to 200 printable"),
        ("'a', 'every 5m', repeat('a', 201)", "task: its name is 1 to 200 printable"),
        ("'a', 'every 5m', U&'a\\2028'", "task: its name is 1 to 200 printable"),
        ("'a', 'every 5m', 'pack', tenant => ''", "tenant: its name is 1 to 200 printable"),
        ("'a', 'every 5m', 'pack', tenant => repeat('a', 201)", "tenant: its name is 1 to 200"),
        ("'a', 'every 5m', 'pack', tenant => E'a\\tb'", "tenant: its name is 1 to 200 printable"),
        ("'a', 'every 5m', 'pack', namespace => NULL", "namespace: a name of 1 to 100"),
        ("'a', 'every 5m', 'pack', namespace => repeat('a', 101)", "namespace: a name of 1 to 100"),
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


def test_runs_are_cancelled_and_retried_by_sql(shop: Database) -> None:
    database = shop
    database.call("add_schedule('controlled', 'every 1h', 'nobody')")
    run = database.call("run_now('controlled')")
    assert database.call(f"cancel_run({run})") == "cancelled"
    assert database.call(f"cancel_run({run})") == "ended"
    assert database.call("cancel_run(987654321)") is None
    database.call(f"retry_run({run})")
    database.connection.commit()
    [row] = database.view("run_history", f"id = {run}")
    assert (row["state"], row["attempt"]) == ("waiting", 0)
    with pytest.raises(
        psycopg.errors.ObjectNotInPrerequisiteState, match=f"run {run} has not ended: it is waiting"
    ):
        database.call(f"retry_run({run})")
    database.connection.rollback()
    with pytest.raises(psycopg.errors.NoDataFound, match="no run 987654321"):
        database.call("retry_run(987654321)")
    database.connection.rollback()


def test_all_runs_that_match_are_cancelled_and_retried_by_sql(shop: Database) -> None:
    """As docs/runs.md has it: the same query without the function shows what it would hit."""
    database = shop
    wanted = [database.call("enqueue('of_nobody', at => now() + '1 day')") for _ in range(3)]
    other = database.call("enqueue('of_another', at => now() + '1 day')")
    page = (ROOT / "docs" / "runs.md").read_text()
    [cancel, retry] = re.findall(r"^    (SELECT id, tenure.*?;)$", page, re.MULTILINE | re.DOTALL)
    cancel, retry = (text.replace("digest", "of_nobody") for text in (cancel, retry))
    shown = database.rows(cancel.replace(", tenure.cancel_run(id)", ""))
    assert [row["id"] for row in shown] == wanted
    assert database.rows(cancel) == [{"id": run, "cancel_run": "cancelled"} for run in wanted]
    again = database.rows(retry.replace("'failed'", "'cancelled'"))
    assert [row["id"] for row in again] == wanted
    states = {row["id"]: row["state"] for row in database.view("run_history")}
    assert states == dict.fromkeys([*wanted, other], "waiting")


def test_request_by_sql_reaches_the_node(shop: Database) -> None:
    database, begun, ended = shop, threading.Event(), threading.Event()
    scheduler = Scheduler(database.url)

    @scheduler.task
    def wait_for_it(run: Run) -> None:
        begun.set()
        while not run.cancelled:
            ended.wait(0.01)
        run.check()

    scheduler.on("run.cancelled", lambda fact: ended.set())
    with scheduler:
        database.call("add_schedule('waits', 'every 1h', 'wait_for_it')")
        run = database.call("run_now('waits')")
        database.connection.commit()
        assert begun.wait(20)
        assert database.call(f"cancel_run({run})") == "requested"
        database.connection.commit()
        assert ended.wait(10), "a poll would come after 20 s"
